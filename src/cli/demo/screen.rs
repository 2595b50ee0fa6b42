//! Where the story is told: plain lines, or on a terminal the story above and a live view below it.
//!
//! The terminal is never put into another mode or onto another page: all that must be undone is a hidden cursor, and
//! that is undone when the screen is dropped, whatever the reason.

use std::io::{self, IsTerminal};
use std::time::Duration;

use console::{Style, Term, truncate_str};
use tokio_util::sync::CancellationToken;

use super::panel::panel;
use crate::cli::output;
use crate::sim::scenario::scene::Scene;
use crate::sim::scenario::{Audience, Line, Voice};

/// Whoever sits before the screen.
pub(super) struct Screen {
    live: Option<Live>,
    /// Canceled when nobody reads any more.
    stop: CancellationToken,
    trouble: Option<io::Error>,
}

/// The view below the story.
struct Live {
    term: Term,
    speed: String,
    /// What it shows now.
    shown: Vec<String>,
}

impl Screen {
    /// Plain lines.
    pub(super) fn plain(stop: CancellationToken) -> Self {
        Self {
            live: None,
            stop,
            trouble: None,
        }
    }

    /// With a live view where stdout is a terminal that can show one.
    pub(super) fn live(stop: CancellationToken, speed: f64) -> Self {
        let mut screen = Self::plain(stop);
        let term = Term::buffered_stdout();
        if io::stdout().is_terminal() && term.features().is_attended() && !console::is_dumb() {
            screen.live = Some(Live::new(term, speed));
        }
        screen
    }

    /// What went wrong with the output, if anything.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.trouble.take().map_or(Ok(()), Err)
    }

    fn note(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.trouble.get_or_insert(error);
            self.stop.cancel();
        }
    }
}

impl Audience for Screen {
    fn hear(&mut self, line: Line) {
        let outcome = match &mut self.live {
            Some(live) => live.add(&line),
            None => output::data(line),
        };
        self.note(outcome);
    }

    fn see(&mut self, at: Duration, scene: &Scene) {
        if let Some(live) = &mut self.live {
            let outcome = live.show(at, scene);
            self.note(outcome);
        }
    }
}

impl Live {
    fn new(term: Term, speed: f64) -> Self {
        let _ = term.hide_cursor();
        Self {
            term,
            speed: format!("{speed}x"),
            shown: Vec::new(),
        }
    }

    fn add(&mut self, line: &Line) -> io::Result<()> {
        self.term.clear_last_lines(self.shown.len())?;
        self.term
            .write_line(&style(line.voice).apply_to(line).to_string())?;
        self.draw()
    }

    fn show(&mut self, at: Duration, scene: &Scene) -> io::Result<()> {
        let lines = panel(at, &self.speed, scene);
        if lines == self.shown {
            return Ok(());
        }
        self.term.clear_last_lines(self.shown.len())?;
        self.shown = lines;
        self.draw()
    }

    fn draw(&self) -> io::Result<()> {
        let width = usize::from(self.term.size().1);
        for line in &self.shown {
            // A line that wraps would be two lines to clear.
            self.term
                .write_line(&truncate_str(line, width.saturating_sub(1), "…"))?;
        }
        self.term.flush()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.term.show_cursor();
        let _ = self.term.flush();
    }
}

/// What every voice looks like where there are colors; its mark tells it apart anyway.
fn style(voice: Voice) -> Style {
    match voice {
        Voice::Narrator => Style::new().bold(),
        Voice::Step => Style::new().cyan(),
        Voice::Stage => Style::new(),
        Voice::Met => Style::new().green(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    const SHOWN: &str = "\x1b[?25h";

    /// What a terminal is sent while `with` has a view on it.
    fn sent(name: &str, with: impl FnOnce(Live)) -> String {
        let path = std::env::temp_dir().join(format!("karpenter-ibm-{name}-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let term = Term::read_write_pair(File::open(&path).unwrap(), file);
        with(Live::new(term, 20.0));
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        text
    }

    fn line(text: &str) -> Line {
        Line {
            at: Duration::ZERO,
            voice: Voice::Stage,
            text: text.to_owned(),
        }
    }

    #[test]
    fn the_story_stays_above_and_the_view_is_drawn_again_below() {
        let text = sent("view", |mut live| {
            live.show(Duration::ZERO, &Scene::default()).unwrap();
            live.add(&line("something happens")).unwrap();
        });
        let story = text.find("something happens").unwrap();
        assert!(text[..story].contains("Ctrl-C ends"), "{text:?}");
        assert!(text[story..].contains("Ctrl-C ends"), "{text:?}");
    }

    #[test]
    fn the_cursor_comes_back_at_the_end_and_after_a_panic() {
        assert!(sent("end", drop).ends_with(SHOWN));
        let panicked = sent("panic", |live| {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _live = live;
                panic!("in the middle");
            }));
            assert!(caught.is_err());
        });
        assert!(panicked.ends_with(SHOWN), "{panicked:?}");
    }
}
