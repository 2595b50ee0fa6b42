//! Writes what there is to tell as Events, without keeping anybody waiting, and tries again where that is refused.
//!
//! A pod that a claim was made for is planned for no more, so no later pass would tell it so: a story that cannot be
//! written (a right is missing, a quota is used up, nobody answers) waits here instead. It goes when it is written,
//! when there is something newer to tell about the same object, when its pod waits no more, or when it is news no more.
//! What is to be written for the first time waits in the same way: about each object only the last story, however slowly
//! they are taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::Notify;

use super::slots::Slots;
use super::{AGAIN, timely};
use crate::controllers::context::Context;
use crate::controllers::events::Story;
use crate::hash::fnv1a;

/// As many pods as Kubernetes is made for: no more can wait, and nothing waits here about any other. Each takes a kilobyte,
/// and a story of its own, if nobody shares it, a kilobyte and a half at most: notes are cut before they get here. So 50 MB
/// for 20,000 pods, the largest batch that is counted with, if all are different, and much less where many are alike.
const STORIES_MAX: usize = 150_000;
/// Events that are written at once. Who refuses all of them is asked for no more until the next turn.
const AT_ONCE: usize = 16;
/// Ten minutes of turns every 15 s, if all that waits fits into one. After that a pod that still waits is told by the
/// next pass, and one that does not need not know.
const TRIES_MAX: u32 = 40;

/// Something to be told about an object.
#[derive(Debug)]
struct Tongue {
    /// What the object is called by.
    key: String,
    /// What tells the story from others about the same object.
    told: u64,
    about: ObjectReference,
    /// Pods that wait for the same share it.
    story: Arc<Story>,
    /// How often it was refused.
    tries: u32,
}

/// Where stories are told. Those that were told are not told again.
pub(super) struct Voice {
    memory: Arc<Memory>,
}

/// Who writes them.
pub(super) struct Teller {
    memory: Arc<Memory>,
}

/// A voice and who listens to it, with a slot for each object between them.
pub(super) fn channel() -> (Voice, Teller) {
    let memory = Arc::new(Memory::default());
    let voice = Voice {
        memory: memory.clone(),
    };
    (voice, Teller { memory })
}

impl Voice {
    /// Tells a story about what is called `key`, unless it was told of it last. It replaces what was to be told before. What
    /// there is no room for is told when somebody tells it again.
    pub(super) fn say(&self, key: String, about: ObjectReference, story: Arc<Story>) {
        let told = fnv1a(format!("{}\n{}", story.reason, story.transition).as_bytes());
        let mut known = self.memory.known();
        if known.last.get(&key) == Some(&told) {
            return;
        }
        known.untold.remove(&key);
        if known.is_full() && !known.fresh.has(&key) {
            known.last.remove(&key);
            return;
        }
        let tongue = Tongue {
            key: key.clone(),
            told,
            about,
            story,
            tries: 0,
        };
        known.fresh.put(&key, tongue);
        known.last.insert(key, told);
        self.memory.said.notify_one();
    }

    /// Forgets what was told, or is to be told, about all others.
    pub(super) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        let mut known = self.memory.known();
        known.last.retain(|key, _| is_kept(key));
        known.fresh.keep(&is_kept);
        known.untold.keep(&is_kept);
    }
}

impl Teller {
    /// Writes what comes, for as long as this is polled.
    pub(super) async fn run(self, context: Context) {
        let memory = self.memory;
        let writer = Arc::new(Writer { context, memory });
        tokio::select! {
            biased;
            () = write_all(writer.clone()) => {}
            () = writer.try_again() => {}
        }
    }
}

async fn write_all(writer: Arc<Writer>) {
    let memory = writer.memory.clone();
    let stories = stream::unfold(
        memory,
        |memory| async move { Some((memory.next().await, memory)) },
    );
    stories
        .for_each_concurrent(AT_ONCE, move |tongue| {
            let writer = writer.clone();
            async move {
                writer.write(tongue).await;
            }
            .boxed()
        })
        .await;
}

/// Whether a story is there for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Yes,
    NotYet,
}

struct Writer {
    context: Context,
    memory: Arc<Memory>,
}

impl Writer {
    async fn write(&self, tongue: Tongue) -> Written {
        let asked = self
            .context
            .events
            .try_tell_about(tongue.about.clone(), (*tongue.story).clone());
        let Err(error) = timely(&self.context, "telling", asked).await else {
            return Written::Yes;
        };
        let (object, reason) = (tongue.about.name.clone(), tongue.story.reason);
        tracing::warn!(%error, object, reason, "an event is not written yet");
        self.memory.park(tongue);
        Written::NotYet
    }

    /// Takes turns for as long as anything waits.
    async fn try_again(&self) {
        loop {
            self.memory.parked.notified().await;
            while self.memory.waiting() > 0 {
                self.context.clock.sleep(AGAIN).await;
                self.turn().await;
            }
        }
    }

    /// Writes what waits, each story once, for as long as anything of it is taken. What is refused goes behind the
    /// others, so a namespace that takes no events does not keep those of another waiting for good.
    async fn turn(&self) {
        let mut left = self.memory.waiting();
        while left > 0 {
            let some = self.memory.take(left.min(AT_ONCE)).into_iter();
            left = left.saturating_sub(AT_ONCE);
            let asked: Vec<BoxFuture<'_, Written>> = some.map(|it| self.write(it).boxed()).collect();
            let written = join_all(asked).await;
            if !written.is_empty() && !written.contains(&Written::Yes) {
                return;
            }
        }
    }
}

/// What is known of what was told. A restart forgets it; events that are there already stay one.
#[derive(Default)]
struct Memory {
    known: Mutex<Known>,
    /// Notified when there is something to write.
    said: Notify,
    /// Notified when a story must wait.
    parked: Notify,
}

#[derive(Default)]
struct Known {
    /// What was told last about each object, or will be.
    last: BTreeMap<String, u64>,
    /// What nobody has tried to write yet.
    fresh: Slots<Tongue>,
    /// What was refused, the longest ago first. Nothing newer is to be told of the same.
    untold: Slots<Tongue>,
}

impl Known {
    fn is_full(&self) -> bool {
        self.fresh.len() + self.untold.len() >= STORIES_MAX
    }
}

impl Memory {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The story whose turn it is to be written for the first time.
    async fn next(&self) -> Tongue {
        loop {
            if let Some(tongue) = self.first() {
                return tongue;
            }
            self.said.notified().await;
        }
    }

    fn first(&self) -> Option<Tongue> {
        self.known().fresh.take()
    }

    fn waiting(&self) -> usize {
        self.known().untold.len()
    }

    /// Keeps a story that was refused for the next turn; one that was refused too often is forgotten, as if it had
    /// never been told.
    fn park(&self, mut tongue: Tongue) {
        let mut known = self.known();
        if known.last.get(&tongue.key) != Some(&tongue.told) {
            return;
        }
        tongue.tries += 1;
        if tongue.tries >= TRIES_MAX || known.is_full() {
            known.last.remove(&tongue.key);
            return;
        }
        let key = tongue.key.clone();
        known.untold.put(&key, tongue);
        self.parked.notify_one();
    }

    /// Takes the first few that were refused.
    fn take(&self, most: usize) -> Vec<Tongue> {
        let mut known = self.known();
        std::iter::from_fn(|| known.untold.take()).take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tell::Telling;
    use super::*;
    use crate::cluster::Situation;
    use crate::controllers::events::Kind;

    fn say(voice: &Voice, transition: &str) {
        let story = Story {
            kind: Kind::Normal,
            reason: "Nominated",
            action: "Nominate",
            note: transition.to_owned(),
            transition: transition.to_owned(),
        };
        voice.say("a".to_owned(), ObjectReference::default(), story.into());
    }

    /// What was to be written just now.
    fn queued(teller: &Teller) -> Vec<Tongue> {
        std::iter::from_fn(|| teller.memory.first()).collect()
    }

    #[test]
    fn what_was_refused_waits_until_there_is_something_newer() {
        let (voice, teller) = channel();
        say(&voice, "one");
        say(&voice, "one");
        let [refused] = queued(&teller).try_into().unwrap();
        teller.memory.park(refused);
        say(&voice, "one");
        assert!(queued(&teller).is_empty(), "it waits already");
        let [again] = teller.memory.take(9).try_into().unwrap();
        teller.memory.park(again);
        say(&voice, "two");
        assert_eq!(queued(&teller).len(), 1);
        assert!(teller.memory.take(9).is_empty(), "nobody wants to know now");
        assert_eq!(teller.memory.waiting(), 0);
    }

    #[test]
    fn what_was_refused_too_often_is_told_when_somebody_tells_it_again() {
        let (voice, teller) = channel();
        say(&voice, "one");
        let [mut refused] = queued(&teller).try_into().unwrap();
        for _ in 1..TRIES_MAX {
            teller.memory.park(refused);
            [refused] = teller.memory.take(9).try_into().unwrap();
        }
        teller.memory.park(refused);
        assert_eq!(teller.memory.waiting(), 0);
        say(&voice, "one");
        assert_eq!(queued(&teller).len(), 1);
    }

    /// The API server takes events more slowly than passes have something to tell.
    #[test]
    fn every_pod_of_a_large_batch_is_told_what_became_of_it_last_and_nothing_else() {
        let (voice, teller) = channel();
        let tell_all = |reason: &'static str| {
            for pod in 0..20_000 {
                let story = Story {
                    kind: Kind::Normal,
                    reason,
                    action: "Plan",
                    note: String::new(),
                    transition: pod.to_string(),
                };
                voice.say(format!("pod-{pod}"), ObjectReference::default(), story.into());
            }
        };
        tell_all("FailedScheduling");
        let begun = teller.memory.first().unwrap();
        tell_all("Nominated");
        teller.memory.park(begun);
        assert_eq!(teller.memory.waiting(), 0, "it is the last of nobody");
        let told = queued(&teller);
        let pods: std::collections::BTreeSet<&str> = told.iter().map(|it| it.key.as_str()).collect();
        assert_eq!((told.len(), pods.len()), (20_000, 20_000));
        assert!(told.iter().all(|it| it.story.reason == "Nominated"));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_something_to_write_hears_of_it() {
        let (voice, teller) = channel();
        let later = async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            say(&voice, "one");
            say(&voice, "two");
        };
        let (tongue, ()) = tokio::join!(teller.memory.next(), later);
        assert_eq!(tongue.story.transition, "two");
        say(&voice, "three");
        assert_eq!(teller.memory.next().await.story.transition, "three");
    }

    #[test]
    fn what_is_left_out_of_plans_is_told_all_the_same() {
        let (voice, teller) = channel();
        say(&voice, "one");
        let [refused] = queued(&teller).try_into().unwrap();
        teller.memory.park(refused);
        let (telling, nobody) = (Telling::new(voice), Situation::default());
        telling.keep(&nobody, &["a".to_owned()].into());
        assert_eq!(teller.memory.waiting(), 1);
        telling.keep(&nobody, &[].into());
        assert_eq!(teller.memory.waiting(), 0);
    }

    #[test]
    fn pods_that_wait_for_the_same_share_a_story() {
        let (voice, teller) = channel();
        let story = Arc::new(Story {
            kind: Kind::Warning,
            reason: "FailedScheduling",
            action: "Plan",
            note: "because".to_owned(),
            transition: "one".to_owned(),
        });
        for pod in ["a", "b"] {
            voice.say(pod.to_owned(), ObjectReference::default(), story.clone());
        }
        let queued = queued(&teller);
        assert!(queued.len() == 2 && queued.iter().all(|it| Arc::ptr_eq(&it.story, &story)));
    }

    #[test]
    fn nothing_waits_about_a_pod_that_is_forgotten() {
        let (voice, teller) = channel();
        say(&voice, "one");
        let [refused] = queued(&teller).try_into().unwrap();
        teller.memory.park(refused);
        voice.keep(|key| key == "a");
        assert_eq!(teller.memory.waiting(), 1);
        voice.keep(|key| key == "b");
        assert_eq!(teller.memory.waiting(), 0);
    }
}
