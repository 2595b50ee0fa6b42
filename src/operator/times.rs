//! Settings that are times: how long things may take, and how often they are looked at.

use std::time::Duration;

use super::settings::{RawSettings, SettingError, out_of_range};
use crate::controllers;

/// A class takes up to eight requests each time: more often than twice a minute is a burden, less than once an hour is
/// no watch over what people change in the account.
const RESOLVE_SECONDS: (u64, u64) = (30, 3600);
/// A node that is not ready after two hours never will be; one that may take less than five minutes is given up for a
/// slow driver.
const INITIALIZATION_MINUTES: (u64, u64) = (5, 120);
/// Orders were seen to be carried out seconds after their answer was lost; whoever waits less may buy twice. What takes ten
/// minutes is no order but a support case, and claims that are deleted wait as long.
const LATE_CREATE_SECONDS: (u64, u64) = (10, 600);
/// A day: longer than the cloud is short of anything, and soon enough to notice a wrong unit.
const PREEMPTION_HOLD_SECONDS: (u64, u64) = (1, 86_400);
/// A list is a request for each hundred machines: more often is a burden; less often, pods wait for what is gone.
const INTERRUPTION_POLL_SECONDS: (u64, u64) = (10, 300);

/// Sets what was written, if it is within its bounds.
pub(super) fn set(raw: &RawSettings, settings: &mut controllers::Settings) -> Result<(), SettingError> {
    let seconds = |setting, value, bounds, usual: &mut Duration| -> Result<(), SettingError> {
        if let Some(seconds) = between(setting, value, bounds, "seconds")? {
            *usual = Duration::from_secs(seconds);
        }
        Ok(())
    };
    seconds(
        "--preemption-hold-seconds",
        raw.preemption_hold_seconds,
        PREEMPTION_HOLD_SECONDS,
        &mut settings.holds.preempted,
    )?;
    seconds(
        "--interruption-poll",
        raw.interruption_poll_seconds,
        INTERRUPTION_POLL_SECONDS,
        &mut settings.interruption_poll,
    )?;
    seconds(
        "--late-create-seconds",
        raw.late_create_seconds,
        LATE_CREATE_SECONDS,
        &mut settings.limits.late_create,
    )?;
    seconds(
        "--nodeclass-resolve-seconds",
        raw.resolve_seconds,
        RESOLVE_SECONDS,
        &mut settings.resolve_every,
    )?;
    let minutes = raw.initialization_minutes;
    if let Some(minutes) = between(
        "--initialization-minutes",
        minutes,
        INITIALIZATION_MINUTES,
        "minutes",
    )? {
        settings.limits.initialization = Duration::from_mins(minutes);
    }
    Ok(())
}

/// A number that was written, if it is within its bounds.
fn between(
    setting: &'static str,
    value: Option<u64>,
    (min, max): (u64, u64),
    unit: &str,
) -> Result<Option<u64>, SettingError> {
    match value {
        Some(value) if !(min..=max).contains(&value) => {
            Err(out_of_range(setting, value, format!("{min} to {max} {unit}")))
        }
        value => Ok(value),
    }
}
