//! What machines cost in a region: the Global Catalog's own prices, and built-in ones where it gives none.
//!
//! The pure part reads bodies ([`body`]), picks the right figures out of them ([`mod@select`]) and keeps them
//! ([`table`]). The rest looks them up ([`catalog`]) and keeps them fresh ([`refresh`]).
//!
//! Guarantees: a price is never zero, negative or that of something else (an operating system, a dedicated host,
//! another currency, another region); what cannot be told for certain is unknown. A look-up that fails, wholly or in
//! part, takes no known price away. Every price says where it comes from.

pub mod body;
pub mod catalog;
pub mod refresh;
pub mod select;
pub mod table;

pub use catalog::{Catalog, Reading};
pub use refresh::{Outcome, Prices};
pub use select::{Form, Published, select};
pub use table::{Extent, Known, PriceTable, Quote, Source};

#[cfg(test)]
mod tests;
