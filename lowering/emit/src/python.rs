//! Parts of Python modules that writers of kernels share: names, tuples, quoted text, the frame of a function.

use optc_ir::entity::EntityId;
use optc_ir::op::Direction;
use optc_ir::{Diagnostic, Func, Module, OpRef, Operation, Registry};
use optc_ops::{CallOp, MlirCall, Symbol};
use optc_tile::Schedule;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

/// Words with a meaning in Python or in an emitted module.
const TAKEN: [&str; 59] = [
    "ARGUMENTS",
    "False",
    "IN",
    "KERNELS",
    "MESH",
    "None",
    "OUT",
    "P",
    "RESULTS",
    "True",
    "WEIGHTS",
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
    "load",
    "math",
    "not",
    "np",
    "or",
    "os",
    "part",
    "pass",
    "pl",
    "place",
    "pltpu",
    "return",
    "sharded",
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

/// The names of a module's functions; the entry is `main`.
pub(crate) fn function_names<'m>(
    module: &'m Module,
    entry: usize,
    names: &mut Names,
) -> BTreeMap<&'m str, String> {
    names.fresh("main");
    let name = |(i, func): (usize, &'m Func)| {
        let name = match i == entry {
            true => "main".to_owned(),
            false => names.fresh(&format!("{}_", func.name)),
        };
        (&*func.name, name)
    };
    module.funcs.iter().enumerate().map(name).collect()
}

/// The names of a function's values, in the order of their ids.
pub(crate) fn value_names(func: &Func, outer: &Rc<Names>) -> Vec<String> {
    let mut taken = Names::within(outer);
    let names = func.values.ids().map(|value| {
        let given = func.values[value].name.as_deref();
        let number = format!("v{}", value.index());
        taken.fresh(given.unwrap_or(&number))
    });
    names.collect()
}

/// The plan of a function, if it has one.
pub(crate) fn plan_of(
    func: &Func,
    registry: &Registry,
) -> Result<Option<Schedule>, Box<Diagnostic>> {
    Schedule::read(func, registry).map_err(|mut diags| {
        let first = (!diags.is_empty()).then(|| diags.swap_remove(0));
        Box::new(first.unwrap_or_else(|| {
            Diagnostic::error(optc_tile::shared_codes::TILE_SYNTAX, "the plan is not read")
        }))
    })
}

/// The lists of the names of a function's arguments and results.
pub(crate) fn signature(entry: &Func) -> String {
    let list = |keys: Vec<String>| {
        let keys: Vec<String> = keys.iter().map(|k| quoted(k)).collect();
        format!("[{}]", keys.join(", "))
    };
    let arguments = (0..entry.args.len()).map(|i| entry.arg_key(i)).collect();
    let results = (0..entry.results.len()).map(|i| entry.result_key(i));
    format!(
        "\nARGUMENTS = {}\nRESULTS = {}\n",
        list(arguments),
        list(results.collect())
    )
}

/// A function of these arguments, options and lines, which returns these results.
pub(crate) fn definition(
    name: &str,
    args: &[&str],
    options: &[&str],
    lines: &[String],
    results: &[&str],
) -> String {
    let star: &[&str] = if options.is_empty() { &[] } else { &["*"] };
    let params = [args, star, options].concat().join(", ");
    let mut out = format!("def {name}({params}):\n");
    let returned = match results {
        [one] => (*one).to_owned(),
        all => tuple(all),
    };
    for line in lines {
        let _ = writeln!(out, "    {line}");
    }
    let _ = writeln!(out, "    return {returned}");
    out
}

/// A call of another function of the module with options that are handed on; `None` if there is no such function.
pub(crate) fn call(
    functions: &BTreeMap<&str, String>,
    op: &OpRef<'_>,
    args: &[String],
    options: &[&str],
) -> Option<String> {
    let callee = CallOp::of(op).map(|call| call.callee);
    let callee = callee.or_else(|_| MlirCall::of(op).map(|call| call.callee));
    let Symbol(name) = callee.ok()?;
    let function = functions.get(&*name)?;
    let options = options.iter().map(|option| format!("{option}={option}"));
    let args: Vec<String> = args.iter().cloned().chain(options).collect();
    Some(format!("{function}({})", args.join(", ")))
}

/// A number as a text of Python.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// True if the text needs no parentheses beside an operator.
    tight: bool,
}

impl Text {
    pub(crate) fn tight(text: impl Into<String>) -> Text {
        Text {
            text: text.into(),
            tight: true,
        }
    }

    pub(crate) fn loose(text: impl Into<String>) -> Text {
        Text {
            text: text.into(),
            tight: false,
        }
    }

    /// The text beside a sign.
    pub(crate) fn part(&self) -> String {
        match self.tight {
            true => self.text.clone(),
            false => format!("({})", self.text),
        }
    }

    /// The comparison of two numbers.
    pub(crate) fn compared(direction: Direction, [a, b]: [&Text; 2]) -> Text {
        let sign = match direction {
            Direction::Eq => "==",
            Direction::Ne => "!=",
            Direction::Lt => "<",
            Direction::Le => "<=",
            Direction::Gt => ">",
            Direction::Ge => ">=",
        };
        Text::loose(format!("{} {sign} {}", a.part(), b.part()))
    }
}
