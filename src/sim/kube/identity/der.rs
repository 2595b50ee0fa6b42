//! Just enough DER to write certificates and requests for them.
//!
//! A library that models names as a map from type to value cannot hold a subject with two organizations, which is
//! how a client certificate names two groups; here a subject is copied from the request byte by byte.

use jiff::Timestamp;
use jiff::tz::Offset;

/// Object identifiers, already encoded.
pub mod oid {
    pub const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    pub const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    pub const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
    pub const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];
    pub const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
    pub const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
    pub const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
    pub const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];
    pub const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
    pub const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
}

/// Whether a certificate is worthless to those who do not understand one of its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criticality {
    Critical,
    Optional,
}

/// A value with its tag and length.
pub fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let significant = bytes.iter().skip_while(|byte| **byte == 0);
            let significant: Vec<u8> = significant.copied().collect();
            // At most eight bytes of length.
            #[expect(clippy::cast_possible_truncation, reason = "a usize has at most eight bytes")]
            out.push(0x80 | significant.len() as u8);
            out.extend(significant);
        }
    }
    out.extend_from_slice(content);
    out
}

/// `SEQUENCE`
pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(0x30, &parts.concat())
}

/// `SET`
pub fn set(parts: &[&[u8]]) -> Vec<u8> {
    tagged(0x31, &parts.concat())
}

/// `[number]`, wrapped around a whole value.
pub fn explicit(number: u8, content: &[u8]) -> Vec<u8> {
    tagged(0xa0 | number, content)
}

/// `INTEGER`, from big-endian bytes without a sign.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    let significant: Vec<u8> = bytes.iter().skip_while(|byte| **byte == 0).copied().collect();
    let mut content = Vec::new();
    if significant.first().is_none_or(|first| first & 0x80 != 0) {
        content.push(0);
    }
    content.extend(significant);
    tagged(0x02, &content)
}

/// `OBJECT IDENTIFIER`
pub fn object_identifier(encoded: &[u8]) -> Vec<u8> {
    tagged(0x06, encoded)
}

/// `UTF8String`
pub fn utf8(text: &str) -> Vec<u8> {
    tagged(0x0c, text.as_bytes())
}

/// `OCTET STRING`
pub fn octets(content: &[u8]) -> Vec<u8> {
    tagged(0x04, content)
}

/// `BIT STRING` of whole bytes.
pub fn bits(content: &[u8]) -> Vec<u8> {
    tagged(0x03, &[&[0], content].concat())
}

/// `BIT STRING` of named bits: the first is the highest bit of the first byte, and trailing zeros are left out.
pub fn named_bits(numbers: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut bytes = [0_u8; 2];
    for number in numbers.into_iter().filter(|number| *number < 16) {
        bytes[usize::from(number / 8)] |= 0x80 >> (number % 8);
    }
    let word = u16::from_be_bytes(bytes);
    let used = 16 - word.trailing_zeros().min(16);
    let length = used.div_ceil(8);
    #[expect(clippy::cast_possible_truncation, reason = "less than eight")]
    let unused = (length * 8 - used) as u8;
    tagged(0x03, &[&[unused], &bytes[..length as usize]].concat())
}

/// `UTCTime` until 2049, `GeneralizedTime` from then on, as RFC 5280 wants it.
pub fn time(at: Timestamp) -> Vec<u8> {
    let at = Offset::UTC.to_datetime(at);
    let rest = format!(
        "{:02}{:02}{:02}{:02}{:02}Z",
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    match at.year() {
        year @ 1950..2050 => tagged(0x17, format!("{:02}{rest}", year % 100).as_bytes()),
        year => tagged(0x18, format!("{year:04}{rest}").as_bytes()),
    }
}

/// A subject: its organizations, then its common name.
pub fn subject(common_name: &str, organizations: &[&str]) -> Vec<u8> {
    let part = |kind: &[u8], value: &str| {
        let pair = sequence(&[&object_identifier(kind), &utf8(value)]);
        set(&[&pair])
    };
    let mut parts: Vec<Vec<u8>> = organizations
        .iter()
        .map(|organization| part(oid::ORGANIZATION, organization))
        .collect();
    if !common_name.is_empty() {
        parts.push(part(oid::COMMON_NAME, common_name));
    }
    sequence(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// An extension of a certificate.
pub fn extension(kind: &[u8], criticality: Criticality, value: &[u8]) -> Vec<u8> {
    let critical = match criticality {
        Criticality::Critical => vec![0x01, 0x01, 0xff],
        Criticality::Optional => Vec::new(),
    };
    sequence(&[&object_identifier(kind), &critical, &octets(value)])
}

/// The names that a certificate or request is for, as the value of the extension.
pub fn alternative_names(names: &[&str]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = names
        .iter()
        .map(|name| match name.parse() {
            Ok(std::net::IpAddr::V4(ip)) => tagged(0x87, &ip.octets()),
            Ok(std::net::IpAddr::V6(ip)) => tagged(0x87, &ip.octets()),
            Err(_) => tagged(0x82, name.as_bytes()),
        })
        .collect();
    sequence(&names.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_as_few_bytes_as_they_need() {
        assert_eq!(tagged(4, &[7; 3])[..2], [4, 3]);
        assert_eq!(tagged(4, &[7; 127])[..2], [4, 127]);
        assert_eq!(tagged(4, &[7; 128])[..3], [4, 0x81, 128]);
        assert_eq!(tagged(4, &[7; 300])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn integers_never_look_negative() {
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0x7f]), [2, 1, 0x7f]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
    }

    #[test]
    fn named_bits_lose_their_trailing_zeros() {
        assert_eq!(named_bits([0]), [3, 2, 7, 0x80]);
        assert_eq!(named_bits([0, 2]), [3, 2, 5, 0xa0]);
        assert_eq!(named_bits([5, 6]), [3, 2, 1, 0x06]);
        assert_eq!(named_bits([8]), [3, 3, 7, 0, 0x80]);
        assert_eq!(named_bits([]), [3, 1, 0]);
    }

    #[test]
    fn years_from_2050_on_have_four_digits() {
        let at = |text: &str| String::from_utf8(time(text.parse().unwrap())[2..].to_vec()).unwrap();
        assert_eq!(at("2049-12-31T23:59:59Z"), "491231235959Z");
        assert_eq!(at("2050-01-01T00:00:00Z"), "20500101000000Z");
    }
}
