//! Contractions: sums of products over the loops that both operands have and the result has not.
//!
//! The dimensions of operands and result are the loops that the operation declares. Of the loops that the result shares
//! with one operand the longest run is the rows, or the columns, of a matrix product with strides; the others, and batches,
//! are loops around it. A contraction of one term is a loop of products.

use crate::access::Access;
use crate::memory::In;
use crate::nest::{Loop, Steps, dimension, ordered, walk};
use crate::ops::elementwise::Fill;
use crate::ops::kernel::{Kernel, Slots, floats, floats_mut};
use gemm::Parallelism;
use optc_ir::{DType, FreedomClass, Func, Op, Operation, Registry};
use optc_ops::Linear;

/// The loops of a contraction: offsets are those of the result, the left and the right operand.
#[derive(Debug)]
pub(crate) struct Products {
    base: [i64; 3],
    /// Around the matrix product, none of them summed over.
    batch: Vec<Loop<3>>,
    /// Around the matrix product, summed over.
    sums: Vec<Loop<3>>,
    rows: (usize, [i64; 3]),
    columns: (usize, [i64; 3]),
    terms: (usize, [i64; 3]),
    /// The least and greatest offset of each.
    reach: [(i64, i64); 3],
}

/// The offsets of the result, the left and the right operand along one loop.
pub(crate) type Along = [Vec<i64>; 3];

impl Products {
    /// The products over loops with these offsets. A loop is summed over if the result stays where it is.
    pub(crate) fn of(base: [i64; 3], loops: &[Along]) -> Option<Products> {
        let (mut batch, mut rows, mut columns, mut terms) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut reach = base.map(|b| (b, b));
        for along in loops {
            let n = along[0].len();
            if along.iter().any(|t| t.len() != n) || n == 0 {
                return None;
            }
            for (reach, table) in reach.iter_mut().zip(along) {
                let (low, high) = (table.iter().min()?, table.iter().max()?);
                *reach = (reach.0 + low, reach.1 + high);
            }
            let moves = |k: usize| along[k].iter().any(|&offset| offset != 0);
            let list = match (moves(0), moves(1), moves(2)) {
                (true, true, false) => &mut rows,
                (true, false, true) => &mut columns,
                (false, _, _) => &mut terms,
                (true, _, _) => &mut batch,
            };
            list.extend(dimension([&along[0][..], &along[1][..], &along[2][..]]));
        }
        let rows = taken(rows, 0, &mut batch);
        let columns = taken(columns, 0, &mut batch);
        let mut sums = Vec::new();
        let terms = taken(terms, 1, &mut sums);
        let batch = ordered(batch, 0);
        Some(Products {
            base,
            batch,
            sums,
            rows,
            columns,
            terms,
            reach,
        })
    }

    /// Adds the products to the result, or, unless `adds`, sets it.
    pub(crate) fn run(
        &self,
        out: &mut [f32],
        left: &[f32],
        right: &[f32],
        adds: bool,
    ) -> Result<(), String> {
        let lengths = [out.len(), left.len(), right.len()];
        for ((low, high), n) in self.reach.into_iter().zip(lengths) {
            if low < 0 || n as i64 <= high {
                return Err("an element lies outside of its buffer".to_owned());
            }
        }
        walk(&self.batch, self.base, &mut |at| {
            let mut adds = adds;
            walk(&self.sums, at, &mut |at| {
                self.product(out, left, right, (at, adds));
                adds = true;
            });
        });
        Ok(())
    }

    /// One matrix product.
    fn product(
        &self,
        out: &mut [f32],
        left: &[f32],
        right: &[f32],
        ([o, a, b], adds): ([i64; 3], bool),
    ) {
        let ((m, row), (n, column), (k, term)) = (self.rows, self.columns, self.terms);
        if k == 1 && (m == 1 || n == 1) {
            let (count, stride) = if n == 1 { (m, row) } else { (n, column) };
            for i in 0..count as i64 {
                let product =
                    left[(a + i * stride[1]) as usize] * right[(b + i * stride[2]) as usize];
                let to = &mut out[(o + i * stride[0]) as usize];
                *to = if adds { *to + product } else { product };
            }
            return;
        }
        let size = |stride: i64| stride as isize;
        let (o, a, b) = (o as usize, a as usize, b as usize);
        // SAFETY: the offsets of all loops together stay inside of the three slices, which `run` has compared with
        // `reach`; the result is borrowed alone, and rows and columns have different offsets in it.
        #[expect(unsafe_code, reason = "the matrix product takes pointers and strides")]
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                out.as_mut_ptr().add(o),
                size(column[0]),
                size(row[0]),
                adds,
                left.as_ptr().add(a),
                size(term[1]),
                size(row[1]),
                right.as_ptr().add(b),
                size(column[2]),
                size(term[2]),
                1.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

/// The longest loop with strides; the others go around.
fn taken(loops: Vec<Loop<3>>, by: usize, around: &mut Vec<Loop<3>>) -> (usize, [i64; 3]) {
    let mut loops = ordered(loops, by);
    let longest = (0..loops.len())
        .filter(|&i| matches!(loops[i].steps, Steps::Strides(_)))
        .max_by_key(|&i| loops[i].extent);
    let found = longest.map(|i| loops.remove(i));
    around.extend(loops);
    match found {
        Some(Loop {
            extent,
            steps: Steps::Strides(strides),
        }) => (extent, strides),
        _ => (1, [0; 3]),
    }
}

/// A contraction, with a bias.
#[derive(Debug)]
pub(crate) struct Contract {
    products: Products,
    bias: Option<Fill>,
}

impl Contract {
    pub(crate) fn of<'a>(
        func: &Func,
        op: Op,
        registry: &Registry,
        slots: &Slots<'a>,
    ) -> Option<Contract> {
        let data = &func.ops[op];
        let all = data.operands.iter().chain(&data.results);
        let all: Vec<_> = all.map(|&v| slots(v)).collect::<Option<_>>()?;
        if all.iter().any(|s| s.dtype != DType::F32 || s.width != 32) {
            return None;
        }
        let freedom = registry.get(&data.name)?.freedom(&func.op_ref(op));
        let biased = data.operands.len() == 3 && &*data.name == Linear::NAME;
        if freedom.class != FreedomClass::Contract || !(biased || data.operands.len() == 2) {
            return None;
        }
        let [left, right] = [all[0], all[1]];
        let result = all[all.len() - 1];
        let ports = [
            (&*result.access, freedom.results.first()?),
            (&*left.access, &freedom.operands[0]),
            (&*right.access, &freedom.operands[1]),
        ];
        let mut base = [0; 3];
        let mut along: Vec<Along> = vec![Default::default(); freedom.labels.len()];
        for (k, (access, labels)) in ports.into_iter().enumerate() {
            let Access::Sum { base: own, tables } = access else {
                return None;
            };
            base[k] = *own;
            for (table, label) in tables.iter().zip(labels) {
                match label {
                    None if table.len() == 1 => {}
                    None => return None,
                    Some(label) => {
                        let known = &mut along.get_mut(*label)?[k];
                        if !known.is_empty() {
                            return None;
                        }
                        known.clone_from(table);
                    }
                }
            }
        }
        for along in &mut along {
            let n = along.iter().map(Vec::len).max().unwrap_or(0);
            for table in along.iter_mut().filter(|t| t.len() != n) {
                // A dimension of extent 1 runs with a longer one.
                if 1 < table.len() {
                    return None;
                }
                *table = vec![0; n];
            }
        }
        along.retain(|a| !a[0].is_empty());
        let products = Products::of(base, &along)?;
        let bias = match biased {
            true => {
                let bias = all[2].access.broadcast(&result.access.shape());
                Some(Fill::of(&result.access, &bias)?)
            }
            false => None,
        };
        Some(Contract { products, bias })
    }
}

impl Kernel for Contract {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn run(&self, _: usize, ins: &[In<'_>], out: &mut [u8]) -> Result<(), String> {
        let [In::Bytes(left), In::Bytes(right), rest @ ..] = ins else {
            return Err("an operand is written over".to_owned());
        };
        let out = floats_mut(out)?;
        if let (Some(bias), [In::Bytes(values)]) = (&self.bias, rest) {
            bias.run(floats(values)?, out)?;
        }
        self.products
            .run(out, floats(left)?, floats(right)?, self.bias.is_some())
    }
}
