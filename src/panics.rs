//! What is left when something ends in a panic, which is always a mistake in this program.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something that ended in a panic, with what it said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a mistake in this program: {0}")]
pub struct Panicked(pub String);

/// What `work` says, or what its panic said. Nothing that it leaves half done may outlive it.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked(words(panic.as_ref())))
}

/// What a panic said.
pub fn words(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    said.unwrap_or_else(|| "it did not say what".to_owned())
}
