//! The commonest write of all: the holder of a Lease says that it is still there.
//!
//! Such a request says what is stored but for the time of the renewal. What is stored was admitted when it came, so
//! nothing is to be completed or judged anew, and there is no field in it that the kind does not have. Two requests in three of a simulated world are of this kind; whatever is not
//! plainly so goes the way of every other write.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::admission;
use super::decode::Said;
use super::kind::Kind;
use super::patch::renewal;
use super::read;
use super::request::Ask;
use super::server::ApiServer;
use super::write::Written;

/// What a renewal changes.
const RENEW_TIME: &[&str] = &["spec", "renewTime"];

/// Stores a renewal; `None` if the request is anything else.
pub(super) fn renewed(server: &ApiServer, kind: &Kind, ask: &Ask, said: &Said) -> Option<Written> {
    let is_lease = kind.plural == "leases" && kind.group == "coordination.k8s.io";
    if !is_lease || ask.target.subresource.is_some() || ask.options.dry_run || !said.twice.is_empty() {
        return None;
    }
    let mut state = server.state();
    if admission::has_webhooks(&state) {
        return None;
    }
    let stored = state.store.get(&kind.table(), &read::key(ask))?;
    let old = stored.shared();
    let time = renewal_time(&old, &said.value)?;
    let own = renewal::sole_owner(kind, ask, &old["metadata"]["managedFields"], RENEW_TIME)?;
    drop(old);
    let mut object = stored.take();
    object["spec"]["renewTime"] = time.into();
    renewal::touch(&mut object["metadata"]["managedFields"], own, &server.timestamp());
    let stored = state.store.renew(kind, object);
    drop(state);
    server.announce();
    Some(Written::stored(stored))
}

/// The time that a request gives a Lease, if it says nothing else that is new. The record of who owns which field must be
/// left to the server: who sends one may mean to change it.
fn renewal_time<'a>(old: &Value, sent: &'a Value) -> Option<&'a str> {
    let time = sent["spec"]["renewTime"]
        .as_str()
        .filter(|time| is_canonical(time))?;
    let whole = same_but(old, sent, &["metadata", "spec"], &[])?;
    let metadata = same_but(&old["metadata"], &sent["metadata"], &[], &["managedFields"])?;
    let spec = same_but(&old["spec"], &sent["spec"], &["renewTime"], &[])?;
    let is_news = old["spec"]["renewTime"].as_str().is_some_and(|was| was != time);
    (whole && metadata && spec && is_news).then_some(time)
}

/// Whether two objects have the same fields with the same values, but for values that may differ and fields that only the
/// old one has.
fn same_but(old: &Value, sent: &Value, differ: &[&str], only_old: &[&str]) -> Option<bool> {
    let (old, sent): (&Map<_, _>, &Map<_, _>) = (old.as_object()?, sent.as_object()?);
    let gone = only_old.iter().filter(|name| old.contains_key(**name)).count();
    let same = |(name, value): (&String, &Value)| {
        let other = old.get(name);
        other == Some(value) || (other.is_some() && differ.contains(&name.as_str()))
    };
    let new = only_old.iter().any(|name| sent.contains_key(*name));
    Some(!new && sent.len() + gone == old.len() && sent.iter().all(same))
}

/// Whether a time is written as the server writes it: `2026-11-16T10:00:00.000000Z`.
fn is_canonical(time: &str) -> bool {
    let micros = time.as_bytes().get(19) == Some(&b'.') && time.len() == 27 && time.ends_with('Z');
    micros && time.parse::<Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http::{Method, Request, StatusCode};
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;
    use crate::clock::Clock;
    use crate::sim::kube::Options;
    use crate::sim::kube::identity::{Keys, User};

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

    fn lease() -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "a", "namespace": "default", "labels": {"of": "somebody"}},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-11-16T10:00:00.000000Z"},
        })
    }

    async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("content-type", "application/json")
            .extension(User::admin());
        let request = request.body(axum::body::Body::from(body.to_string())).unwrap();
        let response = server.router().oneshot(request).await.unwrap();
        let status = response.status();
        let body: Bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// A server with the Lease, and what it answered.
    async fn with_lease() -> (ApiServer, Value) {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let options = Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        };
        let server = ApiServer::new(options);
        let (status, made) = send(&server, Method::POST, LEASES, &lease()).await;
        assert_eq!(status, StatusCode::CREATED);
        (server, made)
    }

    /// What becomes of a Lease that `change` is made to, two seconds after it was made; where the request brings the record
    /// of ownership as it is, it goes the long way.
    async fn changed(change: impl Fn(&mut Value), long: bool) -> (StatusCode, Value) {
        let (server, mut lease) = with_lease().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        if !long {
            lease["metadata"].as_object_mut().unwrap().remove("managedFields");
        }
        change(&mut lease);
        send(&server, Method::PUT, &format!("{LEASES}/a"), &lease).await
    }

    fn is_short(change: impl Fn(&mut Value)) -> bool {
        let mut old = lease();
        old["metadata"]["managedFields"] = json!([{}]);
        let mut sent = lease();
        change(&mut sent);
        renewal_time(&old, &sent).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_stored_as_every_other_write_would_be() {
        let renew = |lease: &mut Value| lease["spec"]["renewTime"] = json!("2026-11-16T10:00:02.000000Z");
        assert!(is_short(renew));
        let (status, short) = changed(renew, false).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(short["spec"]["renewTime"], "2026-11-16T10:00:02.000000Z");
        assert_eq!((status, short), changed(renew, true).await);
    }

    #[test]
    fn whatever_says_more_than_that_goes_the_long_way() {
        let renewed = "2026-11-16T10:00:02.000000Z";
        for (pointer, value) in [
            ("/spec/renewTime", json!("2026-11-16T10:00:00.000000Z")),
            ("/spec/renewTime", json!("2026-11-16T10:00:02Z")),
            ("/spec/renewTime", json!("2026-13-16T10:00:02.000000Z")),
            ("/spec/holderIdentity", json!("you")),
            ("/metadata/labels/of", json!("nobody")),
            ("/metadata/name", json!("b")),
            ("/kind", json!("Leash")),
        ] {
            let change = |lease: &mut Value| {
                lease["spec"]["renewTime"] = renewed.into();
                *lease.pointer_mut(pointer).unwrap() = value.clone();
            };
            assert!(!is_short(change), "{pointer} {value}");
        }
        let more = |field: &'static str| {
            move |lease: &mut Value| {
                lease["spec"]["renewTime"] = renewed.into();
                lease["metadata"][field] = json!([]);
            }
        };
        assert!(!is_short(more("finalizers")));
        assert!(!is_short(more("managedFields")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_not_the_last_is_refused() {
        let outdated = |lease: &mut Value| {
            lease["spec"]["renewTime"] = json!("2026-11-16T10:00:02.000000Z");
            lease["metadata"]["resourceVersion"] = json!("1");
        };
        assert_eq!(changed(outdated, false).await.0, StatusCode::CONFLICT);
    }
}
