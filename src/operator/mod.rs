//! What a running process needs: validated settings, leadership, a log, health and metrics, an orderly end.

mod answer;
mod cluster;
pub mod config_file;
pub mod discounts;
pub mod edges;
pub mod lease;
pub mod planning;
pub mod push;
pub mod run;
pub mod serve;
pub mod settings;
mod slim;
mod times;
mod zone_leases;

pub use crate::controllers::Context;
pub use crate::controllers::context::ClusterAccess;
pub use answer::{ANSWER_MAX, BrokenOff, InTime, NoAnswer};
pub use config_file::ConfigFile;
pub use edges::{Edges, Factory, context, control, factory, factory_of};
pub use planning::RawPlanning;
pub use run::{StartError, run};
pub use settings::{PriceSource, RawSettings, SettingError, Settings};
pub use slim::slim;
