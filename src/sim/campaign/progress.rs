//! How far a campaign is, on the terminal; silent where there is none.

use indicatif::{ProgressBar, ProgressStyle};

use super::line::{Line, Verdict};

/// A progress bar that counts seeds and failures.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    failed: u64,
}

impl Progress {
    /// For so many seeds.
    pub fn new(seeds: u64) -> Self {
        let bar = ProgressBar::new(seeds);
        let style =
            ProgressStyle::with_template("{bar:30} {pos}/{len} seeds, {msg} ({elapsed}, {eta} to go)");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message("none failed");
        Self { bar, failed: 0 }
    }

    /// A seed has ended.
    pub fn step(&mut self, line: &Line) {
        if line.verdict != Verdict::Ok {
            self.failed += 1;
            self.bar.set_message(format!("{} failed", self.failed));
            self.bar.println(format!("seed {}: {}", line.seed, line.verdict));
        }
        self.bar.inc(1);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
