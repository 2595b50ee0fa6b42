//! Tokens: fetched once for all callers, refreshed before they expire, never shown.

pub mod authorized;
pub mod credentials;
pub mod grant;
pub mod tokens;

pub use authorized::Authorized;
pub use credentials::{Credentials, KeySource, TrustedProfile};
pub use tokens::Tokens;
