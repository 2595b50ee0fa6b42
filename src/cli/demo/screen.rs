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
    listeners: Listeners,
    /// Canceled when there is no use in going on.
    stop: CancellationToken,
    trouble: Option<io::Error>,
}

/// Those whom the story is told. They may have had enough before its end (`| head`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listeners {
    /// Without them there is no use in going on.
    Needed,
    /// Without them the story is played to its end all the same.
    Welcome,
    /// They have had enough.
    Gone,
}

impl Screen {
    /// Plain lines of a script, whose verdict counts whether or not somebody reads on.
    pub(super) fn of_script(stop: CancellationToken) -> Self {
        Self::plain(stop, Listeners::Welcome)
    }

    fn plain(stop: CancellationToken, listeners: Listeners) -> Self {
        Self {
            live: None,
            listeners,
            stop,
            trouble: None,
        }
    }

    /// Plain lines, with a live view where stdout is a terminal that can show one. It is drawn anew when `went_on` is set.
    pub(super) fn live(
        stop: CancellationToken,
        speed: f64,
        kubeconfig: String,
        went_on: Arc<AtomicBool>,
    ) -> Self {
        let mut screen = Self::plain(stop, Listeners::Needed);
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
        // A terminal that was closed has ended the demo, and cannot be drawn on any more.
        let is_over = self.stop.is_cancelled();
        if let Some(mut live) = self.live.take() {
            let outcome = live.end();
            if !is_over {
                self.note(outcome);
            }
        }
        self.trouble.take().map_or(Ok(()), Err)
    }

    fn note(&mut self, outcome: io::Result<()>) {
        let Err(error) = outcome else { return };
        if self.listeners == Listeners::Welcome && error.kind() == io::ErrorKind::BrokenPipe {
            self.listeners = Listeners::Gone;
        } else {
            self.trouble.get_or_insert(error);
            self.stop.cancel();
        }
    }
}

impl Audience for Screen {
    fn hear(&mut self, line: Line) {
        if let Some(live) = &mut self.live {
            live.tell(line);
        } else if self.listeners != Listeners::Gone {
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
