//! A certificate that is about to end.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use karpenter_ibm::api::CapacityType;
use karpenter_ibm::controllers::approver;
use karpenter_ibm::ibm::builtin::find_profile;
use karpenter_ibm::sim::actors::kubelet::behavior::Oddities;
use karpenter_ibm::sim::actors::kubelet::disk::Disk;
use karpenter_ibm::sim::actors::kubelet::machine::{Consoles, Machine};
use karpenter_ibm::sim::actors::kubelet::pods::Pace;
use karpenter_ibm::sim::actors::kubelet::{self, Guest, Power};
use karpenter_ibm::sim::actors::network::InProcess;
use karpenter_ibm::sim::ibm::{Cloud, Options, Span};
use karpenter_ibm::sim::kube::identity::Keys;
use kube::api::{Api, ListParams};
use tokio::sync::watch;
use tokio::time::timeout;

use super::release::Release;
use super::{REGION, URL, embedded, within};

const DAY: Duration = Duration::from_hours(24);

#[tokio::test(start_paused = true)]
async fn a_kubelet_asks_for_the_next_certificate_before_the_present_one_ends() {
    let (server, clock) = embedded(1);
    let (admin, disk, consoles) = (server.admin(), Disk::default(), Consoles::default());
    let cloud = Cloud::new(Options::new(REGION, 1, clock.clone()));
    let release = Release::install(&within(&server), &cloud, &clock).await;
    let user_data = release.user_data("node-a", CapacityType::Spot).await;
    release.launched("node-a", "0717_a").await;
    let power = watch::Sender::new(Power::On);
    let guest = |boots| Guest {
        machine: Machine {
            id: "0717_a".to_owned(),
            name: "node-a".to_owned(),
            zone: "us-south-1".to_owned(),
            profile: find_profile("bxf-2x8").unwrap(),
            address: Ipv4Addr::new(10, 240, 0, 4),
            storage_gb: 100,
            user_data: user_data.clone(),
            metadata_service: true,
            boots,
        },
        disk: disk.clone(),
        network: Arc::new(InProcess::new(server.clone(), URL)),
        clock: clock.clone(),
        power: power.subscribe(),
        consoles: consoles.clone(),
        keys: Keys::Fixed,
        behaviors: Vec::new(),
        oddities: Oddities::default(),
        pace: Pace::default(),
        ready_after: Span::seconds(0, 0),
        rng: Rng::with_seed(1),
    };
    let minute = Duration::from_mins(1);
    let lives = async |boots| {
        let both = Box::pin(async {
            tokio::join!(kubelet::run(guest(boots)), approver::run(release.context.clone()))
        });
        let _ = timeout(minute, both).await;
    };
    let current = || {
        disk.read("/var/lib/kubelet/pki/kubelet-client-current.pem")
            .unwrap()
    };
    let requests: Api<CertificateSigningRequest> = Api::all(admin.clone());
    let count = async || requests.list(&ListParams::default()).await.unwrap().items.len();

    lives(0).await;
    let first = current();
    release.registered("node-a").await;
    clock.sleep(200 * DAY).await;
    lives(1).await;
    assert_eq!(
        (current(), count().await),
        (first.clone(), 1),
        "it holds for a year"
    );
    clock.sleep(100 * DAY).await;
    lives(2).await;
    assert_ne!(current(), first);
    assert_eq!(count().await, 2);
    let renewal = &requests.list(&ListParams::default()).await.unwrap().items;
    let users: Vec<_> = renewal
        .iter()
        .filter_map(|request| request.spec.username.clone())
        .collect();
    assert!(users.contains(&"system:node:node-a".to_owned()), "{users:?}");
}
