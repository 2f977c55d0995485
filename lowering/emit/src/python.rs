//! Syntax of Python that its writers share: names, tuples, quoted text.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Words with a meaning in Python or in an emitted module.
const TAKEN: [&str; 50] = [
    "ARGUMENTS",
    "False",
    "KERNELS",
    "None",
    "RESULTS",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "device",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "functools",
    "global",
    "if",
    "import",
    "in",
    "interpret",
    "is",
    "jax",
    "jnp",
    "lambda",
    "lax",
    "math",
    "not",
    "np",
    "or",
    "os",
    "pass",
    "pl",
    "pltpu",
    "return",
    "tl",
    "torch",
    "triton",
    "weights",
    "while",
    "with",
    "yield",
];

/// A set of used names.
#[derive(Clone, Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
    /// Names of the outer scope, which are used too.
    outer: Option<Rc<Names>>,
    /// The next number to try for each base name.
    next: BTreeMap<String, usize>,
}

impl Names {
    /// An empty set, in which the names of `outer` are used.
    pub(crate) fn within(outer: &Rc<Names>) -> Names {
        Names {
            outer: Some(outer.clone()),
            ..Names::default()
        }
    }

    fn is_taken(&self, name: &str) -> bool {
        let outer = self.outer.as_ref();
        TAKEN.contains(&name)
            || self.taken.contains(name)
            || outer.is_some_and(|o| o.is_taken(name))
    }

    /// An unused name derived from `wanted`.
    pub(crate) fn fresh(&mut self, wanted: &str) -> String {
        let mut base: String = wanted
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            base.insert(0, 'v');
        }
        let mut name = base.clone();
        if self.is_taken(&name) {
            let mut n = self.next.get(&base).copied().unwrap_or(1);
            while self.is_taken(&name) {
                n += 1;
                name = format!("{base}_{n}");
            }
            self.next.insert(base, n);
        }
        self.taken.insert(name.clone());
        name
    }
}

/// `(1, 2)`, `(1,)`, `()`.
pub(crate) fn tuple<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    }
}

/// A quoted string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
