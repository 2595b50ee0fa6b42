//! The formats of texts.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;
use regex::Regex;
use std::sync::LazyLock;

/// Whether texts are checked for a format at all.
pub(super) fn is_checked(format: &str) -> bool {
    [
        "date-time",
        "date",
        "duration",
        "byte",
        "uuid",
        "ipv4",
        "ipv6",
        "cidr",
    ]
    .contains(&format)
}

/// Whether a text has a format; an unknown format is never checked.
pub(super) fn holds(format: &str, text: &str) -> bool {
    match format {
        "date-time" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "uuid" => is_uuid(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        _ => true,
    }
}

fn is_date(text: &str) -> bool {
    static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("^[0-9]{4}-[0-9]{2}-[0-9]{2}$").ok());
    matches(&SHAPE, text) && text.parse::<Date>().is_ok()
}

/// RFC 3339, in either case, without leap seconds.
fn is_date_time(text: &str) -> bool {
    static CLOCK: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([zZ]|[+-][0-9]{2}:[0-9]{2})$").ok()
    });
    text.split_once(['T', 't'])
        .is_some_and(|(date, clock)| is_date(date) && matches(&CLOCK, clock))
}

/// As Go's `time.ParseDuration` reads it.
fn is_duration(text: &str) -> bool {
    static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$").ok()
    });
    matches(&SHAPE, text)
}

fn is_uuid(text: &str) -> bool {
    static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok()
    });
    matches(&SHAPE, text)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let max = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u8>().is_ok_and(|length| length <= max)
}

/// `None` only if the shape is no regular expression; tests use each.
fn matches(shape: &LazyLock<Option<Regex>>, text: &str) -> bool {
    shape.as_ref().is_some_and(|shape| shape.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn formats_take_what_they_mean() {
        for (format, right, wrong) in [
            ("date-time", "2026-11-16T00:00:00Z", "2026-11-16"),
            ("date-time", "2026-11-16t23:59:59.5+01:00", "2026-02-30T00:00:00Z"),
            ("date-time", "2026-11-16T00:00:00z", "2026-11-16T24:00:00Z"),
            ("date", "2026-02-28", "2026-02-29"),
            ("duration", "1h30m", "1 h"),
            ("byte", "YWI=", "YWI"),
            ("uuid", "0E984725-c51c-4bf4-9960-e1c80e27aba0", "0e984725"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("cidr", "fd00::/64", "fd00::/129"),
        ] {
            assert!(holds(format, right), "{format} {right}");
            assert!(!holds(format, wrong), "{format} {wrong}");
        }
        assert!(holds("int32", "anything"));
    }
}
