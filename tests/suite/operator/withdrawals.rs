//! What is not sold, or not there, for some minutes: whoever needs it finds it again soon after it is back, and nobody asks
//! for it all the time.

use std::time::Duration;

use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{World, while_working};

impl World {
    /// How often it was read what is sold.
    fn readings(&self) -> usize {
        let requests = self.cloud.requests();
        let lists = requests
            .iter()
            .filter(|seen| seen.path == "/v1/instance/profiles" && !seen.query.contains("start="));
        lists.count()
    }

    /// How often it was asked for images.
    fn looks_for_images(&self) -> usize {
        let requests = self.cloud.requests();
        let looks = requests.iter().filter(|seen| seen.path.starts_with("/v1/images"));
        looks.count()
    }

    /// Until it was read what is sold, to the last page.
    async fn until_read(&self) {
        let within = Duration::from_mins(1);
        self.until("what is sold is read", within, async || self.readings() == 1)
            .await;
        self.clock.sleep(Duration::from_secs(10)).await;
    }
}

fn in_zone(zone: &str) -> Value {
    json!({"nodeSelector": {"topology.kubernetes.io/zone": zone}})
}

fn withdrawn(zone: &str) -> Fault {
    Fault::new(FaultKind::ZoneWithdrawn).of(zone)
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_was_withdrawn_while_it_was_read_what_is_sold_is_bought_in_within_minutes() {
    let world = World::new();
    world.cloud.faults().start(withdrawn("us-south-1"));
    while_working(world.replica(), async {
        world.pool("default", json!({})).await;
        world.waiting("a", in_zone("us-south-1")).await;
        world
            .until("told", Duration::from_mins(1), async || {
                !world.notes("FailedScheduling").await.is_empty()
            })
            .await;
        assert_eq!(world.readings(), 1);
        world.clock.sleep(Duration::from_mins(2)).await;
        world.cloud.faults().stop(FaultKind::ZoneWithdrawn);
        assert_eq!(world.readings(), 1, "what is some minutes old will do");
        world
            .until("claimed", Duration::from_mins(4), async || {
                !world.all_claims().await.is_empty()
            })
            .await;
        assert_eq!(world.readings(), 2);
        let [claim] = world.all_claims().await.try_into().unwrap();
        world.until_launched(&claim.name_any()).await;
        assert_eq!(world.living()[0].zone, "us-south-1");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_can_never_be_placed_has_what_is_sold_read_every_five_minutes_until_it_is_gone() {
    let world = World::new();
    while_working(world.replica(), async {
        world.pool("default", json!({})).await;
        world.waiting("a", in_zone("nowhere-1")).await;
        world.clock.sleep(Duration::from_mins(31)).await;
        let readings = world.readings();
        // One at the start, and then one each five minutes and at most fifteen seconds.
        assert!((6..=7).contains(&readings), "{readings} readings in half an hour");
        let at_once = DeleteParams::default().grace_period(0);
        world.pods().delete("a", &at_once).await.unwrap();
        world.clock.sleep(Duration::from_mins(30)).await;
        assert_eq!(world.readings(), readings, "nobody waits");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_finds_nothing_looks_at_what_is_sold_now_before_it_ends() {
    let world = World::new();
    world.cloud.faults().start(withdrawn("us-south-1"));
    while_working(world.replica(), async {
        world.until_read().await;
        world.cloud.faults().stop(FaultKind::ZoneWithdrawn);
        world.clock.sleep(Duration::from_mins(6)).await;
        assert_eq!(world.readings(), 1, "nobody misses it");
        world.claim_in("a", "us-south-1").await;
        world.until_launched("a").await;
        assert_eq!(world.readings(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_is_refused_since_it_is_gone_is_not_ordered_for_the_next_claim() {
    let world = World::new();
    while_working(world.replica(), async {
        world.until_read().await;
        world.clock.sleep(Duration::from_mins(6)).await;
        let gone = Fault::new(FaultKind::ProfileWithdrawn).of("bxf-2x8");
        world.cloud.faults().start(gone);
        let two_kinds = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["bxf-2x8", "bxf-4x16"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        ]);
        let pool = json!({"template": {"spec": {"requirements": two_kinds}}});
        world.pool("default", pool).await;
        world.waiting("a", json!({})).await;
        world
            .until("refused", Duration::from_mins(1), async || world.orders() == 1)
            .await;
        world
            .until("bought", Duration::from_mins(10), async || {
                world.living().len() == 1
            })
            .await;
        assert_eq!(world.living()[0].profile, "bxf-4x16");
        assert_eq!(world.orders(), 2, "it is refused once");
        // One at the start, one after the refusal, and perhaps one for the pod that waited meanwhile.
        assert!(world.readings() <= 3, "{} readings", world.readings());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn whoever_doubts_a_list_that_cannot_be_read_has_the_last_one_and_tries_again_minutes_later() {
    let world = World::new();
    let cloud = world.seen();
    let first = cloud.kinds().await.unwrap();
    world.clock.sleep(Duration::from_mins(6)).await;
    let outage = Fault::new(FaultKind::Forbidden).on("profiles.list");
    world.cloud.faults().start(outage);
    let begun = world.readings();
    assert_eq!(cloud.recent_kinds().await.unwrap(), first);
    let tried = world.readings();
    assert!(tried > begun);
    world.cloud.faults().clear();
    world.clock.sleep(Duration::from_mins(4)).await;
    cloud.recent_kinds().await.unwrap();
    cloud.kinds().await.unwrap();
    assert_eq!(world.readings(), tried, "it was tried a while ago");
    world.clock.sleep(Duration::from_mins(2)).await;
    cloud.kinds().await.unwrap();
    assert_eq!(
        world.readings(),
        tried,
        "who does not doubt it takes what is at hand"
    );
    cloud.recent_kinds().await.unwrap();
    assert_eq!(world.readings(), tried + 1);
}

#[tokio::test(start_paused = true)]
async fn a_class_whose_image_was_gone_is_ready_a_minute_after_it_is_back() {
    let world = World::new();
    let minute = Duration::from_mins(1);
    while_working(world.replica(), async {
        world.until_judged("default", "True", minute).await;
        world.cloud.faults().start(Fault::new(FaultKind::ImageDeleted));
        let class = world.until_judged("default", "False", minute * 6).await;
        let before = world.looks_for_images();
        world.clock.sleep(minute * 10).await;
        let looks = world.looks_for_images() - before;
        assert!((9..=11).contains(&looks), "{looks} looks within ten minutes");
        let later = world.classes().get("default").await.unwrap();
        assert_eq!(
            later.resource_version(),
            class.resource_version(),
            "it is told once"
        );
        world.cloud.faults().stop(FaultKind::ImageDeleted);
        let soon = minute + Duration::from_secs(10);
        world.until_judged("default", "True", soon).await;
        let before = world.looks_for_images();
        world.clock.sleep(minute * 4).await;
        assert_eq!(world.looks_for_images(), before, "a class that is ready rests");
    })
    .await;
}
