//! Contractions: sums of products of two operands.
//!
//! Example: `(b, m, k)` by `(k, b, n)` to `(m, b, n)` is an `hbir.dot_general` with the batch `b`, and a transpose of
//! its result `(b, m, n)`.

use crate::func::FuncCx;
use crate::structured::{Combined, Structured, dims};
use optc_ir::{DType, Value};
use optc_mlir_syntax::Parsed;
use optc_ops::{Cast, DotGeneral, Reduce, ReduceKind};

/// Two operands whose elements are multiplied.
pub(crate) struct Product {
    /// The numbers of the operands.
    pub(crate) operands: [usize; 2],
}

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    /// A contraction; `None` if the operation is none.
    pub(crate) fn contraction(
        &mut self,
        found: &Structured<'a, 'm>,
        combined: &Combined<'a, 'm>,
    ) -> Parsed<Option<Value>> {
        let Some(product) = found.product(combined) else {
            return Ok(None);
        };
        let maps = [product.operands[0], product.operands[1], found.ins.len()]
            .map(|i| dims(&found.maps[i]));
        let [Some(mut left), Some(mut right), Some(out)] = maps else {
            return Ok(None);
        };
        let Some((mut pair, to)) = self.factors(found, &product)? else {
            return Ok(None);
        };
        // The right operand is the one with the innermost dimension of the result, as in a product of matrices.
        let innermost = out.iter().rfind(|d| left.contains(d) != right.contains(d));
        if innermost.is_some_and(|d| left.contains(d)) {
            std::mem::swap(&mut left, &mut right);
            pair.reverse();
        }
        Ok(self.contracted(found, (pair, to), [left, right, out]))
    }

    /// The factors of a product, in one element type.
    pub(crate) fn factors(
        &mut self,
        found: &Structured<'a, 'm>,
        product: &Product,
    ) -> Parsed<Option<([Value; 2], Option<DType>)>> {
        let [a, b] = product.operands.map(|i| found.ins[i]);
        let (Some(a), Some(b)) = (self.tensor(&a)?, self.tensor(&b)?) else {
            return Ok(None);
        };
        let out = found.op.result_types.first().map(|text| self.ty(text));
        let Some(crate::types::Ty::Tensor(_, to)) = out else {
            return Ok(None);
        };
        if self.dtype(a) == self.dtype(b) {
            let other = (self.dtype(a) != to).then_some(to);
            return Ok(Some(([a, b], other)));
        }
        let mut cast = |x: Value| match self.dtype(x) == to {
            true => Some(x),
            false => self.one(&Cast { to }, &[x]),
        };
        Ok(cast(a).zip(cast(b)).map(|(a, b)| ([a, b], None)))
    }

    fn contracted(
        &mut self,
        found: &Structured<'a, 'm>,
        ([a, b], to): ([Value; 2], Option<DType>),
        [left, right, out]: [Vec<usize>; 3],
    ) -> Option<Value> {
        if out.iter().any(|&d| found.reduced[d]) {
            return None;
        }
        let (a, left) = self.summed(a, left, &[&right, &out])?;
        let (b, right) = self.summed(b, right, &[&left, &out])?;
        let place = |list: &[usize], d: usize| list.iter().position(|&l| l == d);
        let (mut batch, mut contract) = (Vec::new(), Vec::new());
        for (i, &d) in left.iter().enumerate() {
            if let Some(j) = place(&right, d) {
                let pairs = if out.contains(&d) {
                    &mut batch
                } else {
                    &mut contract
                };
                pairs.push((i, j));
            }
        }
        if contract.is_empty() {
            return None;
        }
        let mut order: Vec<usize> = batch.iter().map(|&(i, _)| left[i]).collect();
        order.extend(left.iter().filter(|d| !right.contains(d)));
        order.extend(right.iter().filter(|d| !left.contains(d)));
        if order.len() != out.len() {
            return None;
        }
        let list = |pairs: &[(usize, usize)], of: fn(&(usize, usize)) -> usize| {
            optc_ops::ints(&pairs.iter().map(of).collect::<Vec<_>>())
        };
        let dot = DotGeneral {
            lhs_batch: list(&batch, |p| p.0),
            rhs_batch: list(&batch, |p| p.1),
            lhs_contract: list(&contract, |p| p.0),
            rhs_contract: list(&contract, |p| p.1),
            to,
        };
        let value = self.one(&dot, &[a, b])?;
        let perm: Option<Vec<usize>> = out.iter().map(|&d| place(&order, d)).collect();
        self.transposed(value, &perm?)
    }

    /// An operand summed over the loops that are in no other map, and the loops that are left.
    fn summed(
        &mut self,
        x: Value,
        own: Vec<usize>,
        others: &[&Vec<usize>],
    ) -> Option<(Value, Vec<usize>)> {
        let alone = |d: &usize| others.iter().all(|other| !other.contains(d));
        let axes: Vec<usize> = (0..own.len()).filter(|&i| alone(&own[i])).collect();
        if axes.is_empty() {
            return Some((x, own));
        }
        let sum = Reduce {
            kind: ReduceKind::Sum,
            axes: Some(optc_ops::ints(&axes)),
            keepdims: false,
        };
        let x = self.one(&sum, &[x])?;
        Some((x, own.into_iter().filter(|d| !alone(d)).collect()))
    }
}

impl<'a, 'm> Structured<'a, 'm> {
    /// The operands whose product a body sums. Extensions to a wider type may come before the product.
    pub(crate) fn product(&self, combined: &Combined<'a, 'm>) -> Option<Product> {
        if combined.kind != ReduceKind::Sum {
            return None;
        }
        let op = self.defines(combined.value)?;
        let [a, b] = op.operands[..] else { return None };
        if !matches!(op.name, "arith.mulf" | "arith.muli") {
            return None;
        }
        let source = |name: &str| {
            if let Some(operand) = self.operand(name) {
                return Some(operand);
            }
            let wide = self.defines(name)?;
            let truth = wide.operand_types.first() == Some(&"i1");
            let extends = matches!(wide.name, "arith.extf" | "arith.extsi") && !truth;
            self.operand(wide.operands.first().filter(|_| extends)?.name)
        };
        Some(Product {
            operands: [source(a.name)?, source(b.name)?],
        })
    }
}
