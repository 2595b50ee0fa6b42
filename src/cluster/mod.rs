//! The cluster as this process knows it: watches folded into one index, and a situation of it for each decision.
//!
//! [`Index`] is pure: it is told what happens and keeps what decisions look at, so what changes nothing they look at
//! costs nothing. [`Cluster`] is the index that all controllers share, with the watches that feed it. Answers of our own
//! writes count at once, the newer revision winning, so a loop always sees what it has written.

mod follow;
mod foreseen;
mod holds;
mod index;
mod kept;
mod places;
mod pods;
mod situation;
mod store;

pub use follow::{Cluster, State, Unreadable};
pub use holds::{GivenUp, IN_VAIN_MAX};
pub use index::{Index, Marks};
pub use kept::{Kept, key_in};
pub use places::Types;
pub use pods::{Ending, Keeper, Place, Seen, Verdict};
pub use situation::Situation;
pub use situation::unharmed::{Unfit, named};
pub use store::{Revision, Store, Told};
