//! TokenRequest, the `token` subresource of a ServiceAccount: a token for some time, some audience and some object.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::token::{Binding, Claims, ISSUER, Reference};
use super::{User, node_restriction};
use crate::sim::kube::decode;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::{Ask, Verb};
use crate::sim::kube::schema::Cause;
use crate::sim::kube::server::{ApiServer, State, json_response};
use crate::sim::kube::store::ObjectKey;

/// How long a token holds unless the request says otherwise.
const SECONDS_DEFAULT: i64 = 3600;
/// No token holds shorter.
const SECONDS_MIN: i64 = 600;
/// No token holds longer.
const SECONDS_MAX: i64 = 1 << 32;

/// Answers a request for a token.
pub fn answer(server: &ApiServer, user: &User, ask: &Ask, body: &Bytes) -> Result<Response, Refusal> {
    if ask.verb != Verb::Create {
        return Err(Refusal::method_not_allowed());
    }
    let mut request = decode::any(&ask.content_type, body)?;
    for (field, value) in [
        ("apiVersion", "authentication.k8s.io/v1"),
        ("kind", "TokenRequest"),
    ] {
        if request[field].is_null() {
            request[field] = value.into();
        }
    }
    check_type(&request)?;
    let target = &ask.target;
    let key = ObjectKey::new(
        target.namespace.as_deref().unwrap_or_default(),
        target.name.as_deref().unwrap_or_default(),
    );
    check_names(&request, &key)?;
    let (jti, now) = (server.new_uid(), server.clock().now());
    let claims = {
        let state = server.state();
        // An audience that is left open is still open here, as the volume of a pod may leave it open too.
        node_restriction::check_token(&state, user, &key, &request)?;
        let account = get(&state, "serviceaccounts", &key.namespace, &key.name)?;
        check_uid(&request, &account)?;
        complete(&mut request, &account, &server.timestamp())?;
        let binding = bind(&state, &request, &account)?;
        claims(&request, binding, jti, now)
    };
    request["status"] = json!({
        "token": server.identity().tokens.sign(&claims),
        "expirationTimestamp": Timestamp::from_second(claims.exp).unwrap_or(now).to_string(),
    });
    Ok(json_response(StatusCode::CREATED, &request))
}

fn check_type(request: &Value) -> Result<(), Refusal> {
    let is_ours = request["apiVersion"] == "authentication.k8s.io/v1" && request["kind"] == "TokenRequest";
    let spec = &request["spec"];
    let is_well_formed = (spec.is_null() || spec.is_object())
        && (spec["expirationSeconds"].is_null() || spec["expirationSeconds"].is_i64())
        && (spec["audiences"].is_null() || spec["audiences"].is_array())
        && (spec["boundObjectRef"].is_null() || spec["boundObjectRef"].is_object());
    if is_ours && is_well_formed {
        return Ok(());
    }
    let problem = "the body is not a TokenRequest of authentication.k8s.io/v1";
    Err(Refusal::bad_request(problem))
}

/// A request may name the account again, but no other.
fn check_names(request: &Value, key: &ObjectKey) -> Result<(), Refusal> {
    for (field, its, wanted) in [
        ("name", object::name(request), &key.name),
        ("namespace", object::namespace(request), &key.namespace),
    ] {
        if !its.is_empty() && its != wanted {
            let path = format!("metadata.{field}");
            let detail = format!("must match the service account {field} if specified");
            return Err(invalid(&key.name, Cause::invalid(&path, &json!(its), detail)));
        }
    }
    Ok(())
}

fn check_uid(request: &Value, account: &Value) -> Result<(), Refusal> {
    let (wanted, is) = (object::uid(request), object::uid(account));
    if wanted.is_empty() || wanted == is {
        return Ok(());
    }
    let why = format!(
        "the UID in the token request ({wanted}) does not match the UID of the service account ({is})"
    );
    Err(Refusal::conflict(
        About {
            group: "authentication.k8s.io",
            kind: "TokenRequest",
            name: object::name(account),
        },
        why,
    ))
}

fn invalid(name: &str, cause: Cause) -> Refusal {
    let about = About {
        group: "authentication.k8s.io",
        kind: "TokenRequest",
        name,
    };
    Refusal::invalid(about, vec![cause])
}

/// Writes into the request what it leaves open, and refuses a time that no token has.
fn complete(request: &mut Value, account: &Value, now: &str) -> Result<(), Refusal> {
    for field in ["name", "namespace", "uid"] {
        let own = account["metadata"][field].clone();
        object::metadata_mut(request).insert(field.to_owned(), own);
    }
    object::metadata_mut(request).insert("creationTimestamp".to_owned(), now.into());
    let spec = object::object_mut(&mut request["spec"]);
    let audiences = spec.entry("audiences").or_insert_with(|| json!([]));
    if audiences.as_array().is_none_or(Vec::is_empty) {
        *audiences = json!([ISSUER]);
    }
    let seconds = spec.entry("expirationSeconds").or_insert(Value::Null);
    if seconds.is_null() {
        *seconds = SECONDS_DEFAULT.into();
    }
    let asked = seconds.as_i64().unwrap_or_default();
    let problem = if asked < SECONDS_MIN {
        "may not specify a duration less than 10 minutes"
    } else if asked > SECONDS_MAX {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        spec.entry("boundObjectRef").or_insert(Value::Null);
        return Ok(());
    };
    let cause = Cause::invalid("spec.expirationSeconds", &json!(asked), problem);
    Err(invalid("", cause))
}

/// The objects that the token is to live and die with.
fn bind(state: &State, request: &Value, account: &Value) -> Result<Binding, Refusal> {
    let namespace = object::namespace(account);
    let mut binding = Binding {
        namespace: namespace.to_owned(),
        serviceaccount: reference(account),
        ..Binding::default()
    };
    let bound = &request["spec"]["boundObjectRef"];
    if bound.is_null() {
        return Ok(binding);
    }
    let text = |field: &str| bound[field].as_str().unwrap_or_default();
    let (version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let found = match (group, kind) {
        ("", "Pod") => {
            let pod = get(state, "pods", namespace, name)?;
            if pod["spec"]["serviceAccountName"] != object::name(account) {
                return Err(Refusal::bad_request(format!(
                    "cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name.",
                    object::name(account)
                )));
            }
            binding.pod = Some(reference(&pod));
            binding.node = node_of(state, &pod);
            pod
        }
        ("", "Node") => {
            let node = get(state, "nodes", "", name)?;
            binding.node = Some(reference(&node));
            node
        }
        ("", "Secret") => {
            let secret = get(state, "secrets", namespace, name)?;
            binding.secret = Some(reference(&secret));
            secret
        }
        _ => {
            let version = version.rsplit('/').next().unwrap_or_default();
            let problem = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Refusal::bad_request(problem));
        }
    };
    let uid = text("uid");
    if uid.is_empty() || uid == object::uid(&found) {
        return Ok(binding);
    }
    let why = format!(
        "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
         deleted and then recreated"
    );
    Err(Refusal::conflict(
        About {
            group: "",
            kind,
            name,
        },
        why,
    ))
}

/// The node of a pod; one that does not exist is still told by name.
fn node_of(state: &State, pod: &Value) -> Option<Reference> {
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let named = || Reference {
        name: name.to_owned(),
        uid: String::new(),
    };
    let node = get(state, "nodes", "", name);
    Some(node.map_or_else(|_| named(), |node| reference(&node)))
}

fn reference(object: &Value) -> Reference {
    Reference {
        name: object::name(object).to_owned(),
        uid: object::uid(object).to_owned(),
    }
}

fn get(state: &State, plural: &str, namespace: &str, name: &str) -> Result<Value, Refusal> {
    let stored = state
        .store
        .get(&TableKey::of("", plural), &ObjectKey::new(namespace, name));
    let missing = About {
        group: "",
        kind: plural,
        name,
    };
    stored
        .map(|stored| stored.value())
        .ok_or_else(|| Refusal::not_found(missing))
}

fn claims(request: &Value, binding: Binding, jti: String, now: Timestamp) -> Claims {
    let now = now.as_second();
    let audiences = request["spec"]["audiences"].as_array().into_iter().flatten();
    Claims {
        aud: audiences.filter_map(Value::as_str).map(str::to_owned).collect(),
        exp: now
            + request["spec"]["expirationSeconds"]
                .as_i64()
                .unwrap_or(SECONDS_DEFAULT),
        iat: now,
        nbf: now,
        iss: ISSUER.to_owned(),
        jti,
        sub: format!(
            "system:serviceaccount:{}:{}",
            binding.namespace, binding.serviceaccount.name
        ),
        kubernetes: binding,
    }
}
