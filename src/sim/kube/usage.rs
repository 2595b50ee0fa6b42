//! Which verbs on which resources were used, by whom: what a role must allow, and what it allows in vain.

use std::collections::BTreeSet;

use super::request::Ask;

/// One thing somebody did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Used {
    /// Who.
    pub user: String,
    /// The API group, empty for the core.
    pub group: String,
    /// The plural name, with the subresource after a slash.
    pub resource: String,
    /// As RBAC writes it.
    pub verb: &'static str,
}

/// Everything that was done, each thing once.
#[derive(Clone, Debug, Default)]
pub struct Usage(BTreeSet<Used>);

impl Usage {
    /// Remembers a request that was allowed.
    pub fn record(&mut self, user: &str, ask: &Ask) {
        let resource = match &ask.target.subresource {
            Some(subresource) => format!("{}/{subresource}", ask.target.plural),
            None => ask.target.plural.clone(),
        };
        let group = ask.target.group.clone();
        self.0.insert(Used {
            user: user.to_owned(),
            group,
            resource,
            verb: ask.verb.as_str(),
        });
    }

    /// What one user did.
    pub fn of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = &'a Used> {
        self.0.iter().filter(move |used| used.user == user)
    }
}
