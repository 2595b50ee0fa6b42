//! VPC infrastructure: typed endpoints, one file per kind of resource.
//!
//! Every call carries `version` and `generation`; the version selects behavior, so it is pinned and tested against.

use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

pub mod images;
pub mod instances;
pub mod network;
pub mod placement;
pub mod profiles;
pub mod types;
pub mod volumes;

use crate::cloud::Error;
use crate::ibm::http::page::{self, Page};
use crate::ibm::http::{Api, Call, Operation, Service};

/// The API version that this client was written for: profiles come in pages (from 2026-04-07) and `vcpu_count` may be
/// an enum (from 2026-09-01).
pub const VERSION: &str = "2026-10-06";

/// The most items that the API gives in one page; fewer, larger pages mean fewer requests.
const PAGE_SIZE: &str = "100";

/// The VPC service of one region.
#[derive(Clone)]
pub struct Vpc {
    api: Api,
}

impl Vpc {
    /// The service behind `api`.
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    fn call(operation: Operation, method: Method, path: &[&str]) -> Call {
        Call::new(operation, method, path)
            .query("version", VERSION)
            .query("generation", "2")
    }

    /// Reads one resource by id.
    async fn get<T: DeserializeOwned>(
        &self,
        operation: Operation,
        path: &[&str],
        id: &str,
    ) -> Result<T, Error> {
        self.api
            .fetch(Self::call(operation, Method::GET, path).about(id))
            .await
    }

    /// Deletes one resource by id. Deletion is asynchronous: the resource is gone when a read says so.
    async fn delete(&self, operation: Operation, path: &[&str], id: &str) -> Result<(), Error> {
        self.api
            .perform(Self::call(operation, Method::DELETE, path).about(id))
            .await
    }

    /// Reads a whole collection, every page with the same filters.
    async fn list<T: DeserializeOwned>(
        &self,
        operation: Operation,
        path: &[&str],
        collection: &'static str,
        identity: fn(&T) -> &str,
        filters: &[(&'static str, &str)],
    ) -> Result<Vec<T>, Error> {
        page::all(operation, identity, |token| async move {
            let mut call = Self::call(operation, Method::GET, path)
                .query("limit", PAGE_SIZE)
                .query_opt("start", token);
            for (name, value) in filters {
                call = call.query(name, *value);
            }
            let mut body: PageBody = self.api.fetch(call).await?;
            let next = body.next_token(operation)?;
            let items = body.take(operation, collection)?;
            Ok(Page {
                items,
                next,
                total: body.total_count,
            })
        })
        .await
    }
}

/// A page as the API sends it; the collection stands under its own name among the other fields.
#[derive(Deserialize)]
struct PageBody {
    #[serde(default)]
    next: Option<Link>,
    #[serde(default)]
    total_count: Option<u64>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Link {
    #[serde(default, deserialize_with = "string_or_nothing")]
    href: String,
}

fn string_or_nothing<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl PageBody {
    /// The token inside the link to the next page. Only the token is used: the link itself is never followed.
    fn next_token(&self, operation: Operation) -> Result<Option<String>, Error> {
        let Some(link) = &self.next else { return Ok(None) };
        let query = link.href.split_once('?').map_or("", |(_, query)| query);
        let token = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "start");
        match token {
            Some((_, token)) if !token.is_empty() => Ok(Some(token.into_owned())),
            // Taking it for the last page would turn a part into the whole.
            _ => Err(unreadable(operation, "the link to the next page holds no token")),
        }
    }

    fn take<T: DeserializeOwned>(&mut self, operation: Operation, collection: &str) -> Result<Vec<T>, Error> {
        let items = self
            .rest
            .remove(collection)
            .ok_or_else(|| unreadable(operation, &format!("the answer has no `{collection}`")))?;
        serde_json::from_value(items).map_err(|error| unreadable(operation, &error.to_string()))
    }
}

fn unreadable(operation: Operation, problem: &str) -> Error {
    use crate::cloud::{Answer, Effect};
    let answer = Answer {
        operation: operation.name,
        message: problem.to_owned(),
        ..Answer::default()
    };
    Error::Undecodable {
        effect: Effect::None,
        answer: Box::new(answer),
    }
}

const fn list(name: &'static str) -> Operation {
    Operation::list(Service::Vpc, name)
}

const fn on(name: &'static str, resource: &'static str) -> Operation {
    Operation::on(Service::Vpc, name, resource)
}

#[cfg(test)]
mod tests {
    use super::Vpc;

    #[test]
    fn a_list_can_be_read_in_a_task_of_its_own() {
        fn is_send(_: impl Send) {}
        let _ = |vpc: Vpc| is_send(async move { vpc.list_keys().await });
    }
}
