//! S11: nobody acts on what he was shown to be otherwise. No offering is chosen of which the leader knows that it is
//! withheld; and what is deleted is named exactly, and was not judged in an older version than had been shown by then.
//!
//! What a life of a replica was shown is what its watches told and its own writes were answered. A decision may have been
//! under way when it was shown something, so that only counts which was shown a minute before.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::api::{CapacityType, Gpus, OfferingKey};
use crate::clock::{earlier, later};
use crate::sim::history::{Answer, Edge, Entry, Request, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::request::Target;
use crate::sim::kube::stored::ObjectKey;

/// The longest that a decision is under way: requests for a token and a read, each slow there and back.
const UNDER_WAY: Duration = Duration::from_mins(1);
/// What is withheld.
const HOLDS: &str = "unavailableofferings";
/// What is judged when it is deleted.
const JUDGED: [&str; 2] = ["nodeclaims", "nodes"];

/// An object, as one life of a replica knows it.
type Known = (Who, String, String);

/// What replicas were shown.
#[derive(Default)]
pub(super) struct Shown {
    /// The kind of each watch, by the number of its request.
    watches: BTreeMap<u64, String>,
    /// Versions that were shown, and when: the first long enough ago to be known, the others lately.
    versions: BTreeMap<Known, VecDeque<(u64, Duration)>>,
    /// What is known to be withheld.
    held: BTreeMap<Known, Held>,
}

/// Something that is known to be withheld.
#[derive(Clone, Copy)]
struct Held {
    /// Since when that is known.
    known: Duration,
    /// Since when it is withheld, as the object says.
    since: Option<Timestamp>,
    /// And until when.
    until: Timestamp,
}

impl Held {
    /// Whether it is withheld by every clock that is wrong by so much at the most: by one that is ahead it is over before
    /// its time, by one that is behind it has not begun.
    fn counts(&self, skew: Duration, truth: &Truth<'_>) -> bool {
        let margin = skew + UNDER_WAY;
        let begun = skew.is_zero() || self.since.is_none_or(|since| since <= earlier(truth.now, margin));
        begun && self.until > later(truth.now, margin)
    }
}

impl Check for Shown {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        if !matches!(entry.who, Who::Replica { .. }) {
            return;
        }
        match &entry.what {
            What::Request(request) if request.edge == Edge::Kube => {
                self.sent(entry, request, book, truth, found);
            }
            What::Answer(answer) => self.answered(entry, answer, book, truth),
            What::Event {
                number,
                kind,
                object,
                version,
                ..
            } => {
                let name = object.rsplit('/').next().unwrap_or_default();
                self.told(entry, *number, kind, (name, version), truth);
            }
            _ => {}
        }
    }
}

impl Shown {
    fn sent(
        &mut self,
        entry: &Entry,
        request: &Request,
        book: &Book,
        truth: &Truth<'_>,
        found: &mut Findings,
    ) {
        let Some(target) = Target::parse(&request.path) else {
            return;
        };
        if request.query.contains("watch=true") {
            self.watches.insert(request.number, target.plural);
        } else if request.method == Method::DELETE && JUDGED.contains(&target.plural.as_str()) {
            let name = target.name.unwrap_or_default();
            self.judge_deletion(entry, (target.plural, name), request, found);
        } else if request.method == Method::PATCH
            && request.path.ends_with("/status")
            && target.plural == "nodeclaims"
            && let Some(key) = chosen(request, target.name.as_deref(), truth)
        {
            self.judge_choice(entry, &key, book, truth, found);
        }
    }

    /// A watch told of an object.
    fn told(
        &mut self,
        entry: &Entry,
        watch: u64,
        kind: &str,
        (name, version): (&str, &str),
        truth: &Truth<'_>,
    ) {
        let Some(plural) = self.watches.get(&watch).cloned() else {
            return;
        };
        let known = (entry.who.clone(), plural, name.to_owned());
        if known.1 == HOLDS {
            if kind == "DELETED" {
                self.held.remove(&known);
            } else {
                self.hold(known, entry.at, truth);
            }
        } else if JUDGED.contains(&known.1.as_str()) {
            let versions = self.versions.entry(known).or_default();
            versions.push_back((version.parse().unwrap_or_default(), entry.at));
            while versions.get(1).is_some_and(|(_, at)| *at + UNDER_WAY <= entry.at) {
                versions.pop_front();
            }
        }
    }

    /// Whoever writes a hold knows of it.
    fn answered(&mut self, entry: &Entry, answer: &Answer, book: &Book, truth: &Truth<'_>) {
        let sent = book.answered.as_ref().map(|sent| &sent.request);
        let Some(request) = sent.filter(|it| it.edge == Edge::Kube && it.path.contains(HOLDS)) else {
            return;
        };
        if request.method == Method::GET || answer.status.is_none_or(|status| status >= 300) {
            return;
        }
        let written: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let named = written["metadata"]["name"].as_str().map(str::to_owned);
        let target = Target::parse(&request.path).and_then(|target| target.name);
        let known = (
            entry.who.clone(),
            HOLDS.to_owned(),
            target.or(named).unwrap_or_default(),
        );
        if request.method == Method::DELETE {
            self.held.remove(&known);
        } else {
            self.hold(known, entry.at, truth);
        }
    }

    fn hold(&mut self, known: Known, at: Duration, truth: &Truth<'_>) {
        let state = truth.kube.state();
        let key = ObjectKey::new("", &known.2);
        let table = TableKey::of("karpenter-ibm.sh", HOLDS);
        let hold = state.store.get(&table, &key).map(|stored| stored.value());
        let time = |field: &str| hold.as_ref()?["spec"][field].as_str()?.parse::<Timestamp>().ok();
        // One that begins later was dated by a wrong clock, and withholds nothing.
        let begun = time("since").is_none_or(|since| since <= truth.now);
        let Some(until) = time("until").filter(|until| begun && *until > truth.now) else {
            self.held.remove(&known);
            return;
        };
        let held = Held {
            known: self
                .held
                .get(&known)
                .filter(|held| held.until > truth.now)
                .map_or(at, |held| held.known),
            since: time("since"),
            until,
        };
        self.held.insert(known, held);
    }

    fn judge_choice(
        &self,
        entry: &Entry,
        (capacity, profile, zone): &Offering,
        book: &Book,
        truth: &Truth<'_>,
        found: &mut Findings,
    ) {
        for key in OfferingKey::covering(*capacity, profile, zone, Gpus::Absent) {
            let known = (entry.who.clone(), HOLDS.to_owned(), key.object_name());
            let skew = book.skew_of(&entry.who);
            let withheld = self
                .held
                .get(&known)
                .is_some_and(|held| held.known + UNDER_WAY <= entry.at && held.counts(skew, truth));
            if withheld {
                let message = format!(
                    "{capacity} {profile} in {zone} is chosen, which is known to be withheld by {key}"
                );
                found.blame("S11", entry.at, message);
            }
        }
    }

    fn judge_deletion(
        &self,
        entry: &Entry,
        (plural, name): (String, String),
        request: &Request,
        found: &mut Findings,
    ) {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let named = &body["preconditions"];
        if !named["uid"].is_string() {
            let message = format!("a deletion of {plural}/{name} does not say which is meant");
            return found.blame("S11", entry.at, message);
        }
        let judged = named["resourceVersion"]
            .as_str()
            .and_then(|it| it.parse::<u64>().ok());
        let shown = self
            .versions
            .get(&(entry.who.clone(), plural.clone(), name.clone()));
        let long_ago = shown.and_then(|versions| {
            let known = versions.iter().filter(|(_, at)| *at + UNDER_WAY <= entry.at);
            known.map(|(version, _)| *version).max()
        });
        if judged.zip(long_ago).is_some_and(|(judged, shown)| judged < shown) {
            let message =
                format!("{plural}/{name} is deleted as it was before what has been shown for a minute");
            found.blame("S11", entry.at, message);
        }
    }
}

type Offering = (CapacityType, String, String);

/// The offering that a write of a claim's status chooses, if it is another than the claim has.
fn chosen(request: &Request, claim: Option<&str>, truth: &Truth<'_>) -> Option<Offering> {
    let body: Value = serde_json::from_slice(&request.body).ok()?;
    let offering = |status: &Value| {
        let allocation = &status["allocation"];
        let text = |field: &str| allocation[field].as_str().map(str::to_owned);
        let capacity = text("capacityType")?.parse::<CapacityType>().ok()?;
        Some((capacity, text("profile")?, text("zone")?))
    };
    let wanted = offering(&body["status"])?;
    // What a machine came as is not chosen.
    if body["status"]["allocation"]["instanceID"].is_string() {
        return None;
    }
    let state = truth.kube.state();
    let table = TableKey::of("karpenter.sh", "nodeclaims");
    let stored = state.store.get(&table, &ObjectKey::new("", claim?))?.value();
    (offering(&stored["status"]).as_ref() != Some(&wanted)).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::sim::kube::write;

    const KINDS: &str = "/apis/karpenter-ibm.sh/v1alpha1/unavailableofferings";
    const CLAIM: &str = "/apis/karpenter.sh/v1/nodeclaims/a";

    fn withhold(stage: &Stage, until: &str) {
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "spot.bxf-2x8.us-south-1"},
                "spec": {
                    "key": "spot:bxf-2x8:us-south-1", "reason": "Preempted",
                    "since": "2026-11-16T10:00:00Z", "until": until,
                },
            }),
        );
    }

    /// Replica 0 is told of an object by a watch.
    fn told(stage: &mut Stage, path: &str, kind: &str, object: &str, version: &str) {
        let number = stage.asks(0, path, "watch=true");
        let event = What::Event {
            number,
            kind: kind.to_owned(),
            object: object.to_owned(),
            version: version.to_owned(),
            hash: 0,
        };
        stage.happens(Stage::replica(0), event);
    }

    fn chooses(stage: &mut Stage, zone: &str) {
        let allocation = json!({"profile": "bxf-2x8", "zone": zone, "capacityType": "spot"});
        let body = json!({"status": {"allocation": allocation}}).to_string();
        stage.sends(0, Edge::Kube, &Method::PATCH, &format!("{CLAIM}/status"), &body);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_to_be_withheld_is_not_chosen() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        withhold(&stage, "2026-11-16T11:00:00Z");
        chooses(&mut stage, "us-south-1");
        told(&mut stage, KINDS, "ADDED", "/spot.bxf-2x8.us-south-1", "7");
        stage.pass(30).await;
        chooses(&mut stage, "us-south-1");
        assert!(stage.blamed().is_empty(), "it may not have known yet");
        stage.pass(31).await;
        chooses(&mut stage, "us-south-2");
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        chooses(&mut stage, "us-south-1");
        assert_eq!(stage.blamed(), ["S11"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_or_lifted_may_be_chosen_again() {
        for lifted in [false, true] {
            let mut stage = Stage::new().await;
            stage.claim("a").await;
            let until = if lifted {
                "2026-11-16T11:00:00Z"
            } else {
                "2026-11-16T10:03:00Z"
            };
            withhold(&stage, until);
            told(&mut stage, KINDS, "ADDED", "/spot.bxf-2x8.us-south-1", "7");
            stage.pass(if lifted { 61 } else { 181 }).await;
            if lifted {
                told(&mut stage, KINDS, "DELETED", "/spot.bxf-2x8.us-south-1", "8");
            }
            chooses(&mut stage, "us-south-1");
            assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_clock_excuses_nobody_else_and_no_more_than_it_is_wrong() {
        for (skew, blamed) in [
            ("+3000 s for replica 1", &["S11"][..]),
            ("+60 s for replica 0", &["S11"]),
            ("-10 s for replica 0", &["S11"]),
            ("+3000 s for replica 0", &[]),
            ("-600 s for replica 0", &[]),
        ] {
            let mut stage = Stage::new().await;
            stage.claim("a").await;
            stage.struck("k15-skew", skew);
            withhold(&stage, "2026-11-16T10:45:00Z");
            told(&mut stage, KINDS, "ADDED", "/spot.bxf-2x8.us-south-1", "7");
            stage.pass(120).await;
            chooses(&mut stage, "us-south-1");
            assert_eq!(stage.blamed(), blamed, "{skew}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_withholds_something_knows_of_it() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        withhold(&stage, "2026-11-16T11:00:00Z");
        let number = stage.sends(0, Edge::Kube, &Method::POST, KINDS, "{}");
        stage.hears(
            0,
            number,
            Some(201),
            r#"{"metadata":{"name":"spot.bxf-2x8.us-south-1"}}"#,
        );
        stage.pass(61).await;
        chooses(&mut stage, "us-south-1");
        assert_eq!(stage.blamed(), ["S11"]);
    }

    fn deletes(stage: &mut Stage, preconditions: &Value) {
        let body = json!({"preconditions": preconditions}).to_string();
        stage.sends(0, Edge::Kube, &Method::DELETE, CLAIM, &body);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_says_what_is_meant_and_is_not_decided_on_the_past() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        stage.conditions("a", &[("Launched", "False", 1)]).await;
        told(
            &mut stage,
            "/apis/karpenter.sh/v1/nodeclaims",
            "MODIFIED",
            "/a",
            "20",
        );
        deletes(&mut stage, &json!({"uid": "1", "resourceVersion": "19"}));
        assert!(stage.blamed().is_empty(), "it was under way");
        stage.pass(60).await;
        deletes(&mut stage, &json!({"uid": "1", "resourceVersion": "20"}));
        deletes(&mut stage, &json!({"uid": "1"}));
        assert!(stage.blamed().is_empty());
        deletes(&mut stage, &json!({"uid": "1", "resourceVersion": "19"}));
        assert_eq!(stage.blamed(), ["S11"]);
        deletes(&mut stage, &json!({}));
        assert_eq!(stage.blamed(), ["S11"; 2]);
    }
}
