//! A replica of the operator: started with empty memory, ended, paused and started again, by whoever holds it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::Registry;

use super::edges::{CloudEdge, KubeEdge};
use super::life::{Death, Ending, Life, Living, Mode};
use super::recorder::Recorder;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::ibm::Transports;
use crate::operator::{Edges, Factory};
use crate::sim::faults::{Desk, FaultName, Upon};
use crate::sim::ibm::Cloud;

/// How soon a container that ended is started again. Kubernetes starts it at once the first time and then waits 10 s,
/// doubled up to 5 minutes; what matters here is that Leases of 15 s run out sometimes and sometimes not.
const RESTART_SECONDS: std::ops::RangeInclusive<u64> = 1..=20;

/// Where replicas count the mistakes that they survive, and how these are told.
const MISTAKES: [(&str, &str); 2] = [
    ("karpenter_ibm_decision_panics_total", "panicked in"),
    ("karpenter_ibm_loops_ended_total", "ended by itself in"),
];

/// A replica. Clones are the same replica.
#[derive(Clone)]
pub struct Replica(Arc<Inner>);

struct Inner {
    number: usize,
    factory: Factory,
    outside: Outside,
    state: Mutex<State>,
}

struct State {
    life: Life,
    /// What the present life has counted.
    registry: Registry,
    /// The mistakes that were told already, by how they are told.
    confessed: BTreeMap<String, u64>,
    rng: fastrand::Rng,
    panics: u64,
    returns: u64,
}

/// What all replicas have outside of them.
#[derive(Clone)]
pub struct Outside {
    /// The Kubernetes API as they reach it.
    pub kube: Arc<KubeEdge>,
    /// The cloud.
    pub cloud: Cloud,
    /// The clock of their machines, which may be wrong.
    pub clock: Clock,
    /// Where everything is written.
    pub recorder: Recorder,
    /// Where crashes are counted.
    pub desk: Desk,
    /// Where their chance comes from.
    pub seed: u64,
}

impl Replica {
    /// Starts replica `number`, and goes on starting it whenever it ends.
    pub fn start(number: usize, factory: Factory, outside: Outside) -> Self {
        let seed = outside.seed ^ (0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number as u64 + 1));
        let replica = Self(Arc::new(Inner {
            number,
            factory,
            outside,
            state: Mutex::new(State {
                life: Life::new(number, 0),
                registry: Registry::new(),
                confessed: BTreeMap::new(),
                rng: fastrand::Rng::with_seed(seed),
                panics: 0,
                returns: 0,
            }),
        }));
        tokio::spawn(replica.clone().live());
        replica
    }

    /// Ends it when `more` further effects have landed, before it is told of the last: at once for none.
    pub fn crash_after(&self, more: u64) {
        self.life().die_after(more);
    }

    /// Ends it when what it next sends of that kind has landed, before it is told.
    pub fn crash_upon(&self, upon: Upon) {
        self.life().die_upon(upon);
    }

    /// Takes a crash that has not come yet back.
    pub fn spare(&self) {
        self.life().spare();
    }

    /// Stops polling it.
    pub fn pause(&self) {
        let life = self.life();
        if life.mode() == Mode::Running {
            life.pause();
            self.turn(&life, "paused");
        }
    }

    /// Stops polling it when it next sends something of that kind.
    pub fn pause_upon(&self, upon: Upon) {
        self.life().pause_upon(upon);
    }

    /// Asks it to stop, now or when it next sends something of that kind.
    pub fn stop_upon(&self, upon: Upon) {
        let life = self.life();
        match upon {
            Upon::Now => self.stop(&life, "at any time"),
            upon => life.stop_upon(upon),
        }
    }

    fn stop(&self, life: &Life, when: &str) {
        if life.mode() == Mode::Running && !life.stop().is_cancelled() {
            let detail = format!("replica {} {when}", self.0.number);
            self.0.outside.desk.strike(FaultName::Handover, &detail);
            self.turn(life, "asked to stop");
            life.stop().cancel();
        }
    }

    /// Polls it again.
    pub fn resume(&self) {
        let life = self.life();
        if life.mode() == Mode::Paused {
            self.turn(&life, "resumed");
        }
        life.resume();
    }

    /// Writes down the mistakes that it survived and told nobody but whoever reads its metrics.
    pub fn confess(&self) {
        let (life, news) = {
            let mut state = self.state();
            let counted = mistakes(&state.registry);
            let news: Vec<String> = counted
                .iter()
                .filter(|(what, times)| state.confessed.get(*what) != Some(times))
                .map(|(what, times)| format!("{what}, {times} times in all"))
                .collect();
            state.confessed = counted;
            (state.life.clone(), news)
        };
        for mistake in news {
            self.turn(&life, mistake);
        }
    }

    /// How often it panicked, and how often it ended by itself.
    pub fn failures(&self) -> (u64, u64) {
        let state = self.state();
        (state.panics, state.returns)
    }

    /// Its present life.
    pub fn life(&self) -> Life {
        self.state().life.clone()
    }

    async fn live(self) {
        loop {
            let life = self.life();
            self.turn(&life, "started");
            let edges = self.edges(&life);
            let future = (self.0.factory)(edges);
            let ending = tokio::spawn(Living::new(life.clone(), future)).await;
            // A panic ends a life as well.
            life.crash();
            self.confess();
            self.note(&life, &ending);
            let wait = self.next_life(&life);
            self.0.outside.clock.sleep(wait).await;
        }
    }

    fn note(&self, life: &Life, ending: &Result<Ending, tokio::task::JoinError>) {
        let effects = life.effects();
        match ending {
            Ok(Ending::Crashed) => {
                let detail = format!("replica {} after effect {effects}", self.0.number);
                self.0.outside.desk.strike(FaultName::Crash, &detail);
                self.turn(life, format!("crashed after effect {effects}"));
            }
            Ok(Ending::Returned) if life.stop().is_cancelled() => self.turn(life, "stopped as asked"),
            Ok(Ending::Returned) => {
                self.state().returns += 1;
                self.turn(life, "ended by itself");
            }
            Err(_) => {
                self.state().panics += 1;
                self.turn(life, "panicked");
            }
        }
    }

    /// Prepares the next life, and says in how long it begins. A pause or crash that comes meanwhile is its own.
    fn next_life(&self, over: &Life) -> Duration {
        let mut state = self.state();
        state.life = Life::new(self.0.number, over.ordinal() + 1);
        let wait = Duration::from_secs(state.rng.u64(RESTART_SECONDS));
        match over.spare() {
            Some(Death::After(more)) => state.life.die_after(more),
            Some(Death::Upon(upon)) => state.life.die_upon(upon),
            None => {}
        }
        wait
    }

    fn edges(&self, life: &Life) -> Edges {
        let outside = &self.0.outside;
        let exchange = Arc::new(CloudEdge {
            cloud: outside.cloud.exchange(),
            desk: outside.desk.clone(),
            life: life.clone(),
            recorder: outside.recorder.clone(),
        });
        let registry = Registry::new();
        let entropy = {
            let mut state = self.state();
            state.registry = registry.clone();
            state.confessed.clear();
            Entropy::seeded(state.rng.u64(..))
        };
        Edges {
            kube: outside.kube.client(life),
            ibm: Transports {
                cloud: exchange.clone(),
                metadata: exchange,
            },
            clock: outside.clock.clone(),
            entropy,
            registry,
            stop: life.stop().clone(),
        }
    }

    fn turn(&self, life: &Life, turn: impl Into<String>) {
        self.0.outside.recorder.turn(life.who(), turn);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mistakes that were counted, by how they are told: `panicked in interruption`.
fn mistakes(registry: &Registry) -> BTreeMap<String, u64> {
    let families = registry.gather();
    let counted = families.iter().filter_map(|family| {
        let (_, told) = MISTAKES.iter().find(|(name, _)| family.name() == *name)?;
        Some((family, *told))
    });
    let each = counted.flat_map(|(family, told)| {
        family.get_metric().iter().map(move |metric| {
            let what = metric.get_label().first().map_or("", |label| label.value());
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a counter of whole numbers from zero on"
            )]
            let times = metric.get_counter().get_value() as u64;
            (format!("{told} {what}"), times)
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, ListParams, PostParams};
    use kube::runtime::watcher;
    use tower::ServiceExt;
    use tower::util::BoxCloneSyncService;

    use super::*;
    use crate::sim::actors::kubelet::behavior::Oddities;
    use crate::sim::faults::Parts;
    use crate::sim::history::{CarriedOut, Entry, Keep, What, Who};
    use crate::sim::ibm;
    use crate::sim::kube::identity::{Keys, User};
    use crate::sim::kube::{ApiServer, Options};
    use crate::sim::world::audit::strangers;
    use crate::sim::world::edges::{Faults, Way};

    struct World {
        factory: Factory,
        server: ApiServer,
        recorder: Recorder,
        outside: Outside,
    }

    fn world(factory: Factory, faults: Faults) -> World {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        let recorder = Recorder::new(&clock, Keep::All, 1_000_000);
        let cloud = Cloud::new(ibm::Options::new("us-south", 1, clock.clone()));
        let told = recorder.clone();
        let desk = Desk::new(Parts {
            server: server.clone(),
            cloud: cloud.clone(),
            operator: "kubernetes-admin".to_owned(),
            clocks: Vec::new(),
            oddities: Oddities::default(),
            api_key: "demo-api-key".to_owned(),
            key_file: None,
            sink: Arc::new(move |what| told.add(Who::World, what)),
            witness: strangers(&recorder),
        });
        let outside = Outside {
            kube: Arc::new(KubeEdge {
                server: server.clone(),
                user: User::admin(),
                faults,
                recorder: recorder.clone(),
                desk: desk.clone(),
            }),
            cloud,
            desk,
            clock,
            recorder: recorder.clone(),
            seed: 1,
        };
        World {
            factory,
            server,
            recorder,
            outside,
        }
    }

    fn no_faults() -> Faults {
        Arc::new(|way| way)
    }

    fn slow(seconds: u64) -> Faults {
        Arc::new(move |way: Way| {
            let slow = tower::service_fn(move |request| {
                let way = way.clone();
                async move {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    way.oneshot(request).await
                }
            });
            BoxCloneSyncService::new(slow)
        })
    }

    /// An operator that wants ten config maps, and makes one each second.
    fn maker() -> Factory {
        Arc::new(|edges: Edges| {
            Box::pin(async move {
                let maps: Api<ConfigMap> = Api::default_namespaced(edges.kube);
                for name in 0..10 {
                    let mut map = ConfigMap::default();
                    map.metadata.name = Some(format!("map-{name}"));
                    let _exists = maps.create(&PostParams::default(), &map).await;
                    edges.clock.sleep(Duration::from_secs(1)).await;
                }
                std::future::pending::<()>().await;
            })
        })
    }

    impl World {
        fn start(&self) -> Replica {
            Replica::start(0, Arc::clone(&self.factory), self.outside.clone())
        }

        async fn maps(&self) -> usize {
            let maps: Api<ConfigMap> = Api::default_namespaced(self.server.admin());
            let all = maps.list(&ListParams::default()).await.unwrap().items;
            let made = |map: &&ConfigMap| map.metadata.name.as_deref().unwrap().starts_with("map-");
            all.iter().filter(made).count()
        }

        fn entries(&self) -> Vec<Entry> {
            self.recorder.history().entries().cloned().collect()
        }

        fn turns(&self) -> Vec<String> {
            let turn = |entry: &Entry| match &entry.what {
                What::Turn(turn) => Some(format!("{} {turn}", entry.who)),
                _ => None,
            };
            self.entries().iter().filter_map(turn).collect()
        }

        fn lost_after_effect(&self) -> usize {
            let lost = |entry: &&Entry| matches!(&entry.what, What::Answer(answer) if answer.status.is_none() && answer.carried_out == CarriedOut::Yes);
            self.entries().iter().filter(lost).count()
        }
    }

    async fn seconds(seconds: u64) {
        tokio::time::sleep(Duration::from_millis(seconds * 1000 + 500)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_mistake_that_it_survives_is_told_once() {
        let counting: Factory = Arc::new(|edges: Edges| {
            Box::pin(async move {
                for (metric, _) in MISTAKES {
                    let counter = prometheus::Opts::new(metric, "of a test");
                    let counter = prometheus::IntCounterVec::new(counter, &["where"]).unwrap();
                    edges.registry.register(Box::new(counter.clone())).unwrap();
                    counter.with_label_values(&["interruption"]).inc();
                }
                std::future::pending::<()>().await;
            })
        });
        let world = world(counting, no_faults());
        let replica = world.start();
        seconds(1).await;
        replica.confess();
        replica.confess();
        let told = world.turns();
        for mistake in ["panicked in interruption", "ended by itself in interruption"] {
            let times = told.iter().filter(|turn| turn.contains(mistake)).count();
            assert_eq!(times, 1, "{mistake}: {told:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_after_an_effect_comes_before_its_answer_for_every_effect() {
        for effect in 1..=10 {
            let world = world(maker(), no_faults());
            let replica = world.start();
            replica.crash_after(effect);
            // The next life begins a second later at the earliest.
            tokio::time::sleep(Duration::from_millis(effect * 1000 - 100)).await;
            assert_eq!(world.maps().await as u64, effect);
            assert_eq!(world.lost_after_effect(), 1, "the answer found nobody");
            let turns = world.turns();
            assert_eq!(
                turns[1],
                format!("replica-0.0 crashed after effect {effect}"),
                "{turns:?}"
            );
            seconds(60).await;
            assert_eq!(world.maps().await, 10, "the next life finishes");
            assert_eq!(world.turns().len(), 3, "{:?}", world.turns());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_handed_over_lands_after_a_crash() {
        let world = world(maker(), slow(10));
        let replica = world.start();
        seconds(2).await;
        assert_eq!(world.maps().await, 0);
        replica.crash_after(0);
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!(world.maps().await, 1);
        assert_eq!(world.lost_after_effect(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_replica_does_nothing_while_what_it_sent_lands() {
        let world = world(maker(), slow(10));
        let replica = world.start();
        seconds(2).await;
        replica.pause();
        seconds(60).await;
        assert_eq!(world.maps().await, 1);
        assert_eq!(replica.life().effects(), 1);
        replica.resume();
        seconds(11).await;
        assert_eq!(world.maps().await, 2);
        assert_eq!(world.turns().len(), 3, "{:?}", world.turns());
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_panics_or_returns_is_started_again_and_told_apart() {
        let panicking: Factory = Arc::new(|_| Box::pin(async { panic!("on purpose") }));
        let panicking = world(panicking, no_faults());
        let replica = panicking.start();
        seconds(25).await;
        assert!(replica.failures().0 >= 1);
        assert!(replica.life().ordinal() >= 1);
        let returning = world(Arc::new(|_| Box::pin(async {})), no_faults());
        let replica = returning.start();
        seconds(25).await;
        assert!(replica.failures().1 >= 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_asked_to_stop_ends_in_its_own_time_and_is_no_failure() {
        let obedient: Factory = Arc::new(|edges: Edges| {
            Box::pin(async move {
                edges.stop.cancelled().await;
                edges.clock.sleep(Duration::from_secs(3)).await;
            })
        });
        let world = world(obedient, no_faults());
        let replica = world.start();
        seconds(1).await;
        replica.stop_upon(Upon::Now);
        replica.stop_upon(Upon::Now);
        seconds(2).await;
        assert_eq!(replica.life().ordinal(), 0, "it has a while");
        seconds(1).await;
        assert_eq!(replica.life().ordinal(), 1);
        assert_eq!(replica.failures(), (0, 0));
        let told = world.turns();
        assert_eq!(
            told[1..],
            ["replica-0.0 asked to stop", "replica-0.0 stopped as asked"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_event_is_recorded_when_it_is_delivered() {
        let watcher: Factory = Arc::new(|edges: Edges| {
            Box::pin(async move {
                let maps: Api<ConfigMap> = Api::default_namespaced(edges.kube);
                let events = watcher(maps, watcher::Config::default());
                events
                    .map(Ok::<_, ()>)
                    .try_for_each(|_| async { Ok(()) })
                    .await
                    .ok();
            })
        });
        let world = world(watcher, no_faults());
        let replica = world.start();
        seconds(1).await;
        replica.pause();
        let maps: Api<ConfigMap> = Api::default_namespaced(world.server.admin());
        let mut map = ConfigMap::default();
        map.metadata.name = Some("late".to_owned());
        maps.create(&PostParams::default(), &map).await.unwrap();
        seconds(30).await;
        let delivered = |entry: &Entry| match &entry.what {
            What::Event { object, .. } if object == "default/late" => Some(entry.at.as_secs()),
            _ => None,
        };
        assert!(world.entries().iter().find_map(delivered).is_none());
        replica.resume();
        seconds(1).await;
        assert_eq!(world.entries().iter().find_map(delivered), Some(32));
    }

    #[tokio::test(start_paused = true)]
    async fn both_edges_are_in_the_history() {
        let buyer: Factory = Arc::new(|edges: Edges| {
            Box::pin(async move {
                let request = http::Request::get("https://us-south.iaas.cloud.ibm.com/v1/instances");
                let request = request.body(bytes::Bytes::new()).unwrap();
                edges.ibm.cloud.exchange(request).await.unwrap();
                std::future::pending::<()>().await;
            })
        });
        let world = world(buyer, no_faults());
        let _replica = world.start();
        seconds(1).await;
        let lines: Vec<String> = world.entries().iter().map(ToString::to_string).collect();
        assert!(
            lines[1].contains("replica-0.0 > 1 Cloud GET /v1/instances"),
            "{lines:?}"
        );
        assert!(lines[2].contains("< 1 401 carried-out=Yes"), "{lines:?}");
    }
}
