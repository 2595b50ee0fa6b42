//! Points in time as the API carries them.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time, written in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is no point in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time")]
pub struct NotATime(String);

impl FromStr for Time {
    type Err = NotATime;

    /// Takes exactly what an API server takes for `format: date-time`, which is less than jiff would (no leap second,
    /// no missing offset, no space in the middle).
    fn from_str(text: &str) -> Result<Self, NotATime> {
        let wrong = || NotATime(text.to_owned());
        if !has_date_time_shape(text) {
            return Err(wrong());
        }
        text.parse().map(Self).map_err(|_| wrong())
    }
}

/// `yyyy-mm-ddThh:mm:ss[.fff](Z|±hh:mm)` with two digits each; jiff judges whether the date exists.
fn has_date_time_shape(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let digits = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text
                .bytes()
                .zip(shape.bytes())
                .all(|(b, s)| if s == b'0' { b.is_ascii_digit() } else { b == s })
    };
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => {
            let offset = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if offset.len() == fraction.len() {
                return false;
            }
            offset
        }
        None => rest,
    };
    let zone = matches!(offset, "Z" | "z") || digits(offset, "+00:00") || digits(offset, "-00:00");
    digits(date, "0000-00-00") && digits(clock, "00:00:00") && !clock.ends_with("60") && zone
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_and_nothing_else() {
        for right in [
            "2026-11-16T00:00:00Z",
            "2026-11-16t01:02:03.25z",
            "2026-02-28T23:59:59+05:30",
        ] {
            assert!(right.parse::<Time>().is_ok(), "{right}");
        }
        for wrong in [
            "2026-11-16",
            "2026-11-16 00:00:00Z",
            "2026-11-16T00:00:00",
            "2026-02-30T00:00:00Z",
            "20261116T000000Z",
            "2026-11-16T24:00:00Z",
            "2026-12-31T23:59:60Z",
            "2026-11-16T00:00:00.Z",
            "2026-11-16T00:00:00Z[UTC]",
            "",
            "2026-11-16T00:00Z",
        ] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_prints_in_utc() {
        assert_eq!(
            "2026-11-16T01:00:00+01:00".parse::<Time>().unwrap().to_string(),
            "2026-11-16T00:00:00Z"
        );
    }
}
