//! A plan for a situation, whatever is in it.
//!
//! Where planning panics, the pods with which it does are found by halving, class by class, and left out; where it does
//! without any pod, a pool is to blame and is found in the same way. A few plans more, and everybody else is served.

use std::sync::Arc;
use std::time::Duration;

use super::Error;
use crate::cluster::Situation;
use crate::controllers::compute::Panicked;
use crate::controllers::context::Context;
use crate::model::{PodSet, Snapshot};
use crate::scheduling::{Options, Plan};

/// Longer than any plan that was ever measured takes; what is not placed by then is placed in the next pass.
const LIMIT: Duration = Duration::from_secs(30);

/// A situation and the plan for it.
#[derive(Debug)]
pub(super) struct Solved {
    /// Without what was left out.
    pub(super) situation: Situation,
    pub(super) plan: Plan,
    pub(super) poisoned: Vec<Poisoned>,
}

/// A pod that no plan can be made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Poisoned {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// What the panic said.
    pub(super) said: String,
}

/// Plans for everything that can be planned for.
pub(super) async fn solve(context: &Context, mut situation: Situation) -> Result<Solved, Error> {
    let whole = Arc::new(std::mem::take(&mut situation.snapshot));
    let first = plan(context, whole.clone()).await;
    let (snapshot, planned, poisoned) = match first {
        Ok(planned) => (whole, planned, Vec::new()),
        Err(panicked) => {
            context.metrics.panicked("provisioning");
            tracing::error!(%panicked, "planning for pods: looking for what it is about");
            without_poison(context, &mut situation, &whole, panicked).await?
        }
    };
    // Nobody else has it: the plan is made.
    situation.snapshot = Arc::try_unwrap(snapshot).unwrap_or_else(|shared| (*shared).clone());
    Ok(Solved {
        situation,
        plan: planned,
        poisoned,
    })
}

async fn plan(context: &Context, snapshot: Arc<Snapshot>) -> Result<Plan, Panicked> {
    let options: Options = context.settings.planning;
    context
        .compute
        .plan(snapshot, options, &context.clock, LIMIT)
        .await
}

async fn without_poison(
    context: &Context,
    situation: &mut Situation,
    whole: &Snapshot,
    first: Panicked,
) -> Result<(Arc<Snapshot>, Plan, Vec<Poisoned>), Error> {
    let mut sound = whole.clone();
    sound.pending = PodSet::default();
    if plan(context, Arc::new(sound.clone())).await.is_err() {
        leave_out_pools(context, situation, &mut sound, first).await?;
    }
    let all: Vec<usize> = (0..whole.pending.classes.len()).collect();
    let mut bad: Vec<(usize, Panicked)> = Vec::new();
    let mut halves = vec![all];
    while let Some(classes) = halves.pop() {
        let tried = plan(context, Arc::new(only(whole, &sound, &classes))).await;
        match (tried, classes.as_slice()) {
            (Ok(_), _) | (Err(_), []) => {}
            (Err(panicked), [class]) => bad.push((*class, panicked)),
            (Err(_), several) => {
                let (one, other) = several.split_at(several.len() / 2);
                halves.extend([one.to_vec(), other.to_vec()]);
            }
        }
    }
    let is_bad = |class: usize| bad.iter().find(|(other, _)| *other == class);
    let members = whole.pending.members.iter();
    let poisoned = members.filter_map(|pod| {
        let (_, panicked) = is_bad(pod.class)?;
        Some(Poisoned {
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            said: panicked.0.clone(),
        })
    });
    let poisoned: Vec<Poisoned> = poisoned.collect();
    let good: Vec<usize> = (0..whole.pending.classes.len())
        .filter(|class| is_bad(*class).is_none())
        .collect();
    let rest = Arc::new(only(whole, &sound, &good));
    // Classes that fail together only: nothing can be said about any of them.
    let planned = plan(context, rest.clone()).await?;
    Ok((rest, planned, poisoned))
}

/// Finds the pools with which nothing can be planned even for nobody, and leaves them out.
async fn leave_out_pools(
    context: &Context,
    situation: &mut Situation,
    sound: &mut Snapshot,
    first: Panicked,
) -> Result<(), Error> {
    let mut at = 0;
    while at < sound.pools.len() {
        let mut alone = sound.clone();
        alone.pools = vec![sound.pools[at].clone()];
        if plan(context, Arc::new(alone)).await.is_ok() {
            at += 1;
            continue;
        }
        tracing::error!(
            pool = sound.pools[at].name,
            "nothing can be planned for a pool: it is left out"
        );
        sound.pools.remove(at);
        situation.pools.remove(at);
    }
    match plan(context, Arc::new(sound.clone())).await {
        Ok(_) => Ok(()),
        Err(_) => Err(first.into()),
    }
}

/// `sound` with the pods of these classes of `whole` only.
fn only(whole: &Snapshot, sound: &Snapshot, classes: &[usize]) -> Snapshot {
    let mut places = vec![None; whole.pending.classes.len()];
    let mut pending = PodSet::default();
    for class in classes {
        places[*class] = Some(pending.classes.len());
        pending.classes.push(whole.pending.classes[*class].clone());
    }
    for member in &whole.pending.members {
        if let Some(class) = places[member.class] {
            let mut member = member.clone();
            member.class = class;
            pending.members.push(member);
        }
    }
    Snapshot {
        pending,
        ..sound.clone()
    }
}
