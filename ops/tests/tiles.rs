//! The loops that operations declare, against their reference semantics. Elements outside of the part of an operand
//! that a tile reads do not change the tile; every element of the part does.

use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::iteration_domain_of;
use optc_ir::{Bindings, DType, EvalContext, Func, OpRef, Registry, Tensor, text};
use optc_tile::Tiling;
use optc_tile::{Expr, Region, Span, Tile};

/// Operations whose result depends on every element that is read.
const EXACT: &[&str] = &[
    r#"%0 = "hbir.relu"(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.add"(%a, %b) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.add"(%a, %b) : (tensor<4x1xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.transpose"(%a) <{perm = [1, 0, 2]}> : (tensor<4x6x2xf32>) -> tensor<6x4x2xf32>"#,
    r#"%0 = "hbir.reshape"(%a) <{shape = [4, 6]}> : (tensor<24xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.reshape"(%a) <{shape = [24]}> : (tensor<4x6xf32>) -> tensor<24xf32>"#,
    r#"%0 = "hbir.reshape"(%a) <{shape = [3, 8]}> : (tensor<6x4xf32>) -> tensor<3x8xf32>"#,
    r#"%0 = "hbir.reshape"(%a) <{shape = [2, 3, 1, 4, 2]}> : (tensor<6x8xf32>) -> tensor<2x3x1x4x2xf32>"#,
    r#"%0 = "hbir.reshape"(%a) <{shape = [2, 12, 2]}> : (tensor<4x3x4xf32>) -> tensor<2x12x2xf32>"#,
    r#"%0 = "hbir.view"(%a) <{shape = [2, 2, 3, 4], perm = [0, 2, 1, 3]}> : (tensor<4x12xf32>) -> tensor<6x8xf32>"#,
    r#"%0 = "hbir.squeeze"(%a) : (tensor<4x1x6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.matmul"(%a, %b) : (tensor<2x4x3xf32>, tensor<3x6xf32>) -> tensor<2x4x6xf32>"#,
    r#"%0 = "hbir.matmul"(%a, %b) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4xf32>"#,
    r#"%0 = "hbir.linear"(%a, %b, %c) : (tensor<4x3xf32>, tensor<6x3xf32>, tensor<6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.dot_general"(%a, %b) <{lhs_batch = [1], rhs_batch = [0], lhs_contract = [2], rhs_contract = [2]}> : (tensor<4x2x3xf32>, tensor<2x6x3xf32>) -> tensor<2x4x6xf32>"#,
    r#"%0 = "hbir.reduce"(%a) <{axes = [1], keepdims = true, kind = "sum"}> : (tensor<4x3x6xf32>) -> tensor<4x1x6xf32>"#,
    r#"%0 = "hbir.reduce"(%a) <{axes = [0], kind = "sum"}> : (tensor<4x3x6xf32>) -> tensor<3x6xf32>"#,
    r#"%0 = "hbir.slice"(%a) <{starts = [1, 0], limits = [5, 6], strides = [1, 2]}> : (tensor<5x6xf32>) -> tensor<4x3xf32>"#,
    r#"%0 = "hbir.slice"(%a) <{starts = [4], limits = [-1], strides = [-1]}> : (tensor<5xf32>) -> tensor<5xf32>"#,
    r#"%0 = "hbir.concat"(%a, %b) <{axis = 0}> : (tensor<3x2xf32>, tensor<5x2xf32>) -> tensor<8x2xf32>"#,
    r#"%0 = "hbir.pad"(%a) <{high = [2, 0], low = [1, 0]}> : (tensor<5x2xf32>) -> tensor<8x2xf32>"#,
    r#"%0 = "hbir.conv"(%a, %b, %c) <{group = 2, pads = [1, 0, 1, 0], strides = [2, 1]}> : (tensor<1x4x8x3xf32>, tensor<6x2x3x1xf32>, tensor<6xf32>) -> tensor<1x6x4x3xf32>"#,
    r#"%0 = "hbir.conv"(%a, %b) <{dilations = [2], pads = [2, 2]}> : (tensor<2x3x8xf32>, tensor<4x3x3xf32>) -> tensor<2x4x8xf32>"#,
    r#"%0 = "hbir.avg_pool"(%a) <{kernel = [3], pads = [1, 1], strides = [2]}> : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>"#,
];

/// Operations of which a tile reads at most the declared part.
const WITHIN: &[&str] = &[
    r#"%0 = "hbir.reshape"(%a) <{shape = [3, 4]}> : (tensor<4x3xf32>) -> tensor<3x4xf32>"#,
    r#"%0 = "hbir.reshape"(%a) <{shape = [4, 6, 5]}> : (tensor<6x4x5xf32>) -> tensor<4x6x5xf32>"#,
    r#"%0 = "hbir.view"(%a) <{shape = [2, 4, 6], perm = [0, 2, 1]}> : (tensor<2x6x4xf32>) -> tensor<2x8x3xf32>"#,
    r#"%0 = "hbir.softmax"(%a) <{axis = 1}> : (tensor<4x6x2xf32>) -> tensor<4x6x2xf32>"#,
    r#"%0 = "hbir.layer_norm"(%a, %b, %c) : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.batch_norm"(%a, %b, %c, %d, %e) : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>"#,
    r#"%0 = "hbir.group_norm"(%a, %b, %c) <{num_groups = 2}> : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>"#,
    r#"%0 = "hbir.max_pool"(%a) <{kernel = [2, 2], strides = [2, 1]}> : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x3xf32>"#,
    r#"%0 = "hbir.cumsum"(%a) <{axis = 0}> : (tensor<4x6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.reduce"(%a) <{axes = [1], kind = "max"}> : (tensor<4x3x6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.reduce"(%a) <{axes = [1], kind = "mean"}> : (tensor<4x3x6xf32>) -> tensor<4x6xf32>"#,
    r#"%0 = "hbir.gather"(%a, %i) <{axis = 1}> : (tensor<4x2x6xf32>, tensor<3xsi64>) -> tensor<4x3x6xf32>"#,
    r#"%0 = "hbir.pad"(%a) <{high = [1, 0], low = [2, 0], mode = "reflect"}> : (tensor<5x4xf32>) -> tensor<8x4xf32>"#,
    r#"%0 = "hbir.conv"(%a, %b) <{group = 2, transposed, strides = [2]}> : (tensor<2x4x3xf32>, tensor<4x3x2xf32>) -> tensor<2x6x6xf32>"#,
    r#"%0 = "hbir.trilu"(%a) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>"#,
    r#"%0 = "hbir.tile"(%a) <{repeats = [2, 1]}> : (tensor<3x4xf32>) -> tensor<6x4xf32>"#,
];

fn fill(shape: &[usize], dtype: DType, seed: usize) -> Tensor {
    let n: usize = shape.iter().product();
    if dtype == DType::F32 {
        let value = |i: usize| ((i * 37 + seed * 11) % 101) as f64 / 16.0 + 0.5;
        Tensor::from_f64(dtype, shape.to_vec(), (0..n).map(value))
    } else {
        Tensor::from_i64(dtype, shape.to_vec(), (0..n).map(|i| (i % 2) as i64))
    }
}

/// The tensor with the elements changed for which `change` is true.
fn changed(tensor: &Tensor, change: impl Fn(usize) -> bool) -> Tensor {
    if tensor.dtype == DType::F32 {
        let value = |i: usize| tensor.f64_at(i) + if change(i) { 1000.0 } else { 0.0 };
        let values: Vec<f64> = (0..tensor.len()).map(value).collect();
        return Tensor::from_f64(tensor.dtype, tensor.shape.clone(), values);
    }
    let value = |i: usize| tensor.i64_at(i) ^ i64::from(change(i));
    let values: Vec<i64> = (0..tensor.len()).map(value).collect();
    Tensor::from_i64(tensor.dtype, tensor.shape.clone(), values)
}

/// Returns whether element `i` of a shape is in the tile of a program.
fn inside(tile: &Tile, shape: &[usize], program: &[i64], i: usize) -> bool {
    let mut rest = i;
    tile.0.iter().zip(shape).rev().all(|(span, &n)| {
        let at = (rest % n) as u64;
        rest /= n;
        span.clipped(program, n as u64).contains(&at)
    })
}

/// One operation with its operands and results.
struct Case {
    func: Func,
    inputs: Vec<Tensor>,
    whole: Tensor,
    domain: IterationDomain,
}

impl Case {
    fn new(text: &'static str) -> Case {
        let module = text::parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let registry = optc_ops::registry();
        // The layouts of a view do not matter here; other tests check that it is legal.
        if let Err(faults) = optc_ir::verify::verify(&module, &registry) {
            assert!(
                faults.iter().all(|f| f.code == "view-illegal"),
                "{text}: {faults:?}"
            );
        }
        let func = module.funcs[0].clone();
        let op = func.op_ref(func.body[0]);
        let tensor = |(i, t): (usize, &&optc_ir::Type)| {
            let ty = t.as_tensor().unwrap();
            let shape: Vec<usize> = ty.shape().unwrap().iter().map(|&n| n as usize).collect();
            fill(&shape, ty.dtype, i)
        };
        let inputs: Vec<Tensor> = op.operands.iter().enumerate().map(tensor).collect();
        let whole = eval(&registry, &op, &inputs);
        let domain = iteration_domain_of(registry.get(op.name), &op);
        Case {
            func: func.clone(),
            inputs,
            whole,
            domain,
        }
    }

    fn eval(&self, inputs: &[Tensor]) -> Tensor {
        let op = self.func.op_ref(self.func.body[0]);
        eval(&optc_ops::registry(), &op, inputs)
    }

    /// Cuts dimension `dim` of the result into parts of `extent`; `None` if it may not be cut.
    fn regions(&self, dim: usize, extent: u64) -> Option<(Tile, Vec<Region>, u64, bool)> {
        let shape: Vec<u64> = self.whole.shape.iter().map(|&n| n as u64).collect();
        let steps = shape[dim].div_ceil(extent);
        let grid = [steps];
        let mut tile = Tile::whole(&shape);
        tile.0[dim] = Span::new(Expr::axis(0).times(extent as i64), extent);
        let found = self
            .domain
            .steps(std::slice::from_ref(&tile), &[], &[&shape], &grid);
        let loops = found.ok()?;
        let regions = self.inputs.iter().enumerate().map(|(i, t)| {
            let shape: Vec<u64> = t.shape.iter().map(|&n| n as u64).collect();
            self.domain.operand(i, &loops, &shape, &grid)
        });
        Some((tile, regions.collect(), steps, loops.exact))
    }
}

fn eval(registry: &Registry, op: &OpRef<'_>, inputs: &[Tensor]) -> Tensor {
    let bindings = Bindings::default();
    let cx = EvalContext {
        bindings: &bindings,
    };
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let decl = registry.get(op.name).unwrap();
    decl.eval(op, &inputs, &cx).unwrap().remove(0)
}

fn same_in(tile: &Tile, program: &[i64], a: &Tensor, b: &Tensor) -> bool {
    (0..a.len())
        .filter(|&i| inside(tile, &a.shape, program, i))
        .all(|i| a.f64_at(i) == b.f64_at(i))
}

#[test]
fn a_tile_reads_no_more_than_declared() {
    for &text in EXACT.iter().chain(WITHIN) {
        let case = Case::new(text);
        let mut cuts = 0;
        for dim in 0..case.whole.shape.len() {
            for extent in 1..case.whole.shape[dim] as u64 {
                let Some((tile, regions, steps, _)) = case.regions(dim, extent) else {
                    continue;
                };
                cuts += 1;
                for g in 0..steps as i64 {
                    let outside = |(t, r): (&Tensor, &Region)| {
                        changed(t, |i| !inside(&r.tile, &t.shape, &[g], i))
                    };
                    let inputs: Vec<Tensor> =
                        case.inputs.iter().zip(&regions).map(outside).collect();
                    let found = case.eval(&inputs);
                    let same = same_in(&tile, &[g], &case.whole, &found);
                    assert!(
                        same,
                        "{text}\ntile {tile} of program {g} reads beyond {regions:?}"
                    );
                }
            }
        }
        assert!(0 < cuts, "{text} can be cut nowhere");
    }
}

#[test]
fn every_element_that_is_declared_needed_is() {
    for &text in EXACT {
        let case = Case::new(text);
        for dim in 0..case.whole.shape.len() {
            for extent in 1..case.whole.shape[dim] as u64 {
                let Some((tile, regions, steps, exact)) = case.regions(dim, extent) else {
                    panic!("{text}: dimension {dim} is not cut");
                };
                if !case.whole.shape[dim].is_multiple_of(extent as usize) {
                    continue;
                }
                for (n, region) in regions.iter().enumerate() {
                    let input = &case.inputs[n];
                    // The largest number over the programs: the first ones may be clipped.
                    let mut most = 0;
                    for g in 0..steps as i64 {
                        let needed = (0..input.len()).filter(|&i| {
                            let mut inputs = case.inputs.clone();
                            inputs[n] = changed(input, |j| i == j);
                            !same_in(&tile, &[g], &case.whole, &case.eval(&inputs))
                        });
                        most = most.max(needed.count() as u64);
                    }
                    let clipped = !exact || text.contains("pad") || text.contains("concat");
                    let wrong = if clipped {
                        region.needed < most
                    } else {
                        region.needed != most
                    };
                    assert!(
                        !wrong,
                        "{text}\ntile {tile}, operand {n}: {most}, not {region:?}"
                    );
                }
            }
        }
    }
}
