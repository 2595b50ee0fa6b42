//! Many seeds, each in a process of its own: what to run, the progress, the verdict, and one page about all of it.
//!
//! A seed needs a process of its own because tokio mixes a counter of the whole process into its choices: a second
//! world in the same process would have another history.

mod args;
mod calm;
mod child;
mod columns;
pub mod command;
mod crashes;
mod here;
mod hints;
mod line;
mod lines;
mod mutants;
mod options;
mod play;
mod progress;
mod regressions;
mod report;
mod sampling;
mod scratch;
mod shorten;
mod shrink;
mod so_far;

pub use child::{Child, Trial, TrialError};
pub use crashes::{STORIES, Story, Told, Trouble, crash_everywhere};
pub use line::{Breach, Line, Verdict};
pub use mutants::{Catch, HUNTS, Hunt, catch_all};
pub use options::{Ask, Faults, NotARange, Seeds};
pub use play::{Cast, CastError, Played, cast, play};
pub use progress::Progress;
pub use regressions::{Regression, RegressionError};
pub use report::Report;
pub use sampling::{Limits, run};
pub use shrink::{Shrunk, shrink};
