//! How pods are planned for, as it was written and as it is meant.

use std::time::Duration;

use super::settings::SettingError;
use crate::api::parse_duration;
use crate::controllers::context::Batch;
use crate::scheduling::Options;

/// Pods that wait longer than this for company wait in vain; and who waits so long for a plan has waited for others too.
const MAX: Duration = Duration::from_mins(5);

/// As it was written.
#[derive(Clone, Debug, Default)]
pub struct RawPlanning {
    /// `--batch-idle-duration`
    pub batch_idle: Option<String>,
    /// `--batch-max-duration`
    pub batch_max: Option<String>,
    /// `--planning-max-duration`
    pub planning_max: Option<String>,
    /// `--preference-policy` and `--min-values-policy`
    pub options: Options,
}

impl RawPlanning {
    /// For how long pods are gathered. A longest time that is not set grows with the other.
    pub fn batch(&self) -> Result<Batch, SettingError> {
        let usual = Batch::default();
        let idle = bound("--batch-idle-duration", self.batch_idle.as_deref(), usual.idle)?;
        let max = bound(
            "--batch-max-duration",
            self.batch_max.as_deref(),
            usual.max.max(idle),
        )?;
        if max < idle {
            return Err(SettingError {
                setting: "--batch-max-duration",
                problem: format!("{}s is less than --batch-idle-duration", max.as_secs()),
                may_be: format!("{}s or more", idle.as_secs()),
            });
        }
        Ok(Batch { idle, max })
    }

    /// How long a plan may take.
    pub fn longest(&self, usual: Duration) -> Result<Duration, SettingError> {
        bound("--planning-max-duration", self.planning_max.as_deref(), usual)
    }
}

fn bound(setting: &'static str, written: Option<&str>, usual: Duration) -> Result<Duration, SettingError> {
    let Some(text) = written else { return Ok(usual) };
    let read = parse_duration(text).filter(|time| !time.is_zero() && *time <= MAX);
    read.ok_or_else(|| SettingError {
        setting,
        problem: format!("{text:?} is not a duration that pods may be gathered or planned for"),
        may_be: "1s to 5m".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(idle: Option<&str>, max: Option<&str>) -> Result<Batch, &'static str> {
        let raw = RawPlanning {
            batch_idle: idle.map(str::to_owned),
            batch_max: max.map(str::to_owned),
            ..RawPlanning::default()
        };
        raw.batch().map_err(|error| error.setting)
    }

    #[test]
    fn pods_are_gathered_for_a_second_and_ten_at_most_unless_told_otherwise() {
        assert_eq!(batch(None, None), Ok(Batch::default()));
        let longer = batch(Some("20s"), None).unwrap();
        assert_eq!((longer.idle.as_secs(), longer.max.as_secs()), (20, 20));
        assert_eq!(batch(Some("2s"), Some("1m")).unwrap().max.as_secs(), 60);
    }

    #[test]
    fn a_window_that_never_opens_or_closes_is_refused() {
        for idle in ["0s", "1h", "soon", "-1s"] {
            assert_eq!(batch(Some(idle), None), Err("--batch-idle-duration"), "{idle}");
        }
        assert_eq!(batch(Some("5s"), Some("2s")), Err("--batch-max-duration"));
    }

    #[test]
    fn how_long_a_plan_may_take_is_a_setting() {
        let longest = |written: Option<&str>| {
            let raw = RawPlanning {
                planning_max: written.map(str::to_owned),
                ..RawPlanning::default()
            };
            raw.longest(Duration::from_secs(30))
                .map_err(|error| error.setting)
        };
        assert_eq!(longest(None), Ok(Duration::from_secs(30)));
        assert_eq!(longest(Some("2m")), Ok(Duration::from_mins(2)));
        for wrong in ["0s", "1h", "long"] {
            assert_eq!(longest(Some(wrong)), Err("--planning-max-duration"), "{wrong}");
        }
    }
}
