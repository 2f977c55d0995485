//! Values that are computed online: every program computes one more part along their axis, right up to a factor for
//! each row. An operation that accumulates over the same part corrects for the factor.
//!
//! Operations between the two may scale the value, cast it, or move its elements: their results are proportional to it, so
//! that the factor stays one for each row.

use crate::codes;
use crate::plan::Plan;
use crate::schedule::Rescale;
use crate::span::Span;
use crate::sum::Sum;
use optc_ir::diag::Diagnostic;
use optc_ir::module::{Func, Op, Value};
use optc_ir::op::Registry;
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::iteration_domain_of;
use std::collections::BTreeMap;

/// The values of a plan that are computed online.
pub(crate) struct Online<'p> {
    values: BTreeMap<Value, Streamed<'p>>,
}

/// One value that is computed online, or that is proportional to one.
#[derive(Clone)]
struct Streamed<'p> {
    group: usize,
    /// The operation that computes online.
    op: Op,
    /// The part of the axis in a program.
    span: &'p Span,
    /// The dimension of the axis.
    dim: usize,
    /// The dimension for each dimension of the operation's result; `None` for extents of 1.
    dims: Vec<Option<usize>>,
}

impl<'p> Online<'p> {
    pub(crate) fn of(func: &Func, registry: &Registry, plan: &'p Plan) -> Online<'p> {
        let mut values = BTreeMap::new();
        for (&op, tile) in plan.tiles.iter().filter(|(_, t)| !t.reduce.is_empty()) {
            let data = &func.ops[op];
            let domain = iteration_domain_of(registry.get(&data.name), &func.op_ref(op));
            let (Some(dim), Some(&value)) = (domain.online_dim(), data.results.first()) else {
                continue;
            };
            let (group, span) = (tile.group, &tile.reduce[0]);
            if !Sum::of(&tile.reduce, &plan.groups[group].grid())
                .axes
                .is_empty()
            {
                let streamed = Streamed {
                    group,
                    op,
                    span,
                    dim,
                    dims: (0..domain.results[0].len()).map(Some).collect(),
                };
                values.insert(value, streamed);
            }
        }
        let mut online = Online { values };
        if !online.values.is_empty() {
            online.follow(func, registry, plan);
        }
        online
    }

    /// Adds the values of each group that are proportional to a value that is computed online.
    fn follow(&mut self, func: &Func, registry: &Registry, plan: &'p Plan) {
        for &op in &func.body {
            let (Some(tile), [result]) = (plan.tiles.get(&op), &func.ops[op].results[..]) else {
                continue;
            };
            if !self.values.contains_key(result)
                && let Some(next) = self.proportional(func, registry, op)
                && next.group == tile.group
                && tile.reduce.is_empty()
            {
                self.values.insert(*result, next);
            }
        }
    }

    /// The result of an operation of one operand that is computed online, if the result is proportional to it.
    fn proportional(&self, func: &Func, registry: &Registry, op: Op) -> Option<Streamed<'p>> {
        let operands = func.ops[op].operands.iter().enumerate();
        let mut read = operands.filter_map(|(i, v)| Some((i, self.values.get(v)?)));
        let (Some((i, from)), None) = (read.next(), read.next()) else {
            return None;
        };
        let op = func.op_ref(op);
        if !registry.is_proportional(&op, i) {
            return None;
        }
        let passed = iteration_domain_of(registry.get(op.name), &op).passed(i)?;
        let dim = passed[from.dim]?;
        let dims = from.dims.iter().map(|d| d.and_then(|d| passed[d]));
        Some(Streamed {
            dim,
            dims: dims.collect(),
            ..from.clone()
        })
    }

    /// The dimension along which an operation is computed online.
    pub(crate) fn dim(&self, func: &Func, op: Op) -> Option<usize> {
        let value = func.ops[op].results.first()?;
        let streamed = self.values.get(value).filter(|v| v.op == op)?;
        Some(streamed.dim)
    }

    /// The online values that an operation accumulates. Each reader of a value must accumulate over the same part of the
    /// axis, in the same group, or have a result that is proportional to the value.
    pub(crate) fn rescales(
        &self,
        func: &Func,
        plan: &Plan,
        op: Op,
        domain: &dyn Fn() -> IterationDomain,
    ) -> Result<Vec<Rescale>, Diagnostic> {
        let data = &func.ops[op];
        let streamed = |v: &Value| self.values.get(v);
        let made = data.results.iter().find(|v| streamed(v).is_some());
        let reads = data.operands.iter().any(|v| streamed(v).is_some());
        if made.is_none() && !reads {
            return Ok(Vec::new());
        }
        let refuse = |what: String| {
            let hint = "what reads it adds up over the same part of its axis, in the same group";
            Err(Diagnostic::error(codes::TILE_RUNNING, what).hint(hint))
        };
        if let Some(streamed) = made.filter(|v| func.results.contains(v)).and_then(streamed) {
            return refuse(format!(
                "{} runs on along `{}`, and the function returns it",
                data.name, streamed.span
            ));
        }
        if plan.tiles.get(&op).is_some_and(|t| 1 < t.count()) {
            return refuse(format!("{} has several parts, wanted one", data.name));
        }
        let mut rescales = Vec::new();
        if made.is_some_and(|v| streamed(v).is_some_and(|v| v.op != op)) {
            return Ok(rescales);
        }
        for (i, &value) in data.operands.iter().enumerate() {
            let Some(from) = streamed(&value) else {
                continue;
            };
            let (span, dim, group) = (from.span, from.dim, from.group);
            let domain = domain();
            let tile = plan.tiles.get(&op).filter(|t| t.group == group);
            let which = domain.reduction_along(i, dim);
            let part = tile.and_then(|t| t.reduce.get(which?));
            let once = data.operands.iter().filter(|v| **v == value).count() == 1;
            let kept = domain.kept(i, dim).filter(|_| part == Some(span) && once);
            let Some(kept) = kept else {
                return refuse(format!(
                    "operand {i} of {} runs on along `{span}` of dimension {dim}, and it does not add up over that",
                    data.name
                ));
            };
            let kept = from.dims.iter().map(|d| d.and_then(|d| kept[d]));
            rescales.push(Rescale {
                op: from.op,
                kept: kept.collect(),
            });
        }
        Ok(rescales)
    }
}
