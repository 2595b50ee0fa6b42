//! Kubernetes quantities (`500m`, `1.5Gi`, `1e3`), exact to a billionth.
//!
//! A [`Quantity`] is a whole number of nano-units in an `i128` and the notation it was written in. Parsing, comparing
//! and printing follow apimachinery: what is finer than a nano is rounded away from zero ("if you want some, you get
//! some"), binary amounts stop at 2^63-1, and the printed form is canonical: no fraction, the largest suffix that
//! loses nothing. It differs from apimachinery in three corners: `.`, `+` and a suffix alone are refused instead of
//! being read as zero, amounts beyond 1.7e29 units are refused, and amounts of 1000E and more keep their suffix.
//! Nothing here can overflow or panic.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nano-units in one unit.
const NANOS: i128 = 1_000_000_000;
/// Where apimachinery caps amounts with a binary suffix, in nano-units.
const BINARY_MAX: i128 = i64::MAX as i128 * NANOS;
/// The decimal suffixes, by power of ten.
const DECIMAL_SUFFIXES: [(i32, &str); 10] = [
    (-9, "n"),
    (-6, "u"),
    (-3, "m"),
    (0, ""),
    (3, "k"),
    (6, "M"),
    (9, "G"),
    (12, "T"),
    (15, "P"),
    (18, "E"),
];
/// The binary suffixes, by power of 1024 starting at zero.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount of a resource. Ordered and equal by amount; the notation matters for printing only.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

/// How a quantity was written, which is how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// `k`, `M`, `m`, or no suffix at all.
    Decimal,
    /// `Ki`, `Mi`, `Gi`.
    Binary,
    /// `e3`.
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a sign, digits and at most one point, followed by a suffix.
    #[error("{0:?} is not a quantity")]
    Malformed(String),
    /// Digits followed by something that is not a suffix.
    #[error("{0:?} has an unknown suffix")]
    UnknownSuffix(String),
    /// Larger than any amount of anything.
    #[error("{0:?} is out of range")]
    OutOfRange(String),
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        notation: Notation::Decimal,
    };

    /// An amount given in nano-units.
    pub const fn from_nanos(nanos: i128, notation: Notation) -> Self {
        Self { nanos, notation }
    }

    /// An amount given in whole units.
    pub const fn from_units(units: i64) -> Self {
        Self {
            nanos: units as i128 * NANOS,
            notation: Notation::Decimal,
        }
    }

    /// The amount in nano-units.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The notation it is printed in.
    pub const fn notation(self) -> Notation {
        self.notation
    }

    /// The amount in thousandths, rounded up, as schedulers count processors; saturates.
    pub fn millis_ceil(self) -> i64 {
        ceil_div(self.nanos, NANOS / 1000)
    }

    /// The amount in units, rounded up, as schedulers count bytes; saturates.
    pub fn units_ceil(self) -> i64 {
        ceil_div(self.nanos, NANOS)
    }
}

/// `nanos / by` rounded towards positive infinity, clamped to an `i64`.
fn ceil_div(nanos: i128, by: i128) -> i64 {
    let quotient = nanos.div_euclid(by) + i128::from(nanos.rem_euclid(by) != 0);
    i64::try_from(quotient).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let malformed = || QuantityError::Malformed(text.to_owned());
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(malformed());
        }
        let scale = Scale::parse(suffix).ok_or_else(|| QuantityError::UnknownSuffix(text.to_owned()))?;
        let magnitude = scale
            .magnitude(whole, fraction)
            .ok_or_else(|| QuantityError::OutOfRange(text.to_owned()))?;
        let notation = if scale.notation == Notation::Binary && magnitude > 0 && magnitude < NANOS {
            Notation::Decimal
        } else {
            scale.notation
        };
        Ok(Self {
            nanos: if negative { -magnitude } else { magnitude },
            notation,
        })
    }
}

/// What a suffix means: a power of two or of ten.
struct Scale {
    notation: Notation,
    exponent: i32,
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        if let Some((exponent, _)) = DECIMAL_SUFFIXES.iter().find(|(_, known)| *known == suffix) {
            return Some(Self {
                notation: Notation::Decimal,
                exponent: *exponent,
            });
        }
        if let Some(power) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
            return Some(Self {
                notation: Notation::Binary,
                exponent: i32::try_from(power).ok()? * 10,
            });
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        // An exponent that does not fit is out of any range; clamping keeps that verdict for `magnitude`.
        let exponent = exponent.parse::<i64>().ok()?.clamp(-1_000_000, 1_000_000);
        Some(Self {
            notation: Notation::Exponent,
            exponent: i32::try_from(exponent).ok()?,
        })
    }

    /// The absolute amount in nano-units, rounded up; `None` when it does not fit.
    fn magnitude(&self, whole: &str, fraction: &str) -> Option<i128> {
        match self.notation {
            Notation::Binary => Some(binary_nanos(whole, fraction, self.exponent)),
            Notation::Decimal | Notation::Exponent => {
                let fraction_digits = i64::try_from(fraction.len()).ok()?;
                decimal_nanos(
                    &format!("{whole}{fraction}"),
                    i64::from(self.exponent) - fraction_digits,
                )
            }
        }
    }
}

/// `digits * 10^exponent` in nano-units, rounded up; `None` when it does not fit.
fn decimal_nanos(digits: &str, exponent: i64) -> Option<i128> {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let shift = exponent + 9;
    if let Ok(shift) = u32::try_from(shift) {
        return digits
            .parse::<i128>()
            .ok()?
            .checked_mul(10_i128.checked_pow(shift)?);
    }
    let cut = usize::try_from(-shift).ok()?.min(digits.len());
    let (kept, lost) = digits.split_at(digits.len() - cut);
    let kept: i128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    kept.checked_add(i128::from(lost.bytes().any(|digit| digit != b'0')))
}

/// `whole.fraction * 2^exponent` in nano-units, rounded up and capped.
fn binary_nanos(whole: &str, fraction: &str, exponent: i32) -> i128 {
    let factor = 1_u128 << exponent;
    // Long multiplication of the fraction from its last digit on; what is carried out in front is whole.
    let mut digits: Vec<u128> = fraction.bytes().map(|digit| u128::from(digit - b'0')).collect();
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let product = *digit * factor + carry;
        (*digit, carry) = (product % 10, product / 10);
    }
    let whole = if whole.is_empty() {
        Some(0)
    } else {
        whole.parse::<u128>().ok()
    };
    let units = whole.and_then(|whole| whole.checked_mul(factor)?.checked_add(carry));
    let Some(units) = units.and_then(|units| i64::try_from(units).ok()) else {
        return BINARY_MAX;
    };
    let below = (0..9).fold(0, |nanos, place| {
        nanos * 10 + digits.get(place).map_or(0, |digit| *digit)
    });
    let lost = digits.iter().skip(9).any(|digit| *digit != 0);
    let nanos = i128::from(units) * NANOS + i128::try_from(below).unwrap_or_default() + i128::from(lost);
    nanos.min(BINARY_MAX)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.notation {
            Notation::Binary if self.nanos.abs() >= 1024 * NANOS && self.nanos % NANOS == 0 => self.binary(),
            Notation::Binary | Notation::Decimal => self.decimal(),
            Notation::Exponent => self.exponential(),
        };
        f.pad(&text)
    }
}

impl Quantity {
    fn binary(self) -> String {
        let mut number = self.nanos / NANOS;
        let mut power = 0;
        while number % 1024 == 0 && power + 1 < BINARY_SUFFIXES.len() {
            number /= 1024;
            power += 1;
        }
        format!("{number}{}", BINARY_SUFFIXES[power])
    }

    fn decimal(self) -> String {
        let (number, exponent) = self.thousands(18);
        let suffix = DECIMAL_SUFFIXES
            .iter()
            .find(|(power, _)| *power == exponent)
            .map_or("", |(_, suffix)| suffix);
        format!("{number}{suffix}")
    }

    fn exponential(self) -> String {
        match self.thousands(i32::MAX) {
            (number, 0) => number.to_string(),
            (number, exponent) => format!("{number}e{exponent}"),
        }
    }

    /// The amount as `number * 10^exponent`, where the exponent is the largest multiple of three up to `max` that
    /// loses nothing.
    fn thousands(self, max: i32) -> (i128, i32) {
        if self.nanos == 0 {
            return (0, 0);
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && exponent < max {
            number /= 1000;
            exponent += 3;
        }
        (number, exponent)
    }
}

/// The integer that a JSON number with a fraction part of zero stands for. The API server takes `2.0` for 2.
pub fn whole_number(number: f64) -> Option<i64> {
    // Up to 2^53-1, beyond which floats skip some integers and the API server takes none of them for one.
    const MAX: f64 = 9_007_199_254_740_991.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked: whole, and inside the range of i64"
    )]
    (number.fract() == 0.0 && number.abs() <= MAX).then_some(number as i64)
}

/// A quantity exactly as it stands in a manifest, where it may be a number or a text and may be wrong.
///
/// Kept as written, so that storing an object again changes nothing and validation can judge it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenQuantity {
    /// A JSON integer.
    Number(i64),
    /// A JSON string.
    Text(String),
}

impl WrittenQuantity {
    /// What was meant, if it is a quantity.
    pub fn parse(&self) -> Result<Quantity, QuantityError> {
        match self {
            Self::Number(units) => Ok(Quantity::from_units(*units)),
            Self::Text(text) => text.parse(),
        }
    }
}

impl From<Quantity> for WrittenQuantity {
    fn from(quantity: Quantity) -> Self {
        Self::Text(quantity.to_string())
    }
}

impl Serialize for WrittenQuantity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(units) => to.serialize_i64(*units),
            Self::Text(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for WrittenQuantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = WrittenQuantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a string")
            }

            fn visit_i64<E: de::Error>(self, units: i64) -> Result<WrittenQuantity, E> {
                Ok(WrittenQuantity::Number(units))
            }

            fn visit_u64<E: de::Error>(self, units: u64) -> Result<WrittenQuantity, E> {
                i64::try_from(units)
                    .map(WrittenQuantity::Number)
                    .map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, units: f64) -> Result<WrittenQuantity, E> {
                whole_number(units)
                    .map(WrittenQuantity::Number)
                    .ok_or_else(|| E::custom(format!("{units} is not an integer")))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<WrittenQuantity, E> {
                Ok(WrittenQuantity::Text(text.to_owned()))
            }
        }
        from.deserialize_any(NumberOrText)
    }
}

#[cfg(test)]
mod tests;
