//! Contractions: a named operation if the matrices are in the order that it requires, else a `linalg.generic` whose
//! indexing maps address the digits in place.

use super::body::{Body, Scalar};
use super::digits::volume;
use super::mem::{Mem, Port};
use super::nest::Nest;
use super::ports::{freedom, ports};
use super::types::number_text;
use super::writer::{How, Init, Writer};
use crate::unwritten::{Form, Unwritten, first, known};
use optc_ir::op::Operation;
use optc_ir::{DType, OpData};
use optc_layout::Digit;
use optc_ops::{DotGeneral, Einsum, Linear, Matmul};

/// Writes the operation if it is a contraction.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let is_product = matches!(
        &*data.name,
        Matmul::NAME | Linear::NAME | DotGeneral::NAME | Einsum::NAME
    );
    if !is_product || data.operands.len() < 2 {
        return Err(Unwritten::NoForm);
    }
    let freedom = freedom(w, data)?;
    let dtype = w.tensor(data.results[0])?.dtype;
    if !dtype.computes() || dtype.is_bool() {
        return Err(Unwritten::NoForm);
    }
    first(How::ALL, |how| {
        let found = ports(w, data, &freedom, how)?;
        let (ins, out) = (&found.ins, &found.out);
        let mut all: Vec<&[Digit]> = vec![out];
        all.extend(ins.iter().map(|p| &*p.digits));
        let nest = known(Nest::of(&all))?;
        let nest = nest.within(&found.limits);
        let init = start(w, &nest, ins.get(2), out, dtype);
        let mem = contracted(w, &nest, &ins[..2], out, init);
        let mem = w.narrowed(&mem, dtype);
        found.settle(w, &mem);
        Ok(())
    })
}

/// The initial values of the sums: a bias, or 0.
pub(super) fn start(
    w: &mut Writer<'_>,
    nest: &Nest,
    bias: Option<&Port>,
    out: &[Digit],
    dtype: DType,
) -> Mem {
    let sums = Writer::sum_type(dtype);
    let digits = nest.refined(out);
    let Some(bias) = bias else {
        return w.filled(
            &number_text(0.0, sums),
            &super::digits::extents(&digits),
            sums,
        );
    };
    let ins = [Port {
        mem: bias.mem.clone(),
        digits: nest.refined(&bias.digits),
    }];
    let over = Nest::plain(&digits);
    w.generic(&over, &ins, (&digits, sums), Init::Empty, |_, _, xs, _| {
        xs[0].clone()
    })
}

/// Products of two operands, added to `init`.
pub(super) fn contracted(
    w: &mut Writer<'_>,
    nest: &Nest,
    ins: &[Port],
    out: &[Digit],
    init: Mem,
) -> Mem {
    let step = |b: &mut Body, xs: &[Scalar], acc: &Scalar| {
        let (x, y) = (b.cast(&xs[0], acc.ty), b.cast(&xs[1], acc.ty));
        let product = b.mul(&x, &y);
        b.add(acc, &product)
    };
    if nest.sums_padding(&nest.refined(out)) {
        let sums = (out, init.dtype);
        return w.generic(nest, ins, sums, Init::Tensor(init), |b, _, xs, acc| {
            step(b, xs, acc)
        });
    }
    let refined = |digits: &[Digit]| nest.places(&nest.refined(digits));
    let mut at = [
        refined(out),
        refined(&ins[0].digits),
        refined(&ins[1].digits),
    ];
    let mut extents: Vec<u64> = nest.loops.iter().map(|l| l.extent).collect();
    // Dimensions of memory with padding are not merged.
    if !ins.iter().any(|port| w.has_gaps(&port.mem)) {
        merge(&mut at, &mut extents);
    }
    let shape = |ids: &[usize]| -> Vec<u64> { ids.iter().map(|&i| extents[i]).collect() };
    let [y, a, b] = [shape(&at[0]), shape(&at[1]), shape(&at[2])];
    let into = w.reshape(&init, &y);
    let (a, b) = (w.reshape(&ins[0].mem, &a), w.reshape(&ins[1].mem, &b));
    if let Some((name, swapped)) = named(&at)
        && a.dtype == into.dtype
        && b.dtype == into.dtype
        && matches!(into.dtype, DType::F32 | DType::F64)
    {
        let [a, b] = if swapped { [b, a] } else { [a, b] };
        let text = format!(
            "linalg.{name} ins({}, {} : {}, {}) outs({} : {}) -> {}",
            a.name,
            b.name,
            w.sizes.ty(&a),
            w.sizes.ty(&b),
            into.name,
            w.sizes.ty(&into),
            w.sizes.ty(&into)
        );
        return w.put(&text, &into.shape, into.dtype);
    }
    // The loops of the result, then the reduction loops.
    let mut loops = at[0].clone();
    for id in at[1].iter().chain(&at[2]) {
        if !loops.contains(id) {
            loops.push(*id);
        }
    }
    let digit = |id: usize| Digit::new(id, 1, extents[id]);
    let digits = |ids: &[usize]| -> Vec<Digit> { ids.iter().map(|&i| digit(i)).collect() };
    let over = Nest::plain(&digits(&loops));
    let ports = [
        Port {
            mem: a,
            digits: digits(&at[1]),
        },
        Port {
            mem: b,
            digits: digits(&at[2]),
        },
    ];
    let sums = (&*digits(&at[0]), into.dtype);
    w.generic(&over, &ports, sums, Init::Tensor(into), |b, _, xs, acc| {
        step(b, xs, acc)
    })
}

/// Merges two loops that are adjacent at every port that has either of them.
fn merge(at: &mut [Vec<usize>; 3], extents: &mut [u64]) {
    let pair = |at: &[Vec<usize>; 3]| {
        let pairs = at.iter().flat_map(|ids| ids.windows(2));
        let follows = |a: usize, b: usize| {
            at.iter().all(|ids| {
                let (i, j) = (
                    ids.iter().position(|x| *x == a),
                    ids.iter().position(|x| *x == b),
                );
                match (i, j) {
                    (None, None) => true,
                    (Some(i), Some(j)) => i + 1 == j,
                    _ => false,
                }
            })
        };
        pairs
            .map(|p| (p[0], p[1]))
            .find(|&(a, b)| a != b && follows(a, b))
    };
    while let Some((a, b)) = pair(at) {
        extents[a] = volume(&[extents[a], extents[b]]);
        at.iter_mut().for_each(|ids| ids.retain(|x| *x != b));
    }
}

/// The named product for these loops of result, left and right operand, and whether the operands are swapped.
fn named(at: &[Vec<usize>; 3]) -> Option<(&'static str, bool)> {
    let [y, a, b] = at;
    let batch = usize::from(y.len() == 3);
    let (rows, columns) = match (y.len(), y.get(batch..)) {
        (2 | 3, Some(&[m, n])) => (m, n),
        _ => return None,
    };
    let lead = &y[..batch];
    let side = |ids: &[usize], own: usize| {
        let rest = ids.strip_prefix(lead)?;
        match *rest {
            [x, k] if x == own && !y.contains(&k) => Some((k, true)),
            [k, x] if x == own && !y.contains(&k) => Some((k, false)),
            _ => None,
        }
    };
    for swapped in [false, true] {
        let (left, right) = if swapped { (b, a) } else { (a, b) };
        let (Some((k, last)), Some((l, own))) = (side(left, rows), side(right, columns)) else {
            continue;
        };
        if k != l {
            continue;
        }
        let name = match (batch, last, !own) {
            (0, true, true) => "matmul",
            (0, true, false) => "matmul_transpose_b",
            (0, false, true) => "matmul_transpose_a",
            (1, true, true) => "batch_matmul",
            (1, true, false) => "batch_matmul_transpose_b",
            (1, false, true) => "batch_matmul_transpose_a",
            _ => continue,
        };
        return Some((name, swapped));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_that_follow_one_another_everywhere_are_one() {
        let mut at = [vec![0, 1, 2], vec![0, 1, 3], vec![3, 2]];
        let mut extents = [4, 5, 6, 7];
        merge(&mut at, &mut extents);
        assert_eq!(at, [vec![0, 2], vec![0, 3], vec![3, 2]]);
        assert_eq!(extents[0], 20);
    }

    #[test]
    fn products_are_named_by_their_loops() {
        let name =
            |y: &[usize], a: &[usize], b: &[usize]| named(&[y.to_vec(), a.to_vec(), b.to_vec()]);
        assert_eq!(name(&[0, 1], &[0, 2], &[2, 1]), Some(("matmul", false)));
        let turned = Some(("matmul_transpose_b", false));
        assert_eq!(name(&[0, 1], &[0, 2], &[1, 2]), turned);
        assert_eq!(name(&[0, 1], &[2, 1], &[0, 2]), Some(("matmul", true)));
        let batch = Some(("batch_matmul", false));
        assert_eq!(name(&[3, 0, 1], &[3, 0, 2], &[3, 2, 1]), batch);
        assert_eq!(name(&[0, 3, 1], &[3, 0, 2], &[3, 2, 1]), None);
    }
}
