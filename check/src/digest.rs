//! Digests by which a certificate names its programs.

use crate::sha256::sha256;
use optc_ir::{Module, text};
use std::fmt;

/// The SHA-256 of a program's printed text. Comments, locations and the order of attributes in a file do not matter;
/// the names of values do.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a module.
    #[must_use]
    pub fn of(module: &Module) -> Digest {
        Digest::of_text(&text::print(module))
    }

    /// The digest of the printed text of a module.
    #[must_use]
    pub fn of_text(text: &str) -> Digest {
        Digest(sha256(text.as_bytes()))
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Digest> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn digests_read_back() {
        let digest = Digest::of_text("abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::parse(text), Some(digest));
        for bad in [
            "",
            &text[1..],
            &text.replace('b', "g"),
            &text.replace("ba", "é"),
        ] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
    }
}
