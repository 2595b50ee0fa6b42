//! Rare things in the cluster: what replicas were shown or never shown.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;

use super::{CONFLICT, Hits, PRUNED, RELISTED, STALE_CLAIM, UNSEEN};
use crate::sim::history::{Edge, Entry, Request, What, Who};
use crate::sim::invariants::{Book, Truth};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::request::Target;
use crate::sim::kube::stored::ObjectKey;

/// What replicas watch, and what they were told.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchers {
    /// The kind of each watch, by the number of its request.
    kinds: BTreeMap<u64, String>,
    /// Names of claims that any replica was told of.
    told: BTreeSet<String>,
}

impl Watchers {
    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, hits: &mut Hits<'_>) {
        match &entry.what {
            What::Request(request) if matches!(entry.who, Who::Replica { .. }) => self.watch(request),
            What::Answer(answer) => {
                let kube = book
                    .answered
                    .as_ref()
                    .filter(|sent| sent.request.edge == Edge::Kube);
                if kube.is_some() && answer.status == Some(409) {
                    hits.hit(CONFLICT);
                }
            }
            What::Event {
                number,
                kind,
                object,
                version,
                ..
            } => self.shown(*number, kind, object, version, truth, hits),
            _ => {}
        }
        for change in &book.changed.claims {
            if change.deleted && !self.told.remove(object::name(&change.after)) {
                hits.hit(UNSEEN);
            }
            let allocated = |claim: &serde_json::Value| claim["status"]["allocation"].is_object();
            let was = change.before.as_deref().is_some_and(allocated);
            if was && !allocated(&change.after) && !change.deleted {
                hits.hit(PRUNED);
            }
        }
    }

    fn watch(&mut self, request: &Request) {
        if request.edge == Edge::Kube
            && request.method == Method::GET
            && request.query.contains("watch=true")
            && let Some(target) = Target::parse(&request.path)
        {
            self.kinds.insert(request.number, target.plural);
        }
    }

    fn shown(
        &mut self,
        number: u64,
        kind: &str,
        shown: &str,
        version: &str,
        truth: &Truth<'_>,
        hits: &mut Hits<'_>,
    ) {
        if kind == "ERROR" {
            hits.hit(RELISTED);
        }
        if self.kinds.get(&number).is_none_or(|kind| kind != "nodeclaims") {
            return;
        }
        let name = shown.rsplit('/').next().unwrap_or_default();
        self.told.insert(name.to_owned());
        let state = truth.kube.state();
        let table = TableKey::of("karpenter.sh", "nodeclaims");
        let stored = state.store.get(&table, &ObjectKey::new("", name));
        let older = |stored: u64| version.parse::<u64>().is_ok_and(|version| version < stored);
        if let Some(stored) = stored.filter(|stored| older(stored.revision)) {
            // Told of a version from before its deletion, when it is being deleted already.
            let then = state.store.at(&table, version.parse().unwrap_or_default());
            let was = then.and_then(|then| then.get(&ObjectKey::new("", name)).map(|then| then.value()));
            let lived = was.is_some_and(|was| !object::is_deleting(&was));
            if lived && object::is_deleting(&stored.value()) {
                hits.hit(STALE_CLAIM);
            }
        }
    }
}
