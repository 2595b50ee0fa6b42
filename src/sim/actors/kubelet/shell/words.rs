//! Quotes, variables and where one command ends and the next begins.

use super::super::cloud_init::Placement;

/// What `$NAME` and `$(command)` stand for.
pub(super) trait Expand {
    fn variable(&self, name: &str) -> String;
    fn output(&mut self, command: &str) -> String;
}

/// The commands of a line, which `;`, `&&` and `||` separate. A comment is none. Pipes stay within a command.
pub(super) fn split_commands(line: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    let mut scan = Scan::of(line);
    while let Some((piece, place)) = scan.next() {
        let begins_word = commands
            .last()
            .is_none_or(|command| command.is_empty() || command.ends_with(char::is_whitespace));
        match piece {
            '#' if place == Place::Plain && begins_word => break,
            '$' if place != Place::Literal && scan.peek() == Some('(') => {
                let inner = scan.enclosed('(', ')');
                let output = format!("$({inner})");
                commands
                    .last_mut()
                    .into_iter()
                    .for_each(|command| command.push_str(&output));
            }
            ';' if place == Place::Plain => commands.push(String::new()),
            '&' | '|' if place == Place::Plain && scan.peek() == Some(piece) => {
                scan.next();
                commands.push(String::new());
            }
            _ => commands
                .last_mut()
                .into_iter()
                .for_each(|command| command.push(piece)),
        }
    }
    let commands = commands.into_iter().map(|command| command.trim().to_owned());
    commands.filter(|command| !command.is_empty()).collect()
}

/// The words of a command, with variables and outputs put in and quotes taken off. `>` and `>>` are words.
pub(super) fn split_words(command: &str, with: &mut impl Expand) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut begun) = (String::new(), false);
    let mut scan = Scan::of(command);
    while let Some((piece, place)) = scan.next() {
        match (piece, place) {
            ('\'' | '"', Place::Quote) | ('\\', Place::Escape) => begun = true,
            ('$', Place::Plain | Place::Double) => {
                word.push_str(&dollar(&mut scan, with));
                begun = true;
            }
            (' ' | '\t', Place::Plain) => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            ('>', Place::Plain) if !word.ends_with(|c: char| c.is_ascii_digit() || c == '&') => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                let twice = scan.peek() == Some('>');
                if twice {
                    scan.next();
                }
                words.push(if twice { ">>" } else { ">" }.to_owned());
                begun = false;
            }
            _ => {
                word.push(piece);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// A text as in double quotes, which is how an unquoted here-document is read.
pub(super) fn expand(text: &str, with: &mut impl Expand) -> String {
    let mut expanded = String::new();
    let mut scan = Scan::within(text, Place::Double);
    while let Some((piece, place)) = scan.next() {
        match (piece, place) {
            ('$', Place::Double) => expanded.push_str(&dollar(&mut scan, with)),
            ('\\', Place::Escape) => {}
            _ => expanded.push(piece),
        }
    }
    expanded
}

/// Words before `> FILE`, and the file.
pub(super) fn redirected(words: &[String]) -> (&[String], Option<(String, Placement)>) {
    let Some(at) = words.iter().position(|word| word == ">" || word == ">>") else {
        return (words, None);
    };
    let placement = if words[at] == ">>" {
        Placement::Append
    } else {
        Placement::Replace
    };
    (
        &words[..at],
        words.get(at + 1).map(|path| (path.clone(), placement)),
    )
}

/// What follows a `$`: `NAME`, `{NAME}`, `{NAME:-default}` or `(command)`.
fn dollar(scan: &mut Scan<'_>, with: &mut impl Expand) -> String {
    match scan.peek() {
        Some('{') => {
            let inner = scan.enclosed('{', '}');
            let (name, default) = inner.split_once(":-").unwrap_or((&inner, ""));
            let value = with.variable(name);
            if value.is_empty() {
                default.to_owned()
            } else {
                value
            }
        }
        Some('(') => {
            let inner = scan.enclosed('(', ')');
            with.output(&inner)
        }
        Some(c) if c.is_ascii_alphabetic() || c == '_' => {
            let mut name = String::new();
            while let Some(c) = scan.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
                name.push(c);
                scan.next();
            }
            with.variable(&name)
        }
        _ => "$".to_owned(),
    }
}

/// Where a character stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Outside of quotes.
    Plain,
    /// Within double quotes.
    Double,
    /// Within single quotes or after a backslash: nothing is special.
    Literal,
    /// It opens or closes a quotation.
    Quote,
    /// It is a backslash that makes the next character literal.
    Escape,
}

/// Goes through a text, knowing what is quoted.
struct Scan<'t> {
    rest: std::str::Chars<'t>,
    within: Place,
    escaped: bool,
    /// Whether quotes are nothing special, as in a here-document.
    keeps_quotes: bool,
}

impl<'t> Scan<'t> {
    fn of(text: &'t str) -> Self {
        Self::within(text, Place::Plain)
    }

    fn within(text: &'t str, place: Place) -> Self {
        Self {
            rest: text.chars(),
            within: place,
            escaped: false,
            keeps_quotes: place == Place::Double,
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    /// Everything up to the closing mark that belongs to the opening one that comes next, which is taken as well.
    fn enclosed(&mut self, opening: char, closing: char) -> String {
        let mut inner = String::new();
        let mut depth = 0_usize;
        for c in self.rest.by_ref() {
            if c == closing {
                depth -= 1;
            }
            if depth == 0 && c == closing {
                break;
            }
            if depth > 0 {
                inner.push(c);
            }
            if c == opening {
                depth += 1;
            }
        }
        inner
    }

    fn next(&mut self) -> Option<(char, Place)> {
        let c = self.rest.next()?;
        if std::mem::take(&mut self.escaped) {
            return Some((c, Place::Literal));
        }
        let place = match (c, self.within) {
            ('\'', Place::Plain) => self.quote(Place::Literal),
            ('\'', Place::Literal) | ('"', Place::Double) if !self.keeps_quotes => self.quote(Place::Plain),
            ('"', Place::Plain) => self.quote(Place::Double),
            ('\\', Place::Plain | Place::Double) => {
                let next = self.peek();
                let is_special = next.is_some_and(|next| "$`\"\\\n".contains(next));
                if self.within == Place::Plain || is_special {
                    self.escaped = true;
                    Place::Escape
                } else {
                    self.within
                }
            }
            (_, place) => place,
        };
        Some((c, place))
    }

    fn quote(&mut self, then: Place) -> Place {
        self.within = then;
        Place::Quote
    }
}
