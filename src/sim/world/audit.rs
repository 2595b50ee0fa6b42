//! What others than replicas ask for and are told, by the API server's audit and the strangers' own word: without what they write a history would not
//! explain itself, and without what they read a difference between two plays of a seed would be seen late.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use super::effects::kube_parts;
use super::recorder::{Recorder, Sent, Worth};
use crate::hash;
use crate::sim::faults::Witness;
use crate::sim::history::{CarriedOut, Edge, What, Who};
use crate::sim::kube::Audit;
use crate::sim::kube::identity::User;
use crate::sim::kube::server::Auditor;

/// The user that the controllers of the cluster are.
pub const CONTROL_PLANE: &str = "system:kube-controller-manager";

/// Writes what everybody but the operator asks for and is told into the history; its replicas record at their own edges.
pub fn auditor(recorder: &Recorder, operator: &User) -> Arc<dyn Auditor> {
    Arc::new(Others {
        recorder: recorder.clone(),
        operator: operator.name.clone(),
    })
}

struct Others {
    recorder: Recorder,
    operator: String,
}

impl Auditor for Others {
    fn answered(&self, audit: &Audit<'_>) -> Option<u64> {
        if audit.user.name == self.operator {
            return None;
        }
        let sent = Sent {
            who: who(&audit.user.name),
            edge: Edge::Kube,
            method: audit.method.clone(),
            uri: audit.uri.clone(),
            body: audit.body.clone(),
            worth: worth(audit.method, audit.uri.path()),
        };
        let number = self.recorder.request(&sent);
        let told = Some((audit.status, audit.answer.clone()));
        self.recorder.answer(&sent, number, told, CarriedOut::Yes);
        Some(number)
    }

    fn delivered(&self, user: &User, number: u64, line: &Bytes) {
        let event = What::Event {
            number,
            kind: event_type(line).to_owned(),
            object: String::new(),
            version: String::new(),
            hash: hash::body(line),
        };
        self.recorder.pass(who(&user.name), event);
    }
}

/// Writes what strangers ask of the account and are told into the history. Its replicas record at their own edges.
pub fn strangers(recorder: &Recorder) -> Witness {
    let recorder = recorder.clone();
    Arc::new(move |request| {
        let sent = Sent {
            who: Who::User,
            edge: Edge::Cloud,
            method: request.method().clone(),
            uri: request.uri().clone(),
            body: request.body().clone(),
            worth: Worth::Kept,
        };
        let (recorder, number) = (recorder.clone(), recorder.request(&sent));
        Box::new(move |told, carried_out| recorder.answer(&sent, number, told, carried_out))
    })
}

/// What a line of a watch begins with says: `{"type":"ADDED",...`. More of it is not read, as nobody looks at what others
/// are told: it is in the hash of the history, which is why it is here at all.
fn event_type(line: &[u8]) -> &str {
    let rest = line.strip_prefix(br#"{"type":""#).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == b'"').unwrap_or_default();
    std::str::from_utf8(&rest[..end]).unwrap_or_default()
}

fn who(user: &str) -> Who {
    match user {
        CONTROL_PLANE => Who::Actor("control-plane"),
        _ if user.starts_with("system:node:") || user.starts_with("system:serviceaccount:") => {
            Who::Actor("kubelet")
        }
        _ => Who::User,
    }
}

/// What is read, heartbeats and events are the bulk of what happens, and nobody asks for them.
fn worth(method: &Method, path: &str) -> Worth {
    if *method == Method::GET {
        return Worth::Hashed;
    }
    match kube_parts(path) {
        Some(("leases" | "events", _, None)) => Worth::Hashed,
        _ => Worth::Kept,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use futures::TryStreamExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, PostParams, WatchParams};
    use tower::ServiceExt;

    use super::*;
    use crate::clock::Clock;
    use crate::sim::actors::kubelet::behavior::Oddities;
    use crate::sim::faults::{Desk, Fault, Injection, Meddling, MeddlingKind, Parts};
    use crate::sim::history::Keep;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};
    use crate::sim::world::cluster::{API_KEY, Cluster};

    #[tokio::test(start_paused = true)]
    async fn what_others_read_and_watch_is_in_the_hash_with_what_they_were_told() {
        let (_, alike) = read_by_others("a").await;
        let (count, hash) = read_by_others("a").await;
        let (_, other) = read_by_others("b").await;
        assert_eq!(hash, alike);
        assert_ne!(hash, other, "the answers differ, and nothing else");
        // A write, a read, a watch, each with its answer, and one line of the watch.
        assert_eq!(count, 7);
    }

    /// What is in the history, and its hash, when a map with this text was read and watched.
    async fn read_by_others(text: &str) -> (u64, u64) {
        let (server, recorder) = audited();
        let maps: Api<ConfigMap> = Api::default_namespaced(server.client_as(User::admin()));
        // Written before the history begins, so that only what is read can tell the texts apart.
        let quiet: Api<ConfigMap> = Api::default_namespaced(server.client_as(operator()));
        let mut map = named("a");
        map.data = Some([("text".to_owned(), text.to_owned())].into());
        quiet.create(&PostParams::default(), &map).await.unwrap();
        maps.create(&PostParams::default(), &named("b")).await.unwrap();
        maps.get("a").await.unwrap();
        let only_it = WatchParams::default().fields("metadata.name=a");
        let watch = maps.watch(&only_it, "0");
        let mut watch = std::pin::pin!(watch.await.unwrap());
        watch.try_next().await.unwrap();
        let history = recorder.history();
        (history.count(), history.hash())
    }

    #[tokio::test(start_paused = true)]
    async fn what_people_write_is_recorded_and_what_the_operator_writes_is_not() {
        let (server, recorder) = audited();
        for (user, name) in [(operator(), "a"), (User::admin(), "b")] {
            let maps: Api<ConfigMap> = Api::default_namespaced(server.client_as(user));
            maps.create(&PostParams::default(), &named(name)).await.unwrap();
        }
        let lines: Vec<String> = recorder.history().entries().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("user > 1 Kube POST /api/v1/namespaces/default/configmaps"));
        assert!(lines[1].contains("user < 1 201"), "{lines:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_before_it_is_looked_at_is_recorded_too() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let (server, recorder) = audited();
        for (user, method, path) in [
            (None, "POST", MAPS),
            (Some(User::named("nobody", &[])), "POST", MAPS),
            (Some(User::admin()), "POST", "/apis/example.com/v1/things"),
            (Some(User::admin()), "PUT", MAPS),
            (Some(User::admin()), "POST", "/version"),
            (Some(operator()), "PUT", MAPS),
        ] {
            let request = http::Request::builder().method(method).uri(path);
            let request = match user {
                Some(user) => request.extension(user),
                None => request.header("authorization", "Bearer nonsense"),
            };
            let request = request.body(Body::empty()).unwrap();
            server.router().oneshot(request).await.unwrap();
        }
        let history = recorder.history();
        let told = history.entries().filter_map(|entry| match &entry.what {
            What::Answer(answer) => answer.status,
            _ => None,
        });
        assert_eq!(told.collect::<Vec<u16>>(), [401, 403, 404, 405, 405]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_strangers_do_in_the_account_is_recorded_with_what_they_were_told() {
        let cluster = Cluster::new(1, "us-south");
        let recorder = Recorder::new(&cluster.clock, Keep::All, 1000);
        let told = recorder.clone();
        let desk = Desk::new(Parts {
            server: cluster.server.clone(),
            cloud: cluster.cloud.clone(),
            operator: operator().name,
            clocks: Vec::new(),
            oddities: Oddities::default(),
            api_key: API_KEY.to_owned(),
            key_file: None,
            sink: Arc::new(move |what| told.add(Who::World, what)),
            witness: strangers(&recorder),
        });
        let meddling = Meddling::new(MeddlingKind::TwinMachine);
        desk.start(&Injection {
            at: Duration::ZERO,
            lasts: Duration::ZERO,
            stream: 3,
            fault: Fault::ThirdParty(meddling),
        })
        .await;
        assert_eq!(cluster.cloud.instances().len(), 1);
        let lines: Vec<String> = recorder.history().entries().map(ToString::to_string).collect();
        let has = |part: &str| lines.iter().any(|line| line.contains(part));
        assert!(has("user > 1 Cloud POST /identity/token"), "{lines:?}");
        assert!(has("user < 1 200"), "{lines:?}");
        assert!(has("user > 2 Cloud POST /v1/instances"), "{lines:?}");
        assert!(has("user < 2 201"), "{lines:?}");
    }

    fn operator() -> User {
        User::named("operator", &["system:masters"])
    }

    fn audited() -> (ApiServer, Recorder) {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        let recorder = Recorder::new(&clock, Keep::All, 1000);
        server.audit(auditor(&recorder, &operator()));
        (server, recorder)
    }

    fn named(name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map
    }
}
