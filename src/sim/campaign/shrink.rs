//! Makes a failing run shorter: leaves out faults for as long as it still fails in the same way.

use super::line::Verdict;

/// What is left of a run that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk<T> {
    /// The faults that are needed.
    pub kept: Vec<T>,
    /// How many runs it took.
    pub runs: u64,
}

/// Delta debugging (Zeller's ddmin): tries to leave out halves, then quarters, and so on down to single faults, until no
/// single one can be left out. `fails` runs the world with the faults that it is given.
pub async fn shrink<T: Clone, E>(
    all: &[T],
    runs_max: u64,
    mut fails: impl AsyncFnMut(&[T]) -> Result<bool, E>,
) -> Result<Shrunk<T>, E> {
    let mut kept = all.to_vec();
    let mut pieces = 2;
    let mut runs = 0;
    while !kept.is_empty() && runs < runs_max {
        let size = kept.len().div_ceil(pieces);
        let mut shorter = None;
        for start in (0..kept.len()).step_by(size) {
            let without = [&kept[..start], &kept[(start + size).min(kept.len())..]].concat();
            runs += 1;
            if fails(&without).await? {
                shorter = Some(without);
                break;
            }
            if runs >= runs_max {
                break;
            }
        }
        match shorter {
            Some(shorter) => {
                kept = shorter;
                pieces = (pieces - 1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(kept.len()),
        }
    }
    Ok(Shrunk { kept, runs })
}

impl Verdict {
    /// Whether two runs fail in the same way: a shorter run that fails for another reason explains nothing.
    pub fn is_like(&self, other: &Self) -> bool {
        self == other && *self != Self::Ok
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    /// Fails if all of `needed` are there.
    fn shrunk(all: &[u32], needed: &[u32]) -> Shrunk<u32> {
        let fails = async |some: &[u32]| Ok::<_, Infallible>(needed.iter().all(|one| some.contains(one)));
        match block_on(shrink(all, 10_000, fails)) {
            Ok(shrunk) => shrunk,
            Err(never) => match never {},
        }
    }

    #[test]
    fn a_run_that_fails_without_faults_needs_none() {
        assert_eq!(shrunk(&[1, 2, 3, 4, 5], &[]).kept, Vec::<u32>::new());
    }

    #[test]
    fn the_number_of_runs_is_bounded() {
        let all: Vec<u32> = (0..64).collect();
        let fails = async |some: &[u32]| Ok::<_, Infallible>(some.len() == 64);
        let Ok(shrunk) = block_on(shrink(&all, 9, fails));
        assert_eq!(shrunk.runs, 9);
        assert_eq!(
            shrunk.kept.len(),
            64,
            "what was not shown to fail is not kept shorter"
        );
    }

    proptest! {
        #[test]
        fn exactly_what_is_needed_is_left(size in 1_u32..60, picks in prop::collection::btree_set(0_u32..60, 1..5)) {
            let all: Vec<u32> = (0..size).collect();
            let needed: Vec<u32> = picks.into_iter().filter(|pick| *pick < size).collect();
            prop_assert_eq!(shrunk(&all, &needed).kept, needed);
        }
    }
}
