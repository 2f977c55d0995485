//! The printer: one canonical text of a module, which the parser reads back.
//!
//! Example: results are numbered in the order of the text (`%0`, `%1:2`), whatever their names were. Arguments keep
//! names that can be written. Operations are in the generic form, with all types.

use super::lexer::{is_word, is_word_start};
use super::number::{self, all_equal};
use crate::attr::{Attr, AttrDict, Dense};
use crate::entity::SideTable;
use crate::module::{Func, Loc, Module, Op, Port, Value};
use crate::tensor::storage_bytes;
use crate::types::{DType, Dim, Sign, TensorType, Type};
use indexmap::{IndexMap, IndexSet};
use optc_layout::{Field, Notation};
use std::fmt::Write;
use std::sync::Arc;

/// The largest number of elements of a constant that is written as a list; larger ones are one string of hex digits.
const LONGEST_LIST: u64 = 64;

/// The canonical text of a module.
#[must_use]
pub fn print(module: &Module) -> String {
    let mut printer = Printer::default();
    printer.module(module);
    printer.out
}

/// The canonical text of a function.
#[must_use]
pub fn print_func(func: &Func) -> String {
    let mut printer = Printer::default();
    printer.func(func);
    printer.out
}

/// The canonical text of a type.
#[must_use]
pub fn print_type(ty: &Type) -> String {
    let mut printer = Printer::default();
    printer.ty(ty);
    printer.out
}

/// The canonical text of an attribute.
#[must_use]
pub fn print_attr(attr: &Attr) -> String {
    let mut printer = Printer::default();
    printer.attr(attr);
    printer.out
}

/// The canonical text of a location, `loc(…)`; empty for an unknown one.
#[must_use]
pub fn print_loc(loc: &Loc) -> String {
    let mut printer = Printer::default();
    printer.loc(loc);
    printer.out
}

/// The words that may precede the name of a function.
const VISIBILITIES: [&str; 3] = ["private", "public", "nested"];

/// The names of arguments and results in the text of a function, without `%`, in text order.
#[must_use]
pub fn value_names(func: &Func) -> IndexMap<Value, String> {
    let mut printer = Printer::default();
    let names = printer.name_values(func);
    let results = func.body.iter().flat_map(|&op| &func.ops[op].results);
    let mut found = IndexMap::new();
    for &value in func.args.iter().chain(results) {
        printer.value_name(names[value]);
        found.insert(value, std::mem::take(&mut printer.out));
    }
    found
}

/// The name of a value after `%`.
#[derive(Clone, Copy, Debug)]
enum Name {
    /// The argument with this number.
    Arg(u32),
    /// The only result of an operation.
    Single(u32),
    /// One of several results of an operation.
    Part(u32, u32),
    /// The value is defined nowhere in the body.
    Nowhere,
}

#[derive(Default)]
struct Printer {
    out: String,
    indent: &'static str,
    /// The text of types, by the address of the shared type.
    types: IndexMap<usize, (Arc<TensorType>, String)>,
    /// The argument names of the current function.
    args: Vec<String>,
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn number(&mut self, n: impl std::fmt::Display) {
        let _ = write!(self.out, "{n}");
    }

    /// Writes the items with `, ` between them.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut f: impl FnMut(&mut Self, T)) {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            f(self, item);
        }
    }

    fn module(&mut self, module: &Module) {
        let wrap = module.explicit
            || module.name.is_some()
            || !module.attrs.is_empty()
            || !is_unknown(&module.loc);
        if !wrap {
            module.funcs.iter().for_each(|f| self.func(f));
            return;
        }
        self.put("module ");
        if let Some(name) = &module.name {
            self.symbol(name);
            self.put(" ");
        }
        if !module.attrs.is_empty() {
            self.put("attributes ");
            self.dict(&module.attrs);
            self.put(" ");
        }
        self.put("{\n");
        self.indent = "  ";
        module.funcs.iter().for_each(|f| self.func(f));
        self.indent = "";
        self.put("}");
        self.trailing_loc(&module.loc);
        self.put("\n");
    }

    fn func(&mut self, func: &Func) {
        let names = self.name_values(func);
        self.put(self.indent);
        self.put("func.func ");
        let visibility = func
            .attrs
            .str("sym_visibility")
            .filter(|v| VISIBILITIES.contains(v));
        if let Some(word) = visibility {
            self.put(word);
            self.put(" ");
        }
        self.symbol(&func.name);
        self.func_args(func);
        self.func_results(func);
        self.func_attrs(&func.attrs, visibility.is_some());
        self.put(" {\n");
        for &op in &func.body {
            self.op(func, op, &names);
        }
        self.put(self.indent);
        self.put("  return");
        if !func.results.is_empty() {
            self.put(" ");
            self.list(&func.results, |p, &v| p.value(v, &names));
            self.put(" : ");
            self.list(&func.results, |p, &v| p.ty(func.ty(v)));
        }
        self.put("\n");
        self.put(self.indent);
        self.put("}");
        self.trailing_loc(&func.loc);
        self.put("\n");
    }

    /// Numbers the results in text order and finds a name for each argument.
    fn name_values(&mut self, func: &Func) -> SideTable<Value, Name> {
        let mut names = SideTable::new(Name::Nowhere);
        self.args = arg_names(func);
        for (i, &value) in (0u32..).zip(&func.args) {
            names[value] = Name::Arg(i);
        }
        let mut next = 0;
        for &op in &func.body {
            let results = &func.ops[op].results;
            match results.as_slice() {
                [] => continue,
                [only] => names[*only] = Name::Single(next),
                several => {
                    for (i, &value) in (0u32..).zip(several) {
                        names[value] = Name::Part(next, i);
                    }
                }
            }
            next += 1;
        }
        names
    }

    fn func_args(&mut self, func: &Func) {
        self.put("(");
        for (i, &value) in func.args.iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            self.put("%");
            let name = self.args.get(i).cloned().unwrap_or_default();
            self.put(&name);
            self.put(": ");
            self.ty(func.ty(value));
            self.port_attrs(func.arg_ports.get(i), Some(&name));
        }
        self.put(")");
    }

    fn func_results(&mut self, func: &Func) {
        let shown = |port: &Port| !port.attrs.is_empty() || port.name.is_some();
        match func.results.as_slice() {
            [] => {}
            [only] if !func.result_ports.first().is_some_and(shown) => {
                self.put(" -> ");
                // A single result that is a function type needs parentheses.
                let ty = func.ty(*only);
                let parens = is_function(ty);
                self.put(if parens { "(" } else { "" });
                self.ty(ty);
                self.put(if parens { ")" } else { "" });
            }
            results => {
                self.put(" -> (");
                for (i, &value) in results.iter().enumerate() {
                    if i > 0 {
                        self.put(", ");
                    }
                    self.ty(func.ty(value));
                    self.port_attrs(func.result_ports.get(i), None);
                }
                self.put(")");
            }
        }
    }

    /// The attributes of a port, with its name if that differs from the SSA name.
    fn port_attrs(&mut self, port: Option<&Port>, ssa: Option<&str>) {
        let Some(port) = port else { return };
        let said = port.attrs.get("hbir.name").is_some();
        let missing = match &port.name {
            Some(name) if !said && ssa != Some(&**name) => Some(name),
            _ => None,
        };
        if let Some(name) = missing {
            let attrs = port
                .attrs
                .clone()
                .with("hbir.name", Attr::Str(name.clone()));
            self.put(" ");
            self.dict(&attrs);
        } else if !port.attrs.is_empty() {
            self.put(" ");
            self.dict(&port.attrs);
        }
    }

    fn func_attrs(&mut self, attrs: &AttrDict, visibility: bool) {
        let hidden = |name: &str| visibility && name == "sym_visibility";
        let mut shown = attrs.iter().filter(|(name, _)| !hidden(name)).peekable();
        if shown.peek().is_some() {
            self.put(" attributes {");
            self.list(shown, |p, (name, attr)| p.named(name, attr));
            self.put("}");
        }
    }

    fn op(&mut self, func: &Func, op: Op, names: &SideTable<Value, Name>) {
        let data = &func.ops[op];
        self.put(self.indent);
        self.put("  ");
        if let Some(&first) = data.results.first() {
            match names[first] {
                Name::Part(n, _) => {
                    let _ = write!(self.out, "%{n}:{} = ", data.results.len());
                }
                _ => {
                    self.value(first, names);
                    self.put(" = ");
                }
            }
        }
        self.string(&data.name);
        self.put("(");
        self.list(&data.operands, |p, &v| p.value(v, names));
        self.put(")");
        if !data.props.is_empty() {
            self.put(" <");
            self.dict(&data.props);
            self.put(">");
        }
        if !data.attrs.is_empty() {
            self.put(" ");
            self.dict(&data.attrs);
        }
        self.put(" : (");
        self.list(&data.operands, |p, &v| p.ty(func.ty(v)));
        self.put(") -> ");
        self.result_types(func, &data.results);
        self.trailing_loc(&data.loc);
        self.put("\n");
    }

    fn result_types(&mut self, func: &Func, results: &[Value]) {
        if let [only] = results
            && !is_function(func.ty(*only))
        {
            self.ty(func.ty(*only));
            return;
        }
        self.put("(");
        self.list(results, |p, &v| p.ty(func.ty(v)));
        self.put(")");
    }

    fn value(&mut self, value: Value, names: &SideTable<Value, Name>) {
        self.put("%");
        self.value_name(names[value]);
    }

    fn value_name(&mut self, name: Name) {
        match name {
            Name::Arg(i) => {
                let name = self.args.get(i as usize).map_or("", |n| n);
                self.out.push_str(name);
            }
            Name::Single(n) => self.number(n),
            Name::Part(n, i) => {
                let _ = write!(self.out, "{n}#{i}");
            }
            Name::Nowhere => self.put("undefined"),
        }
    }

    // Types.

    fn ty(&mut self, ty: &Type) {
        match ty {
            Type::Tensor(t) => self.shared_tensor(t),
            Type::Scalar(dtype) => self.number(dtype),
            Type::Other(text) => self.put(text),
        }
    }

    fn shared_tensor(&mut self, ty: &Arc<TensorType>) {
        let key = Arc::as_ptr(ty).addr();
        if let Some((_, text)) = self.types.get(&key) {
            self.out.push_str(text);
            return;
        }
        let start = self.out.len();
        self.tensor(ty);
        let text = self.out.get(start..).unwrap_or_default().to_owned();
        self.types.insert(key, (ty.clone(), text));
    }

    fn tensor(&mut self, ty: &TensorType) {
        self.put("tensor<");
        for dim in &ty.dims {
            match dim {
                Dim::Fixed(n) => self.number(n),
                Dim::Symbol(_) | Dim::Unknown => self.put("?"),
            }
            self.put("x");
        }
        self.number(ty.dtype);
        let symbols = ty.dims.iter().any(|d| matches!(d, Dim::Symbol(_)));
        if ty.notation != Notation::RowMajor || symbols {
            self.encoding(ty, symbols);
        }
        self.put(">");
    }

    fn encoding(&mut self, ty: &TensorType, symbols: bool) {
        let mut fields = ty.notation.fields();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        let before = fields.partition_point(|(key, _)| key.as_str() < "dims");
        if fields.is_empty() && !symbols {
            return;
        }
        self.put(", {");
        let mut first = true;
        for i in 0..=fields.len() {
            if i == before && symbols {
                self.comma(&mut first);
                self.put("dims = [");
                self.list(&ty.dims, |p, dim| match dim {
                    Dim::Fixed(n) => p.number(n),
                    Dim::Symbol(name) => p.string(name),
                    Dim::Unknown => p.put("\"?\""),
                });
                self.put("]");
            }
            if let Some((key, field)) = fields.get(i) {
                self.comma(&mut first);
                self.attr_name(key);
                self.put(" = ");
                self.field(field);
            }
        }
        self.put("}");
    }

    fn comma(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.put(", ");
        }
    }

    fn field(&mut self, field: &Field) {
        match field {
            Field::Int(n) => self.number(n),
            Field::Str(text) => self.string(text),
            Field::Ints(items) => self.ints(items),
            Field::IntLists(lists) => {
                self.put("[");
                self.list(lists, |p, items| p.ints(items));
                self.put("]");
            }
        }
    }

    fn ints(&mut self, items: &[i64]) {
        self.put("[");
        self.list(items, |p, n| p.number(n));
        self.put("]");
    }

    // Attributes.

    fn dict(&mut self, dict: &AttrDict) {
        self.put("{");
        self.list(dict.iter(), |p, (name, attr)| p.named(name, attr));
        self.put("}");
    }

    fn named(&mut self, name: &str, attr: &Attr) {
        self.attr_name(name);
        if *attr != Attr::Unit {
            self.put(" = ");
            self.attr(attr);
        }
    }

    fn attr_name(&mut self, name: &str) {
        let bytes = name.as_bytes();
        let bare =
            bytes.first().is_some_and(|&b| is_word_start(b)) && bytes.iter().all(|&b| is_word(b));
        if bare {
            self.put(name)
        } else {
            self.string(name)
        }
    }

    fn attr(&mut self, attr: &Attr) {
        match attr {
            Attr::Unit => self.put("unit"),
            Attr::Bool(b) => self.number(b),
            Attr::Int(n, dtype) => self.int(*n, *dtype),
            Attr::Float(x, dtype) => self.float(*x, *dtype),
            Attr::Str(text) => self.string(text),
            Attr::Array(items) => {
                self.put("[");
                self.list(items, Self::attr);
                self.put("]");
            }
            Attr::Dict(dict) => self.dict(dict),
            Attr::Type(ty) => self.ty(ty),
            Attr::Symbol(name) => self.symbol(name),
            Attr::Dense(dense) => self.dense(dense),
            Attr::External {
                file,
                offset,
                length,
            } => {
                self.put("#hbir.external<");
                self.string(file);
                let _ = write!(self.out, ", {offset}, {length}>");
            }
            Attr::Raw(text) => self.put(text),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "an integer where a float is meant is small"
    )]
    fn int(&mut self, n: i64, dtype: Option<DType>) {
        match dtype {
            None
            | Some(DType::Int {
                bits: 64,
                sign: Sign::Signless,
            }) => self.number(n),
            Some(dtype) if dtype.is_float() => self.float(n as f64, Some(dtype)),
            Some(dtype) if dtype.is_bool() => self.put(if n == 0 { "false" } else { "true" }),
            Some(
                dtype @ DType::Int {
                    bits: 64,
                    sign: Sign::Unsigned,
                },
            ) => {
                let _ = write!(self.out, "{} : {dtype}", n.cast_unsigned());
            }
            Some(dtype) if dtype.computes() => {
                let _ = write!(self.out, "{} : {dtype}", crate::tensor::wrap_int(n, dtype));
            }
            // The parser reads no attribute of these types, so only a program can have made one.
            Some(_) => self.number(n),
        }
    }

    fn float(&mut self, x: f64, dtype: Option<DType>) {
        let dtype = dtype.filter(|d| d.is_float()).unwrap_or(DType::F64);
        number::write_float(&mut self.out, number::bits_of(x, dtype), dtype);
        if dtype != DType::F64 || !x.is_finite() {
            let _ = write!(self.out, " : {dtype}");
        }
    }

    fn dense(&mut self, dense: &Dense) {
        let Some(tensor) = dense.ty.as_tensor() else {
            self.put("dense<> : ");
            self.ty(&dense.ty);
            return;
        };
        let width = storage_bytes(tensor.dtype);
        let shape = tensor.shape().unwrap_or_default();
        // MLIR's dense attribute has elements of MLIR's own types only.
        let foreign = matches!(tensor.dtype, DType::Mini(float) if float.text() != float.name());
        if foreign {
            self.put("#hbir.dense<");
            let one = all_equal(&dense.bytes, width);
            let shown = if one { width } else { dense.bytes.len() };
            self.hex(dense.bytes.get(..shown).unwrap_or_default(), tensor.dtype);
            self.put("> : ");
            return self.ty(&dense.ty);
        }
        self.put("dense<");
        if let Some(element) = dense.bytes.get(..width)
            && (dense.splat || all_equal(&dense.bytes, width))
        {
            self.element(element, tensor.dtype);
        } else if tensor.elements().unwrap_or(0) > LONGEST_LIST {
            self.hex(&dense.bytes, tensor.dtype);
        } else {
            self.elements(&dense.bytes, &shape, tensor.dtype);
        }
        self.put("> : ");
        self.ty(&dense.ty);
    }

    /// Nested lists of elements, one level for each dimension; empty for a tensor without elements.
    fn elements(&mut self, bytes: &[u8], shape: &[u64], dtype: DType) {
        let width = storage_bytes(dtype);
        if bytes.is_empty() {
            return;
        }
        let Some((&n, inner)) = shape.split_first() else {
            return self.element(bytes.get(..width).unwrap_or_default(), dtype);
        };
        let part = bytes.len() / usize::try_from(n.max(1)).unwrap_or(usize::MAX);
        self.put("[");
        self.list(bytes.chunks(part.max(1)), |p, chunk| {
            p.elements(chunk, inner, dtype)
        });
        self.put("]");
    }

    fn element(&mut self, chunk: &[u8], dtype: DType) {
        if let Some(part) = dtype.complex_part() {
            let (real, imaginary) = chunk.split_at(chunk.len() / 2);
            self.put("(");
            self.element(real, part);
            self.put(", ");
            self.element(imaginary, part);
            self.put(")");
        } else if !dtype.is_int() {
            number::write_float(&mut self.out, number::read_bits(chunk), dtype);
        } else if dtype.is_bool() {
            self.put(if chunk.iter().all(|&b| b == 0) {
                "false"
            } else {
                "true"
            });
        } else if dtype
            == (DType::Int {
                bits: 64,
                sign: Sign::Unsigned,
            })
        {
            self.number(number::read_bits(chunk));
        } else {
            self.number(number::read_int(chunk, dtype));
        }
    }

    /// The bytes of all elements; booleans are packed eight to a byte, lowest bit first.
    fn hex(&mut self, bytes: &[u8], dtype: DType) {
        self.put("\"0x");
        self.out.reserve(2 * bytes.len() + 1);
        if dtype.is_bool() {
            for chunk in bytes.chunks(8) {
                let bit = |(i, &b): (usize, &u8)| u8::from(b != 0) << i;
                self.hex_byte(chunk.iter().enumerate().map(bit).fold(0, |a, b| a | b));
            }
        } else {
            bytes.iter().for_each(|&b| self.hex_byte(b));
        }
        self.put("\"");
    }

    fn hex_byte(&mut self, byte: u8) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        self.out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        self.out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }

    fn symbol(&mut self, name: &str) {
        self.put("@");
        let bytes = name.as_bytes();
        let bare =
            bytes.first().is_some_and(|&b| is_word_start(b)) && bytes.iter().all(|&b| is_word(b));
        if bare {
            self.put(name)
        } else {
            self.string(name)
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.put("\\22"),
                '\\' => self.put("\\\\"),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    for b in c.encode_utf8(&mut buffer).bytes() {
                        let _ = write!(self.out, "\\{b:02X}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    // Locations.

    fn trailing_loc(&mut self, loc: &Loc) {
        if !is_unknown(loc) {
            self.put(" ");
            self.loc(loc);
        }
    }

    fn loc(&mut self, loc: &Loc) {
        if !is_unknown(loc) {
            self.put("loc(");
            self.loc_inside(loc);
            self.put(")");
        }
    }

    fn loc_inside(&mut self, loc: &Loc) {
        match loc {
            Loc::Unknown => self.put("unknown"),
            Loc::Name(name) => self.string(name),
            Loc::File(file, line, col) => {
                self.string(file);
                let _ = write!(self.out, ":{line}:{col}");
            }
            Loc::Fused(parts) => {
                let known: Vec<&Loc> = parts.iter().filter(|l| !is_unknown(l)).collect();
                if let [only] = known.as_slice() {
                    return self.loc_inside(only);
                }
                self.put("fused[");
                self.list(known, Self::loc_inside);
                self.put("]");
            }
        }
    }
}

/// Returns whether this is a function type, which needs parentheses as a single result.
pub(super) fn is_function(ty: &Type) -> bool {
    matches!(ty, Type::Other(text) if text.starts_with('('))
}

/// Returns whether the location and all of its parts are unknown.
fn is_unknown(loc: &Loc) -> bool {
    match loc {
        Loc::Unknown => true,
        Loc::File(..) | Loc::Name(_) => false,
        Loc::Fused(parts) => parts.iter().all(is_unknown),
    }
}

/// Distinct names for the arguments: the own name if it can be written, else one derived from it.
fn arg_names(func: &Func) -> Vec<String> {
    let mut taken: IndexSet<String> = IndexSet::new();
    for (i, &value) in func.args.iter().enumerate() {
        let port = func.arg_ports.get(i).and_then(|p| p.name.as_deref());
        let name = func.values[value].name.as_deref().or(port).unwrap_or("");
        let mut name = writable(name).unwrap_or_else(|| format!("arg{i}"));
        while taken.contains(&name) {
            name.push('_');
        }
        taken.insert(name);
    }
    taken.into_iter().collect()
}

/// The name with characters that an SSA name cannot have replaced; `None` if it consists of digits only.
fn writable(name: &str) -> Option<String> {
    if name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || "_$.-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let text: String = name.chars().map(keep).collect();
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    Some(if digit { format!("_{text}") } else { text })
}
