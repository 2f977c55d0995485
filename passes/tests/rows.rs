//! Rows as the search reads them, compared with the checker, which reads the target file by itself.

use optc_check::{Source, check_target, items};
use optc_ir::size::SizeTable;
use optc_ir::{Attr, Freedom, Func, Module, Op, Registry, Type, Value, text};
use optc_layout::{Layout, Mode};
use optc_passes::view_fold::Compiled;
use optc_target::Target;
use std::fmt::Write as _;
use std::sync::Arc;

/// An operation of each family and class, with its variants.
const OPERATIONS: &[&str] = &[
    r#""hbir.add"(%x, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"#,
    r#""hbir.exp"(%x) : (tensor<4x1x6xf32>) -> tensor<4x1x6xf32>"#,
    r#""hbir.broadcast"(%x) <{shape = [2, 4, 6]}> : (tensor<4x6xf32>) -> tensor<2x4x6xf32>"#,
    r#""hbir.broadcast"(%x) <{shape = [2, 4, 6]}> : (tensor<2x1x6xf32>) -> tensor<2x4x6xf32>"#,
    r#""hbir.softmax"(%x) <{axis = 1}> : (tensor<4x6x2xf32>) -> tensor<4x6x2xf32>"#,
    r#""hbir.layer_norm"(%x, %s, %b) <{axis = 1, epsilon = 1.0e-5}> : (tensor<4x6x2xf32>, tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<4x6x2xf32>"#,
    r#""hbir.reduce"(%x) <{axes = [1], kind = "sum"}> : (tensor<4x6x2xf32>) -> tensor<4x2xf32>"#,
    r#""hbir.reduce"(%x) <{axes = [0, 2], kind = "mean"}> : (tensor<4x6x2xf32>) -> tensor<6xf32>"#,
    r#""hbir.concat"(%x, %y) <{axis = 1}> : (tensor<4x2xf32>, tensor<4x6xf32>) -> tensor<4x8xf32>"#,
    r#""hbir.slice"(%x) <{limits = [4, 4], starts = [0, 0]}> : (tensor<4x8xf32>) -> tensor<4x4xf32>"#,
    r#""hbir.pad"(%x) <{high = [1, 1], low = [1, 0]}> : (tensor<4x5xf32>) -> tensor<6x6xf32>"#,
    r#""hbir.gather"(%x, %i) <{axis = 1}> : (tensor<4x6x2xf32>, tensor<3xsi64>) -> tensor<4x3x2xf32>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<4x6xf16>, tensor<6x8xf16>) -> tensor<4x8xf16>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<32x64xsi32>, tensor<64x32xsi32>) -> tensor<32x32xsi32>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<2x4x64xf32>, tensor<2x64x8xf32>) -> tensor<2x4x8xf32>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<2x1x64xf16>, tensor<2x64x64xf16>) -> tensor<2x1x64xf16>"#,
    r#""hbir.linear"(%x, %w) : (tensor<3x4x6xf32>, tensor<8x6xf32>) -> tensor<3x4x8xf32>"#,
    r#""hbir.einsum"(%x, %y) <{equation = "abkc,bkcn->abn"}> : (tensor<2x3x4x2xf32>, tensor<3x4x2x8xf32>) -> tensor<2x3x8xf32>"#,
    r#""hbir.einsum"(%x, %y) <{equation = "xskd,kdy->xsy"}> : (tensor<2x32x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x32x32xf32>"#,
    r#""hbir.conv"(%x, %w) <{group = 1}> : (tensor<2x4x6x6xf32>, tensor<8x4x1x1xf32>) -> tensor<2x8x6x6xf32>"#,
    r#""hbir.conv"(%x, %w) <{group = 2}> : (tensor<2x4x3x3xf32>, tensor<6x2x1x1xf32>) -> tensor<2x6x3x3xf32>"#,
    r#""hbir.conv"(%x, %w) <{group = 1}> : (tensor<2x4x6x6xf32>, tensor<8x4x3x3xf32>) -> tensor<2x8x4x4xf32>"#,
    r#""hbir.conv"(%x, %w) <{group = 4}> : (tensor<2x4x6x6xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4x4xf32>"#,
    r#""hbir.conv"(%x, %w) <{group = 1, strides = [2, 2]}> : (tensor<2x4x6x6xf32>, tensor<8x4x2x2xf32>) -> tensor<2x8x3x3xf32>"#,
    r#""hbir.max_pool"(%x) <{kernel = [2, 2]}> : (tensor<2x4x6x6xf32>) -> tensor<2x4x5x5xf32>"#,
    r#""hbir.top_k"(%x) <{axis = 0, k = 2}> : (tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xsi64>)"#,
    r#""user.opaque"(%x, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"#,
];

/// Targets that are not built in.
const FILES: &[&str] = &[
    include_str!("../../examples/npu16/npu16.toml"),
    include_str!("../../tests/cases/passes/elide-copies/leading_convolutions.toml"),
    include_str!("../../tests/cases/verify/whole_concats.toml"),
];

fn targets() -> Vec<Arc<Target>> {
    let mut all = Vec::new();
    for name in Target::names() {
        let base = Target::builtin(name).expect("built in");
        let generations = base.generations.clone();
        all.push(base.clone());
        let other = |g: &String| base.clone().with_generation(g).expect("declared");
        all.extend(generations.iter().map(other));
    }
    let read = |text: &&str| Target::parse(text).expect("a target");
    all.extend(FILES.iter().map(read));
    all.into_iter().map(Arc::new).collect()
}

/// Numbers that look random, the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % n.max(1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// A digit of an order: a label, the divisor at which it is cut, and whether it is the part above the cut.
#[derive(Clone, Copy)]
struct Cut {
    label: usize,
    at: u64,
    above: bool,
}

/// An order of all labels, some of them cut in two.
fn order(random: &mut Random, n_labels: usize) -> Vec<Cut> {
    let mut order = Vec::new();
    for label in 0..n_labels {
        let at = [1, 1, 1, 2, 4, 32][random.below(6)];
        let cut = |above| Cut { label, at, above };
        order.push(cut(true));
        if at != 1 {
            order.push(cut(false));
        }
    }
    random.shuffle(&mut order);
    order
}

/// The layout of a port that follows an order.
fn follow(order: &[Cut], labels: &[Option<usize>], shape: &[u64], bits: u32) -> Option<Layout> {
    let mut modes = Vec::new();
    let mode = |dim, div, count| Mode {
        dim,
        div,
        count,
        extent: count,
    };
    let unlabelled = (0..shape.len()).filter(|&d| labels.get(d).copied().flatten().is_none());
    modes.extend(unlabelled.map(|dim| mode(dim, 1, shape[dim])));
    for cut in order {
        let Some(dim) = labels.iter().position(|l| *l == Some(cut.label)) else {
            continue;
        };
        let n = shape[dim];
        let cuts = n.is_multiple_of(cut.at) && cut.at < n;
        match (cut.above, cuts) {
            (true, true) => modes.push(mode(dim, cut.at, n / cut.at)),
            (false, true) => modes.push(mode(dim, 1, cut.at)),
            (true, false) => modes.push(mode(dim, 1, n)),
            (false, false) => {}
        }
    }
    modes.retain(|m| 1 < m.extent);
    Layout::from_modes(shape, bits, &modes).ok()
}

/// A layout with its innermost digit padded.
fn padded(layout: &Layout, to: u64) -> Option<Layout> {
    let mut modes = layout.modes()?;
    let last = modes.last_mut()?;
    last.extent = last.count.next_multiple_of(to);
    Layout::from_modes(layout.shape(), layout.elem_bits(), &modes).ok()
}

/// A program of one operation.
struct Case {
    module: Module,
    op: Op,
    values: Vec<Value>,
    freedom: Freedom,
}

impl Case {
    /// With `open`, the program has a value of unknown size, so that nothing lies in tiles.
    fn new(operation: &str, open: bool, registry: &Registry) -> Case {
        let n = if operation.contains("-> (") { ":2" } else { "" };
        let mut source = format!("%0{n} = {operation}\n");
        if open {
            let _ = writeln!(
                source,
                r#"%1 = "hbir.exp"(%u) : (tensor<?xf32>) -> tensor<?xf32>"#
            );
        }
        let mut module = text::parse(&source).expect("well formed");
        let func = &mut module.funcs[0];
        func.results = func.ops[func.body[0]].results.clone();
        let func = &module.funcs[0];
        let op = func.body[0];
        let data = &func.ops[op];
        let values = data.operands.iter().chain(&data.results).copied().collect();
        let of = func.op_ref(op);
        let freedom = registry
            .get(&data.name)
            .map_or_else(|| Freedom::barrier(&of), |decl| decl.freedom(&of));
        Case {
            module,
            op,
            values,
            freedom,
        }
    }

    fn func(&self) -> &Func {
        &self.module.funcs[0]
    }

    fn shape(&self, port: usize) -> (Vec<u64>, u32) {
        let ty = self
            .func()
            .ty(self.values[port])
            .as_tensor()
            .expect("a tensor");
        (ty.shape().expect("known"), ty.dtype.bits())
    }

    fn labels(&self, port: usize) -> &[Option<usize>] {
        let mut all = self.freedom.operands.iter().chain(&self.freedom.results);
        all.nth(port).map_or(&[], Vec::as_slice)
    }

    /// Random layouts, one a port, many of which some row takes.
    fn form(&self, random: &mut Random, row: &mut Compiled) -> Option<Vec<Layout>> {
        let n_labels = self.freedom.labels.len();
        let together = order(random, n_labels);
        let kind = random.below(8);
        let mut form = Vec::new();
        for port in 0..self.values.len() {
            let (shape, bits) = self.shape(port);
            let own = order(random, n_labels);
            let apart = kind == 0 || (kind < 4 && random.below(4) == 0);
            let order = if apart { &own } else { &together };
            let layout = match random.below(8) {
                0 | 1 if kind == 4 => row.default_at(port),
                0 if kind == 5 => padded(&row.default_at(port), [4, 32, 128][random.below(3)])?,
                _ if kind == 6 => row.default_at(port),
                _ => follow(order, self.labels(port), &shape, bits)?,
            };
            form.push(layout);
        }
        if kind == 6 {
            let port = random.below(form.len());
            let (shape, bits) = self.shape(port);
            form[port] = follow(&together, self.labels(port), &shape, bits)?;
        }
        Some(form)
    }

    /// The verdict of the checker on layouts: the price, or why they are refused.
    fn verdict(
        &mut self,
        form: &[Layout],
        registry: &Registry,
        target: &Target,
    ) -> Result<u64, String> {
        self.module
            .attrs
            .set("hbir.target", Attr::str(&target.name));
        for (&value, layout) in self.values.iter().zip(form) {
            if let Type::Tensor(ty) = &mut self.module.funcs[0].values[value].ty {
                Arc::make_mut(ty).notation = layout.notation().clone();
            }
        }
        if let Some(diag) = check_target(&self.module, registry, target).first() {
            return Err(format!("{}; {}", diag.message, diag.notes.join("; ")));
        }
        let all = items(&self.module, registry, &SizeTable::default(), Some(target));
        let own = all.iter().filter(|item| item.of == Source::Op(self.op));
        Ok(own.map(|item| item.priced + item.slower).sum())
    }
}

#[test]
fn rows_take_what_the_checker_accepts_at_its_price() {
    let registry = optc_ops::registry();
    let mut differ = Vec::new();
    let (mut accepted, mut refused) = (0u64, 0u64);
    for target in targets() {
        for operation in OPERATIONS {
            let mut case = Case::new(operation, target.is_tiled(), &registry);
            let Some(mut row) = Compiled::of(case.func(), case.op, &registry, &target) else {
                panic!("{operation} has no ports");
            };
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            for _ in 0..200 {
                let Some(form) = case.form(&mut random, &mut row) else {
                    continue;
                };
                let found = row.takes(&form);
                let verdict = case.verdict(&form, &registry, &target);
                match verdict {
                    Ok(_) => accepted += 1,
                    Err(_) => refused += 1,
                }
                let ports = (0..form.len()).all(|port| row.takes_at(port, &form[port]));
                if found != verdict.clone().ok() || (found.is_some() && !ports) {
                    let form: Vec<String> = form
                        .iter()
                        .map(|layout| layout.notation().to_string())
                        .collect();
                    differ.push(format!(
                        "{} {operation}\n  {}\n  search {found:?} ({ports}), checker {verdict:?}",
                        target.name,
                        form.join(" | ")
                    ));
                    break;
                }
            }
        }
    }
    let shown: Vec<String> = differ.iter().take(60).cloned().collect();
    assert!(
        differ.is_empty(),
        "{} differ\n{}",
        differ.len(),
        shown.join("\n")
    );
    // Both answers are tried often.
    assert!(
        20_000 < accepted && 20_000 < refused,
        "{accepted} {refused}"
    );
}
