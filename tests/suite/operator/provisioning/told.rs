//! Each pod is told what becomes of it once, whatever the API server refuses meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::rbac::v1::ClusterRole;
use karpenter_ibm::operator::Edges;
use kube::Api;
use kube::api::PostParams;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::super::effects::Effects;
use super::super::unheard::Unheard;
use super::super::{World, audited, while_working};
use super::SOON;

const CREATE: &str = "create";

impl World {
    /// Changes what the controller may do with claims.
    async fn change_rights(&self, change: impl FnOnce(&mut Vec<String>)) {
        let roles: Api<ClusterRole> = Api::all(self.kube.admin());
        let mut role = roles.get("karpenter-ibm").await.unwrap();
        let mut rules = role.rules.iter_mut().flatten();
        let rule = rules.find(|rule| rule.resources.iter().flatten().any(|it| it == "nodeclaims"));
        change(&mut rule.unwrap().verbs);
        let params = PostParams::default();
        roles.replace("karpenter-ibm", &params, &role).await.unwrap();
    }

    /// A pool, once plans can be made for it.
    async fn usable_pool(&self) {
        self.pool("default", json!({})).await;
        self.clock.sleep(Duration::from_secs(30)).await;
    }

    /// The pods that were told so, once for each time.
    async fn pods_told(&self, reason: &str) -> Vec<String> {
        let mut told = self.objects_told(reason).await;
        told.sort();
        told
    }
}

/// What a pod asks for that nobody has.
fn nowhere() -> Value {
    json!({"nodeSelector": {"example.com/unicorn": "yes"}})
}

/// How often something of that kind was to be made.
fn posts(effects: &Effects, kind: &str) -> usize {
    let log = effects.log();
    let made = log
        .iter()
        .filter(|(method, path)| method == "POST" && path.ends_with(kind));
    made.count()
}

#[tokio::test(start_paused = true)]
async fn pods_whose_claim_is_refused_are_told_so_once_and_nominated_when_it_is_made() {
    let (world, effects) = (World::new(), Effects::without_end());
    let replica = audited::factory(World::settings("one"))(effects.around(world.edges()));
    while_working(
        replica,
        Box::pin(async {
            world.usable_pool().await;
            world.change_rights(|verbs| verbs.retain(|it| it != CREATE)).await;
            for pod in ["a", "b"] {
                world.waiting(pod, json!({})).await;
            }
            let refused = "cannot create resource \"nodeclaims\"";
            world.until_told("FailedScheduling", refused).await;
            world.clock.sleep(Duration::from_mins(5)).await;
            let tries = posts(&effects, "/nodeclaims");
            assert!(tries >= 5, "several passes, not {tries}");
            assert!(world.all_claims().await.is_empty());
            let notes = world.notes("FailedScheduling").await;
            assert!(notes.iter().all(|note| note.contains(refused)), "{notes:?}");
            assert_eq!(world.pods_told("FailedScheduling").await, ["a", "b"], "each once");
            assert!(world.pods_told("Nominated").await.is_empty());
            world.change_rights(|verbs| verbs.push(CREATE.to_owned())).await;
            world
                .until("both are nominated", Duration::from_mins(1), async || {
                    world.pods_told("Nominated").await == ["a", "b"]
                })
                .await;
            world.clock.sleep(Duration::from_mins(2)).await;
            assert_eq!(world.pods_told("Nominated").await, ["a", "b"]);
            assert_eq!(world.pods_told("FailedScheduling").await, ["a", "b"]);
        }),
    )
    .await;
}

/// What becomes of the first claim that is to be made.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// It is made, and the connection lost before the answer.
    Answer,
    /// It is made, and nobody answers.
    Silence,
    /// The connection is lost before it is made.
    Write,
}

impl Loss {
    /// The same edges, but for that.
    fn around(self, mut edges: Edges) -> Edges {
        let (inner, is_over) = (edges.kube, Arc::new(AtomicBool::new(false)));
        let service = service_fn(move |request: Request<Body>| {
            let (inner, is_over) = (inner.clone(), is_over.clone());
            async move {
                let makes = request.method() == Method::POST && request.uri().path().ends_with("/nodeclaims");
                if !makes || is_over.swap(true, Ordering::Relaxed) {
                    return inner.send(request).await.map_err(BoxError::from);
                }
                if !matches!(self, Self::Write) {
                    inner.send(request).await?;
                }
                if matches!(self, Self::Silence) {
                    std::future::pending::<()>().await;
                }
                Err(BoxError::from("connection reset by peer"))
            }
        });
        edges.kube = kube::Client::new(service, "default");
        edges
    }
}

/// A pod whose claim is on its way is planned for no more: what it was told last is what people read of it.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_is_made_without_an_answer_is_told_of_it_and_of_no_failure() {
    for loss in [Loss::Answer, Loss::Silence, Loss::Write] {
        let world = World::new();
        let replica = audited::factory(World::settings("one"))(loss.around(world.edges()));
        while_working(
            replica,
            Box::pin(async {
                world.usable_pool().await;
                world.waiting("a", json!({})).await;
                world
                    .until("it is nominated", Duration::from_mins(1), async || {
                        world.pods_told("Nominated").await == ["a"]
                    })
                    .await;
                world.clock.sleep(Duration::from_mins(2)).await;
                assert_eq!(world.pods_told("Nominated").await, ["a"], "{loss:?}: once");
                assert!(world.pods_told("FailedScheduling").await.is_empty(), "{loss:?}");
                assert_eq!(world.all_claims().await.len(), 1, "{loss:?}");
            }),
        )
        .await;
    }
}

/// A pod that a claim was made for is planned for no more, and one that nobody can place is: both hear of it.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_told_is_told_once_when_events_are_taken_again() {
    let (world, unheard) = (World::new(), Unheard::default());
    let replica = audited::factory(World::settings("one"))(unheard.around(world.edges()));
    while_working(
        replica,
        Box::pin(async {
            world.usable_pool().await;
            unheard.begin();
            world.waiting("served", json!({})).await;
            world.waiting("hopeless", nowhere()).await;
            world.until_claims(1).await;
            world.clock.sleep(Duration::from_secs(25)).await;
            for reason in ["Nominated", "FailedScheduling"] {
                assert!(world.pods_told(reason).await.is_empty(), "{reason}");
            }
            unheard.end();
            let told = async || {
                world.pods_told("Nominated").await == ["served"]
                    && world.pods_told("FailedScheduling").await == ["hopeless"]
            };
            world.until("both are told", SOON, async || told().await).await;
            world.clock.sleep(Duration::from_mins(2)).await;
            assert!(told().await, "once");
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_takes_no_events_is_asked_seldom_and_told_everything_afterwards() {
    const PODS: usize = 100;
    let (world, unheard, effects) = (World::new(), Unheard::default(), Effects::without_end());
    let edges = effects.around(unheard.around(world.edges()));
    while_working(
        audited::factory(World::settings("one"))(edges),
        Box::pin(async {
            world.usable_pool().await;
            unheard.begin();
            let before = posts(&effects, "/events");
            for number in 0..PODS {
                world.waiting(&format!("p{number}"), nowhere()).await;
            }
            world.clock.sleep(Duration::from_mins(10)).await;
            let tries = posts(&effects, "/events") - before;
            // Each once, and then sixteen every 15 s.
            assert!((PODS..=PODS + 16 * 42).contains(&tries), "{tries} tries");
            assert!(world.pods_told("FailedScheduling").await.is_empty());
            unheard.end();
            world
                .until("all are told", SOON, async || {
                    world.pods_told("FailedScheduling").await.len() == PODS
                })
                .await;
            world.clock.sleep(Duration::from_mins(2)).await;
            assert_eq!(world.pods_told("FailedScheduling").await.len(), PODS);
        }),
    )
    .await;
}
