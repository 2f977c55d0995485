//! Reasons why a conversion stays, in words.

use std::fmt;

/// The reason why a conversion stays, and the change that removes it. Each option that is named was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Ports are pinned, and any of these options frees enough of them.
    Pinned {
        /// The ports, in words.
        ports: Vec<String>,
        /// The options; empty where none was tried.
        options: Vec<String>,
    },
    /// Without the conversion as many bytes or more are converted elsewhere.
    Size {
        /// The ports that fix an order, in words.
        ports: Vec<String>,
        /// Bytes that the function converts without this conversion, with free ports.
        bytes: u64,
        /// Bytes that the function converts as it is.
        now: u64,
    },
    /// The boundary as a whole is the reason, no single port.
    Boundary,
    /// A port keeps its layout whatever the boundary options say.
    Kept {
        /// The port, in words.
        port: String,
        /// The reason why the port keeps its layout.
        keeper: String,
    },
    /// A group had more candidate layouts than the limit allows.
    Cap {
        /// The value of `max-layouts` that removes the conversion.
        max_layouts: usize,
    },
    /// No change that was tried removes the conversion: the layouts that the operations take are the reason.
    Operations(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Pinned { ports, options } => {
                let are = match ports.len() {
                    1 => "is",
                    2 => "are both",
                    _ => "are",
                };
                write!(f, "{} {are} pinned", ports.join(" and "))?;
                match &options[..] {
                    [] => Ok(()),
                    some => write!(f, "; {} removes it here", some.join(" or ")),
                }
            }
            Reason::Size { ports, bytes, now } => {
                let ports = match &ports[..] {
                    [] => "the boundary".to_owned(),
                    some => some.join(" and "),
                };
                write!(
                    f,
                    "with {ports} free the function converts {bytes} bytes elsewhere, and {now} as it is"
                )
            }
            Reason::Boundary => {
                write!(f, "the boundary decides; `--free-boundary` removes it here")
            }
            Reason::Kept { port, keeper } => write!(f, "{port} keeps its layout: {keeper}"),
            Reason::Cap { max_layouts } => write!(
                f,
                "candidate layouts exceed max-layouts and were not considered; `max-layouts={max_layouts}` removes it here"
            ),
            Reason::Operations(words) => f.write_str(words),
        }
    }
}
