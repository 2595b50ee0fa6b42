//! The provider id of a Node: `ibm:///<region>/<instance id>`.

use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "ibm:///";

/// Which machine, in which region, a Node or NodeClaim is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderId {
    region: String,
    instance: String,
}

/// A text that is no provider id of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a provider id of the form ibm:///<region>/<instance id>")]
pub struct NotAProviderId(String);

impl ProviderId {
    /// The provider id of an instance; `None` if a part could not be read back (it would be another machine's).
    pub fn new(region: &str, instance: &str) -> Option<Self> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let valid = |part: &str| !part.is_empty() && part.chars().all(legal);
        (valid(region) && valid(instance)).then(|| Self {
            region: region.to_owned(),
            instance: instance.to_owned(),
        })
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The id of the instance.
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.region, self.instance)
    }
}

impl FromStr for ProviderId {
    type Err = NotAProviderId;

    fn from_str(text: &str) -> Result<Self, NotAProviderId> {
        text.strip_prefix(SCHEME)
            .and_then(|rest| rest.split_once('/'))
            .and_then(|(region, instance)| Self::new(region, instance))
            .ok_or_else(|| NotAProviderId(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn anything_but_our_own_form_is_rejected() {
        for foreign in [
            "",
            "ibm://us-south/0717_a",
            "ibm:///us-south",
            "ibm:////0717_a",
            "ibm:///us-south/",
            "ibm:///us-south/0717_a/",
            "ibm:///us-south/../0717_a",
            "ibm:///us-south/0717%5fa",
            "aws:///us-south/0717_a",
            " ibm:///us-south/0717_a",
        ] {
            assert!(foreign.parse::<ProviderId>().is_err(), "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn every_provider_id_reads_back_as_itself(
            region in "[a-z]{2}-[a-z]{2,6}",
            instance in "[0-9a-z]{4}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        ) {
            let id = ProviderId::new(&region, &instance).unwrap();
            prop_assert_eq!(id.to_string().parse::<ProviderId>().unwrap(), id);
        }

        #[test]
        fn whatever_parses_prints_as_it_was(text in "(ibm:///)?[a-z/_.-]{0,24}") {
            if let Ok(id) = text.parse::<ProviderId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
