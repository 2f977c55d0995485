//! Resolves a plan to its schedule, operation by operation in the order of the body.

use crate::check::{Limit, check_tile};
use crate::codes;
use crate::online::Online;
use crate::plan::{Group, OpTile, Order, Plan};
use crate::region::{Steps, Tiling};
use crate::schedule::{GroupSchedule, OpSchedule, OperandSchedule, PartSchedule, Schedule, Source};
use crate::span::Tile;
use crate::sum::Sum;
use crate::units::{Unit, units};
use optc_ir::diag::Diagnostic;
use optc_ir::module::{Func, Op, Value};
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::iteration_domain_of;
use optc_ir::op::{Registry, Structure};
use optc_ir::types::TensorType;
use std::collections::BTreeMap;

impl Schedule {
    /// Resolves a plan.
    ///
    /// # Errors
    /// All violations found, at most one for each operation.
    pub fn resolve(
        func: &Func,
        plan: &Plan,
        registry: &Registry,
    ) -> Result<Schedule, Vec<Diagnostic>> {
        let group = |group: &Group| GroupSchedule {
            axes: group.axes.clone(),
            ops: Vec::new(),
        };
        let mut groups: Vec<GroupSchedule> = plan.groups.iter().map(group).collect();
        let units = resolve(func, plan, registry, &mut |number, op| {
            groups[number].ops.push(op);
        })?;
        let live_outs = plan.live_outs(func);
        Ok(Schedule {
            units,
            groups,
            live_outs,
        })
    }

    /// The plan in the attributes of a function, resolved; `None` if there is none.
    ///
    /// # Errors
    /// As [`Plan::read`] and [`Schedule::resolve`].
    pub fn read(func: &Func, registry: &Registry) -> Result<Option<Schedule>, Vec<Diagnostic>> {
        let plan = Plan::read(func)?;
        let resolved = plan.map(|plan| Schedule::resolve(func, &plan, registry));
        resolved.transpose()
    }
}

/// Checks the tiles of a function; a tile that is not decided yet is skipped.
///
/// # Errors
/// All violations found, at most one for each operation.
pub fn check(func: &Func, registry: &Registry) -> Result<(), Vec<Diagnostic>> {
    let Some(plan) = Plan::read(func)? else {
        return Ok(());
    };
    resolve(func, &plan, registry, &mut |_, _| {}).map(|_| ())
}

/// Resolves the operations of a plan, in the order of the body, and returns the units. Each operation is passed to
/// `keep` with the number of its group, so that a caller that only wants errors need not store it.
///
/// # Errors
/// All violations found, at most one for each operation.
fn resolve(
    func: &Func,
    plan: &Plan,
    registry: &Registry,
    keep: &mut dyn FnMut(usize, OpSchedule),
) -> Result<Vec<Unit>, Vec<Diagnostic>> {
    let mut diags = Vec::new();
    let mut resolver = Resolver {
        func,
        plan,
        registry,
        online: Online::of(func, registry, plan),
        made: BTreeMap::new(),
    };
    let limit = Limit::of(func);
    for &op in &func.body {
        match resolver.operation(op, &limit) {
            Ok(Some((group, resolved))) => keep(group, resolved),
            Ok(None) => {}
            Err(diag) => diags.push(diag.at(func.ops[op].span, "this operation")),
        }
    }
    match units(func, plan, registry) {
        Ok(units) if diags.is_empty() => return Ok(units),
        Ok(_) => {}
        Err(cycle) => {
            let hint = "leave out an operation that needs what is computed outside of the group";
            let diag = Diagnostic::error(codes::TILE_CYCLE, cycle.to_string()).hint(hint);
            diags.push(diag.at(func.ops[cycle.op].span, "its first operation"));
        }
    }
    Err(diags)
}

/// A value that an operation computes in its group.
struct Made<'p> {
    tile: &'p OpTile,
    op: Op,
    result: usize,
    /// The axes at whose last step, and only there, it is complete.
    complete: Vec<usize>,
}

struct Resolver<'p> {
    func: &'p Func,
    plan: &'p Plan,
    registry: &'p Registry,
    online: Online<'p>,
    /// The values of the operations so far.
    made: BTreeMap<Value, Made<'p>>,
}

/// An operation that is being resolved, with the data that its parts share.
struct Resolving<'p> {
    op: Op,
    name: &'p str,
    tile: &'p OpTile,
    domain: IterationDomain,
    grid: Vec<u64>,
}

impl<'p> Resolver<'p> {
    /// Resolves one operation; returns it with the number of its group. `None` for an operation that runs by itself.
    fn operation(
        &mut self,
        op: Op,
        limit: &Limit,
    ) -> Result<Option<(usize, OpSchedule)>, Diagnostic> {
        let (func, registry) = (self.func, self.registry);
        let name = &*func.ops[op].name;
        let domain = || iteration_domain_of(registry.get(name), &func.op_ref(op));
        let rescales = self.online.rescales(func, self.plan, op, &domain)?;
        let Some(tile) = self.plan.tiles.get(&op) else {
            return Ok(None);
        };
        let grid = self.plan.groups[tile.group].grid();
        check_tile(func, op, tile, &grid, limit)?;
        let domain = domain();
        let resolving = Resolving {
            op,
            name,
            tile,
            domain,
            grid,
        };
        let mut resolved = self.accumulation(&resolving)?;
        resolved.rescales = rescales;
        if registry.structure(name) == Structure::Constant {
            return Ok(None);
        }
        if !resolved.parts.is_empty() {
            for (result, &value) in func.ops[op].results.iter().enumerate() {
                let complete = resolved.completes_after.clone();
                let made = Made {
                    tile,
                    op,
                    result,
                    complete,
                };
                self.made.insert(value, made);
            }
        }
        Ok(Some((tile.group, resolved)))
    }

    /// Resolves the parts and the accumulation of an operation. The parts of each sum must cover it, along sequential
    /// axes, and nothing may restart a sum or read it before it is complete.
    fn accumulation(&self, of: &Resolving<'p>) -> Result<OpSchedule, Diagnostic> {
        let (tile, domain) = (of.tile, &of.domain);
        let (parts, starts_after) = self.parts(of)?;
        let sum = Sum::of(&tile.reduce, &of.grid);
        let run: Vec<usize> = (0..of.grid.len()).collect();
        if !parts.is_empty() {
            sum.check_order(&run, &starts_after, &of.grid)
                .map_err(|fault| {
                    let hint = "the axes of a sum come last in the grid, behind those of the sums that read it";
                    Diagnostic::error(codes::TILE_ORDER, format!("{} {fault}", of.name)).hint(hint)
                })?;
        }
        let completes_after = sum.complete_after(domain, starts_after.clone());
        let results = || parts.iter().flat_map(|part| &part.results);
        let depends = |axis: &&usize| results().any(|t| t.depends_on(**axis));
        if let Some(axis) = completes_after.iter().find(depends) {
            let message = format!(
                "the tile of {} depends on g{axis}, along which it is added up",
                of.name
            );
            return Err(Diagnostic::error(codes::TILE_ORDER, message));
        }
        let online = self.online.dim(self.func, of.op);
        let accumulates = !sum.axes.is_empty() && online.is_none();
        let combine = || {
            let decl = self.registry.get(of.name)?;
            decl.partial(&self.func.op_ref(of.op))
        };
        let epilogue = match accumulates {
            true => domain.epilogue.clone(),
            false => Vec::new(),
        };
        Ok(OpSchedule {
            op: of.op,
            parts,
            reduce: tile.reduce.clone(),
            reduced: domain.sums(),
            combine: accumulates.then(combine).flatten(),
            sequential: sum.axes,
            online,
            rescales: Vec::new(),
            epilogue,
            starts_after,
            completes_after,
        })
    }

    /// The parts of an operation, and the completion axes of its operands.
    fn parts(&self, of: &Resolving<'p>) -> Result<(Vec<PartSchedule>, Vec<usize>), Diagnostic> {
        let results = &self.func.ops[of.op].results;
        let shapes: Vec<Vec<u64>> = results
            .iter()
            .map(|&v| self.shape(v).unwrap_or_default())
            .collect();
        let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
        let mut parts = Vec::with_capacity(of.tile.count());
        let mut starts_after = Vec::new();
        for tile in of.tile.parts() {
            let steps = of
                .domain
                .steps(&tile.results, &tile.reduce, &shapes, &of.grid)
                .map_err(|fault| {
                    Diagnostic::error(codes::TILE_CUT, format!("{}: {fault}", of.name))
                })?;
            if parts.is_empty() {
                self.check_sum(of)?;
            }
            let operands = self.operands(of, &tile, &steps, &mut starts_after)?;
            let pairs = tile.results.iter().zip(&shapes);
            let outside = pairs.map(|(t, shape)| t.is_outside(shape, &of.grid));
            parts.push(PartSchedule {
                outside: outside.collect(),
                results: tile.results,
                steps,
                operands,
            });
        }
        starts_after.sort_unstable();
        starts_after.dedup();
        Ok((parts, starts_after))
    }

    /// Checks that the parts of each sum cover it, over sequential axes.
    fn check_sum(&self, of: &Resolving<'p>) -> Result<(), Diagnostic> {
        let reduce = &of.tile.reduce;
        Sum::check_parts(reduce, &of.domain.sums(), &of.grid)
            .map_err(|fault| Diagnostic::error(codes::TILE_SUM, format!("{} {fault}", of.name)))?;
        let axes = &self.plan.groups[of.tile.group].axes;
        let loose = |axis: &usize| axes[*axis].order == Order::Parallel;
        match Sum::of(reduce, &of.grid).axes.into_iter().find(loose) {
            None => Ok(()),
            Some(axis) => {
                let message = format!(
                    "{} adds up along g{axis}, which is parallel, wanted arbitrary",
                    of.name
                );
                Err(Diagnostic::error(codes::TILE_ORDER, message))
            }
        }
    }

    /// The operands of one part. The completion axes of operands made in the group are added to `starts_after`.
    fn operands(
        &self,
        of: &Resolving<'p>,
        tile: &OpTile,
        steps: &Steps,
        starts_after: &mut Vec<usize>,
    ) -> Result<Vec<OperandSchedule>, Diagnostic> {
        let operands = &self.func.ops[of.op].operands;
        let mut out = Vec::with_capacity(operands.len());
        for (i, &value) in operands.iter().enumerate() {
            let known = self.shape(value);
            let shape = known.clone().unwrap_or_default();
            let wanted = of.domain.operand(i, steps, &shape, &of.grid).tile;
            let made = self.made.get(&value);
            let made = made.filter(|m| m.tile.group == tile.group);
            let fetched = tile.reads.get(i).cloned().flatten();
            if let Some(fetched) = &fetched {
                if made.is_some() {
                    let message = format!(
                        "{} reads operand {i}, which its group makes, from memory",
                        of.name
                    );
                    let hint = "`read` is for values from memory; its list is empty for the others";
                    return Err(Diagnostic::error(codes::TILE_UNCOVERED, message).hint(hint));
                }
                if !fetched.holds(&wanted, &shape, &of.grid) {
                    let message = format!(
                        "{} needs {wanted} of its operand {i}, of which it reads {fetched}",
                        of.name
                    );
                    return Err(Diagnostic::error(codes::TILE_UNCOVERED, message));
                }
            }
            let source = match made {
                None => self.unplanned(of.op, value),
                Some(made) => {
                    starts_after.extend(&made.complete);
                    covered(of.name, i, made, &wanted, &shape, &of.grid)?
                }
            };
            out.push(OperandSchedule {
                value,
                tile: known.is_some().then_some(wanted),
                fetched,
                source,
            });
        }
        Ok(out)
    }

    /// The source of a value that no part of the group holds. This is memory, unless an operation of the same group
    /// defines the value and its tile is not decided yet.
    fn unplanned(&self, reader: Op, value: Value) -> Source {
        let group = |op: Op| Some(self.plan.tiles.get(&op)?.group);
        let made = || {
            let op = self.func.def_op(value)?;
            let data = &self.func.ops[op];
            let inside = group(op)? == group(reader)?;
            let runs = self.registry.structure(&data.name) != Structure::Constant;
            let result = data.results.iter().position(|v| *v == value)?;
            let part = 0;
            (inside && runs).then_some(Source::Made { op, result, part })
        };
        made().unwrap_or(Source::Memory)
    }

    /// The sizes of a value, if all are known.
    fn shape(&self, value: Value) -> Option<Vec<u64>> {
        let ty = self.func.ty(value).as_tensor();
        ty.and_then(TensorType::shape)
    }
}

/// The first part computed in the group that holds what an operation needs.
fn covered(
    name: &str,
    operand: usize,
    made: &Made<'_>,
    wanted: &Tile,
    shape: &[u64],
    grid: &[u64],
) -> Result<Source, Diagnostic> {
    let (op, result) = (made.op, made.result);
    if let Some(part) = made.tile.holding(result, wanted, shape, grid) {
        return Ok(Source::Made { op, result, part });
    }
    let given: Vec<String> = made.tile.tiles_of(result).map(Tile::to_string).collect();
    let given = given.join(" and ");
    let message =
        format!("{name} needs {wanted} of its operand {operand}, of which the group makes {given}");
    Err(Diagnostic::error(codes::TILE_UNCOVERED, message))
}
