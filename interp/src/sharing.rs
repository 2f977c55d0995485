//! Shared bytes in a function, as its text states them: the values that lie in the result of a reader, and those in
//! pieces.

use optc_ir::entity::SideTable;
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{Bindings, Dim, EvalError, Func, Op, Part, Registry, Structure, Value};
use std::sync::Arc;

/// A part that lies in place.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) part: Part,
    /// The value that is the part.
    pub(crate) value: Value,
    /// The value that is the whole.
    pub(crate) whole: Value,
}

/// The places of the values of one function that have no buffer of their own.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// The value whose buffer a view reads; `None` for other values.
    roots: SideTable<Value, Option<Value>>,
    /// For a root that lies in the result of a reader: its place there.
    home: SideTable<Value, Option<Placed>>,
    /// For a root with parts that lie in results of readers: these parts.
    pieces: SideTable<Value, Vec<Placed>>,
    /// For each value: the parts that are written by other operations than the one that defines it.
    written: SideTable<Value, Arc<[Placed]>>,
    /// True for the result of an update that lies in the bytes of the operand: they are written again.
    updated: SideTable<Value, bool>,
    /// For each operation: the results that are parts of its operand.
    results: SideTable<Op, Arc<[Placed]>>,
}

impl Sharing {
    /// No sharing: no value lies in the bytes of another.
    pub(crate) fn none() -> Sharing {
        Sharing {
            roots: SideTable::new(None),
            home: SideTable::new(None),
            pieces: SideTable::new(Vec::new()),
            written: SideTable::new(Arc::from([])),
            updated: SideTable::new(false),
            results: SideTable::new(Arc::from([])),
        }
    }

    pub(crate) fn of(func: &Func, registry: &Registry) -> Sharing {
        let mut sharing = Sharing::none();
        for &op in &func.body {
            let data = &func.ops[op];
            if let (Structure::View, [operand], [result]) = (
                registry.structure(&data.name),
                &data.operands[..],
                &data.results[..],
            ) {
                sharing.roots[*result] = Some(sharing.root(*operand));
            }
            let placed = in_place(func, op, registry);
            let (operands, results): (Vec<Placed>, Vec<Placed>) = placed
                .into_iter()
                .partition(|placed| matches!(placed.part.part, Port::Operand(_)));
            for placed in &operands {
                let root = sharing.root(placed.value);
                sharing.home[root] = Some(placed.clone());
            }
            if let Some(first) = operands.first() {
                let whole = first.whole;
                sharing.updated[whole] = in_place::settled_update(func, op, registry).is_some();
                sharing.written[whole] = Arc::from(operands);
            }
            if !results.is_empty() {
                sharing.results[op] = Arc::from(results);
            }
        }
        // The home of a part is known only after its reader, which follows the operation that cuts it off.
        for &op in &func.body {
            for placed in sharing.results(op).iter() {
                if sharing.home[placed.value].is_some() {
                    let root = sharing.root(placed.whole);
                    sharing.pieces[root].push(placed.clone());
                }
            }
        }
        sharing
    }

    pub(crate) fn root(&self, value: Value) -> Value {
        self.roots[value].unwrap_or(value)
    }

    pub(crate) fn home(&self, root: Value) -> Option<&Placed> {
        self.home[root].as_ref()
    }

    pub(crate) fn pieces(&self, root: Value) -> &[Placed] {
        &self.pieces[root]
    }

    pub(crate) fn written(&self, value: Value) -> Arc<[Placed]> {
        Arc::clone(&self.written[value])
    }

    pub(crate) fn is_updated(&self, value: Value) -> bool {
        self.updated[value]
    }

    pub(crate) fn results(&self, op: Op) -> Arc<[Placed]> {
        Arc::clone(&self.results[op])
    }
}

/// The parts that an operation states to lie in place.
fn in_place(func: &Func, op: Op, registry: &Registry) -> Vec<Placed> {
    let data = &func.ops[op];
    let placed = |part: Part| {
        Some(Placed {
            value: part.part.value(data)?,
            whole: part.whole.value(data)?,
            part,
        })
    };
    let parts = in_place::settled(func, op, registry);
    parts.into_iter().filter_map(placed).collect()
}

/// The row-major numbers of a part's elements in a whole of this shape.
///
/// # Errors
/// A size is not known, or an element lies outside.
pub(crate) fn numbers(
    part: &Part,
    whole: &[usize],
    shape: &[usize],
    bindings: &Bindings,
) -> Result<Vec<usize>, EvalError> {
    let outside = || EvalError::new("a part lies outside of its whole");
    let mut steps = vec![0i64; shape.len()];
    let (mut first, mut stride) = (0i64, 1i64);
    for (along, &n) in part.dims.iter().zip(whole).rev() {
        let start = bindings.size(&Dim::of_size(&along.start));
        let start = start.and_then(|n| i64::try_from(n).ok());
        let start = start.ok_or_else(|| EvalError::new("where a part starts is not known"))?;
        let last = along.from.map_or(0, |d| shape[d] as i64 - 1);
        let end = start + along.step * last;
        if 0 <= last && !((0..n as i64).contains(&start) && (0..n as i64).contains(&end)) {
            return Err(outside());
        }
        first += start * stride;
        if let Some(d) = along.from {
            steps[d] += along.step * stride;
        }
        stride *= n as i64;
    }
    let count = shape.iter().product();
    let mut out = Vec::with_capacity(count);
    let mut index = vec![0usize; shape.len()];
    for _ in 0..count {
        let at = index
            .iter()
            .zip(&steps)
            .fold(first, |at, (&i, s)| at + i as i64 * s);
        out.push(usize::try_from(at).map_err(|_| outside())?);
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
    Ok(out)
}
