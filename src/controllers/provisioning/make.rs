//! Makes the claims of a plan.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, ResourceExt};

use super::claim::{Wanted, manifest, name_for};
use super::solve::Solved;
use super::{Error, timely};
use crate::api::NodeClaim;
use crate::controllers::context::Context;
use crate::controllers::metrics::Metrics;
use crate::panics::{Panicked, words};
use crate::scheduling::NewClaim;

/// Claims that are made at once: what an API server answers in a moment, and no more than it takes from one client.
const AT_ONCE: usize = 32;
const MAKING: &str = "making a claim";
const READING: &str = "reading a claim that is there already";
const LOOKING: &str = "looking for a claim whose making was not answered";

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The names of the claims that are there now, by their place in the plan.
    pub(super) claims: BTreeMap<usize, String>,
    /// Why others are not, where their pods should know, by their place in the plan.
    pub(super) unmade: BTreeMap<usize, Unmade>,
    /// How many are not there, as far as is known.
    pub(super) failed: usize,
}

/// Why a claim could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unmade {
    /// What kind of trouble it is: the same for as long as that lasts.
    pub(super) kind: String,
    /// For people.
    pub(super) why: String,
}

/// Makes every claim of a plan; one that cannot be made, or whose making is not answered, keeps none of the others back.
pub(super) async fn make(context: &Context, solved: &Solved) -> Made {
    let wanted = solved.plan.claims.iter().enumerate();
    let asked = wanted.map(|(at, new)| {
        async move {
            (
                at,
                unharmed(&context.metrics, make_one(context, solved, new)).await,
            )
        }
        .boxed()
    });
    let asked: Vec<BoxFuture<'_, (usize, Result<NodeClaim, Error>)>> = asked.collect();
    let answers: BTreeMap<usize, Result<NodeClaim, Error>> = all_of(asked).await;
    let mut made = Made::default();
    for (at, answer) in answers {
        match answer {
            Ok(claim) => {
                context.cluster.with(|index| index.note(&claim));
                made.claims.insert(at, claim.name_any());
            }
            Err(error) => {
                tracing::warn!(%error, "a claim was not made");
                made.failed += 1;
                made.unmade.extend(Unmade::of(&error).map(|it| (at, it)));
            }
        }
    }
    made
}

/// What comes of each. Whoever takes long takes one of the places, and no more.
async fn all_of<T>(asked: Vec<BoxFuture<'_, (usize, T)>>) -> BTreeMap<usize, T> {
    stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
}

/// The same, but that a panic is an error: it keeps this claim from being made, and no other.
async fn unharmed<T>(metrics: &Metrics, making: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let made = AssertUnwindSafe(making).catch_unwind().await;
    made.unwrap_or_else(|panic| {
        metrics.panicked("provisioning");
        Err(Panicked(words(panic.as_ref())).into())
    })
}

async fn make_one(context: &Context, solved: &Solved, new: &NewClaim) -> Result<NodeClaim, Error> {
    let pool = &solved.situation.pools[new.pool];
    let snapshot = &solved.situation.snapshot;
    let wanted = Wanted {
        requirements: new.requirements.clone(),
        types: new.option_names(snapshot).map(str::to_owned).collect(),
        requests: new.requests.clone(),
        pods: new.members(snapshot).map(|pod| pod.uid.clone()).collect(),
        min_values: Some(new.min_values),
    };
    let name = name_for(pool, &identity(context, &wanted.pods));
    // The solver has read the same requirements, so they have a meaning.
    let Ok(claim) = manifest(pool, name.clone(), &wanted) else {
        return Err(Error::Unmade(1));
    };
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    match timely(context, MAKING, claims.create(&PostParams::default(), &claim)).await {
        // Made by somebody with the same plan, or by us in a request whose answer was lost.
        Err(Error::Kube { source, .. }) if is_there(&source) => {
            timely(context, READING, claims.get(&name)).await
        }
        // Made or not: nobody else can have made one of this name for anything else.
        Err(error) if is_open(&error) => match timely(context, LOOKING, claims.get_opt(&name)).await {
            Ok(Some(claim)) => Ok(claim),
            Ok(None) | Err(_) => Err(error),
        },
        made => made,
    }
}

/// Whether a write that failed like this may have been carried out: nothing came back, or nothing that says what was
/// done. The API server itself answers 504 when it has waited for too long.
fn is_open(error: &Error) -> bool {
    match error {
        Error::Silent(_) => true,
        Error::Kube { source, .. } => match &**source {
            kube::Error::Api(status) => status.code == 504,
            _ => true,
        },
        _ => false,
    }
}

fn is_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

impl Unmade {
    /// What there is to tell of an error. Who was slower than somebody else, or does not know whether the claim is
    /// there, says nothing: it is, or the next pass finds out more.
    pub(super) fn of(error: &Error) -> Option<Self> {
        let (kind, why) = match error {
            error if is_open(error) => return None,
            Error::Kube { doing, .. } if *doing == READING => return None,
            Error::Kube { source, .. } => match &**source {
                kube::Error::Api(status) if !status.is_conflict() => (status.code.to_string(), said(status)),
                _ => return None,
            },
            Error::Panicked(panicked) => ("panic".to_owned(), panicked.to_string()),
            Error::Unmade(_) => (
                "meaning".to_owned(),
                "a requirement of its NodePool has no meaning".to_owned(),
            ),
            _ => return None,
        };
        Some(Self { kind, why })
    }
}

/// What the API server said. What it refuses it refuses in the same words; what it fails at it tells with addresses,
/// ports and times of the moment, which are left to the log.
fn said(status: &Status) -> String {
    if (400..500).contains(&status.code) {
        return status.message.clone();
    }
    // `failed calling webhook "name": failed to call webhook: Post "https://..."`: who it was comes first.
    match status.message.split_once(": failed to call webhook") {
        Some((who, _)) => who.to_owned(),
        None => format!("the API server answers {} {}", status.code, status.reason),
    }
}

/// What tells a claim from others of its pool: the pods it is made for, and the claims that were made for any of them
/// before and are still there.
fn identity(context: &Context, pods: &[String]) -> String {
    let mut pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    pods.sort_unstable();
    let earlier = context.cluster.with(|index| index.claims_for(&pods));
    format!("{}\n{}", pods.join(","), earlier.join(","))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus::Registry;

    use super::*;

    #[tokio::test]
    async fn a_claim_at_which_making_panics_is_told_of_to_its_pods_and_ends_nothing() {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let asked = (0..3).map(|at| {
            let metrics = metrics.clone();
            async move {
                let making = async move {
                    assert_ne!(at, 1, "this is poison");
                    Ok(())
                };
                (at, unharmed(&metrics, making).await)
            }
            .boxed()
        });
        let answers = all_of(asked.collect()).await;
        assert!(answers[&0].is_ok() && answers[&2].is_ok());
        let told = Unmade::of(answers[&1].as_ref().unwrap_err()).unwrap();
        assert!(told.why.contains("this is poison"), "{}", told.why);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_not_answered_keeps_one_place_and_none_of_the_others_waiting() {
        let asked = (0..200).map(|at| {
            let lasts = Duration::from_secs(if at == 0 { 30 } else { 1 });
            async move {
                tokio::time::sleep(lasts).await;
                (at, lasts)
            }
            .boxed()
        });
        let began = tokio::time::Instant::now();
        let answers = all_of(asked.collect()).await;
        assert_eq!(began.elapsed().as_secs(), 30, "the others need seven");
        assert!(answers.into_keys().eq(0..200), "each by its place");
    }
}
