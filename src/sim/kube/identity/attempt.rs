//! Something that somebody wants to do, as those see it who decide whether they may.

use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::Ask;
use crate::sim::kube::selector::FieldSelector;

use super::User;

/// What is attempted: a verb on something.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// As RBAC rules write it; `get` for the path of discovery.
    pub verb: &'a str,
    /// On what.
    pub on: On<'a>,
}

/// On what something is attempted.
#[derive(Clone, Copy, Debug)]
pub enum On<'a> {
    /// A kind of object, or one object.
    Resource(Resource<'a>),
    /// A path that is no object: `/healthz`.
    Path(&'a str),
}

/// Objects, as authorization names them. Everything is empty that is not said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resource<'a> {
    /// The API group.
    pub group: &'a str,
    /// The plural name.
    pub plural: &'a str,
    /// The path below the object.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The object.
    pub name: &'a str,
    /// What a list or watch is limited to.
    pub fields: Option<&'a FieldSelector>,
}

/// What an authorizer thinks of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, and because of what.
    Allowed(String),
    /// Not by this authorizer, and why, where it says so.
    NoOpinion(String),
}

impl Decision {
    /// Yes, for no reason worth telling.
    pub fn allowed() -> Self {
        Self::Allowed(String::new())
    }

    /// Not by this authorizer.
    pub fn no_opinion(why: impl Into<String>) -> Self {
        Self::NoOpinion(why.into())
    }

    /// Whether it is a yes.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

impl<'a> Attempt<'a> {
    /// A verb on a resource.
    pub fn on_resource(verb: &'a str, resource: Resource<'a>) -> Self {
        Self {
            verb,
            on: On::Resource(resource),
        }
    }

    /// A verb on a path that is no resource.
    pub fn on_path(verb: &'a str, path: &'a str) -> Self {
        Self {
            verb,
            on: On::Path(path),
        }
    }

    /// What a request attempts.
    pub fn of(ask: &'a Ask) -> Self {
        let target = &ask.target;
        let name = target.name.as_deref().or(ask.options.fields.demanded_name());
        // A namespace is its own namespace: a role in it may allow to read it.
        let namespace = match &target.namespace {
            None if target.plural == "namespaces" && target.group.is_empty() => target.name.as_deref(),
            namespace => namespace.as_deref(),
        };
        let resource = Resource {
            group: &target.group,
            plural: &target.plural,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            name: name.unwrap_or_default(),
            fields: Some(&ask.options.fields),
        };
        Self::on_resource(ask.verb.as_str(), resource)
    }

    /// How the attempt is refused.
    pub fn refused(&self, user: &User, why: &str) -> Refusal {
        let nothing = About {
            group: "",
            kind: "",
            name: "",
        };
        let (about, mut message) = match self.on {
            On::Path(path) => {
                let message = format!("User \"{}\" cannot {} path \"{path}\"", user.name, self.verb);
                (nothing, message)
            }
            On::Resource(resource) => (resource.about(), self.cannot(user, &resource)),
        };
        if !why.is_empty() {
            message = format!("{message}: {why}");
        }
        Refusal::forbidden(about, message)
    }

    fn cannot(&self, user: &User, resource: &Resource<'_>) -> String {
        let scope = if resource.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", resource.namespace)
        };
        format!(
            "User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {scope}",
            user.name,
            self.verb,
            resource.path(),
            resource.group
        )
    }
}

impl<'a> Resource<'a> {
    /// `pods`, or `pods/status` for a subresource.
    pub fn path(&self) -> String {
        if self.subresource.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}/{}", self.plural, self.subresource)
        }
    }

    fn about(&self) -> About<'a> {
        About {
            group: self.group,
            kind: self.plural,
            name: self.name,
        }
    }
}
