//! A hash of a JSON value that survives restarts, releases and the order in which things were written.
//!
//! FNV-1a over 64 bits, fed with the canonical text of the value: object keys sorted, `null` and whatever is empty
//! left out, and the elements of arrays that mean sets sorted. It is written into annotations and compared by later
//! releases, so it must never change: golden tests hold it.

use serde_json::Value;

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// What the order of an array's elements means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// The order is part of the value.
    Lists,
    /// The same elements in another order are the same value.
    Sets,
}

/// FNV-1a, 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET_BASIS, mix)
}

/// A hash of bytes, eight at a time, to compare the many bodies of one history with those of another. It is written
/// nowhere, and differs from release to release.
pub fn body(bytes: &[u8]) -> u64 {
    // Odd, with its bits evenly spread: the golden ratio.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(SPREAD);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| {
        mix(hash, u64::from_le_bytes(*word))
    });
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

/// The hash of a value, where arrays mean what `arrays` says.
pub fn of(value: &Value, arrays: Arrays) -> u64 {
    fnv1a(canonical(value, arrays).unwrap_or_default().as_bytes())
}

/// The canonical text of a value; `None` where nothing is left of it.
///
/// An empty string, array or object and `null` say the same as the field's absence; zero and `false` say something.
pub fn canonical(value: &Value, arrays: Arrays) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(elements) => {
            let mut texts: Vec<String> = elements
                .iter()
                .filter_map(|element| canonical(element, arrays))
                .collect();
            if arrays == Arrays::Sets {
                texts.sort();
            }
            (!texts.is_empty()).then(|| format!("[{}]", texts.join(",")))
        }
        Value::Object(fields) => {
            let mut texts: Vec<(&String, String)> = fields
                .iter()
                .filter_map(|(key, value)| Some((key, canonical(value, arrays)?)))
                .collect();
            texts.sort();
            let texts: Vec<String> = texts
                .into_iter()
                .map(|(key, text)| format!("{}:{text}", Value::String(key.clone())))
                .collect();
            (!texts.is_empty()).then(|| format!("{{{}}}", texts.join(",")))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_that_differ_in_one_byte_differ_in_their_hash() {
        let body_of =
            |length: usize| -> Vec<u8> { (0..length).map(|n| u8::try_from(n * 7 % 256).unwrap()).collect() };
        for length in [0, 1, 7, 8, 9, 64, 1000] {
            let whole = body_of(length);
            assert_eq!(body(&whole), body(&body_of(length)));
            assert_ne!(body(&whole), body(&body_of(length + 1)));
            for place in 0..length {
                let mut other = whole.clone();
                other[place] ^= 1;
                assert_ne!(body(&whole), body(&other), "byte {place} of {length}");
            }
        }
    }

    #[test]
    fn the_hash_is_the_published_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn canonical_text_is_sorted_and_leaves_out_what_says_nothing() {
        let value =
            json!({"b": [3, "x", null, ""], "a": {"d": false, "c": null, "e": {}}, "z": 0, "empty": []});
        assert_eq!(
            canonical(&value, Arrays::Lists).unwrap(),
            r#"{"a":{"d":false},"b":[3,"x"],"z":0}"#
        );
    }

    #[test]
    fn keys_are_escaped_so_that_no_two_values_share_a_text() {
        let one = json!({"a\":\"b": "c"});
        let two = json!({"a": "b\":\"c"});
        assert_ne!(canonical(&one, Arrays::Sets), canonical(&two, Arrays::Sets));
    }

    #[test]
    fn the_order_of_elements_counts_in_lists_only() {
        let (one, two) = (json!([1, 2]), json!([2, 1]));
        assert_eq!(of(&one, Arrays::Sets), of(&two, Arrays::Sets));
        assert_ne!(of(&one, Arrays::Lists), of(&two, Arrays::Lists));
    }

    #[test]
    fn a_hash_never_changes() {
        assert_eq!(
            of(
                &json!({"labels": {"team": "a"}, "taints": [{"key": "k"}]}),
                Arrays::Sets
            ),
            3_759_162_455_077_542_651
        );
    }

    proptest! {
        #[test]
        fn a_value_hashes_the_same_in_any_order(mut elements in prop::collection::vec("[a-c]{0,2}", 0..6), by in 0usize..6) {
            let before = of(&json!({"list": elements}), Arrays::Sets);
            let by = by.min(elements.len());
            elements.rotate_left(by);
            prop_assert_eq!(before, of(&json!({"list": elements}), Arrays::Sets));
        }
    }
}
