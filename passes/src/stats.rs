//! What a program still moves, in the exclusive classes of the statistics.

use optc_ir::entity::SideTable;
use optc_ir::{Attr, FreedomClass, Func, Module, Op, Registry, Traffic, Value};

/// Counts and bytes; see `docs/stats.md` for what counts as what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Live operations, constants left out.
    pub ops: u64,
    /// `hbir.reshape`.
    pub reshape: u64,
    /// `hbir.transpose`.
    pub transpose: u64,
    /// `hbir.view`.
    pub view: u64,
    /// `hbir.layout_convert`.
    pub layout_convert: u64,
    /// Operations that only rearrange and are no view.
    pub movement_ops: u64,
    /// Bytes they read plus write, padding included.
    pub movement_bytes: u64,
    /// Split, slice, concat, pad, gather and scatter that move data.
    pub copy_ops: u64,
    /// Bytes they read plus write of what is really touched.
    pub copy_bytes: u64,
    /// Expand and tile that really repeat.
    pub expand_ops: u64,
    /// Bytes they read plus write.
    pub expand_bytes: u64,
    /// Rearrangements of constants.
    pub constant_movement_ops: u64,
    /// Bytes moved at compile time.
    pub constant_movement_bytes: u64,
}

impl Stats {
    /// Counts a module. Values nothing uses do not count.
    #[must_use]
    pub fn of(module: &Module, registry: &Registry) -> Stats {
        let mut stats = Stats::default();
        for func in &module.funcs {
            stats.add_func(func, registry);
        }
        stats
    }

    /// The figures by the names that `--json` and `--fail-if` use.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("ops", self.ops),
            ("reshape", self.reshape),
            ("transpose", self.transpose),
            ("view", self.view),
            ("layout_convert", self.layout_convert),
            ("movement_ops", self.movement_ops),
            ("movement_bytes", self.movement_bytes),
            ("copy_ops", self.copy_ops),
            ("copy_bytes", self.copy_bytes),
            ("expand_ops", self.expand_ops),
            ("expand_bytes", self.expand_bytes),
            ("constant_movement_ops", self.constant_movement_ops),
            ("constant_movement_bytes", self.constant_movement_bytes),
        ]
    }

    fn add_func(&mut self, func: &Func, registry: &Registry) {
        let costs = op_costs(func, registry);
        for &op in &func.body {
            if let Some(cost) = costs[op] {
                self.add_op(&func.ops[op].name, cost);
            }
        }
    }

    fn add_op(&mut self, name: &str, cost: OpCost) {
        self.ops += u64::from(!cost.source);
        match name {
            "hbir.reshape" => self.reshape += 1,
            "hbir.transpose" => self.transpose += 1,
            "hbir.view" => self.view += 1,
            "hbir.layout_convert" => self.layout_convert += 1,
            _ => {}
        }
        let (ops, bytes) = match cost.class {
            CostClass::Free => return,
            CostClass::Movement => (&mut self.movement_ops, &mut self.movement_bytes),
            CostClass::Copy => (&mut self.copy_ops, &mut self.copy_bytes),
            CostClass::Expand => (&mut self.expand_ops, &mut self.expand_bytes),
            CostClass::Constant => (
                &mut self.constant_movement_ops,
                &mut self.constant_movement_bytes,
            ),
        };
        *ops += 1;
        *bytes = bytes.saturating_add(cost.bytes);
    }
}

/// The class that a live operation counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostClass {
    /// It computes, or is free.
    Free,
    /// It only rearranges and is no view.
    Movement,
    /// It copies a part, or into a part.
    Copy,
    /// It repeats elements.
    Expand,
    /// It rearranges constants, at compile time.
    Constant,
}

/// What one live operation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpCost {
    /// The class it counts in.
    pub class: CostClass,
    /// Bytes it reads plus writes, padding included; 0 in the class [`CostClass::Free`].
    pub bytes: u64,
    /// Whether it is a constant or another source without operands that order matters for.
    pub source: bool,
}

/// What every operation of a function moves; `None` for those that no result depends on.
#[must_use]
pub fn op_costs(func: &Func, registry: &Registry) -> SideTable<Op, Option<OpCost>> {
    let (live, known) = (live_ops(func), known_values(func, registry));
    let mut costs = SideTable::new(None);
    for &op in &func.body {
        let data = &func.ops[op];
        let class = || Some(registry.get(&data.name)?.freedom(&func.op_ref(op)).class);
        let source = data.operands.is_empty() && class() == Some(FreedomClass::Source);
        let folds = !data.operands.is_empty() && data.operands.iter().all(|&v| known[v]);
        if live[op] {
            costs[op] = Some(if source {
                source_cost(func, op)
            } else {
                op_cost(func, op, registry, folds)
            });
        }
    }
    costs
}

fn op_cost(func: &Func, op: Op, registry: &Registry, constant: bool) -> OpCost {
    let data = &func.ops[op];
    let whole =
        || bytes(func, data.operands.first()).saturating_add(bytes(func, data.results.first()));
    let (class, bytes) = match traffic(func, op, registry) {
        Traffic::Movement if constant => (CostClass::Constant, whole()),
        Traffic::Movement => (CostClass::Movement, whole()),
        Traffic::Expand if !constant => (CostClass::Expand, whole()),
        Traffic::Copy(read, write) if !constant => (CostClass::Copy, read.saturating_add(write)),
        Traffic::None | Traffic::Expand | Traffic::Copy(..) => (CostClass::Free, 0),
    };
    OpCost {
        class,
        bytes,
        source: false,
    }
}

/// A constant that a pass laid out otherwise than its file has it is written once more.
fn source_cost(func: &Func, op: Op) -> OpCost {
    let results = func.ops[op].results.iter();
    let laid = results.filter_map(|&result| {
        let layout = func.ty(result).as_tensor()?.layout()?.ok()?;
        (!layout.is_row_major()).then(|| layout.bytes().saturating_mul(2))
    });
    let bytes = laid.fold(0u64, u64::saturating_add);
    let class = if bytes == 0 {
        CostClass::Free
    } else {
        CostClass::Constant
    };
    OpCost {
        class,
        bytes,
        source: true,
    }
}

fn traffic(func: &Func, op: Op, registry: &Registry) -> Traffic {
    match registry.get(&func.ops[op].name) {
        Some(_) if permutes_rows(func, op) => Traffic::Movement,
        Some(decl) => decl.traffic(&func.op_ref(op)),
        None => Traffic::None,
    }
}

/// Which values are known at compile time: sources, and what is computed of nothing else.
#[must_use]
pub fn known_values(func: &Func, registry: &Registry) -> SideTable<Value, bool> {
    let mut known: SideTable<Value, bool> = SideTable::new(false);
    for &op in &func.body {
        let data = &func.ops[op];
        let class = || Some(registry.get(&data.name)?.freedom(&func.op_ref(op)).class);
        let all = if data.operands.is_empty() {
            class() == Some(FreedomClass::Source)
        } else {
            data.operands.iter().all(|&v| known[v])
        };
        for &result in &data.results {
            known[result] = all;
        }
    }
    known
}

/// What the operations that stay in any layouts move: a gather that permutes, a space to depth. Bytes
/// read plus written, without padding.
#[must_use]
pub fn fixed_movement(module: &Module, registry: &Registry) -> u64 {
    let mut total = 0u64;
    for func in &module.funcs {
        let (live, known) = (live_ops(func), known_values(func, registry));
        for &op in &func.body {
            let data = &func.ops[op];
            let rearranges = |n: &str| {
                let class = registry.get(n).map(|d| d.freedom(&func.op_ref(op)).class);
                n == "hbir.layout_convert" || class == Some(FreedomClass::Rearrange)
            };
            let at_run_time = !data.operands.iter().all(|&v| known[v]);
            if live[op]
                && at_run_time
                && traffic(func, op, registry) == Traffic::Movement
                && !rearranges(&data.name)
            {
                let ends = [data.operands.first(), data.results.first()];
                let bytes = ends.iter().map(|v| logical_bytes(func, *v));
                total = total.saturating_add(bytes.fold(0, u64::saturating_add));
            }
        }
    }
    total
}

/// The operations that some result of the function depends on.
#[must_use]
pub fn live_ops(func: &Func) -> SideTable<Op, bool> {
    let mut live = SideTable::new(false);
    let mut used: SideTable<Value, bool> = SideTable::new(false);
    for &value in &func.results {
        used[value] = true;
    }
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        if data.results.is_empty() || data.results.iter().any(|&r| used[r]) {
            live[op] = true;
            for &operand in &data.operands {
                used[operand] = true;
            }
        }
    }
    live
}

/// Physical bytes of a value, padding included; unknown dimensions count as 128.
fn bytes(func: &Func, value: Option<&Value>) -> u64 {
    let Some(ty) = value.and_then(|&v| func.ty(v).as_tensor()) else {
        return 0;
    };
    match ty.layout() {
        Some(Ok(layout)) => layout.bytes(),
        Some(Err(_)) | None => logical_bytes(func, value),
    }
}

/// Bytes of a value without padding; unknown dimensions count as 128.
fn logical_bytes(func: &Func, value: Option<&Value>) -> u64 {
    let Some(ty) = value.and_then(|&v| func.ty(v).as_tensor()) else {
        return 0;
    };
    let dims = ty.dims.iter().map(|d| d.fixed().unwrap_or(128));
    let count = dims.fold(1u64, u64::saturating_mul);
    count.saturating_mul(u64::from(ty.dtype.bits())).div_ceil(8)
}

/// A gather along a full constant permutation of an axis only rearranges.
fn permutes_rows(func: &Func, op: Op) -> bool {
    let data = &func.ops[op];
    if &*data.name != "hbir.gather" || data.operands.len() != 2 {
        return false;
    }
    let Some(shape) = func
        .ty(data.operands[0])
        .as_tensor()
        .and_then(|t| t.shape())
    else {
        return false;
    };
    let axis = data.props.int("axis").unwrap_or(0);
    let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).unwrap_or(usize::MAX);
    let Some(&n) = shape.get(axis) else {
        return false;
    };
    let Some(indices) = small_ints(func, data.operands[1]) else {
        return false;
    };
    if indices.len() as u64 != n {
        return false;
    }
    let size = i64::try_from(n).unwrap_or(i64::MAX);
    let wrapped: Vec<i64> = indices
        .iter()
        .map(|&i| if i < 0 { i + size } else { i })
        .collect();
    let mut sorted = wrapped.clone();
    sorted.sort_unstable();
    let full = sorted.iter().zip(0i64..).all(|(&a, b)| a == b);
    let identity = wrapped.iter().zip(0i64..).all(|(&a, b)| a == b);
    full && !identity
}

/// The integers of a dense constant.
fn small_ints(func: &Func, value: Value) -> Option<Vec<i64>> {
    let op = func.def_op(value)?;
    let Some(Attr::Dense(dense)) = func.ops[op].props.get("value") else {
        return None;
    };
    let ty = func.ty(value).as_tensor()?;
    let shape: Vec<usize> = ty
        .shape()?
        .iter()
        .map(|&n| usize::try_from(n).unwrap_or(usize::MAX))
        .collect();
    if dense.splat {
        return None;
    }
    let tensor = optc_ir::Tensor::from_bytes(ty.dtype, shape, &dense.bytes).ok()?;
    Some((0..tensor.len()).map(|i| tensor.i64_at(i)).collect())
}
