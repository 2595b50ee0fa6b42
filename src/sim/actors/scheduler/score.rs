//! Which of the nodes that fit is the best.
//!
//! The scores and weights of the real scheduler's default configuration: taints 3, node affinity 2, spread 2, pod
//! affinity 2, least allocated 1. Two of weight 1 are left out: balanced allocation, and image locality, since simulated
//! nodes hold no images. Where the real one draws lots, the first name wins.

use k8s_openapi::api::core::v1::Pod;

use super::board::{Board, Site};
use super::demand::{self, CPU, MEMORY};
use super::{neighbors, node_affinity, spread, taints};

/// The best score that one criterion gives.
const BEST: i64 = 100;

/// The best of some nodes.
pub(super) fn best<'a>(board: &Board<'a>, pod: &Pod, fitting: &[&Site<'a>]) -> Option<&'a str> {
    let scores = scores(board, pod, fitting);
    let ranked = fitting.iter().zip(scores);
    // `max_by` keeps the last of equals, so the names are compared the other way round.
    let best = ranked.max_by(|(one, score), (other, other_score)| {
        score.cmp(other_score).then_with(|| other.name.cmp(one.name))
    });
    best.map(|(site, _)| site.name)
}

/// The scores of some nodes, in their order.
pub(super) fn scores(board: &Board<'_>, pod: &Pod, fitting: &[&Site<'_>]) -> Vec<i64> {
    let each = |score: fn(&Pod, &Site<'_>) -> i64| -> Vec<i64> {
        fitting.iter().map(|site| score(pod, site)).collect()
    };
    let mut total = each(least_allocated);
    let mut weigh = |weight: i64, scores: Vec<i64>| {
        for (sum, score) in total.iter_mut().zip(scores) {
            *sum += weight * score;
        }
    };
    weigh(3, fewest(&each(|pod, site| taints::disliked(pod, site.node))));
    weigh(
        2,
        most(&each(|pod, site| node_affinity::preference(pod, site.node))),
    );
    if let Some(crowding) = spread::crowding(board, pod, fitting) {
        weigh(2, emptiest(&crowding));
    }
    if let Some(liking) = neighbors::liking(board, pod, fitting) {
        weigh(2, range(&liking));
    }
    total
}

/// The mean over CPU and memory of the share that would stay free.
fn least_allocated(pod: &Pod, site: &Site<'_>) -> i64 {
    let asked = demand::usage(pod);
    let free = |name: &str| {
        let amount = |amounts: &demand::Amounts| amounts.get(name).copied().unwrap_or(0);
        let has = amount(&site.allocatable);
        let left = has - amount(&site.used) - amount(&asked);
        if has == 0 || left < 0 {
            0
        } else {
            left.saturating_mul(BEST) / has
        }
    };
    i64::midpoint(free(CPU), free(MEMORY))
}

/// None is best, the most is worst.
fn fewest(counts: &[i64]) -> Vec<i64> {
    let max = counts.iter().copied().max().unwrap_or(0);
    let score = |count: &i64| if max == 0 { BEST } else { BEST - BEST * count / max };
    counts.iter().map(score).collect()
}

/// The most is best.
fn most(sums: &[i64]) -> Vec<i64> {
    let max = sums.iter().copied().max().unwrap_or(0);
    sums.iter()
        .map(|sum| if max == 0 { 0 } else { BEST * sum / max })
        .collect()
}

/// The least is best, relative to the fullest; a node outside all domains gets nothing.
fn emptiest(crowding: &[Option<i64>]) -> Vec<i64> {
    let known = || crowding.iter().flatten().copied();
    let (min, max) = (known().min().unwrap_or(0), known().max().unwrap_or(0));
    let score = |count: &Option<i64>| match count {
        None => 0,
        Some(_) if max == 0 => BEST,
        Some(count) => BEST * (max + min - count) / max,
    };
    crowding.iter().map(score).collect()
}

/// The most is best and the least worst, whatever their signs.
fn range(sums: &[i64]) -> Vec<i64> {
    let (min, max) = (
        sums.iter().copied().min().unwrap_or(0),
        sums.iter().copied().max().unwrap_or(0),
    );
    sums.iter()
        .map(|sum| {
            if max == min {
                0
            } else {
                BEST * (sum - min) / (max - min)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_brought_to_one_scale() {
        assert_eq!(fewest(&[0, 1, 2]), [100, 50, 0]);
        assert_eq!(fewest(&[0, 0]), [100, 100]);
        assert_eq!(most(&[0, 5, 10]), [0, 50, 100]);
        assert_eq!(most(&[0, 0]), [0, 0]);
        assert_eq!(emptiest(&[Some(0), Some(4), None]), [100, 0, 0]);
        assert_eq!(emptiest(&[Some(2), Some(4)]), [100, 50]);
        assert_eq!(emptiest(&[Some(0), Some(0)]), [100, 100]);
        assert_eq!(range(&[-10, 0, 10]), [0, 50, 100]);
        assert_eq!(range(&[7, 7]), [0, 0]);
    }
}
