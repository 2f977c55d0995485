//! The state of a kernel that is being written: its axes, its scopes and the values that it has computed.
//!
//! A value of the group is not a tile that operations hand on. It is computed at an index: one expression over the axes
//! for each dimension. An operation computes its operands at the indices that its iteration domain maps to, so a
//! reshape, a transpose or a slice is arithmetic on indices, and the last of these are the addresses of a load.

use super::axis::{Axis, AxisId, Cuts, Kind, axes_of, axes_of_all, python, subscript, union};
use super::cx::{Cx, Makers, Reason};
use super::words::{block_type, full, zero};
use crate::python::Names;
use optc_ir::{DType, TensorType, Value};
use optc_tile::Expr;
use std::collections::{BTreeMap, BTreeSet};

/// A computed value: a tensor with one dimension for each of its axes, or a number if it has none.
#[derive(Clone, Debug)]
pub(super) struct Val {
    /// A variable.
    pub(super) text: String,
    /// The axes, ascending.
    pub(super) axes: Vec<AxisId>,
    pub(super) dtype: DType,
    /// True if elements outside of the axes are zero.
    pub(super) zero: bool,
    /// The scope of the variable.
    pub(super) level: usize,
}

/// A condition under which a value is computed: `0 <= index < size`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Guard {
    pub(super) index: Expr,
    pub(super) size: u64,
}

/// The lines of the kernel's body or of a loop.
#[derive(Default)]
pub(super) struct Scope {
    lines: Vec<String>,
    /// Values by index; the number orders them by time.
    known: BTreeMap<String, (usize, Val)>,
}

/// The facts that a first walk collects, from which the axes and blocks of a kernel are chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    /// The number of axes of the result.
    pub(super) roots: usize,
    pub(super) cuts: Cuts,
    /// The axes of the result that an operation needs whole.
    pub(super) whole: BTreeSet<AxisId>,
    /// The longest sum of products outside of other products.
    pub(super) product: Option<Contraction>,
    /// True if a product reads a product.
    pub(super) nested: bool,
}

/// A sum of products, as it is seen from the result of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Contraction {
    /// The number of products for one element.
    pub(super) operations: u64,
    /// The axes of the result on which each operand depends.
    pub(super) left: Vec<AxisId>,
    pub(super) right: Vec<AxisId>,
    /// The type of the operands.
    pub(super) dtype: DType,
}

/// The kernel that is being written.
pub(super) struct Kernel<'a> {
    pub(super) cx: &'a Cx<'a>,
    pub(super) makers: &'a Makers,
    /// The values of the group that are read from memory.
    pub(super) stored: BTreeSet<Value>,
    /// The value that the kernel writes.
    pub(super) root: Value,
    pub(super) axes: Vec<Axis>,
    pub(super) scopes: Vec<Scope>,
    pub(super) guards: Vec<Guard>,
    pub(super) names: Names,
    /// The values read from memory, and their pointers.
    pub(super) inputs: Vec<(Value, String)>,
    pub(super) helpers: BTreeSet<&'static str>,
    pub(super) probe: Option<Probe>,
    /// The number of products around the present value.
    pub(super) depth: usize,
    /// The number of values computed, which is bounded.
    pub(super) steps: usize,
}

/// The largest number of values that a kernel computes. A longer kernel is refused.
const MAX_STEPS: usize = 6000;

/// The largest number of elements of a value in memory: offsets have 32 bits.
const MAX_ELEMENTS: u64 = 1 << 31;

impl<'a> Kernel<'a> {
    pub(super) fn new(cx: &'a Cx<'a>, makers: &'a Makers, root: Value) -> Kernel<'a> {
        let mut names = Names::default();
        for word in ["first", "program", "rows", "tile"] {
            names.fresh(word);
        }
        Kernel {
            cx,
            makers,
            stored: BTreeSet::new(),
            root,
            axes: Vec::new(),
            scopes: vec![Scope::default()],
            guards: Vec::new(),
            names,
            inputs: Vec::new(),
            helpers: BTreeSet::new(),
            probe: None,
            depth: 0,
            steps: 0,
        }
    }

    pub(super) fn tensor(&self, value: Value) -> Result<&'a TensorType, Reason> {
        self.cx.tensor(value)
    }

    pub(super) fn shape(&self, value: Value) -> Result<Vec<u64>, Reason> {
        self.cx.shape(value)
    }

    /// The extents of all axes, over which expressions range.
    pub(super) fn grid(&self) -> Vec<u64> {
        self.axes.iter().map(|a| a.extent).collect()
    }

    /// Adds an axis. The caller writes the lines that define the index of a program's axis.
    pub(super) fn add(&mut self, extent: u64, block: u64, kind: Kind) -> AxisId {
        let level = match kind {
            Kind::Loop => self.scopes.len(),
            Kind::Program | Kind::Whole => 0,
        };
        let id = self.axes.len();
        let name = self.names.fresh(&format!("i{id}"));
        if kind == Kind::Program {
            self.names.fresh(&format!("p{id}"));
        }
        let vector = 1 < block;
        let mask =
            (vector && !extent.is_multiple_of(block)).then(|| self.names.fresh(&format!("m{id}")));
        if kind == Kind::Whole && vector {
            self.scopes[0]
                .lines
                .push(format!("{name} = tl.arange(0, {block})"));
            if let Some(mask) = &mask {
                self.scopes[0]
                    .lines
                    .push(format!("{mask} = {name} < {extent}"));
            }
        }
        self.axes.push(Axis {
            extent,
            block,
            kind,
            level,
            name,
            mask,
        });
        id
    }

    /// The axes that are dimensions of tensors.
    pub(super) fn vectors(&self, axes: &[AxisId]) -> Vec<AxisId> {
        let vector = |a: &AxisId| self.axes[*a].is_vector();
        axes.iter().copied().filter(vector).collect()
    }

    pub(super) fn blocks(&self, axes: &[AxisId]) -> u64 {
        axes.iter().map(|&a| self.axes[a].block).product()
    }

    /// The innermost scope that defines one of the axes, or an axis of a guard.
    pub(super) fn level(&self, axes: &[AxisId]) -> usize {
        let guards = self.guards.iter().flat_map(|g| axes_of(&g.index));
        let all = axes.iter().copied().chain(guards);
        all.map(|a| self.axes[a].level)
            .max()
            .unwrap_or(0)
            .min(self.scopes.len() - 1)
    }

    /// Runs `write` in the scope of this level: loops that it opens are beside the loops that are open inside of it.
    pub(super) fn at_level<T>(
        &mut self,
        level: usize,
        write: impl FnOnce(&mut Self) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        let inner = self.scopes.split_off((level + 1).min(self.scopes.len()));
        let made = write(self);
        self.scopes.truncate(level + 1);
        self.scopes.extend(inner);
        made
    }

    /// Opens a loop over an axis, `block` indices in each step.
    pub(super) fn open(&mut self, extent: u64, block: u64) -> AxisId {
        let id = self.add(extent, block, Kind::Loop);
        self.scopes.push(Scope::default());
        id
    }

    /// Ends the loop over an axis.
    pub(super) fn close(&mut self, id: AxisId) {
        let Some(scope) = self.scopes.pop() else {
            return;
        };
        let axis = self.axes[id].clone();
        let Some(outer) = self.scopes.last_mut() else {
            return;
        };
        let (name, extent, block) = (&axis.name, axis.extent, axis.block);
        if axis.is_vector() {
            outer
                .lines
                .push(format!("for {name}_0 in range(0, {extent}, {block}):"));
            outer
                .lines
                .push(format!("    {name} = {name}_0 + tl.arange(0, {block})"));
            if let Some(mask) = &axis.mask {
                outer.lines.push(format!("    {mask} = {name} < {extent}"));
            }
        } else {
            outer.lines.push(format!("for {name} in range({extent}):"));
        }
        outer
            .lines
            .extend(scope.lines.iter().map(|line| format!("    {line}")));
    }

    /// Writes a line in the innermost scope.
    pub(super) fn line(&mut self, line: String) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.lines.push(line);
        }
    }

    /// Writes a line in the scope of a level.
    pub(super) fn line_at(&mut self, level: usize, line: String) {
        self.scopes[level].lines.push(line);
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.scopes[0].lines
    }

    /// A new variable with this text, in the scope that its axes allow.
    pub(super) fn set(&mut self, wanted: &str, val: Val, all: &[AxisId]) -> Val {
        let name = self.names.fresh(wanted);
        let level = self.level(&union(&val.axes, all)).max(val.level);
        let level = level.min(self.scopes.len() - 1);
        self.line_at(level, format!("{name} = {}", val.text));
        Val {
            text: name,
            level,
            ..val
        }
    }

    /// The value on more axes.
    pub(super) fn spread(&self, val: &Val, axes: &[AxisId]) -> String {
        format!("{}{}", val.text, subscript(&val.axes, axes))
    }

    /// An expression over indices as a tensor with these axes.
    pub(super) fn index(&self, expr: &Expr, axes: &[AxisId]) -> String {
        let name = |a: AxisId| {
            let axis = &self.axes[a];
            match axis.is_vector() {
                true => format!("{}{}", axis.name, subscript(&[a], axes)),
                false => axis.name.clone(),
            }
        };
        python(expr, &name)
    }

    /// The condition that holds at the elements which exist: those of the axes and those of the guards.
    pub(super) fn mask(&self, axes: &[AxisId], guards: &[Guard]) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        for &a in axes {
            if let Some(mask) = &self.axes[a].mask {
                parts.push(format!("{mask}{}", subscript(&[a], axes)));
            }
        }
        for guard in guards {
            let (low, high) = guard.index.range(&self.grid());
            let text = self.index(&guard.index, axes);
            if low < 0 {
                parts.push(format!("(0 <= {text})"));
            }
            if guard.size.cast_signed() <= high {
                parts.push(format!("({text} < {})", guard.size));
            }
        }
        (!parts.is_empty()).then(|| parts.join(" & "))
    }

    /// Loads the elements of a value in memory at an index; `dynamic` has computed indices for some dimensions.
    pub(super) fn load(
        &mut self,
        value: Value,
        index: &[Expr],
        dynamic: &[(usize, Val)],
    ) -> Result<Val, Reason> {
        let ty = self.tensor(value)?;
        if let Some(x) = (self.cx.splat)(value) {
            return Ok(Val {
                text: full(x, ty.dtype).ok_or_else(|| no_type(ty.dtype))?,
                axes: Vec::new(),
                dtype: ty.dtype,
                zero: x == 0.0,
                level: 0,
            });
        }
        let dtype = ty.dtype;
        block_type(dtype).ok_or_else(|| no_type(dtype))?;
        let shape = self.shape(value)?;
        if MAX_ELEMENTS <= shape.iter().product() {
            return Err(format!("a value has more than {MAX_ELEMENTS} elements"));
        }
        let named = self.pointer(value);
        let mut all = axes_of_all(index);
        for (_, val) in dynamic {
            all = union(&all, &val.axes);
        }
        let axes = self.vectors(&all);
        // A condition on other axes is no matter of this value: what is made of it is not used there.
        let covered = |g: &&Guard| {
            let own = self.vectors(&axes_of(&g.index));
            own.iter().all(|a| axes.contains(a))
        };
        let mut guards: Vec<Guard> = self.guards.iter().filter(covered).cloned().collect();
        for guard in self.outside(value, index)? {
            if !guards.contains(&guard) {
                guards.push(guard);
            }
        }
        let mut terms = vec![named.clone()];
        for (d, expr) in index.iter().enumerate() {
            if let Some((_, val)) = dynamic.iter().find(|(at, _)| *at == d) {
                terms.push(format!("{} * {named}_s{d}", self.spread(val, &axes)));
            } else if expr.as_number() != Some(0) {
                let text = self.index(expr, &axes);
                terms.push(format!("{} * {named}_s{d}", factor(text)));
            }
        }
        let mask = self.mask(&axes, &guards);
        let pointers = terms.join(" + ");
        let text = match mask {
            Some(mask) => format!("tl.load({pointers}, mask={mask}, other={})", zero(dtype)),
            None => format!("tl.load({pointers})"),
        };
        let val = Val {
            text,
            axes,
            dtype,
            zero: true,
            level: dynamic.iter().map(|(_, val)| val.level).max().unwrap_or(0),
        };
        let wanted = format!("{}_{}", (self.cx.name)(value), "v");
        Ok(self.set(&wanted, val, &all))
    }

    /// The pointer of a value in memory.
    fn pointer(&mut self, value: Value) -> String {
        if let Some((_, name)) = self.inputs.iter().find(|(v, _)| *v == value) {
            return name.clone();
        }
        let name = self.names.fresh(&(self.cx.name)(value));
        self.inputs.push((value, name.clone()));
        name
    }

    /// The key of a value at an index under the present guards.
    fn key(&self, value: Value, index: &[Expr]) -> String {
        use std::fmt::Write;
        let mut key = format!("{value}");
        for expr in index {
            let _ = write!(key, "; {expr}");
        }
        for guard in &self.guards {
            let _ = write!(key, "| {} < {}", guard.index, guard.size);
        }
        key
    }

    pub(super) fn known(&self, value: Value, index: &[Expr]) -> Option<Val> {
        let key = self.key(value, index);
        let found = self.scopes.iter().rev().find_map(|s| s.known.get(&key));
        found.map(|(_, val)| val.clone())
    }

    /// Remembers a value in the scope that its index allows.
    pub(super) fn remember(&mut self, value: Value, index: &[Expr], val: &Val) {
        let key = self.key(value, index);
        let level = self.level(&union(&axes_of_all(index), &val.axes));
        let level = level.max(val.level).min(self.scopes.len() - 1);
        let time = self.steps;
        self.scopes[level].known.insert(key, (time, val.clone()));
    }

    /// Counts a value, and refuses a kernel that is too long.
    pub(super) fn step(&mut self) -> Result<(), Reason> {
        self.steps += 1;
        match self.steps < MAX_STEPS {
            true => Ok(()),
            false => Err("its kernel would be too long".to_owned()),
        }
    }

    /// The state to which [`Kernel::undo`] returns.
    pub(super) fn mark(&self) -> (usize, usize, Vec<usize>) {
        let lines = self.scopes.iter().map(|s| s.lines.len()).collect();
        (self.steps, self.inputs.len(), lines)
    }

    /// Removes the lines written since a mark. Axes stay; the line that defines one which is whole is kept.
    pub(super) fn undo(&mut self, (steps, inputs, lens): (usize, usize, Vec<usize>)) {
        self.inputs.truncate(inputs);
        self.scopes.truncate(lens.len());
        for (level, (scope, len)) in self.scopes.iter_mut().zip(lens).enumerate() {
            let kept: Vec<String> = match level {
                0 => {
                    let lines = scope.lines.drain(len..);
                    lines
                        .filter(|line| {
                            self.axes
                                .iter()
                                .any(|a| a.kind == Kind::Whole && defines(line, a))
                        })
                        .collect()
                }
                _ => Vec::new(),
            };
            scope.lines.truncate(len);
            scope.lines.extend(kept);
            scope.known.retain(|_, (time, _)| *time < steps);
        }
    }
}

/// An index beside a sign of multiplication.
pub(super) fn factor(text: String) -> String {
    match text.contains([' ', '-']) && text.contains(['+', '-', '*', '/', '%']) {
        true => format!("({text})"),
        false => text,
    }
}

/// Returns whether a line sets the index or the mask of an axis.
fn defines(line: &str, axis: &Axis) -> bool {
    let sets = |name: &str| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(" = "))
    };
    sets(&axis.name) || axis.mask.as_deref().is_some_and(sets)
}

fn no_type(dtype: DType) -> Reason {
    format!("a kernel has no values of {dtype}")
}
