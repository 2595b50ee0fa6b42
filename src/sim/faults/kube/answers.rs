//! What the operator is told in place of, or after, the real answer.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use fastrand::Rng;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, json};

use super::KubeKind;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::{Target, Verb};
use crate::sim::kube::schema::Cause;

/// A request, as far as faults care.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What is to be done.
    pub verb: Verb,
    /// To what.
    pub target: Target,
    /// Whether it names the version that it was computed from.
    pub optimistic: Optimistic,
}

/// Whether a write says which version of the object it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimistic {
    /// It does, so it may be refused as outdated.
    Yes,
    /// It does not.
    No,
}

impl Asked {
    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }

    /// As stories tell it: `patch nodeclaims/a`.
    pub fn told(&self) -> String {
        let (target, verb) = (&self.target, self.verb.as_str());
        let parts = [
            Some(target.plural.as_str()),
            target.name.as_deref(),
            target.subresource.as_deref(),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        format!("{verb} {}", parts.join("/"))
    }

    fn about(&self) -> About<'_> {
        About {
            group: &self.target.group,
            kind: &self.target.plural,
            name: self.target.name.as_deref().unwrap_or_default(),
        }
    }
}

/// What happens to a request.
#[derive(Debug)]
pub enum Blow {
    /// It never arrives.
    LostBefore,
    /// It is carried out, and the answer lost.
    LostAfter,
    /// Nothing is done, and this answered.
    Instead(Response),
    /// It is carried out, and this answered.
    After(Response),
}

/// What a fault of that kind does to a request; `None` if it does nothing to such requests.
pub fn blow(kind: KubeKind, asked: &Asked, rng: &mut Rng) -> Option<Blow> {
    let writes = asked.writes();
    match kind {
        KubeKind::AnswerLost if writes => Some(Blow::LostAfter),
        KubeKind::WriteLost if writes => Some(Blow::LostBefore),
        KubeKind::Unreachable => Some(Blow::LostBefore),
        KubeKind::Conflict if asked.optimistic == Optimistic::Yes => {
            let why =
                "the object has been modified; please apply your changes to the latest version and try again";
            Some(Blow::Instead(
                Refusal::conflict(asked.about(), why).into_response(),
            ))
        }
        KubeKind::RateLimited => Some(Blow::Instead(busy(rng))),
        KubeKind::ServerError => Some(Blow::Instead(broken(rng))),
        KubeKind::ServerErrorAfter if writes => Some(Blow::After(unsure(rng))),
        KubeKind::WritesFail if writes => {
            Some(Blow::Instead(if rng.bool() { busy(rng) } else { broken(rng) }))
        }
        KubeKind::AdmissionRejects if writes && asked.verb != Verb::Delete => {
            Some(Blow::Instead(rejected(asked, rng)))
        }
        _ => None,
    }
}

/// Priority and fairness answers in plain text, storage with a Status.
fn busy(rng: &mut Rng) -> Response {
    let seconds = rng.u32(1..=10);
    if rng.bool() {
        return Refusal::too_many_requests("etcdserver: too many requests", seconds).into_response();
    }
    let mut response = plain(
        StatusCode::TOO_MANY_REQUESTS,
        "Too many requests, please try again later.\n",
    );
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn broken(rng: &mut Rng) -> Response {
    match rng.u8(..4) {
        0 => Refusal::internal("etcdserver: request timed out").into_response(),
        1 => Refusal::internal_error("rpc error: code = Unknown desc = OK: HTTP status code 200")
            .into_response(),
        2 => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "upstream connect error or disconnect/reset before headers\n",
        ),
        _ => Refusal::timeout(
            "the server was unable to return a response in the time allotted",
            1,
        )
        .into_response(),
    }
}

/// Etcd may have committed what it did not confirm.
fn unsure(rng: &mut Rng) -> Response {
    if rng.bool() {
        Refusal::internal("etcdserver: leader changed").into_response()
    } else {
        let message =
            "Timeout: request did not complete within the requested timeout - context deadline exceeded";
        Refusal::timeout(message, 0).into_response()
    }
}

/// A webhook that appeared after the object did, or a rule of a newer definition.
fn rejected(asked: &Asked, rng: &mut Rng) -> Response {
    if rng.bool() {
        let message = "admission webhook \"policy.example.com\" denied the request: changes are frozen today";
        return Refusal::of_webhook(403, "Forbidden", message.to_owned(), Map::new()).into_response();
    }
    let cause = Cause {
        field: "metadata.annotations".to_owned(),
        reason: crate::sim::kube::schema::Reason::Required,
        message: "Required value: every object names its owner".to_owned(),
    };
    Refusal::invalid(asked.about(), vec![cause]).into_response()
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Whether a body names the version that it was computed from.
pub fn optimistic(verb: Verb, body: &[u8]) -> Optimistic {
    let names_it = || {
        // Asked of every write, of which few are refused for it: only what is looked for is read.
        // A JSON patch is a list, which would pass for the fields of an object in their order.
        if body.first() == Some(&b'{')
            && let Ok(versions) = serde_json::from_slice::<Versions>(body)
        {
            return versions.are_named();
        }
        let object: serde_json::Value = serde_json::from_slice(body).unwrap_or(json!(null));
        let written = ["/metadata/resourceVersion", "/preconditions/resourceVersion"];
        written
            .iter()
            .any(|at| object.pointer(at).is_some_and(serde_json::Value::is_string))
            || json_patch_tests_it(&object)
    };
    if matches!(verb, Verb::Update | Verb::Patch | Verb::Delete) && names_it() {
        Optimistic::Yes
    } else {
        Optimistic::No
    }
}

/// Where an object, a patch or the options of a deletion name a version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Versions<'a> {
    #[serde(borrow)]
    metadata: Option<Version<'a>>,
    #[serde(borrow)]
    preconditions: Option<Version<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Version<'a> {
    #[serde(borrow)]
    resource_version: Option<std::borrow::Cow<'a, str>>,
}

impl Versions<'_> {
    fn are_named(&self) -> bool {
        let mut places = [&self.metadata, &self.preconditions].into_iter().flatten();
        places.any(|place| place.resource_version.is_some())
    }
}

/// A JSON patch says so by a test.
fn json_patch_tests_it(patch: &serde_json::Value) -> bool {
    let steps = patch.as_array().map(Vec::as_slice).unwrap_or_default();
    steps
        .iter()
        .any(|step| step["op"] == "test" && step["path"] == "/metadata/resourceVersion")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verb: Verb) -> Asked {
        Asked {
            verb,
            target: Target::parse("/apis/karpenter.sh/v1/nodeclaims/a/status").unwrap(),
            optimistic: Optimistic::No,
        }
    }

    #[test]
    fn a_write_is_optimistic_if_it_names_a_version() {
        let of = |verb, body: &str| optimistic(verb, body.as_bytes());
        let versioned = r#"{"metadata":{"resourceVersion":"7"}}"#;
        assert_eq!(of(Verb::Update, versioned), Optimistic::Yes);
        assert_eq!(of(Verb::Create, versioned), Optimistic::No);
        assert_eq!(of(Verb::Patch, r#"{"metadata":{}}"#), Optimistic::No);
        assert_eq!(
            of(Verb::Delete, r#"{"preconditions":{"resourceVersion":"7"}}"#),
            Optimistic::Yes
        );
        let patch = r#"[{"op":"test","path":"/metadata/resourceVersion","value":"7"}]"#;
        assert_eq!(of(Verb::Patch, patch), Optimistic::Yes);
    }

    #[test]
    fn reads_survive_what_strikes_writes_only() {
        let mut rng = Rng::with_seed(1);
        for kind in [KubeKind::AnswerLost, KubeKind::WriteLost, KubeKind::WritesFail] {
            assert!(blow(kind, &asked(Verb::List), &mut rng).is_none());
            assert!(blow(kind, &asked(Verb::Patch), &mut rng).is_some());
        }
        assert!(blow(KubeKind::Conflict, &asked(Verb::Patch), &mut rng).is_none());
        assert_eq!(asked(Verb::Patch).told(), "patch nodeclaims/a/status");
    }
}
