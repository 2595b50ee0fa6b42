//! A machine as its guest sees it, and what it says on its console.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::shell::Metadata;
use crate::ibm::builtin::Profile;

/// One VM. Nothing else of the cloud is known to what runs on it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `0717_e21b7391-…`
    pub id: String,
    /// The name of the instance.
    pub name: String,
    /// `us-south-1`
    pub zone: String,
    /// Its hardware.
    pub profile: &'static Profile,
    /// Its address in the subnet.
    pub address: Ipv4Addr,
    /// The size of the boot volume, in GB.
    pub storage_gb: u64,
    /// What it was told when it was made.
    pub user_data: String,
    /// Whether the metadata service answers.
    pub metadata_service: bool,
    /// How often it was switched on before.
    pub boots: u32,
}

impl Machine {
    /// What the metadata service says.
    pub fn metadata(&self) -> Metadata {
        Metadata {
            service: self.metadata_service,
            id: self.id.clone(),
            name: self.name.clone(),
            zone: self.zone.clone(),
            profile: self.profile.name.to_owned(),
        }
    }
}

/// A line on a console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was said.
    pub at: Timestamp,
    /// What.
    pub text: String,
}

/// The consoles of all VMs by instance id, those of VMs that are gone included. Clones are the same consoles.
#[derive(Clone, Debug, Default)]
pub struct Consoles(Arc<Mutex<BTreeMap<String, Vec<Line>>>>);

/// Lines kept of one console; what a machine says first is what explains why it never joined.
const LINES_MAX: usize = 1000;

impl Consoles {
    /// What a VM has said so far.
    pub fn read(&self, id: &str) -> Vec<Line> {
        self.all().get(id).cloned().unwrap_or_default()
    }

    /// Whether a VM has said something in which `text` occurs.
    pub fn mentions(&self, id: &str, text: &str) -> bool {
        self.all()
            .get(id)
            .is_some_and(|lines| lines.iter().any(|line| line.text.contains(text)))
    }

    /// Says something. A line that repeats the last one is kept once.
    pub fn say(&self, id: &str, at: Timestamp, text: &str) {
        let mut all = self.all();
        let lines = all.entry(id.to_owned()).or_default();
        let repeats = lines.last().is_some_and(|last| last.text == text);
        if !repeats && lines.len() < LINES_MAX {
            lines.push(Line {
                at,
                text: text.to_owned(),
            });
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_keeps_what_was_said_once_and_not_for_ever() {
        let (consoles, at) = (Consoles::default(), Timestamp::UNIX_EPOCH);
        consoles.say("a", at, "one");
        consoles.say("a", at, "one");
        assert_eq!(consoles.read("a").len(), 1);
        assert!(consoles.mentions("a", "on"));
        assert!(!consoles.mentions("b", "on"));
        for number in 0..2000 {
            consoles.say("a", at, &number.to_string());
        }
        assert_eq!(consoles.read("a").len(), LINES_MAX);
    }
}
