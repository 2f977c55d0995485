//! The file that `--certificate` writes and `optc verify --certificate` reads.
//!
//! It holds the certificate, the pipeline, and both programs of the certificate: the input and the output of
//! `view-fold`. One file and one program are thus enough to check it.

use crate::codes;
use crate::failure::Failure;
use optc::Diagnostic;
use optc::check::Certificate;

const PIPELINE: &str = "--- pipeline";
const ORIGINAL: &str = "--- original";
const FOLDED: &str = "--- folded";

/// A certificate with its programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFile {
    pub(crate) certificate: Certificate,
    /// The passes that were run; `view-fold` is the last.
    pub(crate) pipeline: String,
    /// The text of the input of `view-fold`.
    pub(crate) original: String,
    /// The text of its output.
    pub(crate) folded: String,
}

impl CertificateFile {
    pub(crate) fn to_text(&self) -> String {
        let certificate = self.certificate.to_text();
        let (pipeline, original, folded) = (&self.pipeline, &self.original, &self.folded);
        format!("{certificate}{PIPELINE}\n{pipeline}\n{ORIGINAL}\n{original}{FOLDED}\n{folded}")
    }

    /// Reads a file of this name and text.
    pub(crate) fn from_text(name: &str, text: &str) -> Result<CertificateFile, Failure> {
        let fail = |diag| Failure::about(name, diag);
        let missing = |what: &str| {
            let message = format!("found no line `{what}` in the certificate");
            fail(Diagnostic::error(codes::CERTIFICATE_SYNTAX, message))
        };
        let (head, rest) = cut(text, PIPELINE).unwrap_or((text, ""));
        let certificate = Certificate::from_text(head).map_err(|d| fail(*d))?;
        let (pipeline, rest) = cut(rest, ORIGINAL).ok_or_else(|| missing(ORIGINAL))?;
        let (original, folded) = cut(rest, FOLDED).ok_or_else(|| missing(FOLDED))?;
        Ok(CertificateFile {
            certificate,
            pipeline: pipeline.trim().to_owned(),
            original: original.to_owned(),
            folded: folded.to_owned(),
        })
    }
}

/// The text before and after a line.
fn cut<'t>(text: &'t str, line: &str) -> Option<(&'t str, &'t str)> {
    let mut start = 0;
    for part in text.split_inclusive('\n') {
        if part.trim_end() == line {
            return Some((&text[..start], &text[start + part.len()..]));
        }
        start += part.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CertificateFile {
        CertificateFile {
            certificate: Certificate {
                target: "cpu".to_owned(),
                movement_bytes: 3,
                ..Certificate::default()
            },
            pipeline: "canonicalize,view-fold".to_owned(),
            original: "a\nb\n".to_owned(),
            folded: "c\n".to_owned(),
        }
    }

    #[test]
    fn a_file_reads_back() {
        let file = sample();
        assert_eq!(
            CertificateFile::from_text("f", &file.to_text()).unwrap(),
            file
        );
    }

    #[test]
    fn a_cut_file_is_refused() {
        let text = sample().to_text();
        for line in [PIPELINE, ORIGINAL, FOLDED] {
            let cut = text.find(line).unwrap();
            let error = CertificateFile::from_text("f", &text[..cut]).unwrap_err();
            assert!(error.text.contains("certificate-syntax"), "{}", error.text);
        }
    }
}
