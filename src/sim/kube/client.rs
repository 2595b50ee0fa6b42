//! Clients in this process: the same router, no socket, the identity travelling with the request.

use http::Request;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use tower::retry::RetryLayer;
use tower::util::MapRequestLayer;
use tower::{BoxError, ServiceBuilder};

use super::identity::User;
use super::server::ApiServer;
use crate::operator::slim;

/// What a client does about 429, 503 and 504.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// Reports it.
    Reported,
    /// Waits and asks again, as kube's own clients do that are made from a configuration.
    Retried,
}

impl ApiServer {
    /// A client that is somebody. Only code in this process can say who it is without proving it: what comes over
    /// TCP carries no such mark. Every answer is reported as it comes.
    pub fn client_as(&self, user: User) -> kube::Client {
        self.connect(user, Refused::Reported)
    }

    /// A client that is somebody, and asks again when it is told to come later: up to 15 times, after the time that the
    /// server says or a growing one of its own. This is what a program in a cluster has; `kube::Client::new` alone
    /// does not retry.
    pub fn retrying_client_as(&self, user: User) -> kube::Client {
        self.connect(user, Refused::Retried)
    }

    /// A client that is somebody, and that does not learn who owns which field.
    pub fn slim_client_as(&self, user: User) -> kube::Client {
        let service = ServiceBuilder::new()
            .layer(marked(user))
            .map_response(slim)
            .map_err(BoxError::from)
            .service(self.router());
        kube::Client::new(service, "default")
    }

    /// A client that may do everything.
    pub fn admin(&self) -> kube::Client {
        self.client_as(User::admin())
    }

    fn connect(&self, user: User, refused: Refused) -> kube::Client {
        let retry = (refused == Refused::Retried).then(|| RetryLayer::new(RetryPolicy::server_retry()));
        let service = ServiceBuilder::new()
            .layer(marked(user))
            .option_layer(retry)
            .map_err(BoxError::from)
            .service(self.router());
        kube::Client::new(service, "default")
    }
}

/// Says with each request whose it is.
fn marked(user: User) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone> {
    MapRequestLayer::new(move |mut request: Request<Body>| {
        request.extensions_mut().insert(user.clone());
        request
    })
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
