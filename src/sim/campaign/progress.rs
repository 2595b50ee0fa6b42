//! How far a campaign is, on the terminal; silent where there is none.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::line::{Line, Verdict};
use super::report::{failed_at, seeds};

/// How often the time on a bar goes on.
const TICK: Duration = Duration::from_secs(1);
/// How long a bar is.
const COLUMNS: u8 = 30;

/// A progress bar that counts seeds and failures, over the seeds or over the time that there is. It goes with this.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    failed: u64,
}

impl Progress {
    /// For so many seeds, or for as many as can be begun within a time.
    pub fn new(seeds: u64, within: Option<Duration>) -> Self {
        let progress = Self::on(ProgressDrawTarget::stderr(), seeds, within);
        progress.bar.enable_steady_tick(TICK);
        progress
    }

    fn on(target: ProgressDrawTarget, seeds: u64, within: Option<Duration>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(seeds), target);
        let template = match within {
            None => format!("{{bar:{COLUMNS}}} {{pos}}/{{all}}, {{msg}} ({{elapsed}}{{left}})"),
            Some(within) => format!(
                "{{passed}} {{some}}, {{msg}} ({{elapsed}} of {} s)",
                within.as_secs()
            ),
        };
        let passed = move |state: &ProgressState, to: &mut dyn std::fmt::Write| {
            let _ = to.write_str(&passed(state.elapsed(), within.unwrap_or_default()));
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let style = style.with_key("all", all).with_key("some", some);
            bar.set_style(style.with_key("left", left).with_key("passed", passed));
        }
        bar.set_message("none failed");
        Self { bar, failed: 0 }
    }

    /// A seed has ended. One that failed is told of at once, with or without a terminal.
    pub fn step(&mut self, line: &Line) {
        if line.verdict != Verdict::Ok {
            self.failed += 1;
            self.bar.set_message(format!("{} failed", self.failed));
            self.tell(&failed_at(line));
        }
        self.bar.inc(1);
    }

    fn tell(&self, text: &str) {
        if self.bar.is_hidden() {
            // A reader that is gone cannot be told.
            let _ = writeln!(std::io::stderr(), "{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Takes the bar away while somebody else writes to the terminal, which may be the same.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

fn all(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    // Nothing can be done about a bar that cannot be drawn; here and below.
    let _ = to.write_str(&seeds(state.len().unwrap_or_default()));
}

fn some(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    let _ = to.write_str(&seeds(state.pos()));
}

/// A bar over a time.
fn passed(elapsed: Duration, within: Duration) -> String {
    let all = usize::from(COLUMNS);
    let column = (within / u32::from(COLUMNS)).max(Duration::from_millis(1));
    let full = usize::try_from(elapsed.as_millis() / column.as_millis()).map_or(all, |full| full.min(all));
    "█".repeat(full) + &"░".repeat(all - full)
}

/// How long the rest will take, which nobody knows before the first is through.
fn left(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        let _ = write!(to, ", {:#} to go", HumanDuration(state.eta()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What is tried while a plan is made shorter. It goes with this.
#[derive(Debug)]
pub(super) struct Trying(ProgressBar);

impl Trying {
    /// On the terminal, if there is one.
    pub(super) fn new() -> Self {
        let trying = Self::on(ProgressDrawTarget::stderr());
        trying.0.enable_steady_tick(TICK);
        trying
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{msg} ({elapsed})") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// The run of that number begins; before the first, the seed is played as it is.
    pub(super) fn run(&self, number: u64, left: usize, of: usize) {
        self.0
            .set_message(format!("run {number}, {left} of {of} faults left"));
        self.0.tick();
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use indicatif::TermLike;

    use super::*;
    use crate::sim::campaign::line::tests::fine;

    /// How many columns a terminal has.
    const WIDTH: usize = 100;

    /// A terminal: lines, and where the cursor is.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<Screen>>);

    #[derive(Debug, Default)]
    struct Screen {
        lines: Vec<Vec<char>>,
        row: usize,
        column: usize,
    }

    impl Terminal {
        fn with<T>(&self, change: impl FnOnce(&mut Screen) -> T) -> T {
            change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        /// What there is to be read.
        fn lines(&self) -> Vec<String> {
            let text = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
            let lines = self.with(|screen| screen.lines.iter().map(text).collect::<Vec<_>>());
            lines.into_iter().filter(|line| !line.is_empty()).collect()
        }

        fn write(&self, text: &str) {
            self.with(|screen| text.chars().for_each(|c| screen.put(c)));
        }
    }

    impl Screen {
        fn put(&mut self, c: char) {
            match c {
                '\n' => (self.row, self.column) = (self.row + 1, 0),
                '\r' => self.column = 0,
                _ => {
                    // Behind the last column one writes on the next line, as the bar expects.
                    if self.column == WIDTH {
                        (self.row, self.column) = (self.row + 1, 0);
                    }
                    self.reach();
                    self.lines[self.row][self.column] = c;
                    self.column += 1;
                }
            }
        }

        /// Makes sure that there is something at the cursor.
        fn reach(&mut self) {
            if self.lines.len() <= self.row {
                self.lines.resize(self.row + 1, Vec::new());
            }
            let line = &mut self.lines[self.row];
            if line.len() <= self.column {
                line.resize(self.column + 1, ' ');
            }
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            u16::try_from(WIDTH).unwrap()
        }
        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            self.with(|screen| screen.row = screen.row.saturating_sub(n));
            Ok(())
        }
        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.with(|screen| screen.row += n);
            Ok(())
        }
        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.with(|screen| screen.column += n);
            Ok(())
        }
        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            self.with(|screen| screen.column = screen.column.saturating_sub(n));
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write(text);
            self.write("\n");
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.write(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.with(|screen| {
                screen.reach();
                let row = screen.row;
                screen.lines[row].clear();
                screen.column = 0;
            });
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn progress(terminal: &Terminal, within: Option<Duration>) -> Progress {
        Progress::on(
            ProgressDrawTarget::term_like(Box::new(terminal.clone())),
            40,
            within,
        )
    }

    #[test]
    fn what_is_written_beside_the_bar_stays_whole_and_the_bar_below_it() {
        let terminal = Terminal::default();
        let mut progress = progress(&terminal, None);
        for seed in 0..3 {
            progress.step(&fine(seed));
            progress.aside(|| terminal.write(&format!("{{\"seed\":{seed}}}\n")));
        }
        let mut broken = fine(3);
        broken.verdict = Verdict::Crash;
        progress.step(&broken);
        progress.aside(|| terminal.write("{\"seed\":3}\n"));
        let lines = terminal.lines();
        let (bar, written) = lines.split_last().unwrap();
        assert_eq!(
            written,
            [
                r#"{"seed":0}"#,
                r#"{"seed":1}"#,
                r#"{"seed":2}"#,
                "seed 3: crash: cargo run --release --bin simulate -- --replay 3",
                r#"{"seed":3}"#
            ]
        );
        assert!(bar.contains("4/40 seeds, 1 failed"), "{bar}");
        drop(progress);
        assert_eq!(terminal.lines(), written, "the bar goes in the end");
    }

    #[test]
    fn where_time_is_the_limit_the_range_says_nothing() {
        let terminal = Terminal::default();
        let mut progress = progress(&terminal, Some(Duration::from_mins(8)));
        progress.step(&fine(0));
        let lines = terminal.lines();
        assert!(
            lines.len() == 1 && lines[0].contains("░ 1 seed, none failed ("),
            "{lines:?}"
        );
        assert!(lines[0].ends_with(" of 480 s)"), "{lines:?}");
    }

    #[test]
    fn where_time_is_the_limit_the_bar_is_over_the_time() {
        let full = |seconds| {
            let bar = passed(Duration::from_secs(seconds), Duration::from_mins(8));
            assert_eq!(bar.chars().count(), usize::from(COLUMNS), "{bar}");
            bar.chars().filter(|column| *column == '█').count()
        };
        assert_eq!([0, 15, 240, 480, 900].map(full), [0, 0, 15, 30, 30]);
        assert_eq!(
            passed(Duration::ZERO, Duration::ZERO),
            "░".repeat(usize::from(COLUMNS))
        );
    }

    #[test]
    fn how_long_the_rest_takes_is_said_when_a_first_seed_is_through() {
        let terminal = Terminal::default();
        let mut progress = progress(&terminal, None);
        progress.bar.tick();
        let before = terminal.lines().concat();
        assert!(
            before.contains("0/40 seeds, none failed (") && !before.contains("to go"),
            "{before}"
        );
        progress.step(&fine(0));
        progress.bar.tick();
        assert!(
            terminal.lines().concat().contains("to go"),
            "{:?}",
            terminal.lines()
        );
    }

    #[test]
    fn whoever_waits_for_a_shorter_plan_sees_how_short_it_is() {
        let terminal = Terminal::default();
        let trying = Trying::on(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        trying.run(7, 12, 42);
        let lines = terminal.lines().concat();
        assert!(lines.starts_with("run 7, 12 of 42 faults left ("), "{lines}");
        drop(trying);
        assert_eq!(terminal.lines(), Vec::<String>::new());
    }
}
