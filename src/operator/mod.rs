//! What a running process needs: validated settings, a log, health and metrics, an orderly end.

pub mod run;
pub mod serve;
pub mod settings;

pub use run::{StartError, run};
pub use settings::{RawSettings, SettingError, Settings};
