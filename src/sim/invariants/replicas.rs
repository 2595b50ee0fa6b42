//! S20: no replica panics or ends by itself, nor one of its loops. Nor does it panic over one object, which it tells in an
//! event.

use http::Method;
use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::api::names::REASON_INTERNAL_ERROR;
use crate::sim::history::{Entry, Request, What, Who};

pub(super) struct Replicas;

impl Check for Replicas {
    fn observe(&mut self, entry: &Entry, _: &Book, _: &Truth<'_>, found: &mut Findings) {
        let Who::Replica { .. } = &entry.who else {
            return;
        };
        match &entry.what {
            What::Turn(turn) if turn.starts_with("panicked") || turn.starts_with("ended by itself") => {
                found.blame("S20", entry.at, format!("{} {turn}", entry.who));
            }
            What::Request(request) if tells_of_a_panic(request) => {
                let event = String::from_utf8_lossy(&request.body);
                found.blame("S20", entry.at, format!("{} panicked: {event}", entry.who));
            }
            _ => {}
        }
    }
}

fn tells_of_a_panic(request: &Request) -> bool {
    let is_event = request.method == Method::POST && request.path.ends_with("/events");
    is_event
        && serde_json::from_slice(&request.body)
            .is_ok_and(|event: Value| event["reason"] == REASON_INTERNAL_ERROR)
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;
    use super::*;
    use crate::sim::history::Edge;

    #[tokio::test(start_paused = true)]
    async fn a_replica_dies_only_when_it_is_killed() {
        let mut stage = Stage::new().await;
        for turn in ["started", "crashed after effect 3", "paused", "resumed"] {
            stage.turns(0, turn);
        }
        assert!(stage.blamed().is_empty());
        stage.turns(0, "panicked");
        stage.turns(1, "ended by itself");
        stage.turns(1, "ended by itself in termination, 1 times in all");
        assert_eq!(stage.blamed(), ["S20"; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_does_not_panic_over_one_object() {
        let mut stage = Stage::new().await;
        let events = "/apis/events.k8s.io/v1/namespaces/default/events";
        stage.sends(0, Edge::Kube, &Method::POST, events, r#"{"reason":"Launched"}"#);
        assert!(stage.blamed().is_empty());
        stage.sends(
            0,
            Edge::Kube,
            &Method::POST,
            events,
            r#"{"reason":"InternalError"}"#,
        );
        assert_eq!(stage.blamed(), ["S20"]);
    }
}
