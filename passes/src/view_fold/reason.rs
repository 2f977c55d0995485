//! Reasons why a conversion stays.

use optc_check::End;
use optc_ir::Op;
use std::fmt;
use std::sync::Arc;

/// An argument or result of the function, with the name that it has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEnd {
    /// The argument or result.
    pub end: End,
    /// The SSA name of an argument.
    pub name: Option<Arc<str>>,
}

impl fmt::Display for NamedEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.end, &self.name) {
            (End::Arg(_), Some(name)) => write!(f, "argument %{name}"),
            (End::Arg(i), None) => write!(f, "argument {i}"),
            (End::Result(i), _) => write!(f, "result {i}"),
        }
    }
}

/// A change of the boundary that removes a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freed {
    /// These arguments and results are free.
    Ends {
        /// The arguments and results that were not free.
        ends: Vec<End>,
        /// The keys of all that are free then, as [`Boundary::free`](crate::Boundary) lists them.
        keys: Vec<String>,
    },
    /// The whole boundary is free.
    All,
}

impl fmt::Display for Freed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Freed::Ends { keys, .. } = self else {
            return f.write_str("`--free-boundary`");
        };
        let all = keys.join(",");
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:/+@%".contains(c);
        match all.chars().all(plain) {
            true => write!(f, "`--free-boundary={all}`"),
            false => write!(f, "`--free-boundary='{all}'`"),
        }
    }
}

/// The reason why an argument or result keeps its layout whatever the options say, or its declared one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// The function declares it.
    Declared,
    /// The function of this name is called.
    Called(Arc<str>),
    /// The argument shares its memory with a result (`hbir.alias`).
    Shared,
    /// `--pin` gives the layout.
    Option,
    /// The file gives the layout.
    Written,
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keeper::Declared => "the function declares it",
            Keeper::Called(name) => {
                return write!(
                    f,
                    "@{name} is called, so its arguments and results keep the layouts that it declares; the pass `inline` removes the call"
                );
            }
            Keeper::Shared => "it shares its memory (`hbir.alias`)",
            Keeper::Option => "`--pin` gives it",
            Keeper::Written => "the file gives it",
        })
    }
}

/// The reason why a conversion stays, and the change that removes it. Each option that is named was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Ports are pinned, and any of these options frees enough of them.
    Pinned {
        /// The ports.
        ports: Vec<NamedEnd>,
        /// The options; empty where none was tried.
        options: Vec<Freed>,
    },
    /// Without the conversion as many bytes or more are converted elsewhere.
    Size {
        /// The ports that fix an order.
        ports: Vec<NamedEnd>,
        /// Bytes that the function converts without this conversion, with free ports.
        bytes: u64,
        /// Bytes that the function converts as it is.
        now: u64,
    },
    /// The boundary as a whole is the reason, no single port.
    Boundary,
    /// A port keeps its layout whatever the boundary options say.
    Kept {
        /// The port.
        port: NamedEnd,
        /// The reason why the port keeps its layout.
        keeper: Keeper,
    },
    /// A group had more candidate layouts than the limit allows.
    Cap {
        /// The value of `max-layouts` that removes the conversion.
        max_layouts: usize,
    },
    /// No change that was tried removes the conversion: the layouts that the operations take are the reason.
    Operations {
        /// The operations of the new function that fix the orders before and after the conversion.
        ops: Vec<Op>,
        /// The same in words, with the layouts that they take.
        words: String,
    },
}

/// Names or options, joined by a word.
fn joined<T: fmt::Display>(all: &[T], word: &str) -> String {
    let all: Vec<String> = all.iter().map(T::to_string).collect();
    all.join(word)
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
                write!(f, "{} {are} pinned", joined(ports, " and "))?;
                match &options[..] {
                    [] => Ok(()),
                    some => write!(f, "; {} removes it here", joined(some, " or ")),
                }
            }
            Reason::Size { ports, bytes, now } => {
                let ports = match &ports[..] {
                    [] => "the boundary".to_owned(),
                    some => joined(some, " and "),
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
            Reason::Operations { words, .. } => f.write_str(words),
        }
    }
}
