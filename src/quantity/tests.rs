use proptest::prelude::*;
use serde_json::json;

use super::*;

fn canonical(text: &str) -> Result<String, QuantityError> {
    text.parse::<Quantity>().map(|quantity| quantity.to_string())
}

/// Text, canonical form, nano-units; each line as apimachinery answers, unless it says otherwise.
const TABLE: [(&str, &str, i128); 61] = [
    ("0", "0", 0),
    ("-0", "0", 0),
    ("+0", "0", 0),
    ("0Ki", "0", 0),
    ("0.0Gi", "0", 0),
    ("0e3", "0", 0),
    ("1", "1", 1_000_000_000),
    ("+1", "1", 1_000_000_000),
    ("007", "7", 7_000_000_000),
    ("5.", "5", 5_000_000_000),
    (".5", "500m", 500_000_000),
    ("1.5", "1500m", 1_500_000_000),
    ("1.50", "1500m", 1_500_000_000),
    ("-1.5", "-1500m", -1_500_000_000),
    ("1000m", "1", 1_000_000_000),
    ("1500m", "1500m", 1_500_000_000),
    ("0.5m", "500u", 500_000),
    ("1u", "1u", 1_000),
    ("1n", "1n", 1),
    ("0.1n", "1n", 1),
    ("-0.1n", "-1n", -1),
    ("1.5n", "2n", 2),
    ("0.0000000001", "1n", 1),
    ("1.123456789123", "1123456790n", 1_123_456_790),
    ("3e-10", "1e-9", 1),
    ("1k", "1k", 1_000_000_000_000),
    ("1000k", "1M", 1_000_000_000_000_000),
    ("1000000", "1M", 1_000_000_000_000_000),
    ("12345678", "12345678", 12_345_678_000_000_000),
    ("1G", "1G", 1_000_000_000_000_000_000),
    ("129M", "129M", 129_000_000_000_000_000),
    ("1E", "1E", 1_000_000_000_000_000_000_000_000_000),
    ("999E", "999E", 999_000_000_000_000_000_000_000_000_000),
    // apimachinery prints "1" here: it has no suffix beyond E and drops it.
    ("1000E", "1000E", 1_000_000_000_000_000_000_000_000_000_000),
    (
        "1000000000000000000000m",
        "1E",
        1_000_000_000_000_000_000_000_000_000,
    ),
    (
        "100000000000000000000",
        "100E",
        100_000_000_000_000_000_000_000_000_000,
    ),
    ("1e3", "1e3", 1_000_000_000_000),
    ("1E3", "1e3", 1_000_000_000_000),
    ("1e+3", "1e3", 1_000_000_000_000),
    ("1e-3", "1e-3", 1_000_000),
    ("129e6", "129e6", 129_000_000_000_000_000),
    ("2.5e3", "2500", 2_500_000_000_000),
    ("1.2345e3", "1234500e-3", 1_234_500_000_000),
    ("1e21", "1e21", 1_000_000_000_000_000_000_000_000_000_000),
    ("1Ki", "1Ki", 1_024_000_000_000),
    ("1023Ki", "1023Ki", 1_047_552_000_000_000),
    ("1024Ki", "1Mi", 1_048_576_000_000_000),
    ("1000Ki", "1000Ki", 1_024_000_000_000_000),
    ("-3Ki", "-3Ki", -3_072_000_000_000),
    ("0.5Ki", "512", 512_000_000_000),
    ("-0.5Ki", "-512", -512_000_000_000),
    ("0.1Ki", "102400m", 102_400_000_000),
    ("0.3Mi", "314572800m", 314_572_800_000_000),
    ("512.5Mi", "524800Ki", 537_395_200_000_000_000),
    ("1.5Gi", "1536Mi", 1_610_612_736_000_000_000),
    ("0.00000000000000000000000001Ei", "12n", 12),
    (
        "1.999999999999999999Ei",
        "2305843009213693950847078496n",
        2_305_843_009_213_693_950_847_078_496,
    ),
    (
        "0.123456789123456789Gi",
        "132560717938603854n",
        132_560_717_938_603_854,
    ),
    ("7Ei", "7Ei", 8_070_450_532_247_928_832_000_000_000),
    ("8Ei", "9223372036854775807", BINARY_MAX),
    ("9223372036854775807Ki", "9223372036854775807", BINARY_MAX),
];

#[test]
fn quantities_read_and_print_as_apimachinery_does() {
    for (text, expected, nanos) in TABLE {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        assert_eq!(text.parse::<Quantity>().unwrap().nanos(), nanos, "{text}");
    }
}

#[test]
fn what_is_not_a_number_is_malformed() {
    for text in [
        "", ".", "+", "-", "--1", "1.2.3", "e3", "Gi", " 1", "٣", "１", "x",
    ] {
        assert!(
            matches!(text.parse::<Quantity>(), Err(QuantityError::Malformed(_))),
            "{text:?}"
        );
    }
}

#[test]
fn an_unknown_suffix_is_named() {
    for text in [
        "1K", "1gi", "1 Gi", "1Mi1", "1e", "1e1.5", "1_000", "0x10", "1٣", "1Ki ", "1e٣",
    ] {
        assert!(
            matches!(text.parse::<Quantity>(), Err(QuantityError::UnknownSuffix(_))),
            "{text:?}"
        );
    }
}

#[test]
fn what_does_not_fit_is_refused_without_a_panic() {
    for text in ["1e100", "1e99999999999", "1e30", &"9".repeat(60)] {
        assert!(
            matches!(text.parse::<Quantity>(), Err(QuantityError::OutOfRange(_))),
            "{text:?}"
        );
    }
    assert_eq!(canonical(&format!("0.{}1", "0".repeat(500))).as_deref(), Ok("1n"));
    assert_eq!(canonical("1e-99999999999").as_deref(), Ok("1e-9"));
    assert_eq!(
        canonical(&format!("0.{}1Ki", "0".repeat(500))).as_deref(),
        Ok("1n")
    );
}

#[test]
fn quantities_compare_by_amount() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1Gi"), quantity("1024Mi"));
    assert_eq!(quantity("1"), quantity("1000m"));
    assert!(quantity("1G") < quantity("1Gi"));
    assert!(quantity("-1") < quantity("1n"));
}

#[test]
fn schedulers_round_up() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1500u").millis_ceil(), 2);
    assert_eq!(quantity("-1500u").millis_ceil(), -1);
    assert_eq!(quantity("0.3Mi").units_ceil(), 314_573);
    assert_eq!(quantity("1000E").units_ceil(), i64::MAX);
    assert_eq!(quantity("-1000E").units_ceil(), i64::MIN);
}

#[test]
fn a_written_quantity_stays_as_it_was_written() {
    for written in [json!(4), json!("4"), json!("0.5"), json!("nonsense"), json!(-1)] {
        let quantity: WrittenQuantity = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&quantity).unwrap(), written);
    }
    assert_eq!(
        serde_json::from_str::<WrittenQuantity>("2.0").unwrap(),
        WrittenQuantity::Number(2)
    );
    for wrong in [json!(0.5), json!(true), json!([1]), json!(1e30)] {
        assert!(
            serde_json::from_value::<WrittenQuantity>(wrong.clone()).is_err(),
            "{wrong}"
        );
    }
}

fn notation() -> impl Strategy<Value = Notation> {
    prop_oneof![
        Just(Notation::Decimal),
        Just(Notation::Binary),
        Just(Notation::Exponent)
    ]
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same_amount(nanos in -BINARY_MAX..=BINARY_MAX, notation in notation()) {
        let printed = Quantity::from_nanos(nanos, notation).to_string();
        let read: Quantity = printed.parse().unwrap();
        prop_assert_eq!(read.nanos(), nanos);
        prop_assert_eq!(read.to_string(), printed);
    }

    #[test]
    fn amounts_with_many_zeros_round_trip(mantissa in -9i128..=9, power in 0u32..27, notation in notation()) {
        let nanos = mantissa * 10i128.pow(power);
        prop_assert_eq!(Quantity::from_nanos(nanos, notation).to_string().parse::<Quantity>().unwrap().nanos(), nanos);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+]?[0-9.]{0,50}([eE][-+]?[0-9]{0,12}|[KMGTPE]i?|[numk])?.{0,3}") {
        let _ = text.parse::<Quantity>().map(|quantity| quantity.to_string());
    }

    #[test]
    fn rounding_up_never_gives_less(whole in 0u64..1_000_000, fraction in "[0-9]{1,25}", suffix in "(Ki|Mi|Gi|m|k|)") {
        let exact: Quantity = format!("{whole}{suffix}").parse().unwrap();
        let more: Quantity = format!("{whole}.{fraction}{suffix}").parse().unwrap();
        prop_assert!(more >= exact);
    }
}
