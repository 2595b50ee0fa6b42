//! An IBM Cloud in this process: VPC, IAM, Global Catalog, Tagging, Search and Resource Manager of one account in one
//! region, with their paths, bodies, errors, delays and faults.
//!
//! Guarantees. The state is a function of the seed, the clock and the requests: same seed, same requests at the same
//! times, same answers, ids included. Time comes from the [`Clock`](crate::clock::Clock) alone; nothing happens
//! between two looks ([`Cloud::next_due`] says when the next thing would). Each request is carried out whole, also
//! when its client goes away.
//!
//! It knows nothing of the client's types: bodies are built and read by its own code, so that a mistake in the
//! client's shows.

mod ask;
mod capacity;
mod catalog;
mod control;
mod create;
mod distortion;
mod errors;
mod exchange;
mod extra_fields;
mod faults;
mod fields;
mod geography;
mod groups;
mod handling;
mod iam;
mod ids;
mod images;
mod instances;
mod interfaces;
mod names;
mod network;
mod operations;
mod options;
mod page;
mod patch;
mod placement;
mod pricing;
mod profiles;
mod prototype;
mod routes;
mod rules;
mod search;
mod seeding;
mod serve;
mod state;
mod tags;
mod truth;
mod view;
mod volumes;
mod withdrawal;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use tokio::sync::watch;

pub use exchange::InProcess;
pub use faults::{Fault, FaultKind, FaultPlan, RetryAfter, Strike};
pub use geography::zones;
pub use handling::Seen;
pub use images::ImageStatus;
pub use instances::{HostFailure, Preemption, START_FAILURES, Status};
pub use network::SubnetCondition;
pub use options::{
    Answers, Class, DeleteAgain, DeleteWhilePending, Options, Quotas, Rename, Span, Stock, Timings,
};
pub use routes::operation_names;
pub use serve::{ServeError, Server};
pub use truth::{Account, InstanceTruth, NoSuch, PartTruth};

use state::State;

/// The most requests that are remembered; older ones are only counted.
const REQUESTS_KEPT: usize = 100_000;

/// A simulated cloud. Clones are the same cloud.
#[derive(Clone)]
pub struct Cloud(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    requests: Mutex<Requests>,
    moves: watch::Sender<u64>,
}

/// The requests that were seen, the simulator's own control routes left out.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    recent: VecDeque<Seen>,
    count: u64,
}

impl Requests {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those that are remembered, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Seen> {
        self.recent.iter()
    }

    /// Those after the first `count`, as far as they are remembered, oldest first.
    pub fn since(&self, count: u64) -> impl Iterator<Item = &Seen> {
        let kept = u64::try_from(self.recent.len()).unwrap_or(u64::MAX);
        let forgotten = self.count.saturating_sub(kept);
        let known = count.saturating_sub(forgotten);
        self.recent
            .iter()
            .skip(usize::try_from(known).unwrap_or(usize::MAX))
    }
}

impl Cloud {
    /// A region with one VPC, a subnet in each zone, stock images, a key and no instances.
    pub fn new(options: Options) -> Self {
        let mut state = State::new(options);
        seeding::seed(&mut state);
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            requests: Mutex::default(),
            moves: watch::Sender::new(0),
        }))
    }

    /// The same services without a socket.
    pub fn exchange(&self) -> InProcess {
        InProcess(self.router())
    }

    /// All services, told apart by path.
    pub fn router(&self) -> axum::Router {
        routes::router(self.clone())
    }

    /// Lets everything happen that is due.
    pub fn advance(&self) {
        self.with(|_| ());
    }

    /// When the next thing happens, if nobody asks for anything.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.with(|state| state.next_due())
    }

    /// Tells when an instance appears, changes its status or vanishes. Nothing happens between two looks, so whoever
    /// waits for this also looks again at [`Cloud::next_due`].
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.0.moves.subscribe()
    }

    /// How often an instance appeared, changed its status or vanished, by the last look of anybody.
    pub fn moved(&self) -> u64 {
        *self.0.moves.borrow()
    }

    /// The requests seen so far.
    pub fn requests(&self) -> Requests {
        lock(&self.0.requests).clone()
    }

    /// How many requests were seen so far.
    fn request_count(&self) -> u64 {
        lock(&self.0.requests).count
    }

    /// Turns faults on and off.
    pub fn faults(&self) -> FaultControl {
        FaultControl(self.clone())
    }

    /// Looks at the state, after everything that is due has happened.
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.0.state);
        state.advance();
        let seen = look(&mut state);
        let moves = state.moves;
        self.0
            .moves
            .send_if_modified(|told| std::mem::replace(told, moves) != moves);
        seen
    }

    fn record(&self, method: &Method, path: &str, query: &str) {
        let at = self.with(|state| state.now);
        let mut requests = lock(&self.0.requests);
        requests.count += 1;
        if requests.recent.len() == REQUESTS_KEPT {
            requests.recent.pop_front();
        }
        requests.recent.push_back(Seen {
            at,
            method: method.clone(),
            path: path.into(),
            query: query.into(),
        });
    }

    async fn sleep(&self, duration: Duration) {
        if !duration.is_zero() {
            let clock = self.with(|state| state.options.clock.clone());
            clock.sleep(duration).await;
        }
    }
}

/// Turns faults on and off in a running cloud.
#[derive(Clone)]
pub struct FaultControl(Cloud);

impl FaultControl {
    /// Turns a fault on, in place of one of the same kind.
    pub fn start(&self, fault: Fault) {
        self.0.with(|state| state.faults.start(fault));
    }

    /// Like [`FaultControl::start`], with chance of its own, so that it strikes the same whatever else is on. Of several of one
    /// kind the latest holds.
    pub fn start_with(&self, fault: Fault, stream: u64) {
        self.0.with(|state| state.faults.start_with(fault, stream));
    }

    /// Ends the one that was started with that chance. Another of its kind that holds goes on as it is.
    pub fn stop_with(&self, kind: FaultKind, stream: u64) {
        self.0.with(|state| state.faults.stop_with(kind, stream));
    }

    /// What struck since this was asked last, oldest first; of very many the oldest are forgotten.
    pub fn take_strikes(&self) -> Vec<Strike> {
        self.0.with(|state| state.faults.take_strikes())
    }

    /// Turns a kind off.
    pub fn stop(&self, kind: FaultKind) {
        self.0.with(|state| state.faults.stop(kind));
    }

    /// Turns everything off.
    pub fn clear(&self) {
        self.0.with(|state| state.faults.clear());
    }

    /// What is on.
    pub fn active(&self) -> Vec<Fault> {
        self.0.with(|state| state.faults.active())
    }
}

/// A handler that panicked has been answered as a lost connection; the state it left is still consistent enough to
/// look at, and a test that goes on will say what is wrong with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
