//! A story as one picture (SVG): which machines ran over time, what they cost an hour, and what was told when.
//!
//! It is drawn from what an audience sees and hears, so the same story gives the same picture, byte for byte.

use std::fmt::Write;
use std::time::Duration;

use super::bill::{Ledger, Rate, minutes};
use super::player::{Audience, Line, Voice};
use super::scene::Scene;

const WIDTH: u32 = 960;
/// Where both charts begin and end.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 936.0;
/// Numbers of phases closer than this would cover each other.
const MARK_WIDTH: f64 = 20.0;
const MARKS_Y: f64 = 76.0;
const MACHINES: Chart = Chart {
    top: 106.0,
    bottom: 226.0,
};
const DOLLARS: Chart = Chart {
    top: 262.0,
    bottom: 412.0,
};
/// Where the captions begin, and how far apart they are.
const CAPTIONS_Y: u32 = 480;
const CAPTION_HEIGHT: u32 = 18;
/// Letters of a caption that fit into a line at 12 pixels.
const CAPTION_LETTERS: usize = 132;

/// What is remembered of a story until it is drawn.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    title: String,
    ledger: Ledger,
    phases: Vec<(Duration, String)>,
    until: Duration,
}

impl Picture {
    /// Of a story of this title, of which nothing has been seen yet.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }

    /// Draws it.
    pub fn svg(&self) -> String {
        let captions: Vec<String> = self.captions();
        let height = CAPTIONS_Y + CAPTION_HEIGHT * u32::try_from(captions.len()).unwrap_or(0) + 12;
        let mut svg = String::new();
        let mut add = |line: String| {
            svg.push_str(&line);
            svg.push('\n');
        };
        add(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{INK}">"#
        ));
        add(format!("<title>{}</title>", escaped(&self.title)));
        add(HATCH.to_owned());
        add(format!(
            r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##
        ));
        add(text(
            LEFT,
            28.0,
            r#"font-size="13" font-weight="bold""#,
            &self.title,
        ));
        add(text(LEFT, 50.0, "", &self.ledger.bill(self.until).to_string()));
        for line in self
            .marks()
            .into_iter()
            .chain(self.machines())
            .chain(self.dollars())
        {
            add(line);
        }
        for line in self.time_axis().into_iter().chain(legend()).chain(captions) {
            add(line);
        }
        add("</svg>".to_owned());
        svg
    }

    /// Where a moment is, from left to right.
    fn x(&self, at: Duration) -> f64 {
        let share = at.as_secs_f64() / self.until.as_secs_f64().max(1.0);
        LEFT + (RIGHT - LEFT) * share
    }

    /// The phases' numbers above the charts, and a line down from each.
    fn marks(&self) -> Vec<String> {
        let mut free = LEFT;
        let mut lines = Vec::new();
        for (number, (at, _)) in (1..).zip(&self.phases) {
            let from = self.x(*at);
            let to = from.max(free);
            free = to + MARK_WIDTH;
            lines.push(format!(
                r##"<path d="M{to:.1} {MARKS_Y} L{from:.1} {} V{}" fill="none" stroke="#8d8d8d" stroke-dasharray="2 3"/>"##,
                MACHINES.top, DOLLARS.bottom
            ));
            lines.push(format!(
                r#"<circle cx="{to:.1}" cy="{MARKS_Y}" r="9" fill="{INK}"/>"#
            ));
            let style = r##"fill="#ffffff" text-anchor="middle" font-size="11""##;
            lines.push(text(to, MARKS_Y + 4.0, style, &format!("{number}")));
        }
        lines
    }

    fn machines(&self) -> Vec<String> {
        let spot = |rate: &Rate| f64::from(rate.spot);
        let all = |rate: &Rate| f64::from(rate.spot + rate.on_demand);
        let top = self.highest(all);
        let mut lines = MACHINES.frame("machines", &[0.0, top], |value| format!("{value:.0}"));
        lines.push(self.area(&MACHINES, top, all, ON_DEMAND));
        lines.push(self.area(&MACHINES, top, spot, SPOT));
        lines
    }

    fn dollars(&self) -> Vec<String> {
        #[expect(clippy::cast_precision_loss, reason = "to be drawn only")]
        let usd = |nanos: u64| nanos as f64 / 1e9;
        let (spot, all) = (
            |rate: &Rate| usd(rate.spot_nanos),
            |rate: &Rate| usd(rate.nanos()),
        );
        let undiscounted = |rate: &Rate| usd(rate.undiscounted_nanos);
        let top = self.highest(undiscounted);
        let peaks = [0.0, self.highest(all), top];
        let mut lines = DOLLARS.frame("$ an hour", &peaks, |value| format!("{value:.2}"));
        lines.push(self.area(&DOLLARS, top, all, ON_DEMAND));
        lines.push(self.area(&DOLLARS, top, spot, SPOT));
        let path = self.outline(&DOLLARS, top, undiscounted);
        lines.push(format!(r#"<path d="{path}" {UNDISCOUNTED}/>"#));
        lines
    }

    fn highest(&self, of: impl Fn(&Rate) -> f64) -> f64 {
        let values = self.ledger.entries().iter().map(|(_, rate)| of(rate));
        values.fold(0.0, f64::max)
    }

    /// A line that goes up and down in steps, from the first moment to the last.
    fn outline(&self, chart: &Chart, top: f64, of: impl Fn(&Rate) -> f64) -> String {
        let mut path = format!("M{LEFT} {}", chart.bottom);
        for (at, rate) in self.ledger.entries() {
            // Of a path that is built up, writing cannot fail.
            let _ = write!(path, " H{:.1} V{:.1}", self.x(*at), chart.y(of(rate), top));
        }
        let _ = write!(path, " H{RIGHT}");
        path
    }

    fn area(&self, chart: &Chart, top: f64, of: impl Fn(&Rate) -> f64, fill: &str) -> String {
        let outline = self.outline(chart, top, of);
        format!(r#"<path d="{outline} V{} Z" {fill}/>"#, chart.bottom)
    }

    /// Minutes, ten at a time.
    fn time_axis(&self) -> Vec<String> {
        let last = self.until.as_secs() / 60;
        let ticks = (0..=last).step_by(10);
        ticks
            .map(|minute| {
                let x = self.x(Duration::from_mins(minute));
                text(
                    x,
                    DOLLARS.bottom + 16.0,
                    r#"text-anchor="middle""#,
                    &format!("{minute} min"),
                )
            })
            .collect()
    }

    fn captions(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for (number, (at, told)) in (1..).zip(&self.phases) {
            for (row, part) in wrapped(told).into_iter().enumerate() {
                let head = if row == 0 {
                    format!("{number}   {}", minutes(*at))
                } else {
                    String::new()
                };
                rows.push((head, part));
            }
        }
        let placed = (CAPTIONS_Y..).step_by(CAPTION_HEIGHT as usize).zip(rows);
        placed
            .map(|(y, (head, part))| {
                let y = f64::from(y);
                let head = text(LEFT, y, r#"font-weight="bold""#, &head);
                format!("{head}{}", text(LEFT + 80.0, y, "", &part))
            })
            .collect()
    }
}

impl Audience for Picture {
    fn hear(&mut self, line: Line) {
        if line.voice == Voice::Narrator {
            self.phases.push((line.at, line.text));
        }
    }

    fn see(&mut self, at: Duration, scene: &Scene) {
        self.ledger.note(at, scene);
        self.until = at;
    }
}

const INK: &str = "#161616";
const SPOT: &str = r##"fill="#1192e8""##;
const ON_DEMAND: &str = r#"fill="url(#hatch)""#;
const UNDISCOUNTED: &str = r##"fill="none" stroke="#161616" stroke-width="1.5" stroke-dasharray="6 4""##;
/// Machines on demand are hatched: what is told by color alone is not told to everybody.
const HATCH: &str = r##"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#ffd7d9"/><rect width="3" height="6" fill="#da1e28"/></pattern></defs>"##;

/// Where a chart stands.
struct Chart {
    top: f64,
    bottom: f64,
}

impl Chart {
    fn y(&self, value: f64, top: f64) -> f64 {
        let share = if top > 0.0 { value / top } else { 0.0 };
        self.bottom - (self.bottom - self.top) * share
    }

    /// What is measured, and a line with its number for each of the values, the last of which is the highest.
    fn frame(&self, what: &str, values: &[f64], number: impl Fn(f64) -> String) -> Vec<String> {
        let top = values.last().copied().unwrap_or_default();
        let mut lines = vec![text(LEFT, self.top - 6.0, r#"font-weight="bold""#, what)];
        for &value in values {
            let y = self.y(value, top);
            lines.push(format!(
                r##"<path d="M{LEFT} {y:.1} H{RIGHT}" stroke="#e0e0e0"/>"##
            ));
            lines.push(text(LEFT - 8.0, y + 4.0, r#"text-anchor="end""#, &number(value)));
        }
        lines
    }
}

fn legend() -> Vec<String> {
    let y = 450.0;
    let square = |x: f64, fill: &str| {
        format!(
            r#"<rect x="{x}" y="{}" width="14" height="12" {fill}/>"#,
            y - 10.0
        )
    };
    let line = format!(r#"<path d="M{} {} h28" {UNDISCOUNTED}/>"#, LEFT + 240.0, y - 4.0);
    vec![
        square(LEFT, SPOT),
        text(LEFT + 20.0, y, "", "spot"),
        square(LEFT + 100.0, ON_DEMAND),
        text(LEFT + 120.0, y, "", "on demand"),
        line,
        text(LEFT + 276.0, y, "", "the same machines, all on demand"),
    ]
}

fn text(x: f64, y: f64, style: &str, words: &str) -> String {
    format!(r#"<text x="{x:.1}" y="{y:.1}" {style}>{}</text>"#, escaped(words))
}

fn escaped(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A caption in lines of at most `CAPTION_LETTERS`.
fn wrapped(words: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let fits = lines
            .last()
            .is_some_and(|line| line.len() + word.len() < CAPTION_LETTERS);
        match lines.last_mut().filter(|_| fits) {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at: u64, voice: Voice, text: &str) -> Line {
        Line {
            at: Duration::from_mins(at),
            voice,
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_the_narrator_says_is_a_phase_and_what_others_say_is_not() {
        let mut picture = Picture::new("a <story> & more");
        picture.hear(told(0, Voice::Narrator, "It begins."));
        picture.hear(told(1, Voice::Stage, "something happens"));
        picture.hear(told(5, Voice::Narrator, "5 < 6"));
        picture.see(Duration::from_mins(20), &Scene::default());
        let svg = picture.svg();
        for shown in [
            "It begins.",
            "5 &lt; 6",
            "a &lt;story&gt; &amp; more",
            "20 min",
            "05:00",
        ] {
            assert!(svg.contains(shown), "{shown}: {svg}");
        }
        assert!(!svg.contains("something happens"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn a_story_in_which_nothing_was_seen_can_be_drawn() {
        let svg = Picture::new("nothing").svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_long_caption_goes_on_in_the_next_line() {
        let long = "word ".repeat(60);
        let lines = wrapped(&long);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= CAPTION_LETTERS));
        assert_eq!(lines.join(" "), long.trim());
    }

    #[test]
    fn phases_close_together_have_numbers_side_by_side() {
        let mut picture = Picture::new("x");
        for _ in 0..3 {
            picture.hear(told(1, Voice::Narrator, "At once."));
        }
        picture.see(Duration::from_mins(20), &Scene::default());
        let svg = picture.svg();
        let places: Vec<&str> = svg.split("<circle cx=\"").skip(1).collect();
        let places: Vec<f64> = places
            .iter()
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!(
            places.windows(2).all(|pair| pair[1] - pair[0] >= MARK_WIDTH),
            "{places:?}"
        );
    }
}
