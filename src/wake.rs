//! Many things polled side by side, each only when it asked for it.
//!
//! Whoever joins futures polls all of them whenever one is woken. A replica has some thirty loops with several watches
//! each, and one of them is woken every few moments: most of what an idle replica did was to ask the others. Here each
//! has a bell of its own. They are polled in their own order and not in that in which they rang, so what happens is the
//! same as when all are asked.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use futures::task::AtomicWaker;

/// Where the bells of those that are polled together are heard.
#[derive(Clone, Debug, Default)]
pub struct Hall(Arc<AtomicWaker>);

impl Hall {
    /// Whoever polls now is woken when the next bell rings. To be called before the bells are looked at.
    pub fn attend(&self, context: &Context<'_>) {
        self.0.register(context.waker());
    }

    /// A bell that is heard here. It has rung already, since everything has to be polled once.
    pub fn bell(&self) -> Bell {
        let rope = Arc::new(Rope {
            rang: AtomicBool::new(true),
            hall: Arc::clone(&self.0),
        });
        Bell {
            waker: Waker::from(Arc::clone(&rope)),
            rope,
        }
    }
}

/// What one of them asks with to be polled again.
#[derive(Debug)]
pub struct Bell {
    rope: Arc<Rope>,
    waker: Waker,
}

impl Bell {
    /// Whether it rang since it was last asked.
    pub fn rang(&self) -> bool {
        self.rope.rang.swap(false, Ordering::AcqRel)
    }

    /// What to poll its owner with.
    pub fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }
}

#[derive(Debug)]
struct Rope {
    rang: AtomicBool,
    hall: Arc<AtomicWaker>,
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.hall.wake();
    }
}

/// Returns when all have.
pub async fn together(futures: impl IntoIterator<Item = BoxFuture<'_, ()>>) {
    until(futures, |left, _| left == 0).await;
}

/// Returns when one has, and drops the others.
pub async fn until_one_ends(futures: impl IntoIterator<Item = BoxFuture<'_, ()>>) {
    until(futures, |left, all| left < all).await;
}

/// Polls them until it is enough that so many are left of so many.
async fn until(
    futures: impl IntoIterator<Item = BoxFuture<'_, ()>>,
    is_enough: impl Fn(usize, usize) -> bool,
) {
    let hall = Hall::default();
    let mut running: Vec<(BoxFuture<'_, ()>, Bell)> =
        futures.into_iter().map(|future| (future, hall.bell())).collect();
    let all = running.len();
    poll_fn(|context| {
        hall.attend(context);
        running.retain_mut(|(future, bell)| {
            let polled = bell.rang().then(|| future.as_mut().poll(&mut bell.context()));
            polled.is_none_or(|polled| polled.is_pending())
        });
        if is_enough(running.len(), all) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    /// Counts how often `future` is polled.
    fn counted<'a>(
        polls: &'a AtomicUsize,
        future: impl Future<Output = ()> + Send + 'a,
    ) -> BoxFuture<'a, ()> {
        let mut future = future.boxed();
        poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            future.as_mut().poll(context)
        })
        .boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_not_woken_is_not_polled() {
        let (idle, busy) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let ticks = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let wait = tokio::time::sleep(Duration::from_mins(1));
        together([counted(&idle, wait), counted(&busy, ticks)]).await;
        assert_eq!((idle.into_inner(), busy.into_inner()), (2, 11));
    }

    #[tokio::test]
    async fn they_go_in_their_own_order_whoever_rang_first() {
        let (bells, told) = ([Notify::new(), Notify::new()], Mutex::new(Vec::new()));
        let wait = |number: usize| {
            let (bells, told) = (&bells, &told);
            async move {
                bells[number].notified().await;
                told.lock().unwrap().push(number);
            }
            .boxed()
        };
        let ring = async {
            bells[1].notify_one();
            bells[0].notify_one();
        };
        together([wait(0), wait(1), ring.boxed()]).await;
        assert_eq!(told.into_inner().unwrap(), [0, 1]);
    }

    #[tokio::test]
    async fn one_that_wakes_another_before_it_is_heard() {
        let bell = Notify::new();
        let first = async { bell.notified().await };
        let second = async { bell.notify_one() };
        together([first.boxed(), second.boxed()]).await;
    }

    #[tokio::test]
    async fn one_that_ends_ends_those_that_never_would() {
        until_one_ends([std::future::pending().boxed(), async {}.boxed()]).await;
    }

    #[tokio::test]
    async fn none_are_done_at_once() {
        together([]).await;
    }
}
