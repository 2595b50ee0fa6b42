//! One client machine under all typed endpoints.

pub mod exchange;

pub use exchange::{Exchange, ExchangeError};
