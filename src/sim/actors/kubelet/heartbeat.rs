//! Signs of life: a Lease every few seconds, the status of the Node when it changes and every few minutes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::settings::Settings;
use super::stamp;
use crate::clock::{between, later};

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The network of its pods is not up yet.
    Starting,
    /// It takes pods.
    Ready,
    /// It has lost touch with its containers.
    Stalled,
    /// The machine is being switched off.
    ShuttingDown,
}

impl Health {
    /// Status, reason and message of the condition `Ready`, in the words of a kubelet.
    fn ready(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Starting => (
                "False",
                "KubeletNotReady",
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                 message:Network plugin returns error: cni plugin not initialized",
            ),
            Self::Ready => ("True", "KubeletReady", "kubelet is posting ready status"),
            Self::Stalled => (
                "False",
                "KubeletNotReady",
                "PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s",
            ),
            Self::ShuttingDown => ("False", "KubeletNotReady", "node is shutting down"),
        }
    }
}

/// The conditions of a node that is so since `since`.
pub fn conditions(health: Health, started: Timestamp, since: Timestamp, now: Timestamp) -> Value {
    let (status, reason, message) = health.ready();
    let calm = [
        (
            "MemoryPressure",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
    ];
    let mut all: Vec<Value> = calm
        .iter()
        .map(|(kind, reason, message)| {
            json!({"type": kind, "status": "False", "reason": reason, "message": message,
                   "lastHeartbeatTime": stamp(now), "lastTransitionTime": stamp(started)})
        })
        .collect();
    all.push(
        json!({"type": "Ready", "status": status, "reason": reason, "message": message,
                    "lastHeartbeatTime": stamp(now), "lastTransitionTime": stamp(since)}),
    );
    all.into()
}

/// What is told, and when next.
pub struct Heartbeat {
    name: String,
    leases: Api<Lease>,
    nodes: Api<Node>,
    lease: Option<Lease>,
    holds: Duration,
    report_every: Duration,
    renew_at: Timestamp,
    report_at: Timestamp,
    facts: Value,
    health: Health,
    started: Timestamp,
    since: Timestamp,
    volumes: Vec<String>,
    is_heard: bool,
}

impl Heartbeat {
    /// The heart of a node that has just registered, in that health.
    pub fn new(client: kube::Client, settings: &Settings, facts: Value, now: Timestamp) -> Self {
        Self {
            name: settings.node_name.clone(),
            leases: Api::namespaced(client.clone(), "kube-node-lease"),
            nodes: Api::all(client),
            lease: None,
            holds: settings.lease,
            report_every: settings.report_every,
            renew_at: now,
            report_at: now,
            facts,
            health: Health::Starting,
            started: now,
            since: now,
            volumes: Vec::new(),
            is_heard: false,
        }
    }

    /// Goes on with another client.
    pub fn reconnect(&mut self, client: kube::Client) {
        self.leases = Api::namespaced(client.clone(), "kube-node-lease");
        self.nodes = Api::all(client);
    }

    /// How the node is from now on; a change is told at the next beat.
    pub fn set_health(&mut self, health: Health, now: Timestamp) {
        if self.health != health {
            if self.health.ready().0 != health.ready().0 {
                self.since = now;
            }
            (self.health, self.report_at) = (health, now);
        }
    }

    /// The volumes that pods use from now on; a change is told at the next beat.
    pub fn set_volumes(&mut self, volumes: Vec<String>, now: Timestamp) {
        if self.volumes != volumes {
            (self.volumes, self.report_at) = (volumes, now);
        }
    }

    /// When the next beat is due.
    pub fn due(&self) -> Timestamp {
        self.renew_at.min(self.report_at)
    }

    /// Whether no beat was missed since the status was last told.
    pub fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// Tells what is due. What fails is tried again with the next renewal of the Lease, as by a real kubelet. After a
    /// beat that was missed the status is told again: somebody may have given the node up meanwhile.
    pub async fn beat(&mut self, now: Timestamp) -> Result<(), kube::Error> {
        let every = self.holds / 4;
        if now > later(self.renew_at, every) {
            self.miss(now);
        }
        let beaten = self.tell(now, every).await;
        if beaten.is_err() {
            self.miss(later(now, every));
        }
        beaten
    }

    fn miss(&mut self, report_at: Timestamp) {
        self.is_heard = false;
        self.report_at = self.report_at.min(report_at);
    }

    async fn tell(&mut self, now: Timestamp, every: Duration) -> Result<(), kube::Error> {
        if now >= self.report_at {
            self.report_at = later(now, every);
            self.report(now).await?;
            self.report_at = later(now, self.report_every);
            self.is_heard = true;
        }
        if now >= self.renew_at {
            self.renew_at = later(now, every);
            self.renew(now).await?;
        }
        Ok(())
    }

    async fn report(&self, now: Timestamp) -> Result<(), kube::Error> {
        let mut status = self.facts.clone();
        status["conditions"] = conditions(self.health, self.started, self.since, now);
        status["volumesInUse"] = json!(self.volumes);
        let patch = Patch::Strategic(json!({"status": status}));
        let params = PatchParams::default();
        self.nodes.patch_status(&self.name, &params, &patch).await?;
        Ok(())
    }

    /// Renews the Lease as it was last seen; if somebody else has changed it, as it is.
    async fn renew(&mut self, now: Timestamp) -> Result<(), kube::Error> {
        let present = match self.lease.take() {
            Some(lease) => Some(lease),
            None => self.leases.get_opt(&self.name).await?,
        };
        let Some(mut lease) = present else {
            return self.begin(now).await;
        };
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(micros(now)));
        let renewed = self
            .leases
            .replace(&self.name, &PostParams::default(), &lease)
            .await;
        self.lease = Some(renewed?);
        Ok(())
    }

    /// Makes the Lease, which goes with the Node. Without a Node there is none.
    async fn begin(&mut self, now: Timestamp) -> Result<(), kube::Error> {
        let Some(node) = self.nodes.get_opt(&self.name).await? else {
            return Ok(());
        };
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.name.clone(),
            uid: node.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        };
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: i32::try_from(self.holds.as_secs()).ok(),
                renew_time: Some(MicroTime(micros(now))),
                ..LeaseSpec::default()
            }),
        };
        self.lease = Some(self.leases.create(&PostParams::default(), &lease).await?);
        Ok(())
    }
}

/// Microseconds are all that the API keeps.
fn micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// Whether a node that flaps is well at `now`: for `every`, then not for `lasts`, from `since` on. And until when.
pub fn flap(since: Timestamp, every: Duration, lasts: Duration, now: Timestamp) -> (Health, Timestamp) {
    let round = every + lasts;
    let passed = between(since, now).as_nanos() % round.as_nanos().max(1);
    let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(0));
    if passed < every {
        (Health::Ready, later(now, every.saturating_sub(passed)))
    } else {
        (Health::Stalled, later(now, round.saturating_sub(passed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_node_that_flaps_is_well_and_not_in_turns() {
        let (every, lasts) = (Duration::from_mins(1), Duration::from_secs(10));
        let flap = |now| flap(at(100), every, lasts, at(now));
        assert_eq!(flap(100), (Health::Ready, at(160)));
        assert_eq!(flap(160), (Health::Stalled, at(170)));
        assert_eq!(flap(169), (Health::Stalled, at(170)));
        assert_eq!(flap(170), (Health::Ready, at(230)));
    }

    #[test]
    fn only_the_condition_ready_turns() {
        let told = conditions(Health::ShuttingDown, at(0), at(5), at(9));
        assert_eq!(told[3]["message"], "node is shutting down");
        assert_eq!(told[3]["lastTransitionTime"], "1970-01-01T00:00:05Z");
        assert_eq!(told[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(told[0]["lastHeartbeatTime"], "1970-01-01T00:00:09Z");
    }
}
