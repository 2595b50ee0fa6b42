//! Where the story is told: plain lines, or on a terminal the story above and a live view below it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use console::Term;
use tokio_util::sync::CancellationToken;

use super::panel::Heading;
use super::view::View;
use crate::cli::output;
use crate::sim::scenario::scene::Scene;
use crate::sim::scenario::{Audience, Line};

/// Whoever sits before the screen.
pub(super) struct Screen {
    live: Option<View<Term>>,
    /// Canceled when nobody reads any more.
    stop: CancellationToken,
    trouble: Option<io::Error>,
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

    /// With a live view where stdout is a terminal that can show one. It is drawn anew when `went_on` is set.
    pub(super) fn live(
        stop: CancellationToken,
        speed: f64,
        kubeconfig: String,
        went_on: Arc<AtomicBool>,
    ) -> Self {
        let mut screen = Self::plain(stop);
        let term = Term::stdout();
        if io::stdout().is_terminal() && term.features().is_attended() && !console::is_dumb() {
            let heading = Heading {
                speed: format!("{speed}x"),
                kubeconfig,
            };
            screen.live = Some(View::new(term, heading, speed, went_on));
        }
        screen
    }

    /// What went wrong with the output, if anything.
    pub(super) fn end(mut self) -> io::Result<()> {
        if let Some(mut live) = self.live.take() {
            let outcome = live.end();
            self.note(outcome);
        }
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
        if let Some(live) = &mut self.live {
            live.tell(line);
        } else {
            let outcome = output::data(line);
            self.note(outcome);
        }
    }

    fn see(&mut self, at: Duration, scene: &Scene) {
        if let Some(live) = &mut self.live {
            let outcome = live.show(at, scene);
            self.note(outcome);
        }
    }
}
