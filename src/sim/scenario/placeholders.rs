//! What a manifest cannot know before there is an account: `${vpc}` and the like, filled in when a scenario is played.

use serde_json::Value;

use super::Scenario;
use crate::sim::ibm::Account;

/// What can be filled in.
const KNOWN: &[&str] = &[
    "region",
    "zone-1",
    "zone-2",
    "zone-3",
    "vpc",
    "subnet-1",
    "subnet-2",
    "subnet-3",
    "security-group",
    "image",
    "key",
    "resource-group",
];

impl Scenario {
    /// Its objects, as they are in an account.
    pub fn objects_in(&self, account: &Account) -> Vec<Value> {
        self.objects
            .iter()
            .map(|object| filled(object, account))
            .collect()
    }
}

/// The value with every placeholder filled in.
pub(super) fn filled(value: &Value, account: &Account) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, account)),
        Value::Array(items) => items.iter().map(|item| filled(item, account)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), filled(value, account)))
            .collect(),
        other => other.clone(),
    }
}

/// The first placeholder in a text that nothing can be put in for. A word in capitals is the shell's (`${HOME}`), and none
/// of ours.
pub(super) fn unknown(text: &str) -> Option<&str> {
    words(text).find(|word| !KNOWN.contains(word))
}

/// All that can be filled in.
pub(super) fn known() -> &'static [&'static str] {
    KNOWN
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let ours = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.split("${")
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(word, _)| word))
        .filter(ours)
}

fn fill(text: &str, account: &Account) -> String {
    let mut filled = text.to_owned();
    for word in KNOWN {
        let place = format!("${{{word}}}");
        if filled.contains(&place) {
            filled = filled.replace(&place, meaning(word, account));
        }
    }
    filled
}

fn meaning<'a>(word: &str, account: &'a Account) -> &'a str {
    // A region with fewer zones than a scenario names gives it its last one.
    let nth = |of: &'a [String], number: usize| of.get(number).or(of.last()).map_or("", String::as_str);
    match word {
        "region" => &account.region,
        "zone-1" => nth(&account.zones, 0),
        "zone-2" => nth(&account.zones, 1),
        "zone-3" => nth(&account.zones, 2),
        "vpc" => &account.vpc,
        "subnet-1" => nth(&account.subnets, 0),
        "subnet-2" => nth(&account.subnets, 1),
        "subnet-3" => nth(&account.subnets, 2),
        "security-group" => &account.security_group,
        "image" => &account.image,
        "key" => &account.key,
        _ => &account.resource_group,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;
    use crate::sim::ibm::{Cloud, Options};

    #[tokio::test(start_paused = true)]
    async fn placeholders_are_filled_from_the_account_and_nothing_else_is_touched() {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let account = Cloud::new(Options::new("eu-de", 1, clock)).account();
        let object =
            json!({ "vpc": "${vpc}", "zones": ["${zone-1}", "in ${region}"], "shell": "${HOME}", "n": 1 });
        assert_eq!(
            filled(&object, &account),
            json!({ "vpc": account.vpc, "zones": ["eu-de-1", "in eu-de"], "shell": "${HOME}", "n": 1 })
        );
    }

    #[test]
    fn a_placeholder_nobody_knows_is_found_wherever_it_is() {
        assert_eq!(unknown("x ${vpc} ${vcp} y"), Some("vcp"));
        assert_eq!(unknown("${vpc} ${HOME} ${} $"), None);
    }
}
