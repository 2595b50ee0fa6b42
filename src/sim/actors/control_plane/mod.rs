//! The loop that runs the controllers of a cluster: watches into a view, the view into writes.

mod next;

pub use next::{Act, Actor, Next, Preconditions, Target};
