//! Answers of the API server without the record of who owns which field.
//!
//! The record is a third to a half of most objects, nothing here reads it, and it is decoded into a tree of maps: it cost
//! more to read than all the rest. No API leaves it out, so it is cut out of the bytes before anybody decodes them. What
//! stands in its place is `null`, not an empty list: whoever sends an object back as it was read says nothing of the record
//! then, whereas an API server takes an empty list for the wish that everybody's record be wiped.

use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use memchr::memchr2;
use memchr::memmem::Finder;

/// How a record begins. In JSON this can be a field only: inside of a text its quotes would be escaped.
const RECORD: &[u8] = br#""managedFields":["#;

/// What stands in a record's place.
const NOTHING: &[u8] = b"null";

/// Finds where a record begins.
static BEGINNING: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(RECORD));

/// The same answer, none of whose objects has a record.
pub fn slim<B: Body<Data = Bytes>>(
    response: Response<B>,
) -> Response<impl Body<Data = Bytes, Error = B::Error>> {
    response.map(|body| {
        let mut cutter = Cutter::default();
        body.map_frame(move |frame: Frame<Bytes>| frame.map_data(|data| cutter.cut(data)))
    })
}

/// Where in a text that comes in pieces the cutter is.
#[derive(Debug, Default)]
enum Cutter {
    /// Outside of a record; so many bytes of the beginning of one were the last that passed.
    #[default]
    Outside,
    /// The last piece ended with so many bytes of the beginning of a record.
    Beginning(usize),
    /// Inside, under so many brackets and braces.
    Inside(usize, Text),
}

/// Whether brackets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    No,
    Yes,
    /// The next byte is one of the text whatever it is.
    Escaped,
}

impl Cutter {
    /// The next piece without what of it is in a record.
    fn cut(&mut self, piece: Bytes) -> Bytes {
        if matches!(self, Self::Outside) && BEGINNING.find(&piece).is_none() {
            *self = Self::at_the_end_of(&piece);
            return piece;
        }
        let mut kept = BytesMut::with_capacity(piece.len());
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let (keep, passed, next) = self.step(rest);
            kept.extend_from_slice(&rest[..keep]);
            if matches!(
                (&*self, &next),
                (Self::Outside | Self::Beginning(_), Self::Inside(..))
            ) {
                kept.extend_from_slice(NOTHING);
            }
            rest = &rest[passed..];
            *self = next;
        }
        kept.freeze()
    }

    /// How many of the next bytes are kept, how many are dealt with, and where that leads. The bracket that opens a record
    /// is the last byte of its beginning, so it is never among those that passed already.
    fn step(&self, rest: &[u8]) -> (usize, usize, Self) {
        match *self {
            Self::Outside => match BEGINNING.find(rest) {
                Some(at) => {
                    let end = at + RECORD.len();
                    (end - 1, end, Self::Inside(1, Text::No))
                }
                None => (rest.len(), rest.len(), Self::at_the_end_of(rest)),
            },
            Self::Beginning(matched) => {
                let missing = &RECORD[matched..];
                let here = missing.len().min(rest.len());
                match (rest[..here] == missing[..here], here == missing.len()) {
                    (false, _) => (0, 0, Self::Outside),
                    (true, false) => (here, here, Self::Beginning(matched + here)),
                    (true, true) => (here - 1, here, Self::Inside(1, Text::No)),
                }
            }
            Self::Inside(depth, text) => skip(rest, depth, text),
        }
    }

    fn at_the_end_of(piece: &[u8]) -> Self {
        let longest = piece.len().min(RECORD.len() - 1);
        let matched = (1..=longest)
            .rev()
            .find(|&length| piece.ends_with(&RECORD[..length]));
        matched.map_or(Self::Outside, Self::Beginning)
    }
}

/// Passes what is inside of a record, and the bracket that ends it.
fn skip(rest: &[u8], mut depth: usize, mut text: Text) -> (usize, usize, Cutter) {
    let mut at = 0;
    while at < rest.len() {
        match (text, rest[at]) {
            (Text::Escaped, _) | (Text::No, b'"') => text = Text::Yes,
            // Most of a record is text.
            (Text::Yes, _) => {
                let Some(next) = memchr2(b'"', b'\\', &rest[at..]) else {
                    break;
                };
                at += next;
                text = if rest[at] == b'"' { Text::No } else { Text::Escaped };
            }
            (Text::No, b'[' | b'{') => depth += 1,
            (Text::No, b']' | b'}') => depth -= 1,
            (Text::No, _) => {}
        }
        if depth == 0 {
            return (0, at + 1, Cutter::Outside);
        }
        at += 1;
    }
    (0, rest.len(), Cutter::Inside(depth, text))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// What passes of a text that comes in pieces of these lengths, the last for all that follow.
    fn passed(text: &str, lengths: &[usize]) -> String {
        let (mut cutter, mut rest, mut kept) = (Cutter::default(), text.as_bytes(), Vec::new());
        let mut lengths = lengths.iter().copied().chain(std::iter::repeat(usize::MAX));
        while !rest.is_empty() {
            let length = lengths.next().unwrap().clamp(1, rest.len());
            let (piece, later) = rest.split_at(length);
            kept.extend_from_slice(&cutter.cut(Bytes::copy_from_slice(piece)));
            rest = later;
        }
        String::from_utf8(kept).unwrap()
    }

    fn record() -> Value {
        json!([{"manager": "a]\"}\\", "fieldsV1": {"f:spec": {"k:{\"name\":\"x\"}": {".": {}}}}}, {"time": "b["}])
    }

    #[test]
    fn records_are_cut_out_and_nothing_else_changes() {
        let object = |record: Value| {
            json!({"metadata": {"labels": {"a": "\"managedFields\":[1]"}, "managedFields": record, "name": "n"},
                   "data": {"managedFields": "text"}})
        };
        let list = |record: Value| json!({"items": [object(record.clone()), object(record)]}).to_string();
        assert_eq!(passed(&list(record()), &[]), list(Value::Null));
        assert_eq!(passed(&list(json!([])), &[]), list(Value::Null));
    }

    #[test]
    fn whoever_sends_back_what_was_read_does_not_wipe_the_record() {
        let read = passed(
            &json!({"metadata": {"managedFields": record(), "name": "n"}}).to_string(),
            &[],
        );
        let lease: Lease = serde_json::from_str(&read).unwrap();
        let sent = serde_json::to_value(&lease).unwrap();
        assert!(
            !sent["metadata"]
                .as_object()
                .unwrap()
                .contains_key("managedFields")
        );
    }

    #[test]
    fn what_has_no_record_is_not_copied() {
        let text = Bytes::from_static(br#"{"metadata":{"name":"n"}}"#);
        assert_eq!(Cutter::default().cut(text.clone()).as_ptr(), text.as_ptr());
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_pieces_end(
            name in ".*",
            entries in prop::collection::vec(".{0,9}", 0..3),
            lengths in prop::collection::vec(1_usize..40, 0..30),
        ) {
            let records = [json!(entries), record(), json!([])];
            let with = |record: &Value| json!({"metadata": {"managedFields": record, "name": name}}).to_string();
            let lines = |records: &[Value]| records.iter().map(with).collect::<Vec<_>>().join("\n");
            let none = vec![Value::Null; records.len()];
            prop_assert_eq!(passed(&lines(&records), &lengths), lines(&none));
        }
    }
}
