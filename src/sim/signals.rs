//! The signals by which somebody ends a program that has something to clean up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use futures::future::select_all;
use tokio::signal::unix::{SignalKind, signal};

/// A terminal that was closed, control-C, control-\, and whoever stops services.
const ENDINGS: [SignalKind; 4] = [
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::terminate(),
];

/// By which a process goes on after it was stopped; tokio has no name for it. Linux has another number than all others.
const CONTINUATION: i32 = if cfg!(target_os = "linux") { 18 } else { 19 };

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

/// Sets what it gives whenever this process goes on after it was stopped, as with control-Z and `fg`.
pub fn continuation() -> io::Result<Arc<AtomicBool>> {
    let mut signals = signal(SignalKind::from_raw(CONTINUATION))?;
    let went_on = Arc::new(AtomicBool::new(false));
    let told = went_on.clone();
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            told.store(true, Ordering::Relaxed);
        }
    });
    Ok(went_on)
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
    fn control_backslash_ends_it_as_control_c_does() {
        assert!(is_ending(SignalKind::quit().as_raw_value()));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn it_is_known_that_a_process_went_on() {
        let went_on = continuation().unwrap();
        assert!(!went_on.load(Ordering::Relaxed));
        let sent = std::process::Command::new("kill")
            .args(["-CONT", &std::process::id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        while !went_on.load(Ordering::Relaxed) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    #[test]
    fn what_the_system_does_to_a_run_is_not_taken_for_a_wish() {
        let signals: Vec<i32> = (0..32).filter(|signal| is_ending(*signal)).collect();
        assert_eq!(signals, [1, 2, 3, 15]);
    }
}
