//! Tells a history in sentences: one line for each thing that a person cares about, virtual time first.
//!
//! Reads and heartbeats go untold; a write is told when its answer comes or is lost, with what became of it.

mod fold;
mod sentence;

use std::collections::BTreeMap;
use std::time::Duration;

use fold::{Told, fold};

use crate::sim::history::{Answer, CarriedOut, Entry, Request, What, Who};
use crate::sim::invariants::Violation;

/// Tells what happened, oldest first.
pub fn tell<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<String> {
    tell_with(entries, &[])
}

/// Tells what happened, oldest first, and each violation below all that had happened by then.
pub fn tell_with<'a>(entries: impl IntoIterator<Item = &'a Entry>, violations: &[Violation]) -> Vec<String> {
    let mut teller = Teller::default();
    let mut told: Vec<Told> = entries
        .into_iter()
        .filter_map(|entry| teller.told(entry))
        .collect();
    told.extend(violations.iter().map(violated));
    // Stable: who is judged comes before the judgment.
    told.sort_by_key(|it| it.at);
    fold(&told)
}

fn violated(violation: &Violation) -> Told {
    let shape = format!("VIOLATED {}", violation.id);
    Told {
        at: violation.at,
        text: format!("{shape}: {}", violation.message),
        shape,
    }
}

/// Remembers what was asked until it is answered.
#[derive(Debug, Default)]
pub struct Teller {
    asked: BTreeMap<u64, Request>,
}

impl Teller {
    fn told(&mut self, entry: &Entry) -> Option<Told> {
        let text = self.hear(entry)?;
        let shape = shape(entry, &text);
        let at = entry.at;
        Some(Told { at, text, shape })
    }

    /// The sentence about an entry, if there is one.
    pub fn hear(&mut self, entry: &Entry) -> Option<String> {
        match &entry.what {
            What::Request(request) => {
                self.asked.insert(request.number, request.clone());
                None
            }
            What::Answer(answer) => {
                let request = self.asked.remove(&answer.number)?;
                let deed = sentence::of(&entry.who, &request, answer)?;
                Some(format!("{} {deed}{}", name(&entry.who), fate(answer)))
            }
            What::Fault { name, detail } => Some(format!("fault {name}: {detail}")),
            What::Turn(turn) if entry.who == Who::World => Some(format!("the world: {turn}")),
            What::Turn(turn) if entry.who == Who::User => Some(turn.clone()),
            What::Turn(turn) => Some(format!("{} {turn}", name(&entry.who))),
            What::Event { .. } => None,
        }
    }
}

/// What tells alike lines from others. Faults are alike by their name, and what came to nothing is where only its object
/// is another; what was done is told of each object.
fn shape(entry: &Entry, text: &str) -> String {
    match &entry.what {
        What::Fault { name, .. } => format!("fault {name}"),
        What::Answer(answer) if !fate(answer).is_empty() => {
            let (who, fate) = (name(&entry.who), fate(answer));
            let deed = text.strip_prefix(&who).and_then(|text| text.strip_suffix(&fate));
            let words: Vec<&str> = deed.unwrap_or(text).split(' ').map(without_name).collect();
            format!("{who}{}{fate}", words.join(" "))
        }
        _ => text.to_owned(),
    }
}

/// A word of a sentence: `pods` of `pods/web-1`, and nothing of names by themselves, which have digits in them.
fn without_name(word: &str) -> &str {
    match word.split_once('/') {
        Some((kind, _)) => kind,
        None if word.contains(|letter: char| letter.is_ascii_digit()) => "",
        None => word,
    }
}

/// `12:03.500`: minutes, seconds, milliseconds.
fn time(at: Duration) -> String {
    let seconds = at.as_secs();
    format!(
        "{:>3}:{:02}.{:03}",
        seconds / 60,
        seconds % 60,
        at.subsec_millis()
    )
}

fn name(who: &Who) -> String {
    match who {
        Who::Replica { number, life: 0 } => format!("replica {number}"),
        Who::Replica { number, life } => format!("replica {number} (life {})", life + 1),
        Who::Actor(name) => format!("the {name}"),
        Who::User => "somebody".to_owned(),
        Who::World => "the world".to_owned(),
    }
}

/// What became of a write, where that is not simply that it was done.
fn fate(answer: &Answer) -> String {
    match (answer.status, answer.carried_out) {
        (None, CarriedOut::Yes) => "; the answer is lost, though it was done".to_owned(),
        (None, CarriedOut::No) => "; it is lost on the way".to_owned(),
        (None, CarriedOut::Unknown) => "; nobody knows whether it arrived".to_owned(),
        (Some(status), CarriedOut::Yes) if status >= 500 => format!("; told {status}, though it was done"),
        (Some(status), _) if status >= 400 => format!("; refused with {status}"),
        (Some(_), _) => String::new(),
    }
}

#[cfg(test)]
mod tests;
