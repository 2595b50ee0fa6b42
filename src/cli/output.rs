//! Data on stdout, talk on stderr.

use std::fmt;
use std::io::{self, Write};

/// Writes a line of data to stdout. Fails when nobody reads it any more.
pub fn data(line: impl fmt::Display) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Writes a line for people to stderr. That nobody listens is no reason to fail.
pub fn talk(line: impl fmt::Display) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}
