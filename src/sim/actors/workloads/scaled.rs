//! Numbers that may be written as a share: `3`, `25%`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Where a share that is no whole number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To the next greater one.
    Up,
    /// To the next smaller one.
    Down,
}

/// The number that is meant, of `total`. What is neither a number nor a share counts as zero; servers refuse it.
pub(super) fn scaled(value: &IntOrString, total: i32, rounding: Rounding) -> i32 {
    let percent = match value {
        IntOrString::Int(number) => return *number,
        IntOrString::String(text) => text.strip_suffix('%').and_then(|text| text.parse::<i64>().ok()),
    };
    let hundredths = percent.unwrap_or(0) * i64::from(total);
    let number = match rounding {
        Rounding::Up => (hundredths + 99).div_euclid(100),
        Rounding::Down => hundredths.div_euclid(100),
    };
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Whether the number is written as a share.
pub(super) fn is_share(value: &IntOrString) -> bool {
    matches!(value, IntOrString::String(_))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(percent: i64) -> IntOrString {
        IntOrString::String(format!("{percent}%"))
    }

    #[test]
    fn numbers_are_themselves_and_shares_are_rounded_as_asked() {
        assert_eq!(scaled(&IntOrString::Int(7), 3, Rounding::Up), 7);
        assert_eq!(scaled(&share(25), 3, Rounding::Up), 1);
        assert_eq!(scaled(&share(25), 3, Rounding::Down), 0);
        assert_eq!(scaled(&share(50), 7, Rounding::Up), 4);
        assert_eq!(scaled(&share(100), 7, Rounding::Down), 7);
        assert_eq!(
            scaled(&IntOrString::String("many".to_owned()), 7, Rounding::Up),
            0
        );
    }

    proptest! {
        #[test]
        fn a_share_is_between_its_two_roundings(percent in 0i64..=100, total in 0i32..10_000) {
            let (down, up) = (scaled(&share(percent), total, Rounding::Down), scaled(&share(percent), total, Rounding::Up));
            let exact = percent * i64::from(total);
            prop_assert!(i64::from(down) * 100 <= exact && exact <= i64::from(up) * 100);
            prop_assert!(up - down <= 1 && up <= total);
        }
    }
}
