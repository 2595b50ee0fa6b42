//! Everything of a kind, as the API server has it now.
//!
//! In pages, and each without the record of who owns which field: a thousand claims in one answer are six megabytes of
//! text beside twenty that are read from it, half of which nobody here looks at. All pages show the state in which the
//! first was read; whoever is told that this is forgotten begins anew.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::core::ObjectList;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// How many objects an answer may have.
const PAGE: u32 = 250;

/// Lists every object that `params` asks for, all of it or none. Without a resourceVersion in `params` it is answered from
/// the latest state, not from a cache.
pub(super) async fn all<K>(api: &Api<K>, params: ListParams) -> kube::Result<ObjectList<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut whole = page(api, &params).await?;
    while let Some(token) = whole.metadata.continue_.take().filter(|token| !token.is_empty()) {
        params = params.continue_token(&token);
        let mut next = page(api, &params).await?;
        whole.items.append(&mut next.items);
        whole.metadata.continue_ = next.metadata.continue_;
    }
    whole.metadata.remaining_item_count = None;
    Ok(whole)
}

async fn page<K>(api: &Api<K>, params: &ListParams) -> kube::Result<ObjectList<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut page = api.list(params).await?;
    for object in &mut page.items {
        object.meta_mut().managed_fields = None;
    }
    Ok(page)
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::PostParams;

    use super::*;
    use crate::clock::Clock;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    #[tokio::test(start_paused = true)]
    async fn more_than_a_page_is_listed_whole_and_without_the_owners_of_fields() {
        let server = ApiServer::new(Options {
            clock: Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()),
            seed: 1,
            keys: Keys::Fixed,
        });
        let configs: Api<ConfigMap> = Api::default_namespaced(server.admin());
        for number in 0..600 {
            let mut config = ConfigMap::default();
            config.metadata.name = Some(format!("c{number:03}"));
            let made = configs.create(&PostParams::default(), &config).await.unwrap();
            assert!(made.metadata.managed_fields.is_some());
        }
        let all = all(&configs, ListParams::default()).await.unwrap();
        let names: Vec<String> = all
            .items
            .iter()
            .filter_map(|it| it.metadata.name.clone())
            .collect();
        let expected: Vec<String> = (0..600).map(|number| format!("c{number:03}")).collect();
        assert_eq!(names, expected);
        assert!(all.items.iter().all(|it| it.metadata.managed_fields.is_none()));
        assert_eq!(all.metadata.remaining_item_count, None);
        let one = configs.list(&ListParams::default()).await.unwrap();
        assert_eq!(all.metadata.resource_version, one.metadata.resource_version);
    }
}
