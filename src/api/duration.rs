//! Durations as manifests write them: `12h`, `1h30m`, `Never`; and as Go reads them where no schema is in between: `1.5h`.

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

/// The duration that Go's `time.ParseDuration` reads in a text like `1.5h`, `500ms` or `1h0.5m`; `None` if it reads none, or a
/// negative one.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut nanoseconds: Option<u64> = None;
    while !rest.is_empty() {
        let (number, unit_on) = split(rest, |c| !is_of_number(c));
        let (unit, after) = split(unit_on, is_of_number);
        let more = nanoseconds_of(number, unit)?;
        nanoseconds = Some(nanoseconds.unwrap_or(0).checked_add(more)?);
        rest = after;
    }
    nanoseconds
        .filter(|all| i64::try_from(*all).is_ok())
        .map(Duration::from_nanos)
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// What comes before the first such character, and the rest.
fn split(text: &str, at: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(at).unwrap_or(text.len()))
}

/// `1.5` of a unit. Either side of the point may be missing, not both.
fn nanoseconds_of(number: &str, unit: &str) -> Option<u64> {
    /// Beyond so many digits a fraction of an hour is less than a nanosecond.
    const DIGITS_MAX: usize = 18;
    let each: u128 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let value = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u64>().ok().map(u128::from),
    };
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    u64::try_from(value(whole)? * each + value(fraction)? * each / scale).ok()
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

    #[test]
    fn go_reads_more_than_a_schema_lets_pass() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("+5s", 5_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("500ms", 500_000_000),
            ("1h0.5m", 3_630_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1us1\u{b5}s1\u{3bc}s1ns", 3_001),
            ("0.1000000000000000000000h", 360_000_000_000),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
            ("1h30m5s", 5_405_000_000_000),
        ] {
            assert_eq!(
                parse_go_duration(text),
                Some(Duration::from_nanos(nanoseconds)),
                "{text}"
            );
        }
        for wrong in [
            "",
            "+",
            "-",
            "5",
            "h",
            ".",
            ".s",
            "-5s",
            "1.2.3s",
            "1 h",
            "5d",
            "5M",
            "+-5s",
            "1h ",
            "5ä",
            "9223372036854775808ns",
            "2562048h",
            "99999999999999999999999999h",
        ] {
            assert_eq!(parse_go_duration(wrong), None, "{wrong}");
        }
    }
}
