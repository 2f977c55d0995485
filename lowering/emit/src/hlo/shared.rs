//! State shared by the functions of a module.

use super::files::Files;
use super::line::{Inside, Line, Written};
use super::shape::{dtype_name, is_dtype};
use indexmap::IndexMap;
use optc_ir::{Attr, DType, Diagnostic, Registry};

impl Written {
    /// Adds an instruction with these operands.
    fn put(&mut self, name: &str, shape: &str, opcode: &str, operands: &[&str], attrs: &str) {
        let operands = operands.iter().map(|&o| o.to_owned()).collect();
        self.push(name, shape, opcode, Inside::Operands(operands), attrs);
    }

    fn push(&mut self, name: &str, shape: &str, opcode: &str, inside: Inside, attrs: &str) {
        self.lines.push(Line {
            name: name.to_owned(),
            shape: shape.to_owned(),
            opcode: opcode.to_owned(),
            inside,
            attrs: attrs.to_owned(),
        });
    }
}

/// State shared by all functions.
pub(super) struct Shared {
    pub(super) registry: Registry,
    /// True if XLA is still to assign layouts. It accepts no bitcasts before that.
    pub(super) logical: bool,
    /// The name of the computation for each function.
    pub(super) names: IndexMap<String, String>,
    /// Reducers by name.
    pub(super) reducers: IndexMap<String, Written>,
    /// True if the output becomes MLIR text. Constants then keep their elements, and CHLO operations and operations
    /// kept as text may be written.
    pub(super) mlir: bool,
    /// The data of constants.
    pub(super) files: Files,
    pub(super) warnings: Vec<Diagnostic>,
}

impl Shared {
    /// The name of the computation that combines two numbers of an element type with `opcode`.
    pub(super) fn reducer(&mut self, opcode: &str, dtype: &str) -> String {
        let scalar = format!("{dtype}[]");
        self.computation(
            &format!("{opcode}_{dtype}"),
            &["lhs", "rhs"],
            &[&scalar; 2],
            |c| {
                c.put(opcode, &scalar, opcode, &["lhs", "rhs"], "");
            },
        )
    }

    /// The name of the computation that returns the second of two numbers.
    pub(super) fn second(&mut self, dtype: &str) -> String {
        let scalar = format!("{dtype}[]");
        self.computation(
            &format!("second_{dtype}"),
            &["lhs", "rhs"],
            &[&scalar; 2],
            |_| {},
        )
    }

    /// The name of the comparator that decides whether one number, which comes with its position, is sorted before
    /// another. `greatest` sorts in descending order. NaN is greater than any number.
    pub(super) fn before(&mut self, dtype: DType, places: DType, greatest: bool) -> String {
        let (kind, places) = (dtype_name(dtype), dtype_name(places));
        let (word, direction) = if greatest {
            ("greater", "GT")
        } else {
            ("less", "LT")
        };
        let name = format!("{word}_{kind}_{places}");
        let (number, place) = (format!("{kind}[]"), format!("{places}[]"));
        let types = [&number, &number, &place, &place];
        self.computation(&name, &["a", "b", "i", "j"], &types, |c| {
            let mut compare = |name: &str, a: &str, b: &str, how: &str| {
                let attrs = format!(", direction={how}");
                c.put(name, "pred[]", "compare", &[a, b], &attrs);
            };
            compare("order", "a", "b", direction);
            if dtype.is_float() {
                // True if exactly one of the two is NaN and it is sorted first.
                let (nan, number) = if greatest { ("a", "b") } else { ("b", "a") };
                compare("odd", nan, nan, "NE");
                compare("plain", number, number, "EQ");
                c.put("one", "pred[]", "and", &["odd", "plain"], "");
                c.put("before", "pred[]", "or", &["order", "one"], "");
            }
        })
    }

    /// The name of a computation with these parameters; its last instruction is its result.
    fn computation(
        &mut self,
        name: &str,
        names: &[&str],
        shapes: &[&String],
        fill: impl FnOnce(&mut Written),
    ) -> String {
        if !self.reducers.contains_key(name) {
            let mut made = Written {
                name: name.to_owned(),
                entry: false,
                parameters: Vec::new(),
                result: String::new(),
                lines: Vec::new(),
                root: String::new(),
                thread: None,
            };
            for (number, (name, &shape)) in names.iter().zip(shapes).enumerate() {
                made.parameters.push(((*name).to_owned(), shape.clone()));
                let inside = Inside::Payload(number.to_string());
                made.push(name, shape, "parameter", inside, "");
            }
            fill(&mut made);
            if let Some(last) = made.lines.last() {
                made.root.clone_from(&last.name);
                made.result.clone_from(&last.shape);
            }
            self.reducers.insert(name.to_owned(), made);
        }
        name.to_owned()
    }

    /// The symbols that an attribute names, as names of computations.
    pub(super) fn computations(&self, attr: &Attr) -> Option<String> {
        let name = |attr: &Attr| match attr {
            Attr::Symbol(name) => self.names.get(&**name).map(|n| format!("%{n}")),
            _ => None,
        };
        match attr {
            Attr::Array(items) => {
                let names: Vec<String> = items.iter().map(name).collect::<Option<_>>()?;
                Some(format!("{{{}}}", names.join(", ")))
            }
            single => name(single),
        }
    }
}

/// A valid name of HLO text.
pub(super) fn sanitized(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut out: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    let dtype = is_dtype(&out);
    if dtype || out.ends_with('-') {
        out.push('_');
    }
    out
}
