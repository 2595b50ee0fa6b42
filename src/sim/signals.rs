//! The signals by which somebody ends a program that has something to clean up.

use std::{fs, io};

use futures::future::select_all;
use tokio::signal::unix::{SignalKind, signal};

/// A terminal that was closed, control-C, and whoever stops services.
const ENDINGS: [SignalKind; 3] = [
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::terminate(),
];

/// Whether a signal, by its number, is one of these.
pub fn is_ending(signal: i32) -> bool {
    ENDINGS.iter().any(|kind| kind.as_raw_value() == signal)
}

/// Listens from now on; what it gives ends with the first of these signals, and says its number.
pub fn ending() -> io::Result<impl Future<Output = i32> + Send> {
    let mut heard = Vec::new();
    for kind in ENDINGS {
        if kind == SignalKind::hangup() && outlives_its_terminal() {
            continue;
        }
        let mut signals = signal(kind)?;
        heard.push(Box::pin(async move {
            signals.recv().await;
            kind.as_raw_value()
        }));
    }
    Ok(async move { select_all(heard).await.0 })
}

/// Whether whoever started this wants it to go on without a terminal, as with `nohup`: to listen would undo that.
fn outlives_its_terminal() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores_hangup(&status)
}

/// Of the signals that are ignored, a set in hexadecimal, hangup is the lowest bit.
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_closes_ends_it_unless_it_was_told_to_go_on() {
        let status = |set: &str| format!("Name:\tsimulate\nSigBlk:\t0000000000000001\nSigIgn:\t{set}\n");
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(!ignores_hangup(""), "where there is no such file");
    }

    #[test]
    fn what_the_system_does_to_a_run_is_not_taken_for_a_wish() {
        let signals: Vec<i32> = (0..32).filter(|signal| is_ending(*signal)).collect();
        assert_eq!(signals, [1, 2, 15]);
    }
}
