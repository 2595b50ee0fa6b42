//! What a world comes to without faults, played once for all the seeds that share it.
//!
//! Eight seeds in a row have the same people, machines and latencies, and differ in what goes wrong. So what the calm
//! play of one of them did serves the others too, and a campaign hardly ever plays a world twice.

use std::fs;
use std::path::Path;

use crate::sim::world::effects::{Counts, Deed};

/// So many seeds in a row share a world.
const SHARED: u64 = 8;

/// The seed from which the world of `seed` is drawn: everything but what goes wrong.
pub(super) fn world_of(seed: u64) -> u64 {
    seed - seed % SHARED
}

/// How many worlds the seeds before this one's make.
pub(super) fn worlds_before(seed: u64) -> u64 {
    seed / SHARED
}

/// What the calm play of a seed's world did: as kept in `folder` by an earlier seed, or as `play` says, which is then
/// kept for later ones.
pub(super) fn counts<E>(
    folder: Option<&Path>,
    seed: u64,
    play: impl FnOnce() -> Result<Counts, E>,
) -> Result<Counts, E> {
    let file = folder.map(|folder| folder.join(format!("calm-{}.json", world_of(seed))));
    if let Some(kept) = file.as_deref().and_then(read) {
        return Ok(kept);
    }
    let counts = play()?;
    if let Some(file) = &file {
        keep(file, seed, &counts);
    }
    Ok(counts)
}

fn read(file: &Path) -> Option<Counts> {
    let text = fs::read(file).ok()?;
    let deeds: Vec<(Deed, u64)> = serde_json::from_slice(&text).ok()?;
    Some(deeds.into_iter().collect())
}

/// Whole or not at all: another seed may be reading. One that cannot be kept is played again.
fn keep(file: &Path, seed: u64, counts: &Counts) {
    let deeds: Vec<(&Deed, &u64)> = counts.iter().collect();
    let own = file.with_extension(format!("{seed}.new"));
    let written = serde_json::to_vec(&deeds).map(|text| fs::write(&own, text));
    if matches!(written, Ok(Ok(()))) {
        let _ = fs::rename(&own, file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::world::effects::Verb;

    fn bought(times: u64) -> Counts {
        let deed = Deed {
            kind: "instances".to_owned(),
            verb: Verb::Create,
            object: "claim-0".to_owned(),
        };
        Counts::from([(deed, times)])
    }

    #[test]
    fn seeds_that_share_a_world_play_it_once_without_faults() {
        let folder = std::env::temp_dir().join(format!("calm-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let ask = |seed, times| counts::<()>(Some(&folder), seed, || Ok(bought(times))).unwrap();
        assert_eq!(ask(8, 3), bought(3));
        assert_eq!(ask(15, 4), bought(3), "kept by the first");
        assert_eq!(ask(16, 5), bought(5), "another world");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(ask(8, 6), bought(6), "nothing is kept any more");
        assert_eq!(counts::<()>(None, 8, || Ok(bought(7))), Ok(bought(7)));
    }
}
