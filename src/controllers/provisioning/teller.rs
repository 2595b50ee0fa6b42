//! Writes what there is to tell as Events, without keeping anybody waiting, and tries again where that is refused.
//!
//! A pod that a claim was made for is planned for no more, so no later pass would tell it so: a story that cannot be
//! written (a right is missing, a quota is used up, nobody answers) waits here instead. It goes when it is written,
//! when there is something newer to tell about the same object, when its pod waits no more, or when it is news no more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{Notify, mpsc};

use super::{AGAIN, timely};
use crate::controllers::context::Context;
use crate::controllers::events::Story;
use crate::hash::fnv1a;

/// As many as there are pods in the largest batch that is counted with. Each takes half a kilobyte, and a story of its own,
/// if nobody shares it, a kilobyte and a half at most: notes are cut before they get here. So 40 MB, if all are different.
const QUEUE: usize = 20_000;
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
    to: mpsc::Sender<Tongue>,
    memory: Arc<Memory>,
}

/// Who writes them.
pub(super) struct Teller {
    queue: mpsc::Receiver<Tongue>,
    memory: Arc<Memory>,
}

/// A voice and who listens to it, with a bounded queue between them.
pub(super) fn channel() -> (Voice, Teller) {
    let (to, queue) = mpsc::channel(QUEUE);
    let memory = Arc::new(Memory::default());
    let voice = Voice {
        to,
        memory: memory.clone(),
    };
    (voice, Teller { queue, memory })
}

impl Voice {
    /// Tells a story about what is called `key`, unless it was told of it last. What does not fit into the queue is
    /// told when somebody tells it again.
    pub(super) fn say(&self, key: String, about: ObjectReference, story: Arc<Story>) {
        let told = fnv1a(format!("{}\n{}", story.reason, story.transition).as_bytes());
        let mut known = self.memory.known();
        if known.last.get(&key) == Some(&told) {
            return;
        }
        let tongue = Tongue {
            key: key.clone(),
            told,
            about,
            story,
            tries: 0,
        };
        if self.to.try_send(tongue).is_ok() {
            known.last.insert(key, told);
        }
    }

    /// Forgets what was told, or is to be told, about all others.
    pub(super) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        let mut known = self.memory.known();
        known.last.retain(|key, _| is_kept(key));
        let Known { last, untold } = &mut *known;
        untold.retain(|it| last.get(&it.key) == Some(&it.told));
    }
}

impl Teller {
    /// Writes what comes, for as long as this is polled.
    pub(super) async fn run(self, context: Context) {
        let memory = self.memory;
        let writer = Arc::new(Writer { context, memory });
        tokio::select! {
            biased;
            () = write_all(writer.clone(), self.queue) => {}
            () = writer.try_again() => {}
        }
    }
}

async fn write_all(writer: Arc<Writer>, queue: mpsc::Receiver<Tongue>) {
    let stories = stream::unfold(
        queue,
        |mut queue| async move { Some((queue.recv().await?, queue)) },
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
    /// Notified when a story must wait.
    parked: Notify,
}

#[derive(Default)]
struct Known {
    /// What was told last about each object, or will be.
    last: BTreeMap<String, u64>,
    /// What was refused, the longest ago first. No longer than the queue.
    untold: VecDeque<Tongue>,
}

impl Memory {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
        if tongue.tries >= TRIES_MAX || known.untold.len() >= QUEUE {
            known.last.remove(&tongue.key);
            return;
        }
        known.untold.push_back(tongue);
        self.parked.notify_one();
    }

    /// Takes the first few, but for those that something newer was told after.
    fn take(&self, most: usize) -> Vec<Tongue> {
        let mut known = self.known();
        let most = most.min(known.untold.len());
        let first: Vec<Tongue> = known.untold.drain(..most).collect();
        let is_last = |it: &Tongue| known.last.get(&it.key) == Some(&it.told);
        first.into_iter().filter(is_last).collect()
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
    fn queued(teller: &mut Teller) -> Vec<Tongue> {
        std::iter::from_fn(|| teller.queue.try_recv().ok()).collect()
    }

    #[test]
    fn what_was_refused_waits_until_there_is_something_newer() {
        let (voice, mut teller) = channel();
        say(&voice, "one");
        say(&voice, "one");
        let [refused] = queued(&mut teller).try_into().unwrap();
        teller.memory.park(refused);
        say(&voice, "one");
        assert!(queued(&mut teller).is_empty(), "it waits already");
        let [again] = teller.memory.take(9).try_into().unwrap();
        teller.memory.park(again);
        say(&voice, "two");
        assert_eq!(queued(&mut teller).len(), 1);
        assert!(teller.memory.take(9).is_empty(), "nobody wants to know now");
        assert_eq!(teller.memory.waiting(), 0);
    }

    #[test]
    fn what_was_refused_too_often_is_told_when_somebody_tells_it_again() {
        let (voice, mut teller) = channel();
        say(&voice, "one");
        let [mut refused] = queued(&mut teller).try_into().unwrap();
        for _ in 1..TRIES_MAX {
            teller.memory.park(refused);
            [refused] = teller.memory.take(9).try_into().unwrap();
        }
        teller.memory.park(refused);
        assert_eq!(teller.memory.waiting(), 0);
        say(&voice, "one");
        assert_eq!(queued(&mut teller).len(), 1);
    }

    #[test]
    fn what_is_left_out_of_plans_is_told_all_the_same() {
        let (voice, mut teller) = channel();
        say(&voice, "one");
        let [refused] = queued(&mut teller).try_into().unwrap();
        teller.memory.park(refused);
        let (telling, nobody) = (Telling::new(voice), Situation::default());
        telling.keep(&nobody, &["a".to_owned()].into());
        assert_eq!(teller.memory.waiting(), 1);
        telling.keep(&nobody, &[].into());
        assert_eq!(teller.memory.waiting(), 0);
    }

    #[test]
    fn pods_that_wait_for_the_same_share_a_story() {
        let (voice, mut teller) = channel();
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
        let queued = queued(&mut teller);
        assert!(queued.len() == 2 && queued.iter().all(|it| Arc::ptr_eq(&it.story, &story)));
    }

    #[test]
    fn nothing_waits_about_a_pod_that_is_forgotten() {
        let (voice, mut teller) = channel();
        say(&voice, "one");
        let [refused] = queued(&mut teller).try_into().unwrap();
        teller.memory.park(refused);
        voice.keep(|key| key == "a");
        assert_eq!(teller.memory.waiting(), 1);
        voice.keep(|key| key == "b");
        assert_eq!(teller.memory.waiting(), 0);
    }
}
