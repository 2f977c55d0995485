//! Unknown sizes in the MLIR text. While shapes are cut and joined, stand-in numbers replace them. In the text, each
//! one is an index, which is computed at the head of the function from dimensions of its arguments.
//!
//! For example, the size `S` of an argument `%x: tensor<?x4xf32>` has the line
//! `%S = tensor.dim %x, %c_0 : tensor<?x4xf32>`, and `2*S` is a product of `%S` and a constant.

use super::mem::Mem;
use super::types::tensor_text;
use indexmap::{IndexMap, IndexSet};
use optc_ir::size::Factor;
use optc_ir::{DType, Dim, Size, StandIns};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

/// The unknown sizes of one function.
#[derive(Clone, Default)]
pub(super) struct Sizes(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    /// `None` if all sizes are known.
    numbers: Option<StandIns>,
    /// True after the arguments are written.
    ready: bool,
    /// For each name of a size, the dimension of an argument from which it is computed.
    given: IndexMap<Arc<str>, NamedDim>,
    /// The indices written so far.
    written: IndexMap<Size, String>,
    /// The text that computes them.
    head: String,
    /// Used names: those of arguments and indices.
    taken: IndexSet<String>,
}

/// A dimension of an argument, which equals a name times `by` plus `rest`.
#[derive(Clone)]
struct NamedDim {
    of: Mem,
    at: usize,
    by: Size,
    rest: Size,
}

impl Sizes {
    /// Sizes with these stand-in numbers.
    pub(super) fn new(numbers: Option<StandIns>) -> Sizes {
        let table = Table {
            numbers,
            ..Table::default()
        };
        Sizes(Rc::new(RefCell::new(table)))
    }

    /// Returns whether a number stands for an unknown size.
    pub(super) fn stands(&self, n: u64) -> bool {
        let table = self.0.borrow();
        table.numbers.as_ref().is_some_and(|s| s.stands(n))
    }

    /// The size that a number stands for.
    pub(super) fn size(&self, n: u64) -> Size {
        let table = self.0.borrow();
        let found = table.numbers.as_ref().and_then(|s| s.size(n));
        found.unwrap_or_else(|| Size::from(n))
    }

    /// The number for a dimension; `None` if it is too large.
    pub(super) fn number(&self, dim: &Dim) -> Option<u64> {
        match (dim, &mut self.0.borrow_mut().numbers) {
            (Dim::Fixed(n), _) => Some(*n),
            (Dim::Symbol(_), Some(numbers)) => numbers.number(dim),
            (Dim::Symbol(_), None) | (Dim::Unknown, _) => None,
        }
    }

    /// The numbers of `dims`, which has the same number of elements as the numbers `like`.
    pub(super) fn complete(&self, dims: &[Dim], like: &[u64]) -> Option<Vec<u64>> {
        match &mut self.0.borrow_mut().numbers {
            Some(numbers) => numbers.complete(dims, like),
            None => dims.iter().map(Dim::fixed).collect(),
        }
    }

    /// The number of a sum: the size that `n` stands for, plus `more`.
    pub(super) fn plus(&self, n: u64, more: &Size) -> Option<u64> {
        let sum = self.size(n).plus(more)?;
        let made = self.number(&Dim::of_size(&sum))?;
        // A number for a known sum must not be the number of a stand-in.
        (self.stands(made) == sum.as_constant().is_none()).then_some(made)
    }

    /// The type of a tensor.
    pub(super) fn tensor(&self, shape: &[u64], dtype: DType) -> String {
        let dim = |&n: &u64| (!self.stands(n)).then_some(n);
        tensor_text(shape.iter().map(dim), dtype)
    }

    /// The type of a tensor in the text.
    pub(super) fn ty(&self, mem: &Mem) -> String {
        self.tensor(&mem.shape, mem.dtype)
    }

    /// The index for a stand-in number; `None` for a known size.
    pub(super) fn index(&self, n: u64) -> Option<String> {
        let stands = self.stands(n);
        stands.then(|| self.written(&self.size(n)))
    }

    /// A known number, or the index for a stand-in.
    pub(super) fn text(&self, n: u64) -> String {
        self.index(n).unwrap_or_else(|| n.to_string())
    }

    /// A list of sizes in the syntax of reshapes and slices.
    pub(super) fn list(&self, all: &[u64]) -> String {
        let texts: Vec<String> = all.iter().map(|&n| self.text(n)).collect();
        format!("[{}]", texts.join(", "))
    }

    /// The indices for the unknown ones of these extents.
    pub(super) fn open(&self, shape: &[u64]) -> Vec<String> {
        shape.iter().filter_map(|&n| self.index(n)).collect()
    }

    /// The text that computes the indices; it precedes their uses.
    pub(super) fn head(&self) -> String {
        self.0.borrow().head.clone()
    }

    /// A name similar to `wanted` that is unused in the function.
    pub(super) fn name(&self, wanted: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut base: String = wanted.chars().map(plain).collect();
        let own = |b: &str| b.starts_with("s_") || b.starts_with("in_") || b.starts_with("it_");
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) || own(&base) {
            base.insert_str(0, "arg_");
        }
        let mut name = base.clone();
        let mut n = 0;
        while !self.0.borrow_mut().taken.insert(name.clone()) {
            n += 1;
            name = format!("{base}_{n}");
        }
        format!("%{name}")
    }

    /// Finds, for each name of a size, a dimension of an argument that determines it. Dimensions that are a single name
    /// are preferred.
    pub(super) fn give(&self, args: &[Mem]) {
        let places = || {
            let each = |mem: &Mem| 0..mem.shape.len();
            args.iter()
                .flat_map(move |m| each(m).map(move |at| (m, at)))
        };
        let mut found: Vec<(Arc<str>, (i128, i128), NamedDim)> = Vec::new();
        for (of, at) in places() {
            let size = self.size(of.shape[at]);
            if let Some((name, factor, rest)) = size.as_linear()
                && 0 < factor
            {
                let (own, key) = (name.clone(), (factor, rest));
                let (by, rest) = (Size::constant(factor), Size::constant(rest));
                let of = of.clone();
                found.push((own, key, NamedDim { of, at, by, rest }));
            }
        }
        found.sort_by_key(|(_, key, _)| *key);
        for (name, _, source) in found {
            let mut table = self.0.borrow_mut();
            table.given.entry(name).or_insert(source);
        }
        // Solves expressions with a single unknown name.
        loop {
            let more = places().find_map(|(of, at)| {
                let size = self.size(of.shape[at]);
                let mut open = size.names().into_iter().filter(|n| !self.knows(n));
                let (name, None) = (open.next()?, open.next()) else {
                    return None;
                };
                let rest = size.with(&name, 0)?;
                let by = size.with(&name, 1)?.minus(&rest)?;
                let again = by.times(&Size::name(&name))?.plus(&rest)?;
                let of = of.clone();
                let whole = by.is_at_least(1) && again == size;
                whole.then_some((name, NamedDim { of, at, by, rest }))
            });
            let Some((name, source)) = more else { break };
            self.0.borrow_mut().given.insert(name, source);
        }
        self.0.borrow_mut().ready = true;
    }

    fn knows(&self, name: &Arc<str>) -> bool {
        self.0.borrow().given.contains_key(name)
    }

    /// A name in a size that no argument determines. `None` before the arguments are written.
    pub(super) fn missing(&self, size: &Size) -> Option<Arc<str>> {
        if !self.0.borrow().ready {
            return None;
        }
        size.names().into_iter().find(|name| !self.knows(name))
    }

    /// Writes the index that holds the value of a size, whose names must all be determined.
    pub(super) fn written(&self, size: &Size) -> String {
        if let Some(known) = self.0.borrow().written.get(size) {
            return known.clone();
        }
        let made = match (size.as_constant(), size.as_name()) {
            (Some(n), _) => self.constant(n),
            (None, Some(name)) => self.dimension(name),
            (None, None) => self.sum(size),
        };
        let mut table = self.0.borrow_mut();
        table.written.insert(size.clone(), made.clone());
        made
    }

    fn sum(&self, size: &Size) -> String {
        let mut sum: Option<String> = None;
        for (number, factors) in size.terms() {
            let mut product: Option<String> = None;
            for factor in factors {
                let factor = self.factor(factor);
                product = Some(match product {
                    None => factor,
                    Some(before) => self.put("arith.muli", &before, &factor),
                });
            }
            let term = match product {
                Some(product) if number == 1 => product,
                Some(product) => {
                    let number = self.written(&Size::constant(number));
                    self.put("arith.muli", &product, &number)
                }
                None => self.written(&Size::constant(number)),
            };
            sum = Some(match sum {
                None => term,
                Some(before) => self.put("arith.addi", &before, &term),
            });
        }
        sum.unwrap_or_else(|| self.written(&Size::default()))
    }

    fn factor(&self, factor: Factor<'_>) -> String {
        let (opcode, a, b) = match factor {
            Factor::Name(name) => return self.written(&Size::name(name)),
            Factor::Min(a, b) => ("arith.minsi", a, b),
            Factor::Max(a, b) => ("arith.maxsi", a, b),
            Factor::Quotient(a, b) if a.is_at_least(0) => ("arith.divui", a, b),
            Factor::Quotient(a, b) => ("arith.floordivsi", a, b),
        };
        let (a, b) = (self.written(a), self.written(b));
        self.put(opcode, &a, &b)
    }

    /// The value of a named size, from the argument that determines it.
    fn dimension(&self, name: &str) -> String {
        let found = self.0.borrow().given.get(name).cloned();
        // Callers have checked that the size is determined.
        let Some(source) = found else {
            return "%unknown".to_owned();
        };
        let at = self.written(&Size::from(source.at as u64));
        let plain = source.rest == Size::default() && source.by.as_constant() == Some(1);
        let own = self.name(if plain { name } else { "size" });
        let ty = self.ty(&source.of);
        self.line(&format!(
            "{own} = tensor.dim {}, {at} : {ty}",
            source.of.name
        ));
        let mut made = own;
        if source.rest != Size::default() {
            let rest = self.written(&source.rest);
            made = self.put("arith.subi", &made, &rest);
        }
        if source.by.as_constant() != Some(1) {
            let by = self.written(&source.by);
            made = self.put("arith.divui", &made, &by);
        }
        made
    }

    fn constant(&self, n: i128) -> String {
        let sign = if n < 0 { "minus_" } else { "" };
        let name = self.name(&format!("c_{sign}{}", n.unsigned_abs()));
        self.line(&format!("{name} = arith.constant {n} : index"));
        name
    }

    fn put(&self, opcode: &str, a: &str, b: &str) -> String {
        let name = self.name("size");
        self.line(&format!("{name} = {opcode} {a}, {b} : index"));
        name
    }

    fn line(&self, text: &str) {
        let _ = writeln!(self.0.borrow_mut().head, "    {text}");
    }
}
