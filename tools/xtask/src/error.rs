//! Why a chore fails.

use optc_ir::Diagnostic;
use optc_target::TargetError;
use std::path::Path;
use thiserror::Error;

/// A chore that cannot be done.
#[derive(Debug, Error)]
pub enum ChoreError {
    /// The command line names no chore.
    #[error(
        "usage: optc-xtask answers MODEL.onnx… | docs [--check] | code | results MODEL.onnx… [--scale FILE] [--svg FILE] [--out FILE]"
    )]
    Usage,
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: String,
        /// The message of the system.
        source: std::io::Error,
    },
    /// A source is not Rust.
    #[error("{path}: {source}")]
    Rust {
        /// The path.
        path: String,
        /// The message of the parser.
        source: syn::Error,
    },
    /// The manifest of the workspace has no list of members.
    #[error("Cargo.toml lists no members")]
    NoMembers,
    /// Generated pages differ from the sources.
    #[error("{} is not up to date", .0.join(", "))]
    Stale(Vec<&'static str>),
    /// A page has no such heading.
    #[error("{path}: found no `{heading}`")]
    NoHeading {
        /// The path.
        path: String,
        /// The heading.
        heading: &'static str,
    },
    /// A page has no such heading behind another one.
    #[error("{path}: found no `{heading}` behind")]
    NoHeadingBehind {
        /// The path.
        path: String,
        /// The heading.
        heading: &'static str,
    },
    /// There is no such target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A program is refused; the first reason is printed.
    #[error("{}", .0.first().map_or("", |d| &d.message))]
    Refused(Vec<Diagnostic>),
    /// So many statements of answers about models are not true; they are printed.
    #[error("{0} statements of answers are wrong")]
    Answers(usize),
    /// The measurement of a model fails.
    #[error("{path}: {error}")]
    Model {
        /// The path of the model.
        path: String,
        /// The reason.
        error: Box<ChoreError>,
    },
}

impl ChoreError {
    /// The error of a file that cannot be read or written.
    pub fn file(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> ChoreError {
        move |source| ChoreError::File {
            path: path.as_ref().display().to_string(),
            source,
        }
    }

    /// The error in the measurement of this model.
    pub fn of_model(path: &str) -> impl Fn(ChoreError) -> ChoreError {
        |error| ChoreError::Model {
            path: path.to_owned(),
            error: Box::new(error),
        }
    }
}
