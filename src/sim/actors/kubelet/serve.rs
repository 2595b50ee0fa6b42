//! The life of a kubelet that has its credential: registers, then waits for whatever comes first.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use serde_json::{Value, json};

use super::behavior::{flapping, missing};
use super::heartbeat::{Health, Heartbeat, conditions, flap};
use super::join::{self, Credential};
use super::node::{Capacity, facts, own_labels, registration};
use super::pods::{PodAct, PodKey, Pods, draw};
use super::settings::Settings;
use super::shutdown::Grace;
use super::{Guest, Power, volumes};
use crate::clock::{between, later};

/// How soon something is tried again that did not work.
const AGAIN: Duration = Duration::from_secs(5);

/// Lives until the power goes.
pub(super) async fn serve(guest: &mut Guest, settings: &Settings, credential: Credential) {
    let capacity = Capacity::lacking(&guest.machine, settings, missing(&guest.behaviors));
    while let Err(error) = register(guest, settings, &capacity, &credential.client).await {
        guest.say(&format!(
            "kubelet: unable to register node with API server: {error}"
        ));
        guest.clock.sleep(AGAIN).await;
    }
    guest.say(&format!("kubelet: registered node {}", settings.node_name));
    let mut kubelet = Kubelet::new(guest, settings, &capacity, credential);
    loop {
        kubelet.work().await;
        if kubelet.wait().await == Waited::PowerButton && kubelet.shut_down() == Shutdown::Unprepared {
            // Without shutdownGracePeriod nobody holds systemd back: the kubelet is stopped like any service.
            return;
        }
    }
}

/// Makes the Node; one of that name that is there already keeps what it has but for the kubelet's own labels.
async fn register(
    guest: &Guest,
    settings: &Settings,
    capacity: &Capacity,
    client: &kube::Client,
) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let now = guest.clock.now();
    let mut node = registration(&guest.machine, settings, capacity);
    node["status"]["conditions"] = conditions(Health::Starting, now, now, now);
    let node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
    match nodes.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let labels: Value = own_labels(settings)
                .into_iter()
                .map(|(label, value)| (label.to_owned(), Value::String(value)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            let patch = Patch::Strategic(json!({"metadata": {"labels": labels}}));
            let params = PatchParams::default();
            nodes.patch(&settings.node_name, &params, &patch).await?;
            Ok(())
        }
        made => made.map(|_| ()),
    }
}

/// What a kubelet was woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    PowerButton,
    Anything,
}

/// What a kubelet does about the power button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    Graceful,
    Unprepared,
}

struct Kubelet<'a> {
    guest: &'a mut Guest,
    settings: &'a Settings,
    client: kube::Client,
    heart: Heartbeat,
    pods: Pods,
    changes: BoxStream<'static, Result<watcher::Event<Pod>, watcher::Error>>,
    /// Pods of a list that is not complete yet.
    listed: Vec<Pod>,
    ready_at: Timestamp,
    renew_at: Option<Timestamp>,
    renewals: u32,
    is_closing: bool,
}

impl<'a> Kubelet<'a> {
    fn new(
        guest: &'a mut Guest,
        settings: &'a Settings,
        capacity: &Capacity,
        credential: Credential,
    ) -> Self {
        let now = guest.clock.now();
        let client = credential.client;
        let facts = facts(&guest.machine, settings, capacity);
        let host = guest.machine.address.to_string();
        let ready_at = later(now, draw(guest.ready_after, &mut guest.rng));
        let (pace, rng) = (guest.pace, guest.rng.fork());
        Self {
            heart: Heartbeat::new(client.clone(), settings, facts, now),
            pods: Pods::new(&host, capacity.allocatable.clone(), pace, rng),
            changes: watch(&client, &settings.node_name),
            client,
            guest,
            settings,
            listed: Vec::new(),
            ready_at,
            renew_at: settings.rotates_certificates.then_some(credential.renew_at),
            renewals: 0,
            is_closing: false,
        }
    }

    /// Does all that is due now.
    async fn work(&mut self) {
        let now = self.guest.clock.now();
        self.mount(now).await;
        let mut acts = self.pods.next(now);
        self.heart.set_volumes(self.pods.volumes(), now);
        if !self.is_closing {
            let (health, _) = self.health(now);
            self.heart.set_health(health, now);
        }
        // The news that a node goes must not wait for its pods.
        if let Err(error) = self.heart.beat(now).await {
            self.guest
                .say(&format!("kubelet: error updating node status: {error}"));
        }
        if self.heart.is_heard() {
            acts.extend(self.pods.insist(now));
        }
        for act in acts {
            self.carry_out(act, now).await;
        }
        self.renew(now).await;
    }

    /// How the node is, and when that may change.
    fn health(&self, now: Timestamp) -> (Health, Option<Timestamp>) {
        if now < self.ready_at {
            return (Health::Starting, Some(self.ready_at));
        }
        let flaps = flapping(&self.guest.behaviors).filter(|_| self.guest.oddities.is_flapping_on());
        match flaps {
            Some((every, lasts)) => {
                let (health, until) = flap(self.ready_at, every, lasts, now);
                (health, Some(until))
            }
            None => (Health::Ready, None),
        }
    }

    async fn mount(&mut self, now: Timestamp) {
        for (key, pod) in self.pods.mounting(now) {
            match volumes::attached(&self.client, &self.settings.node_name, &pod).await {
                Ok(Some(names)) => self.pods.mounted(&key, names, now),
                Ok(None) => {}
                Err(error) => self.guest.say(&format!("kubelet: mounting volumes: {error}")),
            }
        }
    }

    /// Tells the API server. That a pod is gone or another by now is no failure: its watch says so too.
    async fn carry_out(&mut self, act: PodAct, now: Timestamp) {
        let (key, told) = match act {
            PodAct::Status { key, uid, status } => {
                let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": status}));
                let pods = self.api(&key);
                let told = pods
                    .patch_status(&key.name, &PatchParams::default(), &patch)
                    .await;
                (key, told.map(|_| ()))
            }
            PodAct::Delete { key, uid } => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: Some(uid),
                        resource_version: None,
                    }),
                    ..DeleteParams::default().grace_period(0)
                };
                let told = self.api(&key).delete(&key.name, &params).await;
                (key, told.map(|_| ()))
            }
        };
        match told {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => {
                self.guest.say(&format!(
                    "kubelet: failed to update pod {}/{}: {error}",
                    key.namespace, key.name
                ));
                self.pods.untold(&key, now);
            }
        }
    }

    fn api(&self, key: &PodKey) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    async fn renew(&mut self, now: Timestamp) {
        if self.renew_at.is_none_or(|renew_at| now < renew_at) || self.is_closing {
            return;
        }
        self.renewals += 1;
        let mut power = self.guest.power.clone();
        let renewed = tokio::select! {
            biased;
            // Nor may pods wait for it that have little time left. The button is heeded next.
            () = Guest::shutting_down(&mut power) => return,
            renewed = join::renew(self.guest, self.settings, self.client.clone(), self.renewals) => renewed,
            // A heart that waits for an approval must not stop.
            () = self.guest.clock.sleep(self.settings.lease / 4) => Err(join::JoinError::Patience),
        };
        match renewed {
            Ok(credential) => {
                self.client = credential.client;
                self.heart.reconnect(self.client.clone());
                self.changes = watch(&self.client, &self.settings.node_name);
                self.renew_at = Some(credential.renew_at);
            }
            Err(error) => {
                self.guest.say(&format!("kubelet: certificate rotation: {error}"));
                self.renew_at = Some(later(now, Duration::from_mins(1)));
            }
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) -> Waited {
        let now = self.guest.clock.now();
        let dues = [
            Some(self.heart.due()),
            self.pods.due(now),
            self.health(now).1,
            // A node that goes asks for no certificate any more.
            self.renew_at.filter(|_| !self.is_closing),
        ];
        let due = dues.into_iter().flatten().min().unwrap_or(now);
        // A millisecond is the finest that timers have; it keeps a due time just passed from spinning.
        let pause = between(now, due).max(Duration::from_millis(1));
        tokio::select! {
            biased;
            () = Guest::shutting_down(&mut self.guest.power), if !self.is_closing => Waited::PowerButton,
            change = self.changes.next() => {
                self.heed(change).await;
                Waited::Anything
            }
            () = self.guest.clock.sleep(pause) => Waited::Anything,
        }
    }

    async fn heed(&mut self, change: Option<Result<watcher::Event<Pod>, watcher::Error>>) {
        let now = self.guest.clock.now();
        match change {
            Some(Ok(watcher::Event::Init)) => self.listed.clear(),
            Some(Ok(watcher::Event::InitApply(pod))) => self.listed.push(pod),
            Some(Ok(watcher::Event::InitDone)) => {
                let listed = std::mem::take(&mut self.listed);
                self.pods.replace(listed, now);
            }
            Some(Ok(watcher::Event::Apply(pod))) => self.pods.observe(pod, now),
            Some(Ok(watcher::Event::Delete(pod))) => self.pods.forget(&pod),
            Some(Err(error)) => {
                self.guest.say(&format!("kubelet: watching pods: {error}"));
                self.guest.clock.sleep(Duration::from_secs(1)).await;
            }
            None => self.changes = watch(&self.client, &self.settings.node_name),
        }
    }

    fn shut_down(&mut self) -> Shutdown {
        let Some(grace) = Grace::of(self.settings) else {
            return Shutdown::Unprepared;
        };
        debug_assert_eq!(*self.guest.power.borrow(), Power::ShuttingDown);
        let now = self.guest.clock.now();
        self.guest
            .say("kubelet: shutdown manager detected new shutdown event");
        self.is_closing = true;
        self.heart.set_health(Health::ShuttingDown, now);
        self.pods.shut_down(grace, now);
        Shutdown::Graceful
    }
}

/// The pods of a node.
fn watch(
    client: &kube::Client,
    node: &str,
) -> BoxStream<'static, Result<watcher::Event<Pod>, watcher::Error>> {
    let pods: Api<Pod> = Api::all(client.clone());
    watcher(
        pods,
        watcher::Config::default().fields(&format!("spec.nodeName={node}")),
    )
    .boxed()
}
