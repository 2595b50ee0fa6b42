//! Resource Manager: resource groups.

use http::Method;
use serde::{Deserialize, Serialize};

use crate::cloud::Error;
use crate::ibm::http::{Api, Call, Operation, Service};

const LIST: Operation = Operation::list(Service::ResourceManager, "list resource groups");

/// A resource group of the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceGroup {
    /// 32 hexadecimal digits.
    pub id: String,
    /// Unique in the account.
    pub name: String,
    /// Whether resources go there when nothing else is said.
    #[serde(default)]
    pub default: bool,
    /// `ACTIVE`, or not to be used.
    #[serde(default)]
    pub state: Option<String>,
}

/// The resource manager.
#[derive(Clone)]
pub struct ResourceGroups {
    api: Api,
}

impl ResourceGroups {
    /// The service behind `api`.
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    /// Every resource group that the credentials may see. The list does not come in pages.
    pub async fn list(&self) -> Result<Vec<ResourceGroup>, Error> {
        self.fetch(Call::new(LIST, Method::GET, &["resource_groups"]))
            .await
    }

    /// The resource groups called `name`: one or none.
    pub async fn named(&self, name: &str) -> Result<Vec<ResourceGroup>, Error> {
        self.fetch(
            Call::new(LIST, Method::GET, &["resource_groups"])
                .about(name)
                .query("name", name),
        )
        .await
    }

    async fn fetch(&self, call: Call) -> Result<Vec<ResourceGroup>, Error> {
        #[derive(Deserialize)]
        struct Body {
            resources: Vec<ResourceGroup>,
        }
        Ok(self.api.fetch::<Body>(call).await?.resources)
    }
}
