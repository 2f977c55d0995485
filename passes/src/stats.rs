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
        let live = live_ops(func);
        let known = known_values(func, registry);
        for &op in &func.body {
            let data = &func.ops[op];
            let class = || Some(registry.get(&data.name)?.freedom(&func.op_ref(op)).class);
            let source = data.operands.is_empty() && class() == Some(FreedomClass::Source);
            let folds = !data.operands.is_empty() && data.operands.iter().all(|&v| known[v]);
            if live[op] {
                self.add_op(func, op, registry, source, folds);
            }
        }
    }

    fn add_op(&mut self, func: &Func, op: Op, registry: &Registry, source: bool, constant: bool) {
        let data = &func.ops[op];
        if source {
            self.add_source(func, op);
            return;
        }
        self.ops += 1;
        match &*data.name {
            "hbir.reshape" => self.reshape += 1,
            "hbir.transpose" => self.transpose += 1,
            "hbir.view" => self.view += 1,
            "hbir.layout_convert" => self.layout_convert += 1,
            _ => {}
        }
        let traffic = traffic(func, op, registry);
        let (read, write) = (
            bytes(func, data.operands.first()),
            bytes(func, data.results.first()),
        );
        match traffic {
            Traffic::None => {}
            Traffic::Movement if constant => {
                self.constant_movement_ops += 1;
                self.constant_movement_bytes += read.saturating_add(write);
            }
            Traffic::Expand | Traffic::Copy(..) if constant => {}
            Traffic::Movement => {
                self.movement_ops += 1;
                self.movement_bytes = self
                    .movement_bytes
                    .saturating_add(read)
                    .saturating_add(write);
            }
            Traffic::Expand => {
                self.expand_ops += 1;
                self.expand_bytes = self.expand_bytes.saturating_add(read).saturating_add(write);
            }
            Traffic::Copy(read, write) => {
                self.copy_ops += 1;
                self.copy_bytes = self.copy_bytes.saturating_add(read).saturating_add(write);
            }
        }
    }

    /// A constant that a pass laid out otherwise than its file has it is written once more.
    fn add_source(&mut self, func: &Func, op: Op) {
        for &result in &func.ops[op].results {
            let Some(ty) = func.ty(result).as_tensor() else {
                continue;
            };
            if let Some(Ok(layout)) = ty.layout()
                && !layout.is_row_major()
            {
                self.constant_movement_ops += 1;
                self.constant_movement_bytes += layout.bytes().saturating_mul(2);
            }
        }
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
