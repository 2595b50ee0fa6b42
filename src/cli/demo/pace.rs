//! Simulated time, paced by the wall clock.
//!
//! The time of the inside runtime is paused: it jumps to the next timer whenever everybody waits, as fast as the
//! machine allows. To pace it, time is let run for a beat's worth and then held still until the beat is over. Requests
//! are answered all the while.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::clock::Clock;

/// Short enough that nobody sees the steps, long enough that the beats themselves cost nothing.
const BEAT: Duration = Duration::from_millis(50);

/// Beats of the wall clock, given by the outside runtime until nobody listens.
pub(super) fn metronome(outside: &Handle) -> mpsc::Receiver<()> {
    let (sender, beats) = mpsc::channel(1);
    outside.spawn(async move {
        let mut beat = tokio::time::interval(BEAT);
        // After a hold-up time goes on at its pace; it does not race to catch up.
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            if sender.send(()).await.is_err() {
                return;
            }
        }
    });
    beats
}

/// Lets `speed` times a beat pass on `clock` for every beat; returns when there are no more.
pub(super) async fn follow(mut beats: mpsc::Receiver<()>, clock: &Clock, speed: f64) {
    loop {
        clock.sleep(BEAT.mul_f64(speed)).await;
        // tokio holds paused time still while a blocking task runs; this one waits for the wall clock.
        let waiting = tokio::task::spawn_blocking(move || (beats.blocking_recv(), beats));
        match waiting.await {
            Ok((Some(()), again)) => beats = again,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn time_passes_by_beats_and_stands_still_between_them() {
        let inside = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (sender, beats) = mpsc::channel(10);
        for _ in 0..3 {
            sender.try_send(()).unwrap();
        }
        drop(sender);
        let seconds = Arc::new(AtomicU64::new(0));
        let counted = seconds.clone();
        inside.block_on(async {
            let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
            let ticking = clock.clone();
            tokio::spawn(async move {
                loop {
                    ticking.sleep(Duration::from_secs(1)).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            follow(beats, &clock, 200.0).await;
            assert_eq!(clock.now().to_string(), "2026-11-16T10:00:40Z");
        });
        let passed = seconds.load(Ordering::Relaxed);
        assert!((39..=40).contains(&passed), "four times ten seconds: {passed}");
    }
}
