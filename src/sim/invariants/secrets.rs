//! S16: keys and tokens never leave, but to IAM, which wants them; nor are they in any line of the log. Tokens are learned
//! when IAM gives them out. What machines join with is learned when the API server gives it out, and may be in an order.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use memchr::memmem::Finder;
use serde_json::Value;

use super::book::Book;
use super::{Findings, Settings};
use crate::sim::history::{Answer, Edge, Entry, Request, What, Who};

pub(super) struct Secrets {
    canaries: Canaries,
    /// The API keys among them.
    keys: BTreeSet<String>,
}

/// What must not be found, ready to be looked for.
struct Canaries(Vec<Canary>);

struct Canary {
    text: Finder<'static>,
    goes: Goes,
}

/// Where a secret may go, beside IAM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// Nowhere.
    Nowhere,
    /// To a machine, with its order.
    WithAnOrder,
}

impl Canaries {
    fn new(settings: &Settings) -> Self {
        let mut canaries = Self(Vec::new());
        for text in &settings.canaries {
            canaries.add(text, Goes::Nowhere);
        }
        canaries
    }

    fn add(&mut self, text: &str, goes: Goes) {
        if !text.is_empty() {
            let text = Finder::new(text).into_owned();
            self.0.push(Canary { text, goes });
        }
    }
}

impl Secrets {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            canaries: Canaries::new(settings),
            keys: settings.canaries.iter().cloned().collect(),
        }
    }

    /// Looks for secrets in a line of the log.
    pub(super) fn read_log(&self, at: Duration, line: &str, found: &mut Findings) {
        let place = || "a log line".to_owned();
        self.canaries.scan(place, line.as_bytes(), |_| false, at, found);
    }

    pub(super) fn observe(&mut self, entry: &Entry, book: &Book, found: &mut Findings) {
        if let What::Answer(answer) = &entry.what {
            self.learn(answer, book);
        }
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        let to_iam = request.edge == Edge::Cloud && request.path.starts_with("/identity/");
        if to_iam {
            self.learn_key(request);
            return;
        }
        let place = || format!("{} {}", request.method, request.path);
        let ordered = |goes| goes == Goes::WithAnOrder && is_order(request);
        let body = request.body.as_ref();
        self.canaries.scan(place, body, ordered, entry.at, found);
        for part in [request.path.as_bytes(), request.query.as_bytes()] {
            self.canaries.scan(place, part, |_| false, entry.at, found);
        }
    }

    /// A key that replicas did not begin with: somebody has rotated it.
    fn learn_key(&mut self, request: &Request) {
        let form = form_urlencoded::parse(&request.body);
        let keys = form.filter(|(field, _)| field == "apikey");
        for (_, key) in keys {
            if self.keys.insert(key.clone().into_owned()) {
                self.canaries.add(&key, Goes::Nowhere);
            }
        }
    }

    fn learn(&mut self, answer: &Answer, book: &Book) {
        let Some(request) = book.answered.as_ref().map(|sent| &sent.request) else {
            return;
        };
        let from_iam = request.edge == Edge::Cloud && request.path.starts_with("/identity/token");
        let to_join = request.edge == Edge::Kube
            && request.method == Method::POST
            && request.path.contains("/serviceaccounts/")
            && request.path.ends_with("/token");
        if !from_iam && !to_join {
            return;
        }
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let (token, goes) = if from_iam {
            (&said["access_token"], Goes::Nowhere)
        } else {
            (&said["status"]["token"], Goes::WithAnOrder)
        };
        self.canaries.add(token.as_str().unwrap_or_default(), goes);
    }
}

fn is_order(request: &Request) -> bool {
    request.edge == Edge::Cloud && request.method == Method::POST && request.path == "/v1/instances"
}

impl Canaries {
    /// Looks for secrets in a text, but for those that may be there; the secret itself is not repeated.
    fn scan(
        &self,
        place: impl Fn() -> String,
        text: &[u8],
        may_be: impl Fn(Goes) -> bool,
        at: Duration,
        found: &mut Findings,
    ) {
        for (number, canary) in self.0.iter().enumerate() {
            if !may_be(canary.goes) && canary.text.find(text).is_some() {
                found.blame("S16", at, format!("secret {number} is in {}", place()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stage::{CANARY, Stage};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_secret_goes_to_iam_and_nowhere_else() {
        let mut stage = Stage::new().await;
        let body = format!("apikey={CANARY}");
        stage.sends(0, Edge::Cloud, &Method::POST, "/identity/token", &body);
        stage.sends(
            0,
            Edge::Kube,
            &Method::POST,
            "/api/v1/namespaces/x/events",
            "quiet",
        );
        assert!(stage.blamed().is_empty());
        stage.sends(0, Edge::Kube, &Method::POST, "/api/v1/namespaces/x/events", &body);
        stage.sends(0, Edge::Cloud, &Method::POST, "/v1/instances", &body);
        stage.judge.read_log(Duration::ZERO, &body);
        assert_eq!(stage.blamed(), ["S16"; 3]);
        let told = format!("{:?}", stage.judge.violations());
        assert!(!told.contains(CANARY), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_key_is_a_secret_from_when_it_is_used() {
        let mut stage = Stage::new().await;
        let form = "grant_type=urn%3Aibm%3Aparams&apikey=rotated-1";
        stage.judge.read_log(Duration::ZERO, form);
        assert!(stage.blamed().is_empty());
        for _ in 0..2 {
            stage.sends(0, Edge::Cloud, &Method::POST, "/identity/token", form);
        }
        stage.judge.read_log(Duration::ZERO, form);
        assert_eq!(stage.blamed(), ["S16"], "once for each secret");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_a_secret_from_when_it_is_given_out() {
        let mut stage = Stage::new().await;
        let events = "/api/v1/namespaces/x/events";
        stage.sends(0, Edge::Kube, &Method::POST, events, "eyJ.token");
        assert!(stage.blamed().is_empty());
        let asked = stage.sends(0, Edge::Cloud, &Method::POST, "/identity/token", "");
        stage.hears(0, asked, Some(200), r#"{"access_token":"eyJ.token"}"#);
        stage.sends(0, Edge::Kube, &Method::POST, events, "it is eyJ.token now");
        assert_eq!(stage.blamed(), ["S16"]);
        stage.judge.read_log(Duration::ZERO, "asked with eyJ.token");
        assert_eq!(stage.blamed(), ["S16"; 2], "nor may it be in a log");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_machine_joins_with_goes_with_its_order_and_nowhere_else() {
        let mut stage = Stage::new().await;
        let account = "/api/v1/namespaces/x/serviceaccounts/joiner/token";
        let asked = stage.sends(0, Edge::Kube, &Method::POST, account, "");
        stage.hears(0, asked, Some(201), r#"{"status":{"token":"eyJ.join"}}"#);
        let order = r#"{"user_data":"token: eyJ.join"}"#;
        stage.sends(0, Edge::Cloud, &Method::POST, "/v1/instances", order);
        assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
        stage.sends(0, Edge::Cloud, &Method::POST, "/v3/tags/attach", order);
        stage.sends(0, Edge::Kube, &Method::POST, "/api/v1/namespaces/x/events", order);
        stage.judge.read_log(Duration::ZERO, order);
        assert_eq!(stage.blamed(), ["S16"; 3]);
    }
}
