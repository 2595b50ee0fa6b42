//! From pods that wait to NodeClaims: watches, batches, plans, makes claims and tells each pod what it waits for.
//!
//! Observe (`cluster`), decide (`scheduling::solve`, on a thread of its own), act (`make`, `tell`). Nothing is remembered
//! that matters: a claim names the pods that it was made for in the write that makes it, so after a crash at any point
//! the next pass leaves these pods to it and plans for the others. Before anything is made, the claims are read from the
//! API server itself; if that shows any that the plan does not know, the plan is made anew. A claim's name follows from
//! its pods, so the same plan made twice is made once.

mod batch;
mod catalog;
pub mod claim;
mod doubt;
mod make;
mod part;
mod poison;
mod quarantine;
mod slots;
mod solve;
mod tell;
mod teller;

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use kube::api::{ListParams, ObjectList};

use super::context::Context;
use super::pace::Pace;
use crate::api::NodeClaim;
use crate::cloud;
use crate::cluster::Situation;
use crate::scheduling::Completeness;
use batch::{Due, Outlook};
use catalog::Catalog;
use doubt::Doubt;
use quarantine::Quarantine;
use solve::Solved;
use tell::Telling;
use teller::Voice;

/// When pods that found no place are looked at again although nothing has changed: prices, addresses and holds change
/// without telling anybody.
const AGAIN: Duration = Duration::from_secs(15);
/// How often a plan is made anew because others made claims meanwhile, before somebody else gets a turn.
const TRIES_MAX: usize = 3;
/// No answer of the API server takes longer; what comes later is found by the next pass.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API refused or did not answer.
    #[error("{doing}: {source}")]
    Kube {
        /// What was being done.
        doing: &'static str,
        /// Why it was not.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Kubernetes API did not answer in time.
    #[error("{0}: no answer in time")]
    Silent(&'static str),
    /// The cloud did not say what it sells.
    #[error("reading what is sold: {0}")]
    Cloud(#[from] cloud::Error),
    /// Nobody knows yet what is withheld.
    #[error("it is not known yet what is withheld")]
    HoldsUnknown,
    /// Others make claims all the time.
    #[error("others keep making claims")]
    Contended,
    /// Some claims could not be made.
    #[error("{0} claims could not be made")]
    Unmade(usize),
    /// No plan can be made, whatever is left out.
    #[error(transparent)]
    Panicked(#[from] crate::panics::Panicked),
}

/// Looks after pods that wait, for as long as this is polled.
pub async fn run(context: Context) {
    let (voice, teller) = teller::channel();
    let telling = teller.run(context.clone());
    let work = Provisioner::new(context, voice).run();
    tokio::select! {
        biased;
        () = work => {}
        () = telling => {}
    }
}

/// What a pass leaves to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Who has no place now: nothing else could be done.
    Nothing,
    /// Pods that there was no time for. Claims were made for others, whom the next pass leaves to these.
    Fewer,
    /// As much as before: no claim was made before time ran out, so the next pass has no less to do.
    AsMuch,
}

impl Rest {
    fn of(completeness: Completeness, made: usize) -> Self {
        match completeness {
            Completeness::Whole => Self::Nothing,
            Completeness::OutOfTime if made > 0 => Self::Fewer,
            Completeness::OutOfTime => Self::AsMuch,
        }
    }

    /// How long it waits if nothing changes. What comes to nothing must not take a processor for itself.
    fn wait(self) -> Duration {
        match self {
            Self::Fewer => Duration::ZERO,
            Self::Nothing | Self::AsMuch => AGAIN,
        }
    }
}

struct Provisioner {
    context: Context,
    catalog: Catalog,
    pace: Pace,
    quarantine: Quarantine,
    telling: Telling,
    /// Claims of ours that nobody else has told of yet.
    doubt: Doubt,
    outlook: Outlook,
}

impl Provisioner {
    fn new(context: Context, voice: Voice) -> Self {
        Self {
            catalog: Catalog::default(),
            pace: Pace::new(context.entropy.clone()),
            quarantine: Quarantine::default(),
            telling: Telling::new(voice),
            doubt: Doubt::default(),
            outlook: Outlook::default(),
            context,
        }
    }

    async fn run(mut self) {
        loop {
            if self.gather().await == Due::Look {
                self.look_at_claims().await;
                continue;
            }
            let now = self.context.clock.now();
            let known = self.context.cluster.with(|index| index.begin_pass(now));
            self.outlook.begin(known);
            // On the heap: it holds a plan.
            let wait = match Box::pin(self.pass()).await {
                Ok(rest) => {
                    self.pace.forget("pass");
                    rest.wait()
                }
                Err(error) => {
                    tracing::warn!(%error, "pods are not planned for now");
                    self.context.metrics.pass_failed();
                    self.pace.wait("pass")
                }
            };
            let again_at = self.context.clock.instant() + self.context.clock.real(wait);
            self.outlook.end(again_at);
        }
    }

    async fn gather(&mut self) -> Due {
        batch::gather(
            &self.context,
            &mut self.outlook,
            &self.quarantine,
            &mut self.doubt,
        )
        .await
    }

    /// Reads the claims from the API server itself: one that is gone without a word keeps its pods no longer.
    async fn look_at_claims(&self) {
        match self.list_claims().await {
            Ok(listed) => {
                self.context.cluster.with(|index| index.settle(&listed));
            }
            Err(error) => tracing::warn!(%error, "a claim of ours stays unconfirmed"),
        }
    }

    /// One pass over all pods that wait.
    async fn pass(&mut self) -> Result<Rest, Error> {
        for _ in 0..TRIES_MAX {
            let sold = self.catalog.read(&self.context).await?;
            let but = self.quarantined();
            let now = self.context.clock.now();
            let mut situation = self
                .context
                .cluster
                .with(|index| index.situation(&sold.types, &but, now));
            situation.snapshot.closed = sold.closed;
            if situation.snapshot.pending.members.is_empty() && situation.unfit.is_empty() {
                self.telling.keep(&situation, &but);
                return Ok(Rest::Nothing);
            }
            let solved = self.solve(situation, &but).await?;
            self.quarantine.add(
                &solved.poisoned,
                self.context.clock.instant(),
                &self.context.clock,
            );
            if !solved.plan.claims.is_empty() && self.is_outdated(&solved).await? {
                continue;
            }
            return self.carry_out(solved).await;
        }
        Err(Error::Contended)
    }

    async fn solve(&self, situation: Situation, but: &BTreeSet<String>) -> Result<Solved, Error> {
        let (clock, metrics) = (&self.context.clock, &self.context.metrics);
        metrics.planning(situation.snapshot.pending.members.len());
        let began = clock.instant();
        let solved = solve::solve(&self.context, situation, but).await;
        metrics.solved(clock.instant().saturating_duration_since(began));
        solved
    }

    async fn carry_out(&mut self, solved: Solved) -> Result<Rest, Error> {
        self.catalog.doubt(!solved.plan.left_out.is_empty());
        let made = make::make(&self.context, &solved).await;
        self.context.metrics.planned(&solved.plan, made.claims.len());
        self.telling.tell(&solved, &made, &self.quarantined());
        if made.failed > 0 {
            return Err(Error::Unmade(made.failed));
        }
        Ok(Rest::of(solved.plan.completeness, made.claims.len()))
    }

    fn quarantined(&self) -> BTreeSet<String> {
        self.quarantine.at(self.context.clock.instant())
    }

    /// Whether the API server knows of claims that the plan does not: others made them, or an answer to us was lost.
    async fn is_outdated(&self, solved: &Solved) -> Result<bool, Error> {
        let listed = self.list_claims().await?;
        let known = |name: &str| solved.situation.knows(name);
        let has_news = listed
            .items
            .iter()
            .any(|claim| !known(claim.metadata.name.as_deref().unwrap_or_default()));
        self.context.cluster.with(|index| index.settle(&listed));
        Ok(has_news)
    }

    async fn list_claims(&self) -> Result<ObjectList<NodeClaim>, Error> {
        let claims: Api<NodeClaim> = Api::all(self.context.client.clone());
        // No resourceVersion: answered from the latest state, not from a cache.
        let params = ListParams::default();
        timely(&self.context, "listing the claims", claims.list(&params)).await
    }
}

/// The answer, unless it takes too long.
async fn timely<T>(
    context: &Context,
    doing: &'static str,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        answer = asked => answer.map_err(|source| Error::Kube { doing, source: Box::new(source) }),
        () = context.clock.sleep(REQUEST_MAX) => Err(Error::Silent(doing)),
    }
}

impl Situation {
    /// Whether a claim of this name was counted.
    fn knows(&self, claim: &str) -> bool {
        self.snapshot.nodes.iter().any(|node| node.name == claim)
    }
}

#[cfg(test)]
mod tests;
