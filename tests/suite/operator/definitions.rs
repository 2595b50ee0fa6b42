//! Definitions of another release, which drop what is written.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use karpenter_ibm::controllers::definitions::Readiness;
use karpenter_ibm::operator::{self, serve};
use kube::api::{Patch, PatchParams};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use super::{World, audited, while_working};

const NAME: &str = "nodeclaims.karpenter.sh";
const STATUS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";

/// A replica, and what it says of itself once it has begun.
struct Process {
    replica: BoxFuture<'static, ()>,
    said: Said,
}

struct Said {
    readiness: Arc<Mutex<Option<watch::Receiver<Readiness>>>>,
    registry: Registry,
}

impl Said {
    /// Where it is asked over HTTP.
    fn router(&self) -> axum::Router {
        let readiness = self.readiness.lock().unwrap().take();
        serve::router(self.registry.clone(), readiness.expect("it has begun"))
    }
}

fn process(world: &World) -> Process {
    let (edges, readiness) = (world.edges(), Arc::new(Mutex::new(None)));
    let (registry, kept) = (edges.registry.clone(), readiness.clone());
    let change = move |context: operator::Context| {
        *kept.lock().unwrap() = Some(context.definitions.readiness());
        context
    };
    Process {
        replica: audited::factory_of(World::settings("one"), |edges| edges, change)(edges),
        said: Said { readiness, registry },
    }
}

async fn ready(router: &axum::Router) -> (StatusCode, String) {
    let request = Request::get("/readyz").body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// How many claims suffer, by the metric.
fn dropped(registry: &Registry) -> String {
    let families = registry.gather();
    let found = families
        .iter()
        .find(|family| family.name() == "karpenter_ibm_allocations_dropped");
    found.unwrap().get_metric()[0].get_gauge().get_value().to_string()
}

#[tokio::test(start_paused = true)]
async fn under_a_definition_that_drops_allocations_nothing_is_bought_and_it_is_said_everywhere() {
    let world = World::new();
    let mut field = Value::Null;
    let without = |definition: &mut Value| {
        let status = definition.pointer_mut(STATUS).unwrap().as_object_mut().unwrap();
        field = status.remove("allocation").unwrap();
    };
    world.redefine(NAME, without).await;
    let Process { replica, said } = process(&world);
    while_working(replica, async {
        world
            .until_judged("default", "True", Duration::from_mins(1))
            .await;
        let router = said.router();
        assert_eq!(ready(&router).await.0, StatusCode::OK);
        world.claim("a").await;
        world.claim("b").await;
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.orders(), 0);
        let (status, words) = ready(&router).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            words.contains(NAME) && words.contains("crds/karpenter.sh_nodeclaims.yaml"),
            "{words}"
        );
        assert_eq!(dropped(&said.registry), "2");
        let told = world.told("ForeignDefinitions").await;
        let about: Vec<&str> = told.iter().map(|(about, _, _)| about.as_str()).collect();
        assert_eq!(about, ["NodeClaim a", "NodeClaim b"]);
        assert!(told[0].2.contains(NAME), "{}", told[0].2);
        let with = |definition: &mut Value| definition.pointer_mut(STATUS).unwrap()["allocation"] = field;
        world.redefine(NAME, with).await;
        world.until_launched("a").await;
        world.until_launched("b").await;
        assert_eq!(
            (ready(&router).await.0, dropped(&said.registry)),
            (StatusCode::OK, "0".to_owned())
        );
        assert_eq!(world.orders(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_again_when_the_last_claim_that_suffered_is_gone() {
    let world = World::new();
    let without = |definition: &mut Value| {
        let status = definition.pointer_mut(STATUS).unwrap().as_object_mut().unwrap();
        status.remove("allocation");
    };
    world.redefine(NAME, without).await;
    let Process { replica, said } = process(&world);
    while_working(replica, async {
        world.claim("a").await;
        world.clock.sleep(Duration::from_secs(1)).await;
        let router = said.router();
        world
            .until("not ready", Duration::from_mins(2), async || {
                ready(&router).await.0 == StatusCode::SERVICE_UNAVAILABLE
            })
            .await;
        world.delete("a").await;
        world.until_gone("a").await;
        world
            .until("ready", Duration::from_mins(1), async || {
                ready(&router).await.0 == StatusCode::OK
            })
            .await;
    })
    .await;
}

impl World {
    async fn is_recorded(&self, name: &str) -> bool {
        let status = self.read(name).await.and_then(|claim| claim.status);
        let allocation = status.and_then(|status| status.allocation);
        allocation.is_some_and(|it| it.instance_id.is_some())
    }

    /// Somebody writes to a claim while a definition that does not know allocations is installed.
    async fn drop_allocation(&self, name: &str) {
        let mut field = Value::Null;
        let without = |definition: &mut Value| {
            let status = definition.pointer_mut(STATUS).unwrap().as_object_mut().unwrap();
            field = status.remove("allocation").unwrap();
        };
        self.redefine(NAME, without).await;
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"team": "bank"}}}));
        let written = self.claims().patch(name, &PatchParams::default(), &patch).await;
        written.unwrap();
        let with = |definition: &mut Value| definition.pointer_mut(STATUS).unwrap()["allocation"] = field;
        self.redefine(NAME, with).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_allocation_was_dropped_is_adopted_although_others_have_filled_the_pool() {
    let world = World::new();
    while_working(world.replica(), async {
        world.claim("b").await;
        world.until_launched("b").await;
        world.claim("a").await;
        world
            .until("bought", Duration::from_mins(1), async || {
                world.is_recorded("a").await
            })
            .await;
    })
    .await;
    let machine = world.machine_of("a").await;
    assert!(!world.is_true("a", "Launched").await, "it is on its way");
    world.drop_allocation("a").await;
    assert!(!world.is_recorded("a").await && world.is_recorded("b").await);
    world.limited_pool(&json!({"nodes": 1})).await;
    while_working(world.replica(), async {
        world.until_launched("a").await;
        assert_eq!(world.machine_of("a").await, machine);
        world.clock.sleep(Duration::from_mins(3)).await;
        assert!(!world.is_deleting("a").await && !world.is_deleting("b").await);
        assert_eq!((world.living().len(), world.orders()), (2, 2));
        assert!(world.told("InsufficientCapacity").await.is_empty());
        world.claim("c").await;
        world.until_gone("c").await;
        assert_eq!(world.orders(), 2, "nothing has its name, and the pool is full");
    })
    .await;
}
