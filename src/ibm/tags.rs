//! Global Tagging: user tags on resources, for people to read.
//!
//! Tagging is a separate, eventually consistent call after the create, so ownership never rests on it.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::cloud::{Answer, Effect, Error};
use crate::ibm::http::page::{self, Page};
use crate::ibm::http::{Api, Call, Operation, Repeat, Service};

/// Attaching and detaching to a fixed set is the same twice as once.
const ATTACH: Operation = Operation {
    name: "attach tags",
    service: Service::Tagging,
    resource: None,
    repeat: Repeat::Safe,
};
const DETACH: Operation = Operation {
    name: "detach tags",
    service: Service::Tagging,
    resource: None,
    repeat: Repeat::Safe,
};
const LIST: Operation = Operation::list(Service::Tagging, "list tags");

const TAG_CHARS_MAX: usize = 128;
const PAGE_SIZE: usize = 1000;

/// A tag in IBM's grammar: letters, digits, space and `_ - . :`, at most 128 of them; upper case is folded by the
/// service, so here too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(String);

impl Tag {
    /// `None` if the service would refuse it; a `/`, as in Kubernetes labels, is refused.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |c: char| c.is_ascii_alphanumeric() || " _-.:".contains(c);
        let fits = !text.trim().is_empty() && text.len() <= TAG_CHARS_MAX && text.trim() == text;
        (fits && text.chars().all(legal)).then(|| Self(text.to_ascii_lowercase()))
    }

    /// The tag as the service keeps it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The tagging service.
#[derive(Clone)]
pub struct Tagging {
    api: Api,
}

impl Tagging {
    /// The service behind `api`.
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    /// Attaches tags to the resource with this CRN; of a `key:value` tag other values of the key go.
    pub async fn attach(&self, crn: &str, tags: &[Tag]) -> Result<(), Error> {
        self.change(ATTACH, "attach", crn, tags).await
    }

    /// Takes tags off the resource with this CRN.
    pub async fn detach(&self, crn: &str, tags: &[Tag]) -> Result<(), Error> {
        self.change(DETACH, "detach", crn, tags).await
    }

    async fn change(&self, operation: Operation, verb: &str, crn: &str, tags: &[Tag]) -> Result<(), Error> {
        let names: Vec<_> = tags.iter().map(Tag::as_str).collect();
        let mut call = Call::new(operation, Method::POST, &["tags", verb])
            .about(crn)
            .query("tag_type", "user");
        if operation == ATTACH {
            call = call.query("update", "true");
        }
        let body = json!({"tag_names": names, "resources": [{"resource_id": crn}]});
        let outcome: Outcome = self.api.fetch(call.json(&body)).await?;
        outcome.check(operation, crn)
    }

    /// The user tags of the resource with this CRN.
    pub async fn list(&self, crn: &str) -> Result<Vec<String>, Error> {
        page::all(
            LIST,
            |tag: &String| tag,
            |offset| async move {
                let offset: usize = offset.and_then(|offset: String| offset.parse().ok()).unwrap_or(0);
                let call = Call::new(LIST, Method::GET, &["tags"])
                    .about(crn)
                    .query("tag_type", "user")
                    .query("providers", "ghost")
                    .query("attached_to", crn)
                    .query("limit", PAGE_SIZE.to_string())
                    .query("offset", offset.to_string());
                let body: TagPage = self.api.fetch(call).await?;
                let read = offset + body.items.len();
                let more =
                    !body.items.is_empty() && body.total_count.is_some_and(|total| (read as u64) < total);
                let items = body.items.into_iter().map(|item| item.name).collect();
                Ok(Page {
                    items,
                    next: more.then(|| read.to_string()),
                    total: body.total_count,
                })
            },
        )
        .await
    }
}

/// Errors come per resource inside a 200.
#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    results: Vec<ResourceOutcome>,
}

#[derive(Deserialize)]
struct ResourceOutcome {
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    message: Option<String>,
}

impl Outcome {
    fn check(self, operation: Operation, crn: &str) -> Result<(), Error> {
        let Some(failed) = self.results.into_iter().find(|result| result.is_error) else {
            return Ok(());
        };
        let answer = Answer {
            operation: operation.name,
            subject: crn.to_owned(),
            status: Some(200),
            message: failed.message.unwrap_or_default(),
            ..Answer::default()
        };
        Err(Error::Transient {
            effect: Effect::None,
            answer: Box::new(answer),
        })
    }
}

#[derive(Deserialize)]
struct TagPage {
    /// Required: a page without it is no page, and an error that comes as a success must not read as "no tags".
    items: Vec<TagItem>,
    #[serde(default)]
    total_count: Option<u64>,
}

#[derive(Deserialize)]
struct TagItem {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_checked_against_the_services_grammar() {
        assert_eq!(
            Tag::parse("Karpenter.sh.NodePool:Default").unwrap().as_str(),
            "karpenter.sh.nodepool:default"
        );
        for illegal in [
            "karpenter.sh/nodepool:default",
            "",
            " a",
            "a,b",
            "ä",
            &"x".repeat(129),
        ] {
            assert_eq!(Tag::parse(illegal), None, "{illegal}");
        }
    }
}
