//! What a request is for: it travels with the request, so that every layer can act on it.

use tokio::time::Instant;

/// Travels with a request that rests on something read before: after this instant it is not sent any more, however
/// long it waited for a permit, a token or another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendBy(pub Instant);

/// One kind of call, as a constant beside the method that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// In words and in metrics: `create instance`.
    pub name: &'static str,
    /// Which service answers, and so in which shape it reports errors.
    pub service: Service,
    /// What a 404 is about when the path names one resource (`instance` also accepts `instance_not_found`); `None`
    /// for lists and creates, where a 404 says that something *referred to* is missing.
    pub resource: Option<&'static str>,
    /// Whether it may be sent again when nobody knows what became of the first.
    pub repeat: Repeat,
}

/// The IBM service that answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// VPC infrastructure.
    Vpc,
    /// Identity: tokens.
    Iam,
    /// The metadata service of the machine this runs on.
    Metadata,
    /// Global Catalog: prices.
    Catalog,
    /// Global Tagging.
    Tagging,
    /// Global Search.
    Search,
    /// Resource Manager: resource groups.
    ResourceManager,
}

/// Whether a request may be repeated after a fault that leaves its effect unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Twice is the same as once: reads, deletes by id, patches to a fixed value.
    Safe,
    /// Only when it certainly was not carried out. There is no idempotency key in the API, so a create that may have
    /// happened is settled by looking its name up, not by sending it again.
    IfNotCarriedOut,
}

impl Operation {
    /// A call that only reads a collection.
    pub const fn list(service: Service, name: &'static str) -> Self {
        Self {
            name,
            service,
            resource: None,
            repeat: Repeat::Safe,
        }
    }

    /// A call about one resource that may be repeated.
    pub const fn on(service: Service, name: &'static str, resource: &'static str) -> Self {
        Self {
            name,
            service,
            resource: Some(resource),
            repeat: Repeat::Safe,
        }
    }

    /// A call that makes something.
    pub const fn create(service: Service, name: &'static str) -> Self {
        Self {
            name,
            service,
            resource: None,
            repeat: Repeat::IfNotCarriedOut,
        }
    }
}
