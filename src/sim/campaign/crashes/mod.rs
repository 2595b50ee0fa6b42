//! Small stories, each told again and again with one death in it: after its first effect, after its second, and so on,
//! until there is no further one; alone, and together with other troubles. Or one replica stands still after that effect
//! while another takes over, and goes on later with what it knew.
//!
//! Whatever the death, every expectation of the story must be met in the end and every invariant hold. A story says which
//! kinds of effects it has, so that one which no longer does what it is told for is noticed.

mod stories;

use std::path::Path;

use futures::{StreamExt, TryStreamExt, stream};

pub use stories::{STORIES, Story, Trouble};

use super::child::Trial;
use super::line::{Line, Verdict};
use super::options::Ask;

/// No story has so many effects: one that does goes round in circles.
const EFFECTS_MAX: u64 = 100;

/// A story that was told with one trouble, and a death after each of its effects.
#[derive(Debug)]
pub struct Told {
    /// Which.
    pub story: &'static Story,
    /// With what.
    pub trouble: Trouble,
    /// After how many effects the leader ended.
    pub effects: u64,
    /// What went wrong.
    pub failures: Vec<String>,
}

/// Tells every story with each of its troubles, several deaths at a time; files are made in `folder`. It goes no further
/// where nobody can be told.
pub async fn crash_everywhere(
    folder: &Path,
    jobs: usize,
    trial: &dyn Trial,
    mut each: impl FnMut(&Told) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Told>> {
    let mut all = Vec::new();
    for story in STORIES {
        for &trouble in story.troubles {
            let told = tell(story, trouble, folder, jobs, trial).await?;
            each(&told)?;
            all.push(told);
        }
    }
    Ok(all)
}

async fn tell(
    story: &'static Story,
    trouble: Trouble,
    folder: &Path,
    jobs: usize,
    trial: &dyn Trial,
) -> anyhow::Result<Told> {
    let mut told = Told {
        story,
        trouble,
        effects: 0,
        failures: Vec::new(),
    };
    let whole = play(story, trouble, 0, folder, trial).await?;
    told.failures.extend(problem(story, trouble, 0, &whole));
    if trouble == Trouble::None {
        let absent = story.does.iter().filter(|deed| !whole.deeds.contains_key(**deed));
        told.failures
            .extend(absent.map(|deed| format!("{} lacks {deed}: {:?}", story.name, whole.deeds)));
    }
    let mut lines = stream::iter(1..=EFFECTS_MAX)
        .map(|after| async move {
            play(story, trouble, after, folder, trial)
                .await
                .map(|line| (after, line))
        })
        .buffered(jobs.max(1));
    while let Some((after, line)) = lines.try_next().await? {
        let (_, end) = trouble.end(after);
        if !line.faults.contains_key(end.as_str()) {
            break;
        }
        told.effects = after;
        told.failures.extend(problem(story, trouble, after, &line));
    }
    if told.effects == 0 || told.effects == EFFECTS_MAX {
        let effects = told.effects;
        told.failures
            .push(format!("{} has {effects} effects", story.name));
    }
    Ok(told)
}

async fn play(
    story: &Story,
    trouble: Trouble,
    after: u64,
    folder: &Path,
    trial: &dyn Trial,
) -> anyhow::Result<Line> {
    // What the story comes to without faults is kept for all its plays.
    let calm_plays = folder.join(story.name);
    std::fs::create_dir_all(&calm_plays)?;
    let file = folder.join(format!("{}-{trouble:?}-{after}.yaml", story.name));
    std::fs::write(&file, serde_saphyr::to_string(&story.plan(trouble, after))?)?;
    let ask = Ask {
        scenario: Some(story.file().display().to_string()),
        plan: Some(file),
        calm_plays: Some(calm_plays),
        ..Ask::seed(0)
    };
    Ok(trial.run(&ask).await?)
}

/// What is wrong with a play, with all it takes to play it again.
fn problem(story: &Story, trouble: Trouble, after: u64, line: &Line) -> Option<String> {
    if line.verdict == Verdict::Ok && line.unmet.is_empty() {
        return None;
    }
    let breaches = line
        .breaches
        .iter()
        .map(|breach| format!("{}: {}", breach.id, breach.message));
    let wrong: Vec<String> = breaches.chain(line.unmet.iter().cloned()).collect();
    let plan = serde_saphyr::to_string(&story.plan(trouble, after)).unwrap_or_default();
    Some(format!(
        "{} {}, after effect {after}: {}\n{}\nreplay: simulate --replay 0 --scenario {} --plan FILE, with\n{plan}",
        story.name,
        trouble.name(),
        line.verdict,
        wrong.join("\n"),
        story.file().display()
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use async_trait::async_trait;

    use super::super::child::TrialError;
    use super::*;
    use crate::sim::campaign::line::tests::fine;
    use crate::sim::faults::{Fault, Plan, Upon};

    /// A world in which the leader has so many effects, and one death is not survived.
    struct World {
        effects: u64,
        fatal: u64,
    }

    #[async_trait]
    impl Trial for World {
        async fn run(&self, ask: &Ask) -> Result<Line, TrialError> {
            let text = std::fs::read_to_string(ask.plan.as_ref().unwrap()).unwrap();
            let plan: Plan = serde_saphyr::from_str(&text).unwrap();
            let after = plan
                .injections
                .iter()
                .find_map(|injection| match injection.fault {
                    Fault::Crash { after_effects, .. } => Some((after_effects, "k1-crash")),
                    Fault::Pause {
                        upon: Upon::Effects(after),
                        ..
                    } => Some((after, "k13-pause")),
                    _ => None,
                });
            let mut line = fine(0);
            let name = Path::new(ask.scenario.as_ref().unwrap())
                .file_stem()
                .unwrap()
                .to_owned();
            let story = STORIES.iter().find(|story| *story.name == *name).unwrap();
            line.deeds = story.does.iter().map(|deed| ((*deed).to_owned(), 1)).collect();
            if let Some((after, name)) = after.filter(|(after, _)| *after <= self.effects) {
                line.faults = BTreeMap::from([(name.to_owned(), 1)]);
                if after == self.fatal {
                    line.unmet = vec!["the claim is not there".to_owned()];
                }
            }
            Ok(line)
        }
    }

    async fn told(world: World) -> Vec<Told> {
        let name = format!("crashes-{}-{}-{}", std::process::id(), world.effects, world.fatal);
        let folder = std::env::temp_dir().join(name);
        let told = crash_everywhere(&folder, 2, &world, |_| Ok(())).await.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        told
    }

    #[tokio::test]
    async fn a_story_is_told_until_no_effect_is_left() {
        let all = told(World { effects: 7, fatal: 0 }).await;
        let troubles: usize = STORIES.iter().map(|story| story.troubles.len()).sum();
        assert_eq!(all.len(), troubles);
        for told in all {
            assert_eq!(told.effects, 7, "{told:?}");
            assert!(told.failures.is_empty(), "{told:?}");
        }
    }

    #[tokio::test]
    async fn a_death_after_which_something_is_missing_is_told_with_its_plan() {
        for told in told(World { effects: 7, fatal: 3 }).await {
            assert_eq!(told.failures.len(), 1, "{told:?}");
            assert!(told.failures[0].contains("after effect 3"), "{told:?}");
            assert!(told.failures[0].contains("injections:"), "{told:?}");
        }
    }

    #[tokio::test]
    async fn a_story_without_effects_or_without_end_is_a_failure() {
        for effects in [0, EFFECTS_MAX] {
            for told in told(World {
                effects,
                fatal: EFFECTS_MAX + 1,
            })
            .await
            {
                assert!(told.failures[0].contains("effects"), "{told:?}");
            }
        }
    }
}
