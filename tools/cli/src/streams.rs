//! The streams a command reads and writes.

use crate::terminal;
use std::io::{Read, Write};

/// Standard input, output and error of one command.
pub struct Streams<'a> {
    /// Read where the input is `-`.
    pub input: &'a mut dyn Read,
    /// Results.
    pub output: &'a mut dyn Write,
    /// Diagnostics, remarks and everything else that is no result.
    pub errors: &'a mut dyn Write,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl Streams<'_> {
    /// Writes a result. A reader that went away is no failure.
    pub fn print(&mut self, text: &str) {
        let _ = terminal::aside(|| self.output.write_all(text.as_bytes()));
    }

    /// Writes a result and a line break.
    pub fn line(&mut self, text: &str) {
        self.print(text);
        self.print("\n");
    }

    /// Writes to the error stream, ending with a line break.
    pub fn error_text(&mut self, text: &str) {
        let end: &[u8] = match text {
            "" => return,
            _ if text.ends_with('\n') => b"",
            _ => b"\n",
        };
        let _ = terminal::aside(|| {
            self.errors.write_all(text.as_bytes())?;
            self.errors.write_all(end)
        });
    }
}
