//! The one error of a cloud. Its variants say what the caller may do, so a `match` on it is the policy.
//!
//! An error is not an absence: only [`Error::NotFound`] says that something is not there, and it is made from nothing
//! but an exact 404 about that resource.

use std::fmt;

use tokio::time::Instant;

/// Why a call to the cloud gave no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// That resource does not exist (or may not be seen). It may be seen again: see design rule 3 before removing
    /// anything because of it.
    #[error("{0}: not found")]
    NotFound(Box<Answer>),
    /// The resource is in a state that forbids it now; read again, try later.
    #[error("{0}: in conflict with the present state")]
    Conflict(Box<Answer>),
    /// A resource of that name exists: look it up by name and decide whether it is ours.
    #[error("{0}: the name is taken")]
    NameTaken(Box<Answer>),
    /// No machine of that kind is left there; choose another offering.
    #[error("{0}: no capacity")]
    NoCapacity(Box<Answer>),
    /// The account's quota is used up; wait until something is given back or raise it.
    #[error("{0}: over quota")]
    Quota(Box<Answer>),
    /// The subnet has no free address; choose another subnet.
    #[error("{0}: no address left in the subnet")]
    NoAddress(Box<Answer>),
    /// Not before `until`. Nothing was done.
    #[error("{answer}: rate limited")]
    RateLimited {
        /// When the next try makes sense, on the monotonic clock.
        until: Instant,
        /// What the server said.
        answer: Box<Answer>,
    },
    /// The credentials are not accepted; a person must act.
    #[error("{0}: the credentials are not accepted")]
    Unauthorized(Box<Answer>),
    /// The credentials are fine but not entitled to this; a person must act.
    #[error("{0}: not permitted")]
    Forbidden(Box<Answer>),
    /// The request itself is wrong; the same request will fail again.
    #[error("{answer}: refused{}", field.as_deref().map(|f| format!(" because of `{f}`")).unwrap_or_default())]
    BadRequest {
        /// The offending field, parameter or header, if the server named one.
        field: Option<String>,
        /// What the server said.
        answer: Box<Answer>,
    },
    /// A fault on the way or on the other side; try again. It proves nothing about the resource.
    #[error("{answer}: failed for now")]
    Transient {
        /// Whether the request may have been carried out all the same.
        effect: Effect,
        /// What is known of the fault.
        answer: Box<Answer>,
    },
    /// An answer came, but not one this program understands. It proves nothing about the resource.
    #[error("{answer}: the answer cannot be understood")]
    Undecodable {
        /// Whether the request may have been carried out all the same.
        effect: Effect,
        /// What is known of the answer.
        answer: Box<Answer>,
    },
}

/// Whether a failed request may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It certainly was not carried out.
    None,
    /// It may have been carried out, or may yet be.
    Unknown,
}

/// What was asked and what came back, for people and logs; decisions look at the variant only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What was being done: `create instance`.
    pub operation: &'static str,
    /// To which resource, where the request named one.
    pub subject: String,
    /// The HTTP status, if an answer came.
    pub status: Option<u16>,
    /// The server's own code: `validation_unique_failed`.
    pub code: String,
    /// The server's words, or ours where it had none.
    pub message: String,
    /// The id that IBM's support asks for.
    pub trace: String,
}

impl Error {
    /// What was asked and answered.
    pub fn answer(&self) -> &Answer {
        match self {
            Self::NotFound(answer)
            | Self::Conflict(answer)
            | Self::NameTaken(answer)
            | Self::NoCapacity(answer)
            | Self::Quota(answer)
            | Self::NoAddress(answer)
            | Self::Unauthorized(answer)
            | Self::Forbidden(answer)
            | Self::RateLimited { answer, .. }
            | Self::BadRequest { answer, .. }
            | Self::Transient { answer, .. }
            | Self::Undecodable { answer, .. } => answer,
        }
    }

    /// Whether the request may have been carried out although it failed: a create must then be settled by name.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Transient { effect, .. } | Self::Undecodable { effect, .. } => *effect,
            _ => Effect::None,
        }
    }

    /// Whether this says that the resource asked for is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// The variant's name, as a label of metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::NameTaken(_) => "name_taken",
            Self::NoCapacity(_) => "no_capacity",
            Self::Quota(_) => "quota",
            Self::NoAddress(_) => "no_address",
            Self::RateLimited { .. } => "rate_limited",
            Self::Unauthorized(_) => "unauthorized",
            Self::Forbidden(_) => "forbidden",
            Self::BadRequest { .. } => "bad_request",
            Self::Transient { .. } => "transient",
            Self::Undecodable { .. } => "undecodable",
        }
    }
}

impl fmt::Display for Answer {
    /// `create instance kib-1: HTTP 400 over_quota "…" (trace …)`, without what is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        if !self.subject.is_empty() {
            write!(f, " {}", self.subject)?;
        }
        if let Some(status) = self.status {
            write!(f, ": HTTP {status}")?;
        }
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if !self.trace.is_empty() {
            write!(f, " (trace {})", self.trace)?;
        }
        Ok(())
    }
}
