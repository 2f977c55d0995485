//! Operations with regions, and calls. A region becomes a computation that gets the outer values that it reads as
//! operands.

use crate::attrs::{Attributes as _, braces, times};
use crate::opcodes::same;
use crate::translate::{Body, Texts, Translator};
use optc_layout::XlaShape;
use optc_mlir_syntax::Parsed;
use optc_mlir_syntax::{Op, Region, Use};
use optc_mlir_syntax::{int, symbol};
use std::borrow::Cow;
use std::sync::Arc;

impl<'a> Translator<'a> {
    /// Calls and operations with regions. `None` for other operations, and for regions that are not understood.
    pub(crate) fn with_regions(
        &mut self,
        body: &mut Body<'a>,
        op: &'a Op<'a>,
        operands: &[usize],
        shapes: &[Arc<XlaShape>],
    ) -> Parsed<Option<Vec<usize>>> {
        match (op.name, &op.regions[..]) {
            ("call" | "func.call", []) => Ok(Some(self.call(body, op, operands, shapes)?)),
            ("stablehlo.while", [cond, step]) => self.looped(body, op, [cond, step], operands),
            ("stablehlo.case" | "stablehlo.if", [_, ..]) => {
                self.branches(body, op, operands, shapes).map(Some)
            }
            ("stablehlo.reduce", [] | [_]) => {
                let dims = op.needs_ints(&["dimensions"])?;
                let attrs = vec![("dimensions", Cow::Owned(braces(&dims)))];
                self.combined(body, op, ("reduce", attrs), operands, shapes)
            }
            ("stablehlo.reduce_window", [_]) => match self.window(op)? {
                Some(window) => {
                    let attrs = vec![("window", Cow::Owned(window))];
                    self.combined(body, op, ("reduce-window", attrs), operands, shapes)
                }
                None => Ok(None),
            },
            ("stablehlo.sort", [_]) => {
                let dim = op.attr("dimension").and_then(int).unwrap_or(-1);
                let rank = shapes
                    .first()
                    .and_then(|s| s.as_array())
                    .map_or(0, |a| a.dims.len());
                let dim = if dim < 0 {
                    dim + i64::try_from(rank).unwrap_or(0)
                } else {
                    dim
                };
                let mut attrs = vec![("dimensions", Cow::Owned(braces(&[dim])))];
                if op.attr("is_stable") == Some("true") {
                    attrs.push(("is_stable", Cow::Borrowed("true")));
                }
                self.combined(body, op, ("sort", attrs), operands, shapes)
            }
            ("stablehlo.scatter", [_]) => {
                let attrs = self.scatter(op)?;
                self.combined(body, op, ("scatter", attrs), operands, shapes)
            }
            _ => Ok(None),
        }
    }

    fn call(
        &mut self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
        shapes: &[Arc<XlaShape>],
    ) -> Parsed<Vec<usize>> {
        let callee = op.needs(&["callee"])?;
        let Some(index) = self.called(body, op, symbol(callee), operands)? else {
            return Err(op.bad(&["callee"], callee));
        };
        let attrs = vec![("to_apply", Cow::Borrowed(""))];
        Ok(self.calling(
            body,
            ("call", attrs),
            vec![("to_apply", vec![index])],
            operands,
            shapes,
        ))
    }

    /// An instruction that names computations, with its results split.
    fn calling(
        &mut self,
        body: &mut Body<'a>,
        (opcode, attrs): (&'a str, Texts<'a>),
        called: Vec<(&'a str, Vec<usize>)>,
        operands: &[usize],
        shapes: &[Arc<XlaShape>],
    ) -> Vec<usize> {
        let whole = match shapes {
            [one] => one.clone(),
            many => Arc::new(XlaShape::Tuple(
                many.iter().map(|s| (**s).clone()).collect(),
            )),
        };
        let at = body.push(opcode, whole, operands.to_vec(), attrs);
        body.instructions[at].called = called;
        match shapes {
            [_] => vec![at],
            many => body.parts(at, many),
        }
    }

    /// A loop over its carried values and the outer values that its regions read.
    fn looped(
        &mut self,
        body: &mut Body<'a>,
        op: &'a Op<'a>,
        regions: [&'a Region<'a>; 2],
        operands: &[usize],
    ) -> Parsed<Option<Vec<usize>>> {
        let outside = free(&regions);
        let captured = body.values(&outside)?;
        let all = [operands, &captured].concat();
        let shapes: Vec<Arc<XlaShape>> = all.iter().map(|&at| body.shape(at)).collect();
        let tuple = body.tuple(all);
        let whole = body.shape(tuple);
        let mut called = Vec::new();
        for (key, region) in [("condition", regions[0]), ("body", regions[1])] {
            let mut inner = Body::new(op.span);
            let parameter = inner.parameter(0, "carried", whole.clone());
            let parts = inner.parts(parameter, &shapes);
            let (own, extra) = parts.split_at(operands.len().min(parts.len()));
            self.hand(&mut inner, region, own, &outside, extra, op)?;
            inherit(body, &mut inner, &outside);
            let results = self.operations(&mut inner, region, op.span)?;
            let mut results = inner.values(&results)?;
            let name = self.region_name();
            let index = if key == "body" {
                // Carried values keep their sizes in every round.
                let same = results
                    .iter()
                    .zip(&shapes)
                    .all(|(&at, shape)| inner.shape(at) == *shape);
                if self.open && !same {
                    return Ok(None);
                }
                results.extend_from_slice(extra);
                let root = inner.tuple(results);
                self.finish(inner, vec![root], name, op.span)
            } else {
                self.finish(inner, results, name, op.span)
            };
            called.push((key, vec![index]));
        }
        let attrs = vec![
            ("condition", Cow::Borrowed("")),
            ("body", Cow::Borrowed("")),
        ];
        let made = body.push("while", whole, vec![tuple], attrs);
        body.instructions[made].called = called;
        Ok(Some(body.parts(made, &shapes[..operands.len()])))
    }

    /// Names the arguments of a region and the outer values that it reads.
    fn hand(
        &mut self,
        inner: &mut Body<'a>,
        region: &'a Region<'a>,
        own: &[usize],
        outside: &[Use<'a>],
        extra: &[usize],
        op: &Op<'a>,
    ) -> Parsed<()> {
        if region.args.len() != own.len() {
            return Err(op.bad(&["region"], "another number of arguments than operands"));
        }
        for ((name, _), &at) in region.args.iter().zip(own) {
            inner.named(name, vec![at], op.span)?;
        }
        for (used, &at) in outside.iter().zip(extra) {
            // Parts of a name that are not read are never looked up.
            let all = inner.names.entry(used.name).or_default();
            while all.len() <= used.part.min(1 << 16) {
                all.push(at);
            }
            all[used.part.min(1 << 16)] = at;
        }
        Ok(())
    }

    fn branches(
        &mut self,
        body: &mut Body<'a>,
        op: &'a Op<'a>,
        operands: &[usize],
        shapes: &[Arc<XlaShape>],
    ) -> Parsed<Vec<usize>> {
        let mut given = operands.to_vec();
        let mut computations = Vec::new();
        for region in &op.regions {
            let outside = free(&[region]);
            let captured = body.values(&outside)?;
            let parts: Vec<Arc<XlaShape>> = captured.iter().map(|&at| body.shape(at)).collect();
            let tuple = body.tuple(captured);
            given.push(tuple);
            let mut inner = Body::new(op.span);
            let parameter = inner.parameter(0, "given", body.shape(tuple));
            let extra = inner.parts(parameter, &parts);
            self.hand(&mut inner, region, &[], &outside, &extra, op)?;
            inherit(body, &mut inner, &outside);
            let results = self.operations(&mut inner, region, op.span)?;
            let results = inner.values(&results)?;
            let name = self.region_name();
            computations.push(self.finish(inner, results, name, op.span));
        }
        let two = [("true_computation", 0), ("false_computation", 1)];
        let (attrs, called) = match (op.name, &computations[..]) {
            ("stablehlo.if", &[yes, no]) => (
                two.map(|(key, _)| (key, Cow::Borrowed(""))).to_vec(),
                vec![(two[0].0, vec![yes]), (two[1].0, vec![no])],
            ),
            _ => (
                vec![("branch_computations", Cow::Borrowed(""))],
                vec![("branch_computations", computations)],
            ),
        };
        Ok(self.calling(body, ("conditional", attrs), called, &given, shapes))
    }

    /// An instruction whose region is applied to elements. `None` if the region reads outer values other than numbers.
    fn combined(
        &mut self,
        body: &mut Body<'a>,
        op: &'a Op<'a>,
        (opcode, mut attrs): (&'a str, Texts<'a>),
        operands: &[usize],
        shapes: &[Arc<XlaShape>],
    ) -> Parsed<Option<Vec<usize>>> {
        if shapes.is_empty() || operands.iter().any(|&o| body.array(o).is_none()) {
            return Ok(None);
        }
        let index = match op.regions.first() {
            Some(region) => self.applied(body, op, region)?,
            None => self.short(body, op, operands),
        };
        let Some(index) = index else { return Ok(None) };
        attrs.push(("to_apply", Cow::Borrowed("")));
        let called = vec![("to_apply", vec![index])];
        Ok(Some(self.calling(
            body,
            (opcode, attrs),
            called,
            operands,
            shapes,
        )))
    }

    fn applied(
        &mut self,
        body: &Body<'a>,
        op: &'a Op<'a>,
        region: &'a Region<'a>,
    ) -> Parsed<Option<usize>> {
        let mut inner = Body::new(op.span);
        for (number, (arg, ty)) in region.args.iter().enumerate() {
            let shape = self.shape(ty, op.span)?;
            if shape.as_array().is_none() {
                return Ok(None);
            }
            let at = inner.parameter(number, arg, shape);
            inner.named(arg, vec![at], op.span)?;
        }
        for used in &region.free {
            let outer = &body.instructions[body.value(used)?];
            if outer.opcode != "constant" || outer.payload.is_none() || used.part != 0 {
                return Ok(None);
            }
            let at = inner.push("constant", outer.shape.clone(), Vec::new(), Vec::new());
            inner.instructions[at].payload.clone_from(&outer.payload);
            inner.instructions[at].dense.clone_from(&outer.dense);
            inner.named(used.name, vec![at], op.span)?;
        }
        let results = self.operations(&mut inner, region, op.span)?;
        let results = inner.values(&results)?;
        let name = self.region_name();
        Ok(Some(self.finish(inner, results, name, op.span)))
    }

    /// The computation of `applies OP`.
    fn short(&mut self, body: &Body<'a>, op: &Op<'a>, operands: &[usize]) -> Option<usize> {
        let opcode = same(op.attr("applies")?)?;
        let &[_, start] = operands else { return None };
        let shape = body.shape(start);
        let mut inner = Body::new(op.span);
        let left = inner.parameter(0, "lhs", shape.clone());
        let right = inner.parameter(1, "rhs", shape.clone());
        let root = inner.push(opcode, shape, vec![left, right], Vec::new());
        Some(self.finish(inner, vec![root], opcode, op.span))
    }

    /// The window of a reduction in HLO text.
    fn window(&self, op: &Op<'a>) -> Parsed<Option<String>> {
        let sizes = op.needs_ints(&["window_dimensions"])?;
        let rank = sizes.len();
        let list = |name: &str, count: usize, usual: i64| -> Parsed<Vec<i64>> {
            let Some(text) = op.attr(name) else {
                return Ok(vec![usual; count]);
            };
            let found = optc_mlir_syntax::ints(self.aliases.resolve(text));
            found
                .filter(|l| l.len() == count)
                .ok_or_else(|| op.bad(&[name], text))
        };
        if rank == 0 {
            return Ok(None);
        }
        let pads = list("padding", 2 * rank, 0)?;
        let pads: Vec<String> = pads
            .chunks(2)
            .map(|p| format!("{}_{}", p[0], p[1]))
            .collect();
        Ok(Some(format!(
            "{{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}}}",
            times(&sizes),
            times(&list("window_strides", rank, 1)?),
            pads.join("x"),
            times(&list("base_dilations", rank, 1)?),
            times(&list("window_dilations", rank, 1)?),
        )))
    }

    fn scatter(&self, op: &Op<'a>) -> Parsed<Texts<'a>> {
        let mut attrs = self.dimension_numbers(
            op,
            "scatter_dimension_numbers",
            [
                "update_window_dims",
                "inserted_window_dims",
                "input_batching_dims",
                "scatter_indices_batching_dims",
                "scatter_dims_to_operand_dims",
            ],
        )?;
        for name in ["indices_are_sorted", "unique_indices"] {
            if op.attr(name) == Some("true") {
                attrs.push((name, Cow::Borrowed("true")));
            }
        }
        Ok(attrs)
    }
}

/// Makes the known integers of outer values known in a region that reads them.
fn inherit<'a>(outer: &Body<'a>, inner: &mut Body<'a>, outside: &[Use<'a>]) {
    for used in outside {
        if let Some(integers) = outer.known.get(used) {
            inner.known.set(used.name, used.part, integers.clone());
        }
    }
}

/// The outer values that regions read, each once.
fn free<'a>(regions: &[&'a Region<'a>]) -> Vec<Use<'a>> {
    let mut seen = indexmap::IndexMap::new();
    for used in regions.iter().flat_map(|region| &region.free) {
        seen.entry((used.name, used.part)).or_insert(*used);
    }
    seen.into_values().collect()
}
