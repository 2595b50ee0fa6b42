//! IBM Cloud cannot be reached, refuses, or talks nonsense for long: nothing is touched on its account, and afterwards all
//! goes on without a restart.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeSpec;
use karpenter_ibm::ibm::iam::{Credentials, KeySource};
use karpenter_ibm::sim::ibm::{Fault, FaultKind, InstanceTruth};
use kube::ResourceExt;

use super::{World, audited, while_working};

/// What must be the same after an outage as before it.
#[derive(Debug, PartialEq)]
struct Standing {
    machines: Vec<InstanceTruth>,
    /// Name, specification and finalizers of each.
    nodes: Vec<(String, Option<NodeSpec>, Vec<String>)>,
    /// Name, finalizers, and whether it is being deleted.
    claims: Vec<(String, Vec<String>, bool)>,
}

impl World {
    async fn standing(&self) -> Standing {
        let nodes = self.all_nodes().await.into_iter();
        let claims = self.all_claims().await.into_iter();
        Standing {
            machines: self.cloud.instances(),
            nodes: nodes
                .map(|node| (node.name_any(), node.spec.clone(), node.finalizers().to_vec()))
                .collect(),
            claims: claims
                .map(|claim| {
                    let goes = claim.metadata.deletion_timestamp.is_some();
                    (claim.name_any(), claim.finalizers().to_vec(), goes)
                })
                .collect(),
        }
    }

    /// One Node that works, one that a budget keeps from being drained, and a claim whose machine was told to go.
    async fn three_stages(&self) {
        self.ready_node("works").await;
        self.guarded_node("drains").await;
        self.ready_node("goes").await;
        // It is on its way out until the fault ends.
        self.cloud.faults().start(Fault::new(FaultKind::DeleteStuck));
        self.delete("drains").await;
        self.delete("goes").await;
        let machine = self.machine_of("goes").await;
        self.until("told to go", Duration::from_mins(2), async || {
            self.cloud.instance(&machine).unwrap().status == "deleting"
        })
        .await;
        self.clock.sleep(Duration::from_secs(30)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_refusals_and_nonsense_touches_nothing_and_afterwards_all_goes_on() {
    for kind in [
        FaultKind::TokenExpired,
        FaultKind::Forbidden,
        FaultKind::RateLimit,
        FaultKind::ServerError,
        FaultKind::HtmlError,
        FaultKind::EmptyBody,
        FaultKind::TruncatedJson,
        FaultKind::ErrorBody,
        FaultKind::EmptyList,
        FaultKind::Spurious404,
    ] {
        let world = World::new();
        while_working(world.replica(), async {
            world.three_stages().await;
            let before = world.standing().await;
            let held: Vec<&str> = before.claims.iter().map(|(name, ..)| name.as_str()).collect();
            assert_eq!(held, ["drains", "goes", "works"]);
            world.cloud.faults().start(Fault::new(kind));
            for minute in 1..=60 {
                world.clock.sleep(Duration::from_mins(1)).await;
                assert_eq!(world.standing().await, before, "{kind:?}, minute {minute}");
            }
            world.cloud.faults().clear();
            world.allow(1).await;
            world.until_emptied("drains", Duration::from_mins(6)).await;
            world.until_gone("goes").await;
            let left: Vec<String> = world.living().into_iter().map(|it| it.id).collect();
            assert_eq!(left, [world.machine_of("works").await], "{kind:?}");
            assert!(!world.is_deleting("works").await, "{kind:?}");
            world.preempt("works").await;
            world.until_gone("works").await;
            assert_eq!(world.told("SpotPreemption").await.len(), 2, "{kind:?}");
        })
        .await;
    }
}

/// A file with an API key, which goes with the test.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new(key: &str) -> Self {
        let name = format!("karpenter-ibm-{}-rotated-key", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(key);
        file
    }

    fn write(&self, key: &str) {
        std::fs::write(&self.0, key).unwrap();
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// Azure#588: after about twelve hours every request was refused until somebody restarted the controller.
#[tokio::test(start_paused = true)]
async fn credentials_ran_out_and_only_a_restart_helped() {
    const SOON: Duration = Duration::from_mins(1);
    let world = World::new();
    let key = KeyFile::new("demo-api-key");
    let mut settings = World::settings("one");
    settings.ibm.credentials = Credentials::ApiKey(KeySource::File(key.0.clone()));
    while_working(audited::factory(settings)(world.edges()), async {
        world.ready_node("a").await;
        let ordered = async |name: &str, count: usize| {
            world.claim(name).await;
            let bought = async || world.orders() == count;
            world.until(&format!("{name} is bought"), SOON, bought).await;
            world.make_node(name).await;
        };
        // Two dozen tokens have run out since.
        world.clock.sleep(Duration::from_hours(24)).await;
        ordered("b", 2).await;
        world.cloud.revoke_tokens();
        ordered("c", 3).await;
        // The key is replaced, and the file learns of it only an hour after the old one was refused.
        world.cloud.set_api_keys(&["another-api-key"]);
        world.cloud.revoke_tokens();
        world.claim("d").await;
        world.clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(world.orders(), 3, "nobody lets us in");
        assert_eq!(world.living().len(), 3);
        key.write("another-api-key\n");
        world
            .until("works again", SOON, async || world.orders() == 4)
            .await;
        world.make_node("d").await;
        for name in ["a", "b", "c", "d"] {
            assert!(world.is_true(name, "Ready").await, "{name}");
        }
    })
    .await;
}
