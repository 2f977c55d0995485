//! `hbir.einsum`: Einstein summation by `equation` (ONNX `Einsum`, numpy `einsum`). For example, `bij,bjk->bik` is a
//! batch of matrix products.
//!
//! Every letter is an index; a letter that the result lacks is summed over. `...` stands for leading dimensions that
//! broadcast. Without `->` the result has the `...`, then the letters that occur once, in alphabetical order. The
//! extents of one letter are equal, or 1. With one operand that is only permuted, the operation is a rearrangement;
//! with two operands it is a contraction. `canonicalize` splits an operation with more operands into several.

use crate::contract::{Pairing, contract};
use crate::prelude::*;
use crate::shape::{broadcast_dim, moves};
use optc_ir::op::not_a_rearrangement;
use std::sync::Arc;

attributes! {
    /// A sum over indices named by letters.
    pub struct Einsum {
        /// The indices of every operand and of the result: `bij,bjk->bik`.
        equation: Arc<str>,
        /// The element type of the result; that of the operands when absent.
        to: Option<DType>,
    }
}

impl Einsum {
    /// The equation with the indices of every dimension.
    ///
    /// # Errors
    /// C1: the equation consists of letters, commas, `...` and at most one `->`. C2: one term for each operand, with
    /// one index for each dimension. C3: each index of the result occurs once there, and in an operand. C4: the extents
    /// of an index agree.
    pub fn equation(&self, op: &OpRef<'_>) -> Result<Equation, OpError> {
        Equation::parse(&self.equation, op)
    }
}

impl Operation for Einsum {
    const NAME: &'static str = "hbir.einsum";
    const SUMMARY: &'static str = "a sum over indices named by letters";
    const FAMILY: &'static str = "matmul";
    const OPERANDS: (usize, usize) = (1, usize::MAX);
    const CODES: &'static [Code] = CODES;

    /// C1 to C4: see [`Einsum::equation`]. C5: one element type.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let dtype = common_dtype(op, EINSUM_C5, 0..op.operands.len())?;
        let equation = self.equation(op)?;
        let dims = equation
            .result
            .iter()
            .map(|&i| equation.extent(i))
            .collect();
        one(dims, self.to.unwrap_or(dtype))
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let equation = self.equation(call.op)?;
        if let Some((p, order)) = pairing(call.op, &equation) {
            let shape = call.shape();
            let at = |index: &Index| equation.result.iter().position(|r| r == index);
            let places: Vec<usize> = order.iter().filter_map(at).collect();
            let straight = places.iter().map(|&r| shape[r]).collect();
            let out = contract(call.input(0), call.input(1), &p, call.dtype(), straight);
            let back = |r: usize| places.iter().position(|&p| p == r).unwrap_or(0);
            return Ok(vec![
                out.transposed(&(0..shape.len()).map(back).collect::<Vec<_>>()),
            ]);
        }
        sum_all(call, &equation)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let equation = self.equation(op)?;
        let repeated = equation.operands.iter().any(|o| repeats(o));
        let class = match equation.operands.len() {
            _ if repeated => return Ok(IterationDomain::whole(op)),
            1 if equation.permutation().is_some() => FreedomClass::Rearrange,
            1 => FreedomClass::Ordered,
            2 if contracts(&equation) => FreedomClass::Contract,
            _ => return Ok(IterationDomain::whole(op)),
        };
        let mut domain = IterationDomain::new(op, class);
        // A pure permutation is not tiled.
        for (index, extent) in &equation.extents {
            domain.add_for(
                extent,
                match (class, equation.result.contains(index)) {
                    (FreedomClass::Rearrange, _) | (FreedomClass::Ordered, false) => {
                        LoopKind::Whole
                    }
                    (_, true) => LoopKind::Parallel,
                    (_, false) => LoopKind::Reduce(Combine::Add),
                },
            );
        }
        for (i, indices) in equation.operands.iter().enumerate() {
            let dims = &op.operand(i)?.dims;
            domain.operands[i] = operand_map(&equation, indices, dims);
        }
        domain.results[0] = IndexExpr::each(&(0..equation.result.len()).collect::<Vec<_>>());
        Ok(domain)
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        let permutation = self.equation(op).ok().and_then(|e| e.permutation());
        match (permutation, op.operand(0)) {
            (Some(perm), Ok(x)) if moves(&x.dims, &perm) => Traffic::Movement,
            _ => Traffic::None,
        }
    }

    /// The permutation of the only operand.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        let x = op.operand(0)?;
        let perm = self.equation(op)?.permutation();
        Ok(ViewDims {
            shape: x.dims.clone(),
            perm: perm.ok_or_else(|| not_a_rearrangement(op))?,
        })
    }
}

/// An index of an equation: a letter, or a dimension that `...` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Index {
    /// A dimension of `...`; the last one is 0.
    Ellipsis(usize),
    /// A letter.
    Letter(u8),
}

/// An equation with the indices of every dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equation {
    /// The indices of each operand, one for each dimension.
    pub operands: Vec<Vec<Index>>,
    /// The indices of the result, one for each dimension.
    pub result: Vec<Index>,
    /// Each index once, with its extent; those of the result come first.
    pub extents: Vec<(Index, Dim)>,
}

impl Equation {
    /// The equation of this text for the operands of an einsum.
    fn parse(text: &str, op: &OpRef<'_>) -> Result<Equation, OpError> {
        let text: String = text.split_whitespace().collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != op.operands.len() {
            let message = format!(
                "hbir.einsum of {} operands has {} terms in \"{text}\"",
                op.operands.len(),
                terms.len()
            );
            return Err(OpError::new(EINSUM_C2, message));
        }
        let mut operands = Vec::with_capacity(terms.len());
        for (i, term) in terms.iter().enumerate() {
            operands.push(term_indices(term, &op.operand(i)?.dims)?);
        }
        let result = match right {
            Some(term) => result_indices(term, &operands)?,
            None => implicit_result(&operands),
        };
        let extents = extents(op, &operands, &result)?;
        Ok(Equation {
            operands,
            result,
            extents,
        })
    }

    /// The extent of an index. An operand may still have the extent 1 there, and broadcast.
    #[must_use]
    pub fn extent(&self, index: Index) -> Dim {
        let found = self.extents.iter().find(|e| e.0 == index);
        found.map_or(Dim::Unknown, |e| e.1.clone())
    }

    /// The permutation, if the equation only permutes one operand.
    #[must_use]
    pub fn permutation(&self) -> Option<Vec<usize>> {
        let [operand] = self.operands.as_slice() else {
            return None;
        };
        if operand.len() != self.result.len() || repeats(operand) {
            return None;
        }
        self.result
            .iter()
            .map(|index| operand.iter().position(|o| o == index))
            .collect()
    }
}

fn repeats(indices: &[Index]) -> bool {
    indices
        .iter()
        .enumerate()
        .any(|(i, index)| indices[..i].contains(index))
}

/// The letters of a term before `...`, whether it has a `...`, and the letters after it.
fn parse_term(term: &str) -> Result<(Vec<Index>, bool, Vec<Index>), OpError> {
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let letters = |text: &str| -> Option<Vec<Index>> {
        text.bytes()
            .map(|b| b.is_ascii_alphabetic().then_some(Index::Letter(b)))
            .collect()
    };
    let parsed = letters(before).zip(letters(after.unwrap_or("")));
    let (before, rest) = parsed.ok_or_else(|| {
        let message =
            format!("hbir.einsum has a term \"{term}\", wanted letters and at most one ...");
        OpError::new(EINSUM_C1, message)
    })?;
    Ok((before, after.is_some(), rest))
}

fn term_indices(term: &str, dims: &[Dim]) -> Result<Vec<Index>, OpError> {
    let (mut out, ellipsis, rest) = parse_term(term)?;
    let named = out.len() + rest.len();
    let hidden = dims
        .len()
        .checked_sub(named)
        .filter(|&n| ellipsis || n == 0);
    let hidden = hidden.ok_or_else(|| {
        let message = format!(
            "hbir.einsum has a term \"{term}\" for an operand of {}, wanted one index a dimension",
            show(dims)
        );
        OpError::new(EINSUM_C2, message)
    })?;
    out.extend((0..hidden).rev().map(Index::Ellipsis));
    out.extend(rest);
    Ok(out)
}

fn ellipsis_of(operands: &[Vec<Index>]) -> Vec<Index> {
    let is_hidden = |i: &&Index| matches!(i, Index::Ellipsis(_));
    let longest = operands
        .iter()
        .map(|o| o.iter().filter(is_hidden).count())
        .max()
        .unwrap_or(0);
    (0..longest).rev().map(Index::Ellipsis).collect()
}

fn result_indices(term: &str, operands: &[Vec<Index>]) -> Result<Vec<Index>, OpError> {
    let (mut out, ellipsis, rest) = parse_term(term)?;
    if ellipsis {
        out.extend(ellipsis_of(operands));
    }
    out.extend(rest);
    let unknown = out
        .iter()
        .any(|index| !operands.iter().any(|o| o.contains(index)));
    if unknown || repeats(&out) {
        let message = format!(
            "hbir.einsum has a result \"{term}\", wanted indices of the operands, each once"
        );
        return Err(OpError::new(EINSUM_C3, message));
    }
    Ok(out)
}

fn implicit_result(operands: &[Vec<Index>]) -> Vec<Index> {
    let mut out = ellipsis_of(operands);
    let count = |b: u8| {
        operands
            .iter()
            .flatten()
            .filter(|i| **i == Index::Letter(b))
            .count()
    };
    let letters = (b'A'..=b'Z').chain(b'a'..=b'z').filter(|&b| count(b) == 1);
    out.extend(letters.map(Index::Letter));
    out
}

fn extents(
    op: &OpRef<'_>,
    operands: &[Vec<Index>],
    result: &[Index],
) -> Result<Vec<(Index, Dim)>, OpError> {
    let mut out: Vec<(Index, Dim)> = result.iter().map(|&i| (i, Dim::Fixed(1))).collect();
    for (i, indices) in operands.iter().enumerate() {
        for (&index, dim) in indices.iter().zip(&op.operand(i)?.dims) {
            let Some(slot) = out.iter_mut().find(|e| e.0 == index) else {
                out.push((index, dim.clone()));
                continue;
            };
            slot.1 = broadcast_dim(&slot.1, dim).ok_or_else(|| {
                let name = match index {
                    Index::Letter(b) => char::from(b).to_string(),
                    Index::Ellipsis(_) => "...".into(),
                };
                let message = format!(
                    "hbir.einsum has sizes {} and {dim} for the index {name}, wanted equal sizes",
                    slot.1
                );
                OpError::new(EINSUM_C4, message)
            })?;
        }
    }
    Ok(out)
}

/// The equation as a pairing of dimensions, and the order of indices in which the contraction gives its result. `None`
/// if the equation does not have two operands, if an operand broadcasts or repeats an index, or if an index of only one
/// operand is summed over.
fn pairing(op: &OpRef<'_>, equation: &Equation) -> Option<(Pairing, Vec<Index>)> {
    let [a, b] = equation.operands.as_slice() else {
        return None;
    };
    let whole = |(i, indices): (usize, &Vec<Index>)| {
        let dims = &op.operand(i).ok()?.dims;
        let fits = indices
            .iter()
            .zip(dims)
            .all(|(&index, dim)| equation.extent(index) == *dim);
        (fits && !repeats(indices)).then_some(())
    };
    equation
        .operands
        .iter()
        .enumerate()
        .map(whole)
        .collect::<Option<Vec<()>>>()?;
    let mut p = Pairing::default();
    let (mut batch, mut lhs, mut order) = (Vec::new(), Vec::new(), Vec::new());
    for (i, index) in a.iter().enumerate() {
        match (
            b.iter().position(|o| o == index),
            equation.result.contains(index),
        ) {
            (Some(j), true) => {
                p.lhs_batch.push(i);
                p.rhs_batch.push(j);
                batch.push(*index);
            }
            (Some(j), false) => {
                p.lhs_contract.push(i);
                p.rhs_contract.push(j);
            }
            (None, true) => lhs.push(*index),
            (None, false) => return None,
        }
    }
    order.extend(batch);
    order.extend(lhs);
    for index in b.iter().filter(|index| !a.contains(index)) {
        if !equation.result.contains(index) {
            return None;
        }
        order.push(*index);
    }
    Some((p, order))
}

/// The sum over all combinations of all indices.
fn sum_all(call: &Call<'_>, equation: &Equation) -> Result<Vec<Tensor>, EvalError> {
    let extent = |(_, dim): &(Index, Dim)| dim.fixed().and_then(|n| usize::try_from(n).ok());
    let shape: Option<Vec<usize>> = equation.extents.iter().map(extent).collect();
    let shape = shape.ok_or_else(|| EvalError::new("an extent is unknown"))?;
    if shape
        .iter()
        .try_fold(1usize, |a, &n| a.checked_mul(n))
        .is_none()
    {
        return Err(EvalError::new("the sum has too many terms"));
    }
    let result: usize = shape[..equation.result.len()].iter().product();
    let terms: usize = shape[equation.result.len()..].iter().product();
    let mut walks: Vec<Offsets> = call
        .inputs
        .iter()
        .zip(&equation.operands)
        .map(|(tensor, indices)| operand_walk(tensor, indices, equation, &shape))
        .collect();
    let is_float = call.input(0).dtype.is_float();
    let mut places = || {
        walks
            .iter_mut()
            .map(|w| w.next().unwrap_or(0))
            .collect::<Vec<_>>()
    };
    let pick = |places: Vec<usize>| places.into_iter().zip(call.inputs.iter());
    Ok(if is_float {
        let mut product = || pick(places()).map(|(p, t)| t.f64_at(p)).product::<f64>();
        call.floats(
            (0..result)
                .map(|_| (0..terms).map(|_| product()).sum::<f64>())
                .collect::<Vec<_>>(),
        )
    } else {
        let times = |a: i128, (p, t): (usize, &&Tensor)| a.wrapping_mul(t.i128_at(p));
        let mut product = || pick(places()).fold(1i128, times);
        let sums = (0..result).map(|_| (0..terms).fold(0i128, |a, _| a.wrapping_add(product())));
        call.integers(sums.collect::<Vec<_>>())
    })
}

/// The offsets into one operand for all combinations of the indices. A repeated index steps along the diagonal; a
/// dimension of extent 1 has step 0.
fn operand_walk(
    tensor: &Tensor,
    indices: &[Index],
    equation: &Equation,
    shape: &[usize],
) -> Offsets {
    let mut steps = vec![0isize; shape.len()];
    for ((index, &stride), &n) in indices.iter().zip(&tensor.strides()).zip(&tensor.shape) {
        if let Some(at) = equation
            .extents
            .iter()
            .position(|e| e.0 == *index)
            .filter(|_| n != 1)
        {
            steps[at] += stride.cast_signed();
        }
    }
    Offsets::new(shape, steps, 0)
}

/// Returns whether every index that is summed over belongs to both operands.
fn contracts(equation: &Equation) -> bool {
    let in_both = |index: &Index| equation.operands.iter().all(|o| o.contains(index));
    equation
        .extents
        .iter()
        .all(|(i, _)| equation.result.contains(i) || in_both(i))
}

/// The indexing map of an operand: index `i` of the equation is loop `i`.
fn operand_map(equation: &Equation, indices: &[Index], dims: &[Dim]) -> Vec<IndexExpr> {
    let index = |(index, dim): (&Index, &Dim)| {
        let at = equation.extents.iter().position(|e| e.0 == *index);
        match at {
            Some(at) if !dim.is_one() || equation.extents[at].1.is_one() => IndexExpr::of(at),
            _ => IndexExpr::zero(),
        }
    };
    indices.iter().zip(dims).map(index).collect()
}

codes! {
    const CODES;

    EINSUM_C1 = program(
        "the equation of `hbir.einsum` has a character that is no letter, comma, `->`, `...` or space",
        r#"%0 = "hbir.einsum"(%x) <{equation = "i1->i"}> : (tensor<2x3xf32>) -> tensor<2xf32>"#,
        "name dimensions by single letters",
    );
    EINSUM_C2 = program(
        "the equation of `hbir.einsum` names another number of operands or of dimensions than there are",
        r#"%0 = "hbir.einsum"(%x) <{equation = "ijk->i"}> : (tensor<2x3xf32>) -> tensor<2xf32>"#,
        "write one group of letters an operand, one letter a dimension",
    );
    EINSUM_C3 = program(
        "the right side of the equation names a letter twice, or one that no operand has",
        r#"%0 = "hbir.einsum"(%x) <{equation = "ij->k"}> : (tensor<2x3xf32>) -> tensor<2xf32>"#,
        "the result may only have letters of the operands, each once",
    );
    EINSUM_C4 = program(
        "a letter of the equation stands for two different sizes",
        r#"%0 = "hbir.einsum"(%x) <{equation = "ii->i"}> : (tensor<2x3xf32>) -> tensor<2xf32>"#,
        "give dimensions of different sizes different letters",
    );
    EINSUM_C5 = program(
        "the operands of `hbir.einsum` have different element types",
        r#"%0 = "hbir.einsum"(%x, %y) <{equation = "i,i->"}> : (tensor<2xf32>, tensor<2xsi8>) -> tensor<f32>"#,
        "cast the operands to one element type",
    );
}
