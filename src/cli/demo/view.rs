//! A terminal with the story above and a live view below it.
//!
//! The terminal is never put into another mode or onto another page, and its cursor stays in sight: whatever ends or stops
//! the demo, there is nothing to undo. What is drawn ends above the cursor's line, and is drawn again from its first line.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use console::{Style, Term, measure_text_width, truncate_str};

use super::panel::{Heading, Room, panel};
use super::wrap::wrapped;
use crate::sim::scenario::scene::Scene;
use crate::sim::scenario::{Line, Voice};

/// More often than this nobody sees a difference, and slow lines are kept busy.
const DRAWS_PER_SECOND: f64 = 10.0;
/// Puts the cursor at the start of its line, and clears that and everything below.
const CLEAR_BELOW: &str = "\r\x1b[0J";

/// What is drawn on.
pub(super) trait Terminal {
    /// Rows and columns, now.
    fn size(&self) -> (usize, usize);
    /// Sends it something, whole.
    fn send(&mut self, text: &str) -> io::Result<()>;
}

impl Terminal for Term {
    fn size(&self) -> (usize, usize) {
        let (rows, columns) = Self::size(self);
        (rows.into(), columns.into())
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        self.write_all(text.as_bytes())?;
        Write::flush(self)
    }
}

/// The story and the view below it.
pub(super) struct View<T> {
    terminal: T,
    heading: Heading,
    /// Simulated time between two drawings.
    apart: Duration,
    drawn_at: Option<Duration>,
    /// What was told since.
    news: Vec<Line>,
    lines: Vec<String>,
    /// How wide the lines are that are drawn below the story.
    drawn: Vec<usize>,
    /// Set when the demo was stopped and goes on: others have written below the view since.
    went_on: Arc<AtomicBool>,
}

impl<T: Terminal> View<T> {
    pub(super) fn new(terminal: T, heading: Heading, speed: f64, went_on: Arc<AtomicBool>) -> Self {
        // The stage is looked at once a simulated second: up to this speed no oftener than is drawn.
        let apart = if speed <= DRAWS_PER_SECOND {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(speed / DRAWS_PER_SECOND)
        };
        Self {
            terminal,
            heading,
            apart,
            drawn_at: None,
            news: Vec::new(),
            lines: Vec::new(),
            drawn: Vec::new(),
            went_on,
        }
    }

    /// Tells something, with what is shown next.
    pub(super) fn tell(&mut self, line: Line) {
        self.news.push(line);
    }

    /// Shows how things are, unless that was done a moment ago.
    pub(super) fn show(&mut self, at: Duration, scene: &Scene) -> io::Result<()> {
        let is_due = self.drawn_at.is_none_or(|last| at >= last + self.apart);
        if !is_due {
            return Ok(());
        }
        let (rows, columns) = self.terminal.size();
        let room = Room {
            // The last line is the cursor's.
            lines: rows.saturating_sub(1),
            columns: columns.saturating_sub(1),
        };
        self.lines = panel(at, &self.heading, scene, room);
        self.drawn_at = Some(at);
        self.draw()
    }

    /// Tells what was not told yet, and draws for the last time what is drawn: over the `^C` that a terminal shows itself.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if self.news.is_empty() && self.drawn.is_empty() {
            return Ok(());
        }
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        let (rows, columns) = self.terminal.size();
        let mut text = self.back(columns);
        for line in mem::take(&mut self.news) {
            text.push_str(&story(&line, columns));
        }
        self.drawn.clear();
        for line in self.lines.iter().take(rows.saturating_sub(1)) {
            let line = truncate_str(line, columns.saturating_sub(1), "…");
            self.drawn.push(measure_text_width(&line));
            text.push_str(&line);
            text.push('\n');
        }
        self.terminal.send(&text)
    }

    /// The way back to the first line of what is drawn. Where the terminal has become narrower, a line takes several rows.
    fn back(&self, columns: usize) -> String {
        if self.went_on.swap(false, Ordering::Relaxed) {
            return String::new();
        }
        let rows = self
            .drawn
            .iter()
            .map(|width| width.div_ceil(columns.max(1)).max(1));
        match rows.sum::<usize>() {
            0 => CLEAR_BELOW.to_owned(),
            rows => format!("\x1b[{rows}A{CLEAR_BELOW}"),
        }
    }
}

/// A line of the story, on as many lines of the terminal as it needs, below each other where its text begins.
fn story(line: &Line, columns: usize) -> String {
    let text = line.to_string();
    let begins = text.len() - line.text.len();
    let style = style(line.voice);
    let mut told = String::new();
    for line in wrapped(&text, columns, begins) {
        told.push_str(&style.apply_to(line.trim_end()).to_string());
        told.push('\n');
    }
    told
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
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::super::panel::tests::{heading, scene};
    use super::*;

    /// How the title is told from everything else, at any width.
    const TITLE: &str = "────";

    /// A terminal that keeps what has left it at the top, and rewraps long lines when it becomes narrower.
    #[derive(Clone)]
    struct Fake(Arc<Mutex<Glass>>);

    struct Glass {
        rows: usize,
        columns: usize,
        lines: Vec<Row>,
        /// The first line in sight.
        top: usize,
        row: usize,
        column: usize,
        sent: usize,
    }

    #[derive(Clone, Default)]
    struct Row {
        text: String,
        /// The next is the rest of this line.
        goes_on: bool,
    }

    impl Fake {
        fn new(rows: usize, columns: usize) -> Self {
            Self(Arc::new(Mutex::new(Glass {
                rows,
                columns,
                lines: vec![Row::default()],
                top: 0,
                row: 0,
                column: 0,
                sent: 0,
            })))
        }

        fn glass(&self) -> MutexGuard<'_, Glass> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Everything that can be read, whether or not it has scrolled away.
        fn lines(&self) -> Vec<String> {
            self.glass().lines.iter().map(|row| row.text.clone()).collect()
        }

        fn titles(&self) -> usize {
            self.lines().iter().filter(|line| line.starts_with(TITLE)).count()
        }

        fn resize(&self, rows: usize, columns: usize) {
            let mut glass = self.glass();
            let old = mem::take(&mut glass.lines);
            (glass.rows, glass.columns) = (rows, columns);
            let mut whole = String::new();
            for row in old {
                whole.push_str(&row.text);
                if row.goes_on {
                    continue;
                }
                let letters: Vec<char> = mem::take(&mut whole).chars().collect();
                let count = letters.len().div_ceil(columns).max(1);
                for part in 0..count {
                    let text = letters.iter().skip(part * columns).take(columns).collect();
                    let goes_on = part + 1 < count;
                    glass.lines.push(Row { text, goes_on });
                }
            }
            // Whatever is drawn ends above the cursor.
            (glass.row, glass.column) = (glass.lines.len() - 1, 0);
            glass.top = glass.lines.len().saturating_sub(rows);
        }
    }

    impl Glass {
        fn feed(&mut self) {
            (self.row, self.column) = (self.row + 1, 0);
            if self.row == self.lines.len() {
                self.lines.push(Row::default());
            }
            self.top = self.top.max((self.row + 1).saturating_sub(self.rows));
        }

        fn put(&mut self, letter: char) {
            if self.column == self.columns {
                let row = self.row;
                self.lines[row].goes_on = true;
                self.feed();
            }
            let line = &mut self.lines[self.row];
            line.text = line.text.chars().take(self.column).collect();
            line.text.push(letter);
            self.column += 1;
        }

        fn obey(&mut self, order: char, number: usize) {
            match order {
                'A' => self.row = self.row.saturating_sub(number).max(self.top),
                'J' => {
                    self.lines.truncate(self.row + 1);
                    let (row, column) = (self.row, self.column);
                    let kept = self.lines[row].text.chars().take(column).collect();
                    self.lines[row] = Row {
                        text: kept,
                        goes_on: false,
                    };
                }
                'm' => {}
                other => panic!("the terminal was sent an order {other}"),
            }
        }
    }

    impl Terminal for Fake {
        fn size(&self) -> (usize, usize) {
            let glass = self.glass();
            (glass.rows, glass.columns)
        }

        fn send(&mut self, text: &str) -> io::Result<()> {
            let mut glass = self.glass();
            glass.sent += 1;
            let mut letters = text.chars();
            while let Some(letter) = letters.next() {
                match letter {
                    '\n' => glass.feed(),
                    '\r' => glass.column = 0,
                    '\x1b' => {
                        assert_eq!(letters.next(), Some('['));
                        let digits: String = letters.clone().take_while(char::is_ascii_digit).collect();
                        let order = letters.nth(digits.len()).unwrap();
                        let number = digits.parse().unwrap_or(0);
                        glass.obey(order, number);
                    }
                    letter => glass.put(letter),
                }
            }
            Ok(())
        }
    }

    fn view(fake: &Fake, speed: f64) -> View<Fake> {
        View::new(fake.clone(), heading(), speed, Arc::default())
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
        let fake = Fake::new(24, 72);
        let mut view = view(&fake, 1.0);
        view.show(Duration::ZERO, &scene(0)).unwrap();
        view.tell(line("something happens"));
        view.show(Duration::from_secs(1), &scene(0)).unwrap();
        view.tell(line("and something else"));
        view.end().unwrap();
        let lines = fake.lines();
        assert_eq!(
            lines[..2],
            ["[00:00]   something happens", "[00:00]   and something else"]
        );
        assert!(
            lines[2].starts_with(TITLE) && lines[2].contains("00:01 20x"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 2 + 2 + 1, "{lines:?}");
    }

    #[test]
    fn what_is_said_after_the_end_begins_a_line() {
        let mut fake = Fake::new(24, 72);
        let mut view = view(&fake, 1.0);
        view.show(Duration::ZERO, &scene(0)).unwrap();
        fake.send("^C").unwrap();
        view.end().unwrap();
        fake.send("the demo has ended\n").unwrap();
        let lines = fake.lines();
        assert!(lines.contains(&"the demo has ended".to_owned()), "{lines:?}");
        assert_eq!(fake.titles(), 1, "{lines:?}");
        let mut untouched = View::new(fake.clone(), heading(), 1.0, Arc::default());
        let sent = fake.glass().sent;
        untouched.end().unwrap();
        assert_eq!(fake.glass().sent, sent, "nothing was drawn or told");
    }

    #[test]
    fn there_is_one_view_on_a_terminal_of_any_size() {
        for rows in 2..20 {
            for columns in [12, 40, 70] {
                let fake = Fake::new(rows, columns);
                let mut view = view(&fake, 1.0);
                for second in 0..40 {
                    let claims = usize::try_from(second % 13).unwrap();
                    view.tell(line("something happens that takes more than a line to tell"));
                    view.show(Duration::from_secs(second), &scene(claims)).unwrap();
                }
                assert_eq!(fake.titles(), 1, "{rows}x{columns}: {:?}", fake.lines());
            }
        }
    }

    #[test]
    fn a_terminal_that_becomes_narrower_or_wider_has_one_view() {
        let fake = Fake::new(30, 70);
        let mut view = view(&fake, 1.0);
        view.tell(line("the story begins"));
        for (second, columns) in (0..).zip([70, 30, 12, 50, 49, 70]) {
            fake.resize(30, columns);
            view.show(Duration::from_secs(second), &scene(5)).unwrap();
            assert_eq!(fake.titles(), 1, "{columns}: {:?}", fake.lines());
        }
        assert_eq!(fake.lines()[0], "[00:00]   the story begins");
    }

    #[test]
    fn after_a_stop_the_view_is_drawn_below_what_others_wrote() {
        let mut fake = Fake::new(24, 70);
        let went_on = Arc::new(AtomicBool::new(false));
        let mut view = View::new(fake.clone(), heading(), 1.0, went_on.clone());
        view.show(Duration::ZERO, &scene(2)).unwrap();
        fake.send("[1]+  Stopped\n$ fg\n").unwrap();
        went_on.store(true, Ordering::Relaxed);
        for second in 1..4 {
            view.show(Duration::from_secs(second), &scene(2)).unwrap();
        }
        let lines = fake.lines();
        let shell = lines.iter().position(|line| line == "$ fg").unwrap();
        assert!(lines[shell + 1].starts_with(TITLE), "{lines:?}");
        assert_eq!(fake.titles(), 2, "one from before: {lines:?}");
    }

    #[test]
    fn a_long_line_is_broken_at_words_below_where_its_text_begins() {
        let fake = Fake::new(24, 40);
        let mut view = view(&fake, 1.0);
        view.tell(line("3 pods of shop-5bf5684fff run on spot-first-8271cde75e"));
        view.end().unwrap();
        assert_eq!(
            fake.lines()[..2],
            [
                "[00:00]   3 pods of shop-5bf5684fff run",
                "          on spot-first-8271cde75e"
            ]
        );
    }

    #[test]
    fn nothing_is_drawn_more_than_ten_times_a_second() {
        for (speed, most) in [(20.0, 10), (60.0, 10), (3600.0, 10), (1.0, 2)] {
            let fake = Fake::new(24, 70);
            let mut view = view(&fake, speed);
            let mut second = 0.0;
            // The stage is looked at once a simulated second, for a second on the wall.
            while second < speed {
                view.tell(line("something happens"));
                view.show(Duration::from_secs_f64(second), &scene(1)).unwrap();
                second += 1.0;
            }
            let sent = fake.glass().sent;
            assert!((1..=most).contains(&sent), "{speed}: {sent}");
        }
    }
}
