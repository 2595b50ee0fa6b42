//! Where the line of JSON of each seed goes.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::Context;

use super::command::say;
use super::line::Line;

/// Programs read them; people on a terminal would not see the bar for them.
#[derive(Debug)]
pub(super) enum Lines {
    /// There are only people.
    Nowhere,
    /// Somebody reads what is printed.
    Printed,
    /// They are asked for.
    Kept(File),
}

impl Lines {
    /// Into this file, which is made anew, or else to whatever reads what is printed.
    pub(super) fn open(file: Option<&Path>) -> anyhow::Result<Self> {
        match file {
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                Ok(Self::Kept(file))
            }
            None if std::io::stdout().is_terminal() => Ok(Self::Nowhere),
            None => Ok(Self::Printed),
        }
    }

    /// One more.
    pub(super) fn write(&mut self, line: &Line) -> anyhow::Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Printed => say(&serde_json::to_string(line)?),
            Self::Kept(file) => {
                writeln!(file, "{}", serde_json::to_string(line)?).context("cannot write the lines of JSON")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::campaign::line::tests::fine;

    #[test]
    fn a_file_gets_a_line_for_each_seed() {
        let path = std::env::temp_dir().join(format!("simulate-lines-{}.json", std::process::id()));
        let mut lines = Lines::open(Some(&path)).unwrap();
        for seed in 0..3 {
            lines.write(&fine(seed)).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Vec<Line> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read, [0, 1, 2].map(fine));
        std::fs::remove_file(&path).unwrap();
        let refused = Lines::open(Some(Path::new("/nowhere/at/all.json"))).unwrap_err();
        assert!(refused.to_string().contains("/nowhere/at/all.json"), "{refused}");
    }
}
