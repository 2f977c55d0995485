//! The streams a command reads and writes.

use crate::terminal;
use std::io::{self, ErrorKind, Read, Write};

/// Standard input, output and error of one command.
pub struct Streams<'a> {
    /// The input stream, read for the input `-`.
    pub input: &'a mut dyn Read,
    /// Results.
    pub output: &'a mut dyn Write,
    /// Diagnostics, remarks and everything else that is not a result.
    pub errors: &'a mut dyn Write,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl Streams<'_> {
    /// Writes a result. A failed write is reported at the end of the command.
    pub fn print(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes a result that is not text.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = terminal::aside(|| self.output.write_all(bytes));
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

/// An output that remembers the first failed write for the end of the command; nothing is written after it.
pub(crate) struct Watched<'a> {
    output: &'a mut dyn Write,
    failed: Option<io::Error>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(output: &'a mut dyn Write) -> Watched<'a> {
        Watched {
            output,
            failed: None,
        }
    }

    /// Flushes the output and returns whether everything arrived. A reader that closed the stream early, as `head`
    /// does, is not a failure.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let _ = self.flush();
        match self.failed {
            Some(e) if e.kind() != ErrorKind::BrokenPipe => Err(e),
            Some(_) | None => Ok(()),
        }
    }

    /// Runs an action on the output, unless the output failed before.
    fn attempt<T>(
        &mut self,
        done: T,
        act: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.failed.is_some() {
            return Ok(done);
        }
        match act(self.output) {
            Err(e) if e.kind() != ErrorKind::Interrupted => {
                self.failed = Some(e);
                Ok(done)
            }
            other => other,
        }
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(bytes.len(), |output| match output.write(bytes)? {
            0 if !bytes.is_empty() => Err(ErrorKind::WriteZero.into()),
            count => Ok(count),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), |output| output.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes this many bytes, then fails.
    struct Full(usize, ErrorKind);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.0.min(bytes.len());
            self.0 -= count;
            match count {
                0 => Err(self.1.into()),
                count => Ok(count),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failed_write_is_remembered_and_a_closed_pipe_is_not() {
        let run = |room: usize, kind| {
            let mut full = Full(room, kind);
            let mut watched = Watched::new(&mut full);
            let written = watched.write_all(&[0; 7]).and(watched.write_all(&[0; 5]));
            (written.is_ok(), watched.finish().is_ok())
        };
        assert_eq!(run(12, ErrorKind::StorageFull), (true, true));
        assert_eq!(run(11, ErrorKind::StorageFull), (true, false));
        assert_eq!(run(0, ErrorKind::StorageFull), (true, false));
        assert_eq!(run(3, ErrorKind::BrokenPipe), (true, true));
    }
}
