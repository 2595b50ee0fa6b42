//! Patterns are Go regular expressions. The regex crate reads nearly the same syntax; what it reads differently is
//! rewritten: in Go `\s`, `\d`, `\w` and `\b` know ASCII only, and inside a class `[`, `&&`, `--` and `~~` are
//! ordinary characters.

use regex::Regex;

/// Compiles a pattern as Go would.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(&rewrite(pattern))
}

fn rewrite(pattern: &str) -> String {
    let mut rewritten = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('s') => rewritten.push_str(r"[\t\n\f\r ]"),
                Some('S') => rewritten.push_str(r"[^\t\n\f\r ]"),
                Some('d') => rewritten.push_str("[0-9]"),
                Some('D') => rewritten.push_str("[^0-9]"),
                Some('w') => rewritten.push_str("[0-9A-Za-z_]"),
                Some('W') => rewritten.push_str("[^0-9A-Za-z_]"),
                Some('b') => rewritten.push_str(r"(?-u:\b)"),
                Some(escaped) => rewritten.extend(['\\', escaped]),
                None => rewritten.push('\\'),
            },
            '[' if in_class && characters.peek() == Some(&':') => {
                // A class like [:alpha:], which both read alike.
                rewritten.push('[');
                for inner in characters.by_ref() {
                    rewritten.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            '[' if in_class => rewritten.push_str(r"\["),
            '&' | '~' if in_class => rewritten.extend(['\\', character]),
            '[' => {
                in_class = true;
                rewritten.push('[');
                // A `]` right after the opening bracket is an ordinary character.
                if characters.next_if_eq(&'^').is_some() {
                    rewritten.push('^');
                }
                if characters.next_if_eq(&']').is_some() {
                    rewritten.push_str(r"\]");
                }
            }
            ']' => {
                in_class = false;
                rewritten.push(']');
            }
            other => rewritten.push(other),
        }
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascii_as_in_go() {
        assert!(compile(r"^\d\s\w$").unwrap().is_match("1\ta"));
        for text in ["٣ a", "1\u{2003}a", "1 ä", "1\u{b}a"] {
            assert!(!compile(r"^\d\s\w$").unwrap().is_match(text), "{text:?}");
        }
        assert!(compile(r"^[\d.]+$").unwrap().is_match("1.2"));
        assert!(compile(r"^\S\D\W$").unwrap().is_match("٣ä-"));
    }

    #[test]
    fn brackets_and_ampersands_in_a_class_are_themselves() {
        assert!(compile("^[[&&a]+$").unwrap().is_match("[&a"));
        assert!(compile("^[]a]+$").unwrap().is_match("]a"));
        assert!(compile("^[[:alpha:]]+$").unwrap().is_match("abc"));
        assert!(!compile("^[^]a]+$").unwrap().is_match("]"));
    }

    #[test]
    fn the_end_is_the_end_of_the_text() {
        assert!(!compile("^a$").unwrap().is_match("a\n"));
    }
}
