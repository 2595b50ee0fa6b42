//! Everything of a kind, as the API server has it now.
//!
//! Without the record of who owns which field: that is half of what is read, and nobody here looks at it.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::core::ObjectList;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Lists every object that `params` asks for. Without a resourceVersion in them it is answered from the latest state, not
/// from a cache.
pub(super) async fn all<K>(api: &Api<K>, params: ListParams) -> kube::Result<ObjectList<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut list = api.list(&params).await?;
    for object in &mut list.items {
        object.meta_mut().managed_fields = None;
    }
    Ok(list)
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
    async fn what_is_listed_does_not_say_who_owns_which_field() {
        let server = ApiServer::new(Options {
            clock: Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()),
            seed: 1,
            keys: Keys::Fixed,
        });
        let configs: Api<ConfigMap> = Api::default_namespaced(server.admin());
        for name in ["a", "b"] {
            let mut config = ConfigMap {
                data: Some([("k".to_owned(), "v".to_owned())].into()),
                ..ConfigMap::default()
            };
            config.metadata.name = Some(name.to_owned());
            let made = configs.create(&PostParams::default(), &config).await.unwrap();
            assert!(made.metadata.managed_fields.is_some());
        }
        let listed = all(&configs, ListParams::default()).await.unwrap().items;
        let names: Vec<&str> = listed
            .iter()
            .filter_map(|it| it.metadata.name.as_deref())
            .collect();
        // The third is the server's own.
        assert_eq!(names, ["a", "b", "kube-root-ca.crt"]);
        assert!(listed.iter().all(|it| it.metadata.managed_fields.is_none()));
    }
}
