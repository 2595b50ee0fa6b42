//! L7: whatever happened, a minute later the leader knows how things are.
//!
//! What it knows is what it was told: the lists with which its watches begin, and what these tell. From healing on the
//! state of each kind is noted, and a minute later the leader must have been told of it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::{Book, Sent};
use super::{Check, Findings, Truth};
use crate::sim::history::{Answer, Edge, Entry, Request, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::request::Target;
use crate::sim::kube::store::{Store, Stored};

/// Within this time everything is known.
const SYNCED_WITHIN: Duration = Duration::from_mins(1);
/// How often it is noted how things are.
const NOTE_EVERY: Duration = Duration::from_secs(10);
const LEADER: &str = "karpenter-ibm-leader";
/// Whose certificate requests are watched: those of kubelets that join, and none of another signer.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The kinds that decisions rest on: all that the leader watches.
const KINDS: [(&str, &str); 14] = [
    ("karpenter.sh", "nodeclaims"),
    ("karpenter.sh", "nodepools"),
    ("karpenter-ibm.sh", "ibmnodeclasses"),
    ("karpenter-ibm.sh", "unavailableofferings"),
    ("", "nodes"),
    ("", "pods"),
    ("", "namespaces"),
    ("", "persistentvolumes"),
    ("", "persistentvolumeclaims"),
    ("apps", "daemonsets"),
    ("policy", "poddisruptionbudgets"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("certificates.k8s.io", "certificatesigningrequests"),
];

/// What replicas were told, and what they must be told.
#[derive(Default)]
pub(super) struct Synced {
    /// The kind of each watch, by the number of its request.
    watches: BTreeMap<u64, String>,
    /// The newest revision that a replica was told of, by its number and the kind.
    told: BTreeMap<(usize, String), u64>,
    /// Who leads, and since when.
    leader: Option<(usize, Duration)>,
    /// When it was noted how things are, and the revision at which each of [`KINDS`] last changed.
    notes: VecDeque<(Duration, [u64; KINDS.len()])>,
}

impl Check for Synced {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        self.follow_leader(entry.at, book);
        if let Who::Replica { number, .. } = entry.who {
            match &entry.what {
                What::Request(request) => self.watch(request),
                What::Answer(answer) => self.listed(number, answer, book),
                What::Event {
                    number: watch,
                    version,
                    ..
                } => self.hear(number, *watch, version),
                _ => {}
            }
        }
        if book.healed_at.is_some() {
            self.note(entry.at, truth);
            self.judge(entry.at, book, found);
        }
    }
}

impl Synced {
    fn follow_leader(&mut self, now: Duration, book: &Book) {
        let leases = book.changed.leases.iter();
        for change in leases.filter(|change| object::name(&change.after) == LEADER) {
            let holder = change.after["spec"]["holderIdentity"]
                .as_str()
                .unwrap_or_default();
            let number = holder.rsplit('-').next().and_then(|number| number.parse().ok());
            if number != self.leader.map(|(leader, _)| leader) {
                self.leader = number.map(|number| (number, now));
            }
        }
    }

    fn watch(&mut self, request: &Request) {
        if request.edge == Edge::Kube
            && request.query.contains("watch=true")
            && let Some(target) = Target::parse(&request.path)
        {
            self.watches.insert(request.number, target.plural);
        }
    }

    /// A list that a watch begins with. Others are looked at once and not remembered.
    fn listed(&mut self, replica: usize, answer: &Answer, book: &Book) {
        let begins = |sent: &&Sent| {
            let request = &sent.request;
            request.edge == Edge::Kube
                && request.method == Method::GET
                && ["limit=", "resourceVersion="]
                    .iter()
                    .any(|option| request.query.contains(option))
        };
        let sent = book.answered.as_ref().filter(begins);
        let Some(target) = sent.and_then(|sent| Target::parse(&sent.request.path)) else {
            return;
        };
        if target.name.is_some() || answer.status != Some(200) || answer.body.is_empty() {
            return;
        }
        let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if let Some(version) = list["metadata"]["resourceVersion"].as_str() {
            self.tell(replica, target.plural, version);
        }
    }

    fn hear(&mut self, replica: usize, watch: u64, version: &str) {
        if let Some(kind) = self.watches.get(&watch).cloned() {
            self.tell(replica, kind, version);
        }
    }

    fn tell(&mut self, replica: usize, kind: String, version: &str) {
        let version: u64 = version.parse().unwrap_or_default();
        let told = self.told.entry((replica, kind)).or_default();
        *told = version.max(*told);
    }

    fn note(&mut self, now: Duration, truth: &Truth<'_>) {
        if self.notes.back().is_some_and(|(at, _)| *at + NOTE_EVERY > now) {
            return;
        }
        let state = truth.kube.state();
        let changed = KINDS.map(|(group, plural)| {
            let table = TableKey::of(group, plural);
            match plural {
                "pods" => newest(&state.store, &table, is_living),
                "certificatesigningrequests" => newest(&state.store, &table, is_of_a_kubelet),
                _ => state.store.changed_at(&table),
            }
        });
        self.notes.push_back((now, changed));
    }

    fn judge(&mut self, now: Duration, book: &Book, found: &mut Findings) {
        let due = |at: &Duration| *at + SYNCED_WITHIN <= now;
        while self.notes.front().is_some_and(|(at, _)| due(at)) {
            let (Some((_, changed)), Some((leader, since))) = (self.notes.pop_front(), self.leader) else {
                continue;
            };
            // One that has just begun to lead has a minute as well.
            let leads = due(&since)
                && book
                    .replicas
                    .get(&leader)
                    .is_none_or(|turns| turns.crashed <= turns.started);
            for ((_, plural), revision) in KINDS.iter().zip(changed) {
                let told = self.told.get(&(leader, (*plural).to_owned()));
                if leads && told.copied().unwrap_or_default() < revision {
                    let message =
                        format!("replica {leader} does not know the {plural} as they were a minute ago");
                    found.blame("L7", now, message);
                }
            }
        }
    }
}

/// When one of those of a kind that are watched was last written. Nobody is told of the others, also when they go.
fn newest(store: &Store, table: &TableKey, is_watched: impl Fn(&Stored) -> bool) -> u64 {
    let watched = store.list(table, None).filter(|stored| is_watched(stored));
    watched.map(|stored| stored.revision).max().unwrap_or_default()
}

/// Whether a pod has not ended.
fn is_living(pod: &Stored) -> bool {
    !matches!(pod.field("status.phase"), "Succeeded" | "Failed")
}

fn is_of_a_kubelet(request: &Stored) -> bool {
    request.field("spec.signerName") == SIGNER
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::api::{Api, PostParams};
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    /// Replica 0 leads, has listed everything, and watches claims.
    async fn leading() -> (Stage, u64) {
        let mut stage = Stage::new().await;
        let lease = json!({
            "metadata": {"name": LEADER, "namespace": "default"}, "spec": {"holderIdentity": "x/karpenter-ibm-0"},
        });
        let leases: Api<Lease> = Api::namespaced(stage.server.admin(), "default");
        let lease = serde_json::from_value(lease).unwrap();
        leases.create(&PostParams::default(), &lease).await.unwrap();
        stage.look();
        for (group, plural) in KINDS {
            let path = if group.is_empty() {
                format!("/api/v1/{plural}")
            } else {
                format!("/apis/{group}/v1/{plural}")
            };
            let number = stage.asks(0, &path, "limit=500");
            let revision = stage.server.state().store.revision().to_string();
            let list = json!({"metadata": {"resourceVersion": revision}});
            stage.hears(0, number, Some(200), &list.to_string());
        }
        let watch = stage.asks(0, "/apis/karpenter.sh/v1/nodeclaims", "watch=true");
        (stage, watch)
    }

    fn tells(stage: &mut Stage, number: u64, version: u64) {
        let event = What::Event {
            number,
            kind: "MODIFIED".to_owned(),
            object: "/a".to_owned(),
            version: version.to_string(),
            hash: 0,
        };
        stage.happens(Stage::replica(0), event);
    }

    #[tokio::test(start_paused = true)]
    async fn the_leader_is_told_of_every_change_within_a_minute() {
        for heard in [true, false] {
            let (mut stage, watch) = leading().await;
            stage.judge.healed(Duration::ZERO);
            stage.claim("a").await;
            stage.pass(1).await;
            let revision = stage.server.state().store.revision();
            if heard {
                tells(&mut stage, watch, revision);
            }
            stage.pass(70).await;
            stage.pass(70).await;
            assert_eq!(stage.blamed().contains(&"L7"), !heard);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_volumes_a_node_can_attach_is_to_be_known_as_well() {
        let (mut stage, _) = leading().await;
        stage.judge.healed(Duration::ZERO);
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"},
                "spec": {"drivers": []},
            }),
        );
        for _ in 0..3 {
            stage.pass(70).await;
        }
        assert!(stage.blamed().contains(&"L7"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_kubelets_ask_to_be_signed_is_to_be_known_and_no_other_request() {
        for (signer, blamed) in [(SIGNER, true), ("example.com/other", false)] {
            let (mut stage, _) = leading().await;
            stage.judge.healed(Duration::ZERO);
            write::insert(
                &stage.server,
                json!({
                    "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                    "metadata": {"name": "a"},
                    "spec": {"request": "", "signerName": signer, "usages": ["client auth"]},
                }),
            );
            for _ in 0..3 {
                stage.pass(70).await;
            }
            assert_eq!(stage.blamed().contains(&"L7"), blamed, "{signer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn as_long_as_things_go_wrong_nobody_must_know_everything() {
        let (mut stage, _) = leading().await;
        stage.claim("a").await;
        stage.pass(200).await;
        stage.pass(200).await;
        assert!(stage.blamed().is_empty());
    }
}
