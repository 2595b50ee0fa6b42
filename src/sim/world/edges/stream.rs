//! A watch, recorded as it is delivered: each line when the client takes it, not when the server wrote it.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use http::Response;
use serde::Deserialize;

use crate::hash;
use crate::sim::faults::Desk;
use crate::sim::history::{What, Who};
use crate::sim::world::recorder::Recorder;

/// The same stream, each of whose lines is written into the history on its way.
pub(super) fn recorded(
    response: Response<Body>,
    recorder: Recorder,
    desk: Desk,
    who: Who,
    number: u64,
) -> Response<Body> {
    response.map(|body| {
        let mut lines = Lines::default();
        let chunks = body.into_data_stream().inspect_ok(move |chunk: &Bytes| {
            desk.gather_met();
            for line in lines.complete(chunk) {
                recorder.event(who.clone(), event(number, &line));
            }
        });
        Body::from_stream(chunks)
    })
}

/// Puts chunks together to lines.
#[derive(Default)]
struct Lines(BytesMut);

impl Lines {
    fn complete(&mut self, chunk: &Bytes) -> Vec<Bytes> {
        // The server sends whole lines, one at a time: nothing to copy then.
        if self.0.is_empty() && chunk.iter().position(|byte| *byte == b'\n') == chunk.len().checked_sub(1) {
            return vec![chunk.clone()];
        }
        self.0.extend_from_slice(chunk);
        let mut lines = Vec::new();
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            lines.push(self.0.split_to(end + 1).freeze());
        }
        lines
    }
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

#[derive(Default, Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
}

fn event(number: u64, line: &Bytes) -> What {
    let hash = hash::body(line);
    let parsed = serde_json::from_slice(line).unwrap_or(Line {
        kind: "UNREADABLE".to_owned(),
        object: Object::default(),
    });
    let metadata = parsed.object.metadata;
    let object = if metadata.namespace.is_empty() {
        metadata.name
    } else {
        format!("{}/{}", metadata.namespace, metadata.name)
    };
    What::Event {
        number,
        kind: parsed.kind,
        object,
        version: metadata.resource_version,
        hash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_however_they_come() {
        let mut lines = Lines::default();
        assert_eq!(lines.complete(&Bytes::from_static(b"one\n")).len(), 1);
        assert_eq!(lines.complete(&Bytes::from_static(b"tw")).len(), 0);
        let rest = lines.complete(&Bytes::from_static(b"o\nthree\nf"));
        assert_eq!(
            rest,
            [Bytes::from_static(b"two\n"), Bytes::from_static(b"three\n")]
        );
    }

    #[test]
    fn an_event_names_its_object_and_version() {
        let line =
            br#"{"type":"ADDED","object":{"metadata":{"namespace":"a","name":"b","resourceVersion":"7"}}}"#;
        let What::Event {
            kind,
            object,
            version,
            ..
        } = event(1, &Bytes::from_static(line))
        else {
            panic!("no event")
        };
        assert_eq!(
            (kind.as_str(), object.as_str(), version.as_str()),
            ("ADDED", "a/b", "7")
        );
    }

    #[test]
    fn an_event_that_cannot_be_read_is_still_an_event() {
        let What::Event { kind, .. } = event(1, &Bytes::from_static(b"{\"type\":\"ADD")) else {
            panic!("no event")
        };
        assert_eq!(kind, "UNREADABLE");
    }
}
