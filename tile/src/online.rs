//! Values that are computed online: every program computes one more part along their axis, right up to a factor for
//! each row. An operation that accumulates over the same part corrects for the factor.

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

/// One value that is computed online.
struct Streamed<'p> {
    group: usize,
    op: Op,
    /// The part of the axis in a program.
    span: &'p Span,
    /// The dimension of the axis.
    dim: usize,
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
                };
                values.insert(value, streamed);
            }
        }
        Online { values }
    }

    /// The dimension along which an operation is computed online.
    pub(crate) fn dim(&self, func: &Func, op: Op) -> Option<usize> {
        let value = func.ops[op].results.first()?;
        Some(self.values.get(value)?.dim)
    }

    /// The online values that an operation reads. Each reader must accumulate over the same part of the axis, in the
    /// same group.
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
        for (i, &value) in data.operands.iter().enumerate() {
            let Some(&Streamed {
                group,
                op: maker,
                span,
                dim,
            }) = streamed(&value)
            else {
                continue;
            };
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
            let op = maker;
            rescales.push(Rescale { op, value, kept });
        }
        Ok(rescales)
    }
}
