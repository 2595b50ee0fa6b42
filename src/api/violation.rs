//! What validation finds, and where.

use std::fmt;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Violation {
    /// The field to blame, as an API server writes it: `spec.template.spec.requirements[0].key`.
    pub field: String,
    /// What is wrong with it, in lower case and without a full stop.
    pub message: String,
}

/// A path to a field; built on the way down, written out only when there is something to blame.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> Field<'a> {
    /// A field at the top of an object.
    pub(super) fn root(name: &'a str) -> Self {
        Self {
            parent: None,
            step: Step::Name(name),
        }
    }

    /// A field, or a key of a map, below this one.
    pub(super) fn at(&'a self, name: &'a str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Name(name),
        }
    }

    /// An element of the list at this field.
    pub(super) fn nth(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (self.step, self.parent) {
            (Step::Name(name), None) => f.write_str(name),
            (Step::Name(name), Some(_)) => write!(f, ".{name}"),
            (Step::Index(index), _) => write!(f, "[{index}]"),
        }
    }
}

/// Collects violations.
#[derive(Default)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn blame(&mut self, field: Field<'_>, message: impl Into<String>) {
        self.0.push(Violation {
            field: field.to_string(),
            message: message.into(),
        });
    }

    /// Blames `field` unless `holds`.
    pub(super) fn require(&mut self, holds: bool, field: Field<'_>, message: &str) {
        if !holds {
            self.blame(field, message);
        }
    }

    pub(super) fn verdict(self) -> Result<(), Vec<Violation>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_the_api_server_writes_it() {
        let spec = Field::root("spec");
        let list = spec.at("requirements");
        let item = list.nth(2);
        assert_eq!(item.at("key").to_string(), "spec.requirements[2].key");
    }
}
