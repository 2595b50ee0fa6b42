//! What others than replicas write, told by the API server's audit: without it a history would not explain itself.

use std::sync::Arc;

use super::effects::kube_parts;
use super::recorder::{Recorder, Sent, Worth};
use crate::sim::history::{CarriedOut, Edge, Who};
use crate::sim::kube::Audit;
use crate::sim::kube::identity::User;
use crate::sim::kube::server::Auditor;

/// The user that the controllers of the cluster are.
pub const CONTROL_PLANE: &str = "system:kube-controller-manager";

/// Writes what everybody but the operator does into the history; its replicas record at their own edges.
pub fn auditor(recorder: &Recorder, operator: &User) -> Auditor {
    let (recorder, operator) = (recorder.clone(), operator.name.clone());
    Arc::new(move |audit: &Audit<'_>| {
        if audit.user.name == operator {
            return;
        }
        let sent = Sent {
            who: who(&audit.user.name),
            edge: Edge::Kube,
            method: audit.method.clone(),
            uri: audit.uri.clone(),
            body: audit.body.clone(),
            worth: worth(audit.uri.path()),
        };
        let number = recorder.request(&sent);
        let told = Some((audit.status, bytes::Bytes::new()));
        recorder.answer(&sent, number, told, CarriedOut::Yes);
    })
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

/// Heartbeats and events are the bulk of what happens, and nobody asks for them.
fn worth(path: &str) -> Worth {
    match kube_parts(path) {
        Some(("leases" | "events", _, None)) => Worth::Hashed,
        _ => Worth::Kept,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, PostParams};

    use super::*;
    use crate::clock::Clock;
    use crate::sim::history::Keep;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    #[tokio::test(start_paused = true)]
    async fn what_people_write_is_recorded_and_what_the_operator_writes_is_not() {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        let recorder = Recorder::new(&clock, Keep::All, 1000);
        let operator = User::named("operator", &["system:masters"]);
        server.audit(auditor(&recorder, &operator));
        for (user, name) in [(operator, "a"), (User::admin(), "b")] {
            let maps: Api<ConfigMap> = Api::default_namespaced(server.client_as(user));
            let mut map = ConfigMap::default();
            map.metadata.name = Some(name.to_owned());
            maps.create(&PostParams::default(), &map).await.unwrap();
        }
        let lines: Vec<String> = recorder.history().entries().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("user > 1 Kube POST /api/v1/namespaces/default/configmaps"));
        assert!(lines[1].contains("user < 1 201"), "{lines:?}");
    }
}
