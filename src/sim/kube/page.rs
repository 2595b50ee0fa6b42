//! A part of a list: which objects, where the list goes on, and the bytes that are sent.
//!
//! Objects are sent as the bytes that they are stored as, piece by piece and without copying them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::events;
use super::kind::Kind;
use super::read;
use super::refusal::Refusal;
use super::request::Ask;
use super::store::{ObjectKey, Stored};

/// A part of a list.
pub(super) struct Page {
    /// Its objects, in order.
    pub(super) items: Vec<Arc<Stored>>,
    revision: u64,
    next: Option<String>,
    remaining: Option<usize>,
}

impl Page {
    /// The first objects that a request selects, as many as it gets.
    pub(super) fn of<'a>(
        mut objects: impl Iterator<Item = &'a Arc<Stored>>,
        ask: &Ask,
        items_max: usize,
        revision: u64,
    ) -> Self {
        let selected = objects.by_ref().filter(|stored| read::selects(ask, stored));
        let items: Vec<_> = selected.take(items_max).cloned().collect();
        // With selectors a real server does not know how many are left. A full page ends without a look at what follows,
        // so whether any of that is selected shows on the next one; unless one object is asked for by name.
        let plain = ask.options.labels.is_empty() && ask.options.fields.is_empty();
        let left = match ask.options.fields.demanded_name() {
            Some(_) => 0,
            None => objects.count(),
        };
        let next = items
            .last()
            .filter(|_| left > 0)
            .map(|last| Continue::new(revision, &last.key).encode());
        Self {
            items,
            revision,
            next,
            remaining: (left > 0 && plain).then_some(left),
        }
    }

    /// The metadata of the list.
    pub(super) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            metadata["continue"] = next.clone().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }

    /// The list of a kind as it is sent. Those of custom kinds say where they go on even if they do not.
    pub(super) fn of_kind(&self, kind: &Kind) -> Body {
        let mut metadata = self.metadata();
        if kind.custom().is_some() && self.next.is_none() {
            metadata["continue"] = "".into();
        }
        let list = format!("{}List", kind.kind);
        self.body(&list, &kind.api_version(), &metadata, |stored| {
            events::listed(kind, stored)
        })
    }

    /// The list of what any object has.
    pub(super) fn of_metadata(&self) -> Body {
        let shown = |stored: &Stored| (&b""[..], stored.partial());
        self.body(
            "PartialObjectMetadataList",
            "meta.k8s.io/v1",
            &self.metadata(),
            shown,
        )
    }

    /// The list as it is sent, each object in the two pieces that `shown` makes of it.
    fn body(
        &self,
        kind: &str,
        api_version: &str,
        metadata: &Value,
        shown: impl Fn(&Stored) -> (&'static [u8], Bytes),
    ) -> Body {
        let head = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata}).to_string();
        let mut pieces = VecDeque::with_capacity(3 * self.items.len() + 2);
        pieces.push_back(Bytes::from(format!("{},\"items\":[", &head[..head.len() - 1])));
        for (index, stored) in self.items.iter().enumerate() {
            if index > 0 {
                pieces.push_back(Bytes::from_static(b","));
            }
            let (first, rest) = shown(stored);
            if !first.is_empty() {
                pieces.push_back(Bytes::from_static(first));
            }
            pieces.push_back(rest);
        }
        pieces.push_back(Bytes::from_static(b"]}"));
        Body::new(Pieces {
            left: pieces.iter().map(|piece| piece.len() as u64).sum(),
            pieces,
        })
    }
}

/// A body whose length is known although it is not in one piece.
struct Pieces {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Where a list goes on: at which revision, after which object. Opaque to clients.
#[derive(Serialize, Deserialize)]
pub(super) struct Continue {
    rv: u64,
    ns: String,
    name: String,
}

impl Continue {
    fn new(revision: u64, last: &ObjectKey) -> Self {
        Self {
            rv: revision,
            ns: last.namespace.clone(),
            name: last.name.clone(),
        }
    }

    fn encode(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    /// Reads a token that was handed out earlier.
    pub(super) fn decode(text: &str) -> Result<Self, Refusal> {
        let decode = || {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
            serde_json::from_slice(&bytes).ok()
        };
        decode().ok_or_else(|| Refusal::bad_request("continue key is not valid"))
    }

    /// The revision of the whole list.
    pub(super) fn revision(&self) -> u64 {
        self.rv
    }

    /// The last object of the page before.
    pub(super) fn after(&self) -> ObjectKey {
        ObjectKey::new(&self.ns, &self.name)
    }
}
