//! Durations as manifests write them: `12h`, `1h30m`, `Never`.

use std::time::Duration;

/// How long something may live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    /// For this long.
    After(Duration),
    /// For ever.
    Never,
}

/// The longest duration upstream's Go types can hold: 2^63-1 nanoseconds, some 292 years.
const MAX_SECONDS: u64 = i64::MAX as u64 / 1_000_000_000;

/// The duration that a text like `1h30m` means; `None` if it means none or is longer than 292 years.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: u64 = rest[..unit_at].parse().ok()?;
        let seconds_each = match rest.as_bytes()[unit_at] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            _ => return None,
        };
        seconds = seconds.checked_add(count.checked_mul(seconds_each)?)?;
        rest = &rest[unit_at + 1..];
    }
    (!text.is_empty() && seconds <= MAX_SECONDS).then(|| Duration::from_secs(seconds))
}

/// The expiry that a text like `12h` or `Never` means.
pub fn parse_expiry(text: &str) -> Option<Expiry> {
    if text == "Never" {
        Some(Expiry::Never)
    } else {
        parse_duration(text).map(Expiry::After)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_add_up() {
        assert_eq!(parse_duration("1h30m5s"), Some(Duration::from_secs(5405)));
        assert_eq!(parse_duration("0s"), Some(Duration::ZERO));
        assert_eq!(parse_expiry("Never"), Some(Expiry::Never));
        assert_eq!(
            parse_expiry("720h"),
            Some(Expiry::After(Duration::from_hours(720)))
        );
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for wrong in [
            "",
            "h",
            "5",
            "5d",
            "-5s",
            "1.5h",
            "5m3",
            "2562048h",
            "99999999999999999999s",
            "5ä",
        ] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
        assert_eq!(parse_duration("2562047h"), Some(Duration::from_hours(2_562_047)));
    }
}
