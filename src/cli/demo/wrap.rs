//! Long lines, broken at words.

use console::measure_text_width;

/// The lines of a text, none wider than `columns` unless a word is; all but the first are indented, where there is room.
pub(super) fn wrapped(text: &str, columns: usize, indent: usize) -> Vec<String> {
    // Words in a strip narrower than this are harder to read than words at the edge.
    const NARROWEST: usize = 20;
    let indent = if columns < indent + NARROWEST { 0 } else { indent };
    let mut words = text.split(' ');
    let mut lines = vec![words.next().unwrap_or_default().to_owned()];
    for word in words {
        let Some(line) = lines.last_mut() else { break };
        if measure_text_width(line) + 1 + measure_text_width(word) <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{:indent$}{word}", ""));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_at_words_and_none_is_lost() {
        let text = "[00:00] A cluster without nodes, and  an account without machines.";
        for columns in 1..80 {
            let lines = wrapped(text, columns, 8);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&lines.join(" ")), words(text));
            for line in &lines {
                assert!(
                    line.len() <= columns || words(line).len() == 1,
                    "{columns}: {line}"
                );
            }
        }
        assert_eq!(wrapped(text, 80, 8), [text]);
        assert_eq!(
            wrapped(text, 40, 8),
            [
                "[00:00] A cluster without nodes, and  an",
                "        account without machines."
            ]
        );
    }
}
