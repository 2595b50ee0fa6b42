//! Why a class of pods has no place: for each pool, and for what is there already, the first thing that stood in the way.
//!
//! Looked at in the order in which placing looks, with all preferences given up, against what is left after the pass. Only
//! classes that are left out are looked at, so words may cost something; of many nodes only the nearest is put into words.

mod existing;
mod pool;
mod sold;

#[cfg(test)]
pub(super) use pool::judgements;

use super::plan::{Refusal, Where, Why};
use super::run::Run;
use super::topology::{Kind, Obstacle, Over};
use crate::api::names::HOSTNAME;

/// Whether a class had its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// It had.
    Yes,
    /// Time ran out before.
    No,
    /// It had, and there is no time left to say what stood in its way.
    Unexplained,
}

/// What stood in the way of a class, the nearest first.
pub(super) fn explain(run: &mut Run<'_, '_>, class: usize, tried: Tried) -> Vec<Refusal> {
    let everywhere = |why: Why| {
        vec![Refusal {
            place: Where::Everywhere,
            why,
        }]
    };
    if let Some(trouble) = &run.problem.classes[class].trouble {
        return everywhere(trouble.clone());
    }
    match tried {
        Tried::No => return everywhere(Why::OutOfTime),
        Tried::Unexplained => return everywhere(Why::Unexplained),
        Tried::Yes => {}
    }
    let mut all: Vec<Refusal> = existing::nearest(run, class).into_iter().collect();
    for template in 0..run.problem.templates.len() {
        let name = run.problem.snapshot.pools[run.problem.templates[template].pool]
            .name
            .clone();
        all.push(Refusal {
            why: pool::refusal(run, class, template),
            place: Where::Pool(name),
        });
    }
    all.extend(closed(run));
    if all.is_empty() {
        return everywhere(Why::NothingThere);
    }
    all.sort_by_key(|refusal| (std::cmp::Reverse(refusal.why.nearness()), refusal.why.missing()));
    all
}

/// The pools that make no nodes at all now.
fn closed(run: &Run<'_, '_>) -> Vec<Refusal> {
    let refusal = |name: &str, why: String| Refusal {
        place: Where::Pool(name.to_owned()),
        why: Why::Closed(why),
    };
    let snapshot = run.problem.snapshot;
    let told = snapshot
        .closed
        .iter()
        .map(|(name, why)| refusal(name, why.clone()));
    let makes_none = |at: &usize| run.problem.templates.iter().all(|template| template.pool != *at);
    let contradictory = (0..snapshot.pools.len()).filter(makes_none);
    let contradictory = contradictory.map(|at| {
        let pool = &snapshot.pools[at];
        let never = pool.requirements.iter().filter(|(_, values)| values.is_never());
        let why = match never.map(|(key, _)| key.as_str()).next() {
            Some(key) => format!("its own requirements leave no value of {key}"),
            None => "its own requirements contradict each other".to_owned(),
        };
        refusal(&pool.name, why)
    });
    told.chain(contradictory).collect()
}

/// What an obstacle means in words.
fn obstacle_why(run: &Run<'_, '_>, obstacle: Obstacle) -> Why {
    let key = |group: usize| match run.problem.groups[group].over {
        Over::Hosts => HOSTNAME.to_owned(),
        Over::Label(column) => run.problem.space.columns()[column].key.clone(),
    };
    match obstacle {
        Obstacle::Others(group) => Why::Feared { key: key(group) },
        Obstacle::Own(group) => match run.problem.groups[group].kind {
            Kind::Spread { .. } => Why::Spread {
                key: key(group),
                allowed: Vec::new(),
            },
            Kind::Near if run.problem.groups[group].whom.len() > 1 => Why::NearAll { key: key(group) },
            Kind::Near => Why::Near { key: key(group) },
            Kind::Far => Why::Far { key: key(group) },
        },
    }
}
