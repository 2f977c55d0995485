//! The file by which a reader who does not trust a fold can check it.

use crate::codes;
use crate::digest::Digest;
use crate::witness::Witness;
use optc_ir::{Diagnostic, Module};
use std::fmt::Write as _;

/// A pass's statement of a fold: the programs, the target, the bytes that the result moves, and a witness by which
/// [`validate`](crate::validate()) proves that both programs compute the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The target.
    pub target: String,
    /// Movement bytes of the result.
    pub movement_bytes: u64,
    /// The program before the fold.
    pub original: Digest,
    /// The program after the fold.
    pub folded: Digest,
    /// The places of the original's values in the folded program.
    pub witness: Witness,
}

const HEADER: &str = "optc-certificate 3";

impl Certificate {
    /// The certificate of a folded module.
    #[must_use]
    pub fn of(
        original: &Module,
        folded: &Module,
        witness: Witness,
        target: &str,
        movement_bytes: u64,
    ) -> Certificate {
        Certificate {
            target: target.to_owned(),
            movement_bytes,
            original: Digest::of(original),
            folded: Digest::of(folded),
            witness,
        }
    }

    /// The text of a certificate file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\ntarget {}\n", self.target);
        let _ = writeln!(text, "movement_bytes {}", self.movement_bytes);
        let _ = writeln!(text, "original sha256:{}", self.original);
        let _ = writeln!(text, "folded sha256:{}", self.folded);
        text.push_str(&self.witness.to_text());
        text
    }

    /// Reads a certificate file.
    ///
    /// # Errors
    /// The text is not a certificate.
    pub fn from_text(text: &str) -> Result<Certificate, Box<Diagnostic>> {
        let bad = |found: &str, wanted: &str| {
            let message = format!("found `{found}`, wanted {wanted}");
            Box::new(Diagnostic::error(codes::CERTIFICATE_SYNTAX, message))
        };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or("");
        if first != HEADER {
            let wanted = format!("`{HEADER}`");
            let hint = "make the certificate again: this version writes the boundary into it";
            return Err(Box::new(bad(first, &wanted).hint(hint)));
        }
        let mut field = |name: &str, wanted: &str| {
            let line = lines.next().unwrap_or("");
            let rest = line.strip_prefix(name).and_then(|l| l.strip_prefix(' '));
            rest.map(str::to_owned).ok_or_else(|| bad(line, wanted))
        };
        let target = field("target", "`target NAME`")?;
        let bytes = field("movement_bytes", "`movement_bytes N`")?;
        let movement_bytes = bytes
            .parse()
            .map_err(|_| bad(&bytes, "`movement_bytes N`"))?;
        let mut digest = |name: &str| {
            let wanted = format!("`{name} sha256:` and 64 hexadecimal digits");
            let text = field(name, &wanted)?;
            let digits = text.strip_prefix("sha256:").and_then(Digest::parse);
            digits.ok_or_else(|| bad(&text, &wanted))
        };
        let (original, folded) = (digest("original")?, digest("folded")?);
        Ok(Certificate {
            target,
            movement_bytes,
            original,
            folded,
            witness: Witness::from_text(lines)?,
        })
    }
}
