//! Times as people read them: `5s`, `3m20s`, `4h`, `12d`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long ago a stored time is; `<unknown>` where there is none.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match parse(time) {
        Some(then) => human(now.duration_since(then)),
        None => "<unknown>".to_owned(),
    }
}

/// A stored time.
pub(super) fn parse(time: &Value) -> Option<Timestamp> {
    time.as_str()?.parse().ok()
}

/// A length of time in two or three significant figures, as Kubernetes rounds it.
pub(super) fn human(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let pair = |large: i64, unit: char, small: i64, part: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        // Two clocks may differ by a second; what lies further ahead is a mistake.
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, 'd', hours % 24, 'h'),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if years < 8 => pair(years, 'y', days % 365, 'd'),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_as_kubernetes_rounds_them() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        let table = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (8 * DAY + 23 * HOUR, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY - 1, "7y364d"),
            (8 * 365 * DAY + DAY, "8y"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn an_absent_time_is_unknown() {
        assert_eq!(since(&Value::Null, Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
