//! Global Search: resources by tag.
//!
//! The index lags, so what it finds is a hint and what it does not find proves nothing.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::tags::Tag;
use crate::cloud::Error;
use crate::ibm::http::page::{self, Page};
use crate::ibm::http::{Api, Call, Operation, Repeat, Service};

const SEARCH: Operation = Operation {
    name: "search resources",
    service: Service::Search,
    resource: None,
    repeat: Repeat::Safe,
};

const PAGE_SIZE: usize = 100;

/// A kind of resource in the search index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A virtual server.
    Instance,
    /// A subnet.
    Subnet,
    /// A security group.
    SecurityGroup,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::Subnet => "subnet",
            Self::SecurityGroup => "security-group",
        }
    }
}

/// A resource that the index knows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Found {
    /// Its full name; the last segment is its id.
    pub crn: String,
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
}

impl Found {
    /// Its id, the last segment of the CRN.
    pub fn id(&self) -> Option<&str> {
        self.crn
            .rsplit_once(':')
            .map(|(_, id)| id)
            .filter(|id| !id.is_empty())
    }
}

/// The search service.
#[derive(Clone)]
pub struct Search {
    api: Api,
}

impl Search {
    /// The service behind `api`.
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    /// The VPC resources of a kind that carry all of these tags, as far as the index knows.
    pub async fn tagged(&self, kind: Kind, tags: &[Tag]) -> Result<Vec<Found>, Error> {
        let query = tags.iter().fold(
            format!("service_name:is AND type:{}", kind.as_str()),
            |query, tag| {
                // A tag holds no quote and no backslash, so it cannot leave its quotes.
                format!("{query} AND tags:\"{}\"", tag.as_str())
            },
        );
        let query = &query;
        page::all(
            SEARCH,
            |found: &Found| &found.crn,
            |cursor| async move {
                let mut body = json!({"query": query, "fields": ["crn", "name", "tags"]});
                if let Some(cursor) = cursor {
                    body["search_cursor"] = cursor.into();
                }
                let call = Call::new(SEARCH, Method::POST, &["resources", "search"])
                    .query("limit", PAGE_SIZE.to_string())
                    .json(&body);
                let page: SearchPage = self.api.fetch(call).await?;
                // The end is a short page: a cursor comes with the last one too.
                let next = page.search_cursor.filter(|_| page.items.len() >= PAGE_SIZE);
                Ok(Page {
                    items: page.items,
                    next,
                    total: None,
                })
            },
        )
        .await
    }
}

#[derive(Deserialize)]
struct SearchPage {
    /// Required: a page without it is no page, and an error that comes as a success must not read as "nothing found".
    items: Vec<Found>,
    #[serde(default)]
    search_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_last_segment_of_the_crn() {
        let found = |crn: &str| Found {
            crn: crn.to_owned(),
            name: None,
        };
        let subnet = found("crn:v1:bluemix:public:is:us-south-1:a/acct::subnet:0717-0ef923f3");
        assert_eq!(subnet.id(), Some("0717-0ef923f3"));
        assert_eq!(found("crn:v1:").id(), None);
    }
}
