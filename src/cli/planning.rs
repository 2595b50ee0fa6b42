//! How pods are planned for, as arguments.

use clap::ValueEnum;

use crate::operator::{RawPlanning, RawSettings};
use crate::scheduling::{MinValuesPolicy, Options, Preferences};

/// How pods are planned for.
#[derive(Debug, clap::Args)]
pub(super) struct Planning {
    /// Pods are planned for once none has come for so long [default: 1s]
    #[arg(long, env = "BATCH_IDLE_DURATION")]
    batch_idle_duration: Option<String>,
    /// Pods are planned for after so long at most [default: 10s]
    #[arg(long, env = "BATCH_MAX_DURATION")]
    batch_max_duration: Option<String>,
    /// A plan is made from what was found after so long at most, and the rest is planned for in the next [default: 30s]
    #[arg(
        id = "planning_max_duration",
        long = "planning-max-duration",
        env = "PLANNING_MAX_DURATION"
    )]
    solve_max_duration: Option<String>,
    #[command(flatten)]
    policies: Policies,
}

/// What counts when a plan is made.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Policies {
    /// Whether what pods prefer counts, even where that needs more nodes
    #[arg(
        long,
        env = "PREFERENCE_POLICY",
        value_enum,
        default_value = "Respect",
        ignore_case = true
    )]
    preference_policy: PreferencePolicy,
    /// Whether fewer different values than a pool asks for keep a node from being bought
    #[arg(
        long,
        env = "MIN_VALUES_POLICY",
        value_enum,
        default_value = "Strict",
        ignore_case = true
    )]
    min_values_policy: MinValues,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum PreferencePolicy {
    /// It counts as far as possible
    Respect,
    /// It does not count
    Ignore,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum MinValues {
    /// They do
    Strict,
    /// As many as there are will do
    BestEffort,
}

impl Policies {
    /// As the solver takes them.
    pub(super) fn options(self) -> Options {
        Options {
            preferences: match self.preference_policy {
                PreferencePolicy::Respect => Preferences::Respect,
                PreferencePolicy::Ignore => Preferences::Ignore,
            },
            min_values: match self.min_values_policy {
                MinValues::Strict => MinValuesPolicy::Strict,
                MinValues::BestEffort => MinValuesPolicy::BestEffort,
            },
            ..Options::default()
        }
    }
}

impl Planning {
    /// These settings in place of what is there.
    pub(super) fn over(self, raw: RawSettings) -> RawSettings {
        RawSettings {
            planning: RawPlanning {
                batch_idle: self.batch_idle_duration.filter(|text| !text.is_empty()),
                batch_max: self.batch_max_duration.filter(|text| !text.is_empty()),
                planning_max: self.solve_max_duration.filter(|text| !text.is_empty()),
                options: self.policies.options(),
            },
            ..raw
        }
    }
}
