//! Answers are lost at scale, on both sides: nothing is bought twice, and nothing stays behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use karpenter_ibm::operator::Edges;
use karpenter_ibm::sim::ibm::{Fault, FaultKind, Options};
use kube::client::Body;
use tower::{BoxError, service_fn};

use super::effects::is_effect;
use super::{World, audited, while_working};

/// Of so many writes to the cluster one is lost on its way, and one is carried out while its answer is lost.
const ONE_IN: usize = 10;

/// How often either happened.
#[derive(Clone, Default)]
struct Lost {
    writes: Arc<AtomicUsize>,
}

impl Lost {
    /// Edges whose writes to the cluster get lost.
    fn around(&self, mut edges: Edges) -> Edges {
        let (inner, lost) = (edges.kube, self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (inner, lost) = (inner.clone(), lost.clone());
            async move {
                let counts = is_effect(request.method(), request.uri().path());
                let number = if counts {
                    lost.writes.fetch_add(1, Ordering::Relaxed) + 1
                } else {
                    0
                };
                let broken = || BoxError::from("connection reset by peer");
                if counts && number.is_multiple_of(ONE_IN) {
                    return Err(broken());
                }
                let answer = inner.send(request).await.map_err(BoxError::from);
                if counts && number % ONE_IN == ONE_IN / 2 {
                    return Err(broken());
                }
                answer
            }
        });
        edges.kube = kube::Client::new(service, "default");
        edges
    }
}

/// aws#549: one machine in ten of a thousand was made while its answer was lost, and leaked.
#[tokio::test(start_paused = true)]
async fn one_machine_in_ten_leaked_when_answers_were_lost() {
    const CLAIMS: usize = 200;
    let world = World::with(Options::make_roomy);
    for kind in [FaultKind::LostCreate, FaultKind::ServerErrorAfter] {
        let fault = Fault::new(kind).probability(0.2).on("instances.create");
        world.cloud.faults().start(fault);
    }
    let lost = Lost::default();
    let replica = audited::factory(World::settings("one"))(lost.around(world.edges()));
    let names: Vec<String> = (0..CLAIMS).map(|number| format!("claim-{number}")).collect();
    while_working(replica, async {
        for name in &names {
            world.claim(name).await;
        }
        for name in &names {
            world.until_launched(name).await;
        }
        assert_eq!(world.living().len(), CLAIMS, "each has one, and nobody two");
        let (written, strikes) = (
            lost.writes.load(Ordering::Relaxed),
            world.cloud.faults().take_strikes().len(),
        );
        assert!(
            written > 4 * CLAIMS && strikes > CLAIMS / 5,
            "{written} writes, {strikes} strikes"
        );
        for name in &names {
            world.delete(name).await;
        }
        world
            .until("given back", Duration::from_mins(20), async || {
                world.cloud.instances().is_empty() && world.all_claims().await.is_empty()
            })
            .await;
        assert!(world.cloud.orphans().is_empty(), "{:?}", world.cloud.orphans());
    })
    .await;
}
