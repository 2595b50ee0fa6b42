//! Clients in this process: the same router, no socket, the identity travelling with the request.

use http::Request;
use tower::ServiceExt;
use tower::util::MapRequestLayer;

use super::identity::User;
use super::server::ApiServer;

impl ApiServer {
    /// A client that is somebody. Only code in this process can say who it is without proving it: what comes over
    /// TCP carries no such mark.
    pub fn client_as(&self, user: User) -> kube::Client {
        let service = tower::ServiceBuilder::new()
            .layer(MapRequestLayer::new(
                move |mut request: Request<kube::client::Body>| {
                    request.extensions_mut().insert(user.clone());
                    request
                },
            ))
            .service(self.router())
            .map_err(|never| match never {});
        kube::Client::new(service, "default")
    }

    /// A client that may do everything.
    pub fn admin(&self) -> kube::Client {
        self.client_as(User::admin())
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt};
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};

    use crate::clock::Clock;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    fn server() -> ApiServer {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        ApiServer::new(Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        })
    }

    fn config(name: &str, value: &str) -> ConfigMap {
        let mut config = ConfigMap {
            data: Some([("k".to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        };
        config.metadata.name = Some(name.to_owned());
        config
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_begins_with_its_namespaces() {
        let namespaces: Api<Namespace> = Api::all(server().admin());
        let names: Vec<_> = namespaces.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(names.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_made_changed_watched_and_deleted() {
        let configs: Api<ConfigMap> = Api::default_namespaced(server().admin());
        let made = configs
            .create(&PostParams::default(), &config("a", "1"))
            .await
            .unwrap();
        assert!(made.metadata.uid.is_some());
        let again = configs
            .create(&PostParams::default(), &config("a", "1"))
            .await
            .unwrap_err();
        assert!(matches!(again, kube::Error::Api(status) if status.reason == "AlreadyExists"));
        let version = made.metadata.resource_version.clone().unwrap();
        let mut changed = config("a", "2");
        changed.metadata.resource_version = Some(version.clone());
        configs
            .replace("a", &PostParams::default(), &changed)
            .await
            .unwrap();
        let stale = configs
            .replace("a", &PostParams::default(), &changed)
            .await
            .unwrap_err();
        assert!(matches!(stale, kube::Error::Api(status) if status.reason == "Conflict"));
        configs.delete("a", &DeleteParams::default()).await.unwrap();
        let seen: Vec<_> = configs
            .watch(&WatchParams::default().timeout(1), &version)
            .await
            .unwrap()
            .boxed()
            .map_ok(|event| match event {
                WatchEvent::Modified(_) => "modified",
                WatchEvent::Deleted(_) => "deleted",
                _ => "other",
            })
            .try_collect()
            .await
            .unwrap();
        assert_eq!(seen, ["modified", "deleted"]);
    }
}
