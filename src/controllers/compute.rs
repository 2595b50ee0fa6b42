//! Where plans are computed: on a thread of its own, so that nothing else waits for it, or here, where every history must
//! be the same.
//!
//! A plan that ends in a panic is an error like any other: whoever asked for it hears of it, and nobody else does.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::model::Snapshot;
use crate::panics::{Panicked, caught};
use crate::scheduling::{self, Budget, Hands, Options, Plan};

/// Makes a plan from a snapshot; asks from time to time whether there is time left.
pub type Planner = Arc<dyn Fn(&Snapshot, Options, Budget<'_>) -> Plan + Send + Sync>;

/// Computes plans. Clones are the same.
#[derive(Clone)]
pub struct Compute {
    place: Place,
    planner: Planner,
}

/// Where plans are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where it is asked for.
    Here,
    /// On a thread of its own. If nobody waits for the plan any more, it is dropped.
    Apart,
}

impl Place {
    /// Here nothing else may run; apart, whatever the machine has.
    fn hands(self) -> Hands {
        let several = || std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        if self == Self::Apart && several() {
            Hands::Two
        } else {
            Hands::One
        }
    }
}

impl Compute {
    /// The solver, computed there.
    pub fn new(place: Place) -> Self {
        Self::with(place, Arc::new(scheduling::solve))
    }

    /// Another planner, computed there.
    pub fn with(place: Place, planner: Planner) -> Self {
        Self { place, planner }
    }

    /// Computed in the same place, and then seen, and perhaps changed, by somebody else.
    #[must_use]
    pub fn then(self, change: impl Fn(&Snapshot, Plan) -> Plan + Send + Sync + 'static) -> Self {
        let planner = self.planner;
        Self {
            planner: Arc::new(move |snapshot, options, budget| {
                change(snapshot, planner(snapshot, options, budget))
            }),
            ..self
        }
    }

    /// A plan for a snapshot, as far as it gets within `limit`.
    pub async fn plan(
        &self,
        snapshot: Arc<Snapshot>,
        options: Options,
        clock: &Clock,
        limit: Duration,
    ) -> Result<Plan, Panicked> {
        let ends = clock.instant() + clock.real(limit);
        let (planner, clock) = (self.planner.clone(), clock.clone());
        let options = Options {
            hands: self.place.hands(),
            ..options
        };
        let work = move || plan(&planner, &snapshot, options, &clock, ends);
        match self.place {
            Place::Here => work(),
            Place::Apart => match tokio::task::spawn_blocking(work).await {
                Ok(plan) => plan,
                // Panics are caught before they get here: the process is about to end.
                Err(error) => Err(Panicked(error.to_string())),
            },
        }
    }
}

fn plan(
    planner: &Planner,
    snapshot: &Snapshot,
    options: Options,
    clock: &Clock,
    ends: Instant,
) -> Result<Plan, Panicked> {
    let budget = || clock.instant() < ends;
    // Nothing that a panic could leave half done outlives it.
    caught(|| planner(snapshot, options, &budget))
}
