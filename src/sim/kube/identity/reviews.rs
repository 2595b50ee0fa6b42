//! Questions with an answer: who is this, and may they do that? Nothing of it is stored.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::attempt::{Attempt, Decision, Resource};
use super::rbac::Rule;
use super::token::ISSUER;
use super::{User, authenticate, decide, policy};
use crate::sim::kube::decode;
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::Ask;
use crate::sim::kube::schema::Cause;
use crate::sim::kube::server::{ApiServer, json_response};
use crate::sim::kube::write::place;

/// Answers a review.
pub fn answer(
    server: &ApiServer,
    user: &User,
    kind: &Kind,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let mut review = decode::object(kind, ask, body)?.object;
    place(kind, ask, &mut review)?;
    let status = match kind.kind.as_str() {
        "TokenReview" => token(server, &review)?,
        "SelfSubjectReview" => {
            let now = server.timestamp();
            object::metadata_mut(&mut review).insert("creationTimestamp".to_owned(), now.into());
            json!({"userInfo": user_info(user)})
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            check_access(kind, &review)?;
            access(server, &subject(&review["spec"]), &review["spec"])
        }
        "SelfSubjectAccessReview" => {
            check_access(kind, &review)?;
            access(server, user, &review["spec"])
        }
        "SelfSubjectRulesReview" => {
            let namespace = review["spec"]["namespace"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if namespace.is_empty() {
                return Err(Refusal::bad_request("no namespace on request"));
            }
            // The real server does not repeat the question.
            review["spec"] = json!({});
            rules(server, user, &namespace)
        }
        _ => return Err(Refusal::method_not_allowed()),
    };
    object::metadata_mut(&mut review);
    review["status"] = status;
    Ok(json_response(StatusCode::CREATED, &review))
}

/// A user as reviews and webhooks write them.
pub fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".to_owned(), user.name.clone().into());
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), user.uid.clone().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    info.into()
}

fn token(server: &ApiServer, review: &Value) -> Result<Value, Refusal> {
    let spec = &review["spec"];
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        let problem = "token is required for TokenReview in authentication";
        return Err(Refusal::bad_request(problem));
    }
    let mut audiences = texts(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    Ok(match authenticate::by_token(server, token, &audiences) {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
        }
        Err(distrust) => json!({"user": {}, "error": distrust.to_string()}),
    })
}

/// The user whom a review asks about.
fn subject(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

fn check_access(kind: &Kind, review: &Value) -> Result<(), Refusal> {
    let spec = &review["spec"];
    let mut causes = Vec::new();
    match (
        spec["resourceAttributes"].is_object(),
        spec["nonResourceAttributes"].is_object(),
    ) {
        (true, true) => causes.push(Cause::invalid(
            "spec.nonResourceAttributes",
            &spec["nonResourceAttributes"],
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => causes.push(Cause::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let is_own = kind.kind == "SelfSubjectAccessReview";
    let nobody = spec["user"].as_str().unwrap_or_default().is_empty() && texts(&spec["groups"]).is_empty();
    if !is_own && nobody {
        let problem = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &json!(""), problem));
    }
    causes.extend(misplaced(kind, review));
    if causes.is_empty() {
        return Ok(());
    }
    let about = About {
        group: &kind.group,
        kind: "",
        name: "",
    };
    Err(Refusal::invalid(about, causes))
}

/// A review is no object: it has no name, and a namespace only if it is about that one.
fn misplaced(kind: &Kind, review: &Value) -> Option<Cause> {
    if kind.kind == "LocalSubjectAccessReview" {
        let its = &review["spec"]["resourceAttributes"]["namespace"];
        let its = its.as_str().unwrap_or_default();
        return (its != object::namespace(review)).then(|| {
            Cause::invalid(
                "spec.resourceAttributes.namespace",
                &json!(its),
                "must match metadata.namespace",
            )
        });
    }
    let metadata = &review["metadata"];
    let mut fields = metadata.as_object().into_iter().flatten();
    let is_empty = fields.all(|(_, value)| value.is_null());
    (!is_empty).then(|| Cause::invalid("metadata", metadata, "must be empty"))
}

fn access(server: &ApiServer, user: &User, spec: &Value) -> Value {
    let text =
        |attributes: &'static str, field: &'static str| spec[attributes][field].as_str().unwrap_or_default();
    let attempt = if spec["resourceAttributes"].is_object() {
        let field = |field| text("resourceAttributes", field);
        let resource = Resource {
            group: field("group"),
            plural: field("resource"),
            subresource: field("subresource"),
            namespace: field("namespace"),
            name: field("name"),
            fields: None,
        };
        Attempt::on_resource(field("verb"), resource)
    } else {
        let field = |field| text("nonResourceAttributes", field);
        Attempt::on_path(field("verb"), field("path"))
    };
    let decision = decide(&server.state(), user, &attempt);
    let allowed = decision.is_allowed();
    let (Decision::Allowed(reason) | Decision::NoOpinion(reason)) = decision;
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

fn rules(server: &ApiServer, user: &User, namespace: &str) -> Value {
    let rules = policy::current(&server.state()).rules(user, namespace);
    let (on_paths, on_resources): (Vec<Rule>, Vec<Rule>) = rules
        .into_iter()
        .partition(|rule| !rule.non_resource_urls.is_empty());
    let mut status =
        json!({"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": false});
    if user.node_name().is_some() {
        status["incomplete"] = true.into();
        status["evaluationError"] = "node authorizer does not support user rule resolution".into();
    }
    status
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
