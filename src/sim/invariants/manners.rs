//! S15: the cloud is asked no more often than it may be, not before the time that it named, and each thing is told once.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Settings, Truth};
use crate::clock::between;
use crate::ibm::http::retry_after::RETRY_AFTER_MAX;
use crate::sim::history::{Edge, Entry, What, Who};

/// Two requests in the same instant are sent in any order.
const INSTANT: Duration = Duration::from_millis(1);
/// Rounding at the edges of the bucket.
const SLACK: f64 = 2.0;
/// The operator, as its events name it.
const REPORTER: &str = "karpenter";

pub(super) struct Manners {
    rate: f64,
    burst: f64,
    buckets: BTreeMap<Who, Bucket>,
    /// Until when a service does not want to hear from a replica, and when it said so.
    closed: BTreeMap<(Who, &'static str), (Duration, Duration)>,
    /// Names of events by what they tell.
    told: BTreeMap<(String, String, String), String>,
}

#[derive(Default)]
struct Bucket {
    level: f64,
    at: Duration,
}

impl Manners {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            rate: settings.requests_per_second,
            burst: settings.burst,
            buckets: BTreeMap::new(),
            closed: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    fn count(&mut self, entry: &Entry, found: &mut Findings) {
        let bucket = self.buckets.entry(entry.who.clone()).or_default();
        let passed = entry.at.saturating_sub(bucket.at).as_secs_f64();
        bucket.level = (bucket.level - passed * self.rate).max(0.0) + 1.0;
        bucket.at = entry.at;
        if bucket.level > self.burst + SLACK {
            let message = format!("{} sends more than {} requests a second", entry.who, self.rate);
            found.blame("S15", entry.at, message);
        }
    }

    fn wait(&self, entry: &Entry, path: &str, book: &Book, found: &mut Findings) {
        let Some((until, said)) = self.closed.get(&(entry.who.clone(), service(path))) else {
            return;
        };
        // Whoever stood still when it was said has not heard it yet.
        let resumed = match entry.who {
            Who::Replica { number, .. } => book.replicas.get(&number).and_then(|turns| turns.resumed),
            _ => None,
        };
        let unheard = resumed.is_some_and(|resumed| *said <= resumed && entry.at <= resumed + INSTANT);
        if entry.at > *said + INSTANT && entry.at + INSTANT < *until && !unheard {
            let message = format!(
                "{} asked {} again {:?} before the time it was told",
                entry.who,
                service(path),
                until.saturating_sub(entry.at)
            );
            found.blame("S15", entry.at, message);
        }
    }

    fn hear(&mut self, entry: &Entry, path: &str, wait: Duration) {
        let wait = wait.min(RETRY_AFTER_MAX);
        let key = (entry.who.clone(), service(path));
        let closed = self.closed.entry(key).or_insert((Duration::ZERO, entry.at));
        if entry.at + wait > closed.0 {
            *closed = (entry.at + wait, entry.at);
        }
    }

    fn tell_once(&mut self, event: &Value, at: Duration, found: &mut Findings) {
        let text = |place: &str| {
            let value = event.pointer(place).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let by = [text("/reportingComponent"), text("/source/component")].concat();
        if !by.contains(REPORTER) {
            return;
        }
        let told = (text("/involvedObject/uid"), text("/reason"), text("/message"));
        let name = text("/metadata/name");
        if let Some(earlier) = self.told.insert(told.clone(), name.clone())
            && earlier != name
        {
            let (uid, reason, _) = told;
            found.blame("S15", at, format!("{reason} of {uid} is told twice"));
        }
    }
}

impl Check for Manners {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for event in &book.changed.events {
            self.tell_once(event, entry.at, found);
        }
        if !matches!(entry.who, Who::Replica { .. }) {
            return;
        }
        match &entry.what {
            What::Request(request) if request.edge == Edge::Cloud => {
                self.wait(entry, &request.path, book, found);
                self.count(entry, found);
            }
            What::Answer(answer) if answer.status == Some(429) => {
                let knows_the_time = book.skew_of(&entry.who).is_zero();
                let wait = wait(answer.retry_after.as_deref(), knows_the_time.then_some(truth.now));
                if let (Some(wait), Some(sent)) = (wait, &book.answered)
                    && sent.request.edge == Edge::Cloud
                {
                    self.hear(entry, &sent.request.path, wait);
                }
            }
            _ => {}
        }
    }
}

/// For how long a service is to be left alone. A number of seconds means the same on every clock; a date only to whoever
/// knows what time it is.
fn wait(header: Option<&str>, now: Option<Timestamp>) -> Option<Duration> {
    let header = header?;
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(between(now?, Timestamp::try_from(date).ok()?))
}

/// The services of the cloud, told apart by path.
pub(in crate::sim) fn service(path: &str) -> &'static str {
    match path.trim_start_matches('/').split('/').next() {
        Some("v1") => "VPC",
        Some("v2") => "Resource Manager",
        Some("v3") if path.contains("search") => "Search",
        Some("v3") => "Tagging",
        Some("api") => "Catalog",
        _ => "IAM",
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;

    const VPC: &str = "/v1/instances";

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_fine_and_a_flood_is_not() {
        let mut stage = Stage::new().await;
        for _ in 0..50 {
            stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
            stage.sends(1, Edge::Cloud, &Method::GET, VPC, "");
        }
        stage.pass(1).await;
        for _ in 0..9 {
            stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        }
        assert!(stage.blamed().is_empty());
        for _ in 0..5 {
            stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        }
        assert_eq!(stage.blamed(), ["S15"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_is_left_alone_until_the_time_that_it_named() {
        let mut stage = Stage::new().await;
        let number = stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        stage.hears_again_in(0, number, Some(429), "", Some("7"));
        // Others are not meant.
        stage.sends(1, Edge::Cloud, &Method::GET, VPC, "");
        stage.sends(0, Edge::Cloud, &Method::POST, "/identity/token", "");
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(stage.blamed().is_empty());
        stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        assert_eq!(stage.blamed(), ["S15"]);
    }

    #[tokio::test(start_paused = true)]
    async fn at_that_time_it_may_be_asked_again_and_nobody_waits_for_ever() {
        let mut stage = Stage::new().await;
        for (header, seconds) in [
            ("7", 7),
            ("1000000000", 120),
            ("Mon, 16 Nov 2026 23:00:00 GMT", 120),
            ("soon", 0),
        ] {
            let number = stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
            stage.hears_again_in(0, number, Some(429), "", Some(header));
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        }
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_date_is_a_time_to_whoever_has_the_right_one() {
        for (skewed, seconds, blamed) in [
            ("-1 s for replica 1", 20, &["S15"][..]),
            ("-1 s for replica 1", 30, &[]),
            ("+30 s for replica 0", 20, &[]),
        ] {
            let mut stage = Stage::new().await;
            stage.struck("k15-skew", skewed);
            let number = stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
            let date = Some("Mon, 16 Nov 2026 10:00:30 GMT");
            stage.hears_again_in(0, number, Some(429), "", date);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
            assert_eq!(stage.blamed(), blamed, "{skewed}, {seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_stood_still_has_not_heard_it() {
        let mut stage = Stage::new().await;
        let number = stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        stage.turns(0, "paused");
        stage.hears_again_in(0, number, Some(429), "", Some("60"));
        tokio::time::sleep(Duration::from_secs(20)).await;
        stage.turns(0, "resumed");
        stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        assert!(stage.blamed().is_empty());
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage.sends(0, Edge::Cloud, &Method::GET, VPC, "");
        assert_eq!(stage.blamed(), ["S15"]);
    }

    #[test]
    fn each_transition_is_told_once() {
        let event = |name: &str, by: &str, message: &str| {
            json!({
                "metadata": {"name": name}, "reportingComponent": by, "reason": "Launched", "message": message,
                "involvedObject": {"uid": "1"},
            })
        };
        let mut manners = Manners::new(&Settings::new(""));
        let mut found = Findings::default();
        for (name, by, message) in [
            ("a", "karpenter-ibm", "first"),
            ("b", "karpenter-ibm", "second"),
            ("c", "kubelet", "third"),
            ("d", "kubelet", "third"),
        ] {
            manners.tell_once(&event(name, by, message), Duration::ZERO, &mut found);
        }
        assert!(found.0.is_empty(), "{found:?}");
        manners.tell_once(&event("e", "karpenter-ibm", "first"), Duration::ZERO, &mut found);
        assert_eq!(found.0[0].id, "S15");
    }
}
