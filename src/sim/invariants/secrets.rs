//! S16: keys and tokens never leave, but to IAM, which wants them; nor are they in any line of the log. Tokens are learned
//! when IAM gives them out.

use std::time::Duration;

use memchr::memmem::Finder;
use serde_json::Value;

use super::book::Book;
use super::{Findings, Settings};
use crate::sim::history::{Answer, Edge, Entry, What, Who};

pub(super) struct Secrets {
    canaries: Canaries,
}

/// What must not be found, ready to be looked for.
struct Canaries(Vec<Finder<'static>>);

impl Canaries {
    fn new(settings: &Settings) -> Self {
        let texts = settings.canaries.iter().filter(|text| !text.is_empty());
        Self(texts.map(|text| Finder::new(text).into_owned()).collect())
    }
}

impl Secrets {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            canaries: Canaries::new(settings),
        }
    }

    /// Looks for secrets in a line of the log.
    pub(super) fn read_log(&self, at: Duration, line: &str, found: &mut Findings) {
        scan(
            &self.canaries,
            || "a log line".to_owned(),
            line.as_bytes(),
            at,
            found,
        );
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
            return;
        }
        let place = || format!("{} {}", request.method, request.path);
        for part in [
            request.body.as_ref(),
            request.path.as_bytes(),
            request.query.as_bytes(),
        ] {
            scan(&self.canaries, place, part, entry.at, found);
        }
    }

    fn learn(&mut self, answer: &Answer, book: &Book) {
        let from_iam = book.answered.as_ref().is_some_and(|sent| {
            sent.request.edge == Edge::Cloud && sent.request.path.starts_with("/identity/token")
        });
        if !from_iam {
            return;
        }
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if let Some(token) = said["access_token"].as_str() {
            self.canaries.0.push(Finder::new(token).into_owned());
        }
    }
}

/// Looks for secrets in a text; the secret itself is not repeated.
fn scan(canaries: &Canaries, place: impl Fn() -> String, text: &[u8], at: Duration, found: &mut Findings) {
    for (number, canary) in canaries.0.iter().enumerate() {
        if canary.find(text).is_some() {
            found.blame("S16", at, format!("secret {number} is in {}", place()));
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

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
}
