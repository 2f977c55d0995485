//! Converts the tree of the text to the tree of HLO: functions and regions become computations, operations
//! instructions.
//!
//! For example, `%1 = stablehlo.add %0, %0` becomes the instruction `add` of HLO on the instruction of `%0`.

use crate::attrs::{Attributes as _, braces};
use crate::codes;
use crate::known::{Facts, Given, Known, globals};
use crate::names::Names;
use crate::opcodes::{is_assertion, same};
use crate::types::shape;
use indexmap::{IndexMap, IndexSet};
use optc_hlo::{Attrs, Computation, HloModule, Instruction};
use optc_ir::{Dense, Span};
use optc_layout::{XlaArray, XlaDim, XlaShape, XlaType};
use optc_mlir_syntax::Aliases;
use optc_mlir_syntax::verbatim;
use optc_mlir_syntax::{Elements, elements};
use optc_mlir_syntax::{Func, Op, Region, Tree, Use};
use optc_mlir_syntax::{Parsed, wrong};
use optc_mlir_syntax::{ints, last_word};
use std::borrow::Cow;
use std::sync::Arc;

/// The deepest nesting of function calls.
const MOST_CALLS: usize = 256;

/// The deepest nesting of calls of functions with unknown sizes, which are converted at their calls.
const MOST_OPEN_CALLS: usize = 32;

/// The attribute of a parameter with the size that it gets as a number.
pub(crate) const HANDED: &str = "size";

/// Attributes of an instruction.
pub(crate) type Texts<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// The computations so far.
pub(crate) struct Translator<'a> {
    pub(crate) aliases: &'a Aliases<'a>,
    names: &'a Names,
    pub(crate) funcs: IndexMap<&'a str, &'a Func<'a>>,
    /// The computation of each function that is converted.
    pub(crate) done: IndexMap<&'a str, usize>,
    pub(crate) computations: Vec<Computation<'a>>,
    /// The computations of functions with unknown sizes, by the callers' knowledge of the arguments.
    copies: IndexMap<(&'a str, Vec<Given>), usize>,
    shapes: IndexMap<&'a str, Arc<XlaShape>>,
    regions: usize,
    /// True if the module has values of unknown sizes.
    pub(crate) open: bool,
    /// Names of sizes that are taken; `sizes` is the number of names that were created.
    pub(crate) taken: IndexSet<&'a str>,
    pub(crate) sizes: usize,
    pub(crate) facts: Facts,
    /// The number of operations that were searched for sizes.
    pub(crate) steps: usize,
    /// The number of functions with unknown sizes that are being built.
    depth: usize,
}

/// A computation that is being built.
pub(crate) struct Body<'a> {
    pub(crate) instructions: Vec<Instruction<'a>>,
    /// The instructions of each name.
    pub(crate) names: IndexMap<&'a str, Vec<usize>>,
    /// The name of the instructions' origin.
    loc: Option<&'a str>,
    span: Span,
    /// The indices of the parameters.
    pub(crate) parameters: Vec<usize>,
    /// The known integers, by the names of the text.
    pub(crate) known: Known<'a>,
}

/// Returns whether two arrays differ in element type, rank, or a size that is known in both.
fn contradict(a: &XlaArray, b: &XlaArray) -> bool {
    let differ = |(a, b): (&XlaDim, &XlaDim)| match (a, b) {
        (XlaDim::Size(a), XlaDim::Size(b)) => a != b,
        _ => false,
    };
    a.element != b.element || a.dims.len() != b.dims.len() || a.dims.iter().zip(&b.dims).any(differ)
}

/// The function at which a module starts: `@main`, else the first public one.
pub(crate) fn entry(tree: &Tree<'_>) -> Option<usize> {
    let main = tree.funcs.iter().position(|func| func.name == "main");
    main.or_else(|| tree.funcs.iter().position(|func| !func.private))
}

/// The whole module.
pub(crate) fn module<'a>(
    tree: &'a Tree<'a>,
    aliases: &'a Aliases<'a>,
    names: &'a Names,
) -> Parsed<HloModule<'a>> {
    let mut funcs = IndexMap::new();
    for func in &tree.funcs {
        if funcs.insert(func.name, func).is_some() {
            let message = format!("found two functions `@{}`", func.name);
            return Err(wrong(codes::STABLEHLO_FUNCTION, message, func.span));
        }
    }
    let Some(entry) = entry(tree) else {
        let message = "found no function to start with, wanted `@main`";
        return Err(wrong(codes::STABLEHLO_FUNCTION, message, Span::default()));
    };
    let open = tree
        .funcs
        .iter()
        .any(|func| names.copy(func.name, 0).is_some());
    let mut translator = Translator {
        aliases,
        names,
        funcs,
        done: IndexMap::new(),
        computations: Vec::new(),
        copies: IndexMap::new(),
        shapes: IndexMap::new(),
        regions: 0,
        open,
        taken: globals(&tree.funcs),
        sizes: 0,
        facts: Facts::default(),
        steps: 0,
        depth: 0,
    };
    let first = &tree.funcs[entry];
    let mut entry = translator.function(first.name, first.span, &[])?;
    if open {
        // The entry's facts about its arguments are complete only at its end.
        let made = &translator.computations[entry].instructions;
        let arguments = made.iter().filter(|made| made.opcode == "parameter");
        let arguments: Vec<Arc<XlaShape>> = arguments.map(|made| made.shape.clone()).collect();
        let given = translator.learned(&arguments);
        translator.computations.clear();
        translator.done.clear();
        translator.copies.clear();
        translator.regions = 0;
        entry = translator.function(first.name, first.span, &given)?;
    }
    Ok(HloModule {
        name: Cow::Borrowed(tree.name.unwrap_or("stablehlo")),
        attrs: Attrs::default(),
        tables: Vec::new(),
        computations: translator.computations,
        entry,
    })
}

impl<'a> Body<'a> {
    pub(crate) fn new(span: Span) -> Self {
        Body {
            instructions: Vec::new(),
            names: IndexMap::new(),
            loc: None,
            span,
            parameters: Vec::new(),
            known: Known::default(),
        }
    }

    /// Adds an instruction; returns its index.
    pub(crate) fn push(
        &mut self,
        opcode: &'a str,
        shape: Arc<XlaShape>,
        operands: Vec<usize>,
        mut attrs: Texts<'a>,
    ) -> usize {
        if let Some(name) = self.loc {
            let text = format!("{{op_name=\"{name}\"}}");
            attrs.push(("metadata", Cow::Owned(text)));
        }
        self.instructions.push(Instruction {
            name: Cow::Owned(format!("{opcode}.{}", self.instructions.len())),
            shape,
            opcode,
            operands,
            payload: None,
            dense: None,
            attrs: Attrs::new(attrs),
            called: Vec::new(),
            span: self.span,
        });
        self.instructions.len() - 1
    }

    pub(crate) fn parameter(&mut self, number: usize, name: &str, shape: Arc<XlaShape>) -> usize {
        let at = self.push("parameter", shape, Vec::new(), Vec::new());
        self.instructions[at].name = Cow::Owned(name.to_owned());
        self.instructions[at].payload = Some(Cow::Owned(number.to_string()));
        self.parameters.push(at);
        at
    }

    pub(crate) fn shape(&self, at: usize) -> Arc<XlaShape> {
        self.instructions[at].shape.clone()
    }

    pub(crate) fn array(&self, at: usize) -> Option<&XlaArray> {
        self.instructions[at].shape.as_array()
    }

    /// The parts of a tuple.
    pub(crate) fn parts(&mut self, tuple: usize, shapes: &[Arc<XlaShape>]) -> Vec<usize> {
        let part = |(i, shape): (usize, &Arc<XlaShape>)| {
            let index = vec![("index", Cow::Owned(i.to_string()))];
            self.push("get-tuple-element", shape.clone(), vec![tuple], index)
        };
        shapes.iter().enumerate().map(part).collect()
    }

    pub(crate) fn tuple(&mut self, parts: Vec<usize>) -> usize {
        let shapes = parts.iter().map(|&p| (*self.shape(p)).clone()).collect();
        self.push(
            "tuple",
            Arc::new(XlaShape::Tuple(shapes)),
            parts,
            Vec::new(),
        )
    }

    /// The instruction of a use.
    pub(crate) fn value(&self, used: &Use<'a>) -> Parsed<usize> {
        let found = self.names.get(used.name).and_then(|all| all.get(used.part));
        found.copied().ok_or_else(|| {
            let message = format!("nothing before defines `%{}`", used.name);
            wrong(codes::STABLEHLO_VALUE, message, used.span)
        })
    }

    pub(crate) fn values(&self, uses: &[Use<'a>]) -> Parsed<Vec<usize>> {
        uses.iter().map(|used| self.value(used)).collect()
    }

    /// Names the results of an operation.
    pub(crate) fn define(&mut self, op: &Op<'a>, values: &[usize]) -> Parsed<()> {
        let mut at = 0;
        for &(name, count) in &op.results {
            let own = values.get(at..at + count).unwrap_or_default().to_vec();
            at += count;
            self.named(name, own, op.span)?;
        }
        Ok(())
    }

    pub(crate) fn named(&mut self, name: &'a str, values: Vec<usize>, place: Span) -> Parsed<()> {
        if self.names.insert(name, values).is_none() {
            return Ok(());
        }
        let message = format!("`%{name}` is defined a second time");
        Err(wrong(codes::STABLEHLO_VALUE, message, place))
    }
}

impl<'a> Translator<'a> {
    /// The computation of a function, after those that it calls. Functions with unknown sizes are built at their calls.
    fn function(&mut self, name: &'a str, place: Span, given: &[Given]) -> Parsed<usize> {
        // Functions that are being built, each with the callees for which it still waits.
        let mut open: IndexMap<&str, Vec<&'a str>> = IndexMap::new();
        open.insert(name, self.callees(name, place)?);
        while let Some((&current, waiting)) = open.last_mut() {
            match waiting.pop() {
                Some(next) if self.done.contains_key(next) => {}
                Some(next) if open.contains_key(next) || MOST_CALLS < open.len() => {
                    let message = format!("`@{next}` calls itself, or calls nest too deeply");
                    return Err(wrong(codes::STABLEHLO_FUNCTION, message, place));
                }
                Some(next) => {
                    let callees = self.callees(next, place)?;
                    open.insert(next, callees);
                }
                None => {
                    open.pop();
                    if current != name && self.names.copy(current, 0).is_some() {
                        continue;
                    }
                    let given = if current == name { given } else { &[] };
                    let made = self.build(current, current, given)?;
                    self.done.insert(current, made);
                }
            }
        }
        Ok(self.done[name])
    }

    /// The functions that the operations of a function name.
    fn callees(&self, name: &'a str, place: Span) -> Parsed<Vec<&'a str>> {
        let Some(func) = self.funcs.get(name) else {
            let message = format!("found no function `@{name}`");
            return Err(wrong(codes::STABLEHLO_FUNCTION, message, place));
        };
        let mut found = Vec::new();
        let mut regions = vec![&func.body];
        while let Some(region) = regions.pop() {
            for op in &region.ops {
                regions.extend(&op.regions);
                let call = matches!(op.name, "call" | "func.call");
                if let Some(callee) = op.callee().filter(|_| call) {
                    if !self.funcs.contains_key(callee) {
                        let message = format!("found no function `@{callee}`");
                        return Err(wrong(codes::STABLEHLO_FUNCTION, message, op.span));
                    }
                    found.push(callee);
                } else if op.text.contains('@') {
                    let text = verbatim(op, self.aliases, &crate::syntax::MLIR, |f| {
                        self.funcs.contains_key(f)
                    });
                    found.extend(text.functions);
                }
            }
        }
        Ok(found)
    }

    /// Builds the computation of a function for its caller's knowledge of the arguments.
    fn build(&mut self, name: &'a str, called: &'a str, given: &[Given]) -> Parsed<usize> {
        let func = self.funcs[name];
        let mut body = Body::new(func.span);
        for (number, (arg, ty)) in func.body.args.iter().enumerate() {
            let given = given.get(number);
            let shape = self.boundary(ty, func.span)?;
            let shape = self.opened(shape, given.and_then(|given| given.shape.as_deref()));
            let at = body.parameter(number, arg, shape);
            body.named(arg, vec![at], func.span)?;
            if let Some(integers) = given.and_then(|given| given.integers.clone()) {
                if let ([one], true) = (&integers[..], body.array(at).is_some_and(is_number))
                    && one.as_linear().is_some()
                {
                    let text = Cow::Owned(one.to_text());
                    body.instructions[at].attrs = Attrs::new(vec![(HANDED, text)]);
                }
                body.known.set(arg, 0, integers);
            }
        }
        for ty in &func.result_types {
            self.boundary(ty, func.span)?;
        }
        let root = self.operations(&mut body, &func.body, func.span)?;
        if let Some(end) = func.body.ops.last() {
            self.returns(&body, end, &func.result_types)?;
        }
        let root = body.values(&root)?;
        Ok(self.finish(body, root, called, func.span))
    }

    /// The computation of a function for this call.
    pub(crate) fn called(
        &mut self,
        body: &Body<'a>,
        op: &Op<'a>,
        name: &'a str,
        operands: &[usize],
    ) -> Parsed<Option<usize>> {
        if self.names.copy(name, 0).is_none() {
            return Ok(self.done.get(name).copied());
        }
        let given = |(used, &at): (&Use<'a>, &usize)| {
            let open = |array: &XlaArray| array.sizes().is_none();
            let integers = body.known.get(used).cloned();
            Given {
                shape: body.array(at).is_some_and(open).then(|| body.shape(at)),
                integers: integers.filter(|all| all.iter().any(|n| n.as_constant().is_none())),
            }
        };
        let given: Vec<Given> = op.operands.iter().zip(operands).map(given).collect();
        self.copy(name, given, op.span).map(Some)
    }

    /// The computation of a function with unknown sizes.
    pub(crate) fn copy(&mut self, name: &'a str, given: Vec<Given>, place: Span) -> Parsed<usize> {
        let key = (name, given);
        if let Some(&made) = self.copies.get(&key) {
            return Ok(made);
        }
        let count = self
            .copies
            .keys()
            .filter(|(other, _)| *other == name)
            .count();
        if MOST_OPEN_CALLS <= self.depth {
            let message = format!(
                "calls of functions with unknown sizes nest more than {MOST_OPEN_CALLS} deep at `@{name}`"
            );
            return Err(wrong(codes::STABLEHLO_FUNCTION, message, place));
        }
        let Some(called) = self.names.copy(name, count) else {
            let message = format!("found calls of `@{name}` with more than {count} lists of sizes");
            return Err(wrong(codes::STABLEHLO_FUNCTION, message, place));
        };
        self.depth += 1;
        let made = self.build(name, called, &key.1)?;
        self.depth -= 1;
        self.copies.insert(key, made);
        Ok(made)
    }

    /// The shape of a value that crosses a function's boundary, which must have one.
    fn boundary(&mut self, ty: &'a str, place: Span) -> Parsed<Arc<XlaShape>> {
        let shape = self.shape(ty, place)?;
        if matches!(*shape, XlaShape::Opaque) {
            let message =
                format!("found `{ty}` at the boundary of a function, wanted a type that XLA has");
            return Err(wrong(codes::STABLEHLO_TYPE, message, place));
        }
        Ok(shape)
    }

    /// The shape of a type; opaque if XLA has none.
    pub(crate) fn shape(&mut self, ty: &'a str, place: Span) -> Parsed<Arc<XlaShape>> {
        if let Some(known) = self.shapes.get(ty) {
            return Ok(known.clone());
        }
        let meant = if ty.starts_with('!') {
            self.aliases.resolve(ty)
        } else {
            ty
        };
        let mut read = shape(meant, place)?.unwrap_or(XlaShape::Opaque);
        read.complete();
        let read = Arc::new(read);
        self.shapes.insert(ty, read.clone());
        Ok(read)
    }

    /// Adds a computation with these instructions as results: one alone, or a tuple.
    pub(crate) fn finish(
        &mut self,
        mut body: Body<'a>,
        results: Vec<usize>,
        name: &'a str,
        span: Span,
    ) -> usize {
        body.loc = None;
        let root = match results[..] {
            [one] => one,
            _ => body.tuple(results),
        };
        self.computations.push(Computation {
            name,
            instructions: body.instructions,
            root,
            attrs: Attrs::default(),
            span,
        });
        self.computations.len() - 1
    }

    /// The name of the next region.
    pub(crate) fn region_name(&mut self) -> &'a str {
        self.regions += 1;
        self.names.region(self.regions - 1)
    }

    /// Converts the operations of a region; returns the values of its end.
    pub(crate) fn operations(
        &mut self,
        body: &mut Body<'a>,
        region: &'a Region<'a>,
        place: Span,
    ) -> Parsed<Vec<Use<'a>>> {
        let Some((end, ops)) = region.ops.split_last() else {
            return Ok(Vec::new());
        };
        for op in ops {
            body.loc = op
                .loc
                .and_then(|loc| self.aliases.location_name(loc, &crate::syntax::MLIR));
            body.span = op.span;
            self.operation(body, op)?;
        }
        if !matches!(end.name, "return" | "func.return" | "stablehlo.return") {
            let message = "found the end of a region without `return`";
            return Err(wrong(codes::STABLEHLO_SYNTAX, message, place));
        }
        if !end.operand_types.is_empty() {
            self.returns(body, end, &end.operand_types)?;
        }
        Ok(end.operands.clone())
    }

    /// Refuses a `return` whose values are not of these types; unknown sizes agree with all.
    fn returns(&mut self, body: &Body<'a>, end: &Op<'a>, types: &[&'a str]) -> Parsed<()> {
        if end.operands.len() != types.len() {
            let (found, wanted) = (end.operands.len(), types.len());
            let message = format!("found a `return` of {found} values, wanted {wanted}");
            return Err(wrong(codes::STABLEHLO_TYPE, message, end.span));
        }
        for (&ty, &at) in types.iter().zip(&body.values(&end.operands)?) {
            let wanted = self.shape(ty, end.span)?;
            let found = body.array(at).zip(wanted.as_array());
            if found.is_some_and(|(found, wanted)| contradict(found, wanted)) {
                let message = format!("found a `return` of {}, wanted `{ty}`", body.shape(at));
                return Err(wrong(codes::STABLEHLO_TYPE, message, end.span));
            }
        }
        Ok(())
    }

    fn operation(&mut self, body: &mut Body<'a>, op: &'a Op<'a>) -> Parsed<()> {
        let operands = body.values(&op.operands)?;
        let mut shapes = Vec::with_capacity(op.result_types.len());
        for ty in &op.result_types {
            shapes.push(self.shape(ty, op.span)?);
        }
        self.stated(body, op, &mut shapes);
        let before = body.instructions.len();
        let values = match self.understood(body, op, &operands, &shapes)? {
            Some(values) => values,
            None => self.kept(body, op, &shapes)?,
        };
        self.settle(body, before);
        body.define(op, &values)?;
        self.learn(body, op);
        Ok(())
    }

    /// An operation as instructions; `None` if it has none.
    fn understood(
        &mut self,
        body: &mut Body<'a>,
        op: &'a Op<'a>,
        operands: &[usize],
        shapes: &[Arc<XlaShape>],
    ) -> Parsed<Option<Vec<usize>>> {
        if let Some(values) = self.with_regions(body, op, operands, shapes)? {
            return Ok(Some(values));
        }
        let [shape] = shapes else {
            return Ok(None);
        };
        let arrays = operands.iter().all(|&o| body.array(o).is_some());
        let Some(array) = shape.as_array().filter(|_| arrays) else {
            return Ok(None);
        };
        let one = |body: &mut Body<'a>, opcode, attrs| {
            Ok(Some(vec![body.push(
                opcode,
                shape.clone(),
                operands.to_vec(),
                attrs,
            )]))
        };
        if let Some(opcode) = same(op.name) {
            let counts = match opcode {
                "select" | "clamp" => operands.len() == 3,
                "dynamic-update-slice" => 2 <= operands.len(),
                _ => (1..=2).contains(&operands.len()),
            };
            return if counts {
                one(body, opcode, Vec::new())
            } else {
                Ok(None)
            };
        }
        match (op.name, operands) {
            ("stablehlo.constant", []) => self.constant(body, op, array),
            ("stablehlo.broadcast_in_dim", &[x]) => {
                let dims = op.needs_ints(&["dims", "broadcast_dimensions"])?;
                Ok(broadcast(body, x, &dims, shape).map(|at| vec![at]))
            }
            ("stablehlo.dynamic_reshape", &[x, _]) => {
                let fits = self.is_sized(body, &[x], array) && self.keeps_volume(body, x, array);
                let made =
                    |body: &mut Body<'a>| body.push("reshape", shape.clone(), vec![x], Vec::new());
                Ok(fits.then(|| vec![made(body)]))
            }
            ("stablehlo.dynamic_broadcast_in_dim", &[x, _]) => {
                let dims = op.needs_ints(&["dims", "broadcast_dimensions"])?;
                if !self.is_sized(body, &[x], array) {
                    return Ok(None);
                }
                Ok(broadcast(body, x, &dims, shape).map(|at| vec![at]))
            }
            ("stablehlo.dynamic_iota", &[_]) if self.is_sized(body, &[], array) => {
                let axis = op.needs_int(&["dim", "iota_dimension"])?;
                let attrs = vec![("iota_dimension", Cow::Owned(axis.to_string()))];
                Ok(Some(vec![body.push(
                    "iota",
                    shape.clone(),
                    Vec::new(),
                    attrs,
                )]))
            }
            _ => {
                if let Some(values) = self.dynamic(body, op, operands, shape)? {
                    return Ok(Some(values));
                }
                match self.plain(body, op, operands, array)? {
                    Some((opcode, attrs)) => one(body, opcode, attrs),
                    None => Ok(None),
                }
            }
        }
    }

    /// An instruction on the same operands with attributes.
    fn plain(
        &mut self,
        body: &Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
        array: &XlaArray,
    ) -> Parsed<Option<(&'static str, Texts<'a>)>> {
        let dimensions = |list: &[i64]| vec![("dimensions", Cow::Owned(braces(list)))];
        Ok(Some(match (op.name, operands) {
            ("stablehlo.transpose", &[_]) => (
                "transpose",
                dimensions(&op.needs_ints(&["dims", "permutation"])?),
            ),
            ("stablehlo.reverse", &[_]) => (
                "reverse",
                dimensions(&op.needs_ints(&["dims", "dimensions"])?),
            ),
            ("stablehlo.concatenate", [_, ..]) => (
                "concatenate",
                dimensions(&[op.needs_int(&["dim", "dimension"])?]),
            ),
            ("stablehlo.get_dimension_size", &[_]) => (
                "get-dimension-size",
                dimensions(&[op.needs_int(&["dim", "dimension"])?]),
            ),
            ("stablehlo.iota", []) => {
                let axis = op.needs_int(&["dim", "iota_dimension"])?;
                (
                    "iota",
                    vec![("iota_dimension", Cow::Owned(axis.to_string()))],
                )
            }
            ("stablehlo.slice", &[_]) => {
                let parts = ranges(op)?;
                ("slice", vec![("slice", Cow::Owned(parts))])
            }
            ("stablehlo.pad", &[_, _]) => {
                let low = op.needs_ints(&["low", "edge_padding_low"])?;
                let high = op.needs_ints(&["high", "edge_padding_high"])?;
                let inside = op.needs_ints(&["interior", "interior_padding"])?;
                let three = low.iter().zip(&high).zip(&inside);
                let parts: Vec<String> = three.map(|((l, h), i)| format!("{l}_{h}_{i}")).collect();
                if parts.is_empty() || parts.len() != array.dims.len() {
                    return Ok(None);
                }
                ("pad", vec![("padding", Cow::Owned(parts.join("x")))])
            }
            ("stablehlo.compare", &[_, _]) => {
                let direction = match op.attr("comparison_direction") {
                    Some(direction) => direction,
                    None => op.needs(&["word"])?,
                };
                let words = op.attrs.iter().filter(|(key, _)| *key == "word").nth(1);
                let kind = op.attr("compare_type").or(words.map(|(_, text)| *text));
                let mut attrs = vec![("direction", Cow::Borrowed(last_word(direction)))];
                if let Some("TOTALORDER") = kind.map(last_word) {
                    attrs.push(("type", Cow::Borrowed("TOTALORDER")));
                }
                ("compare", attrs)
            }
            ("stablehlo.dynamic_slice", [_, ..]) => {
                let sizes = op.needs_ints(&["sizes", "slice_sizes"])?;
                (
                    "dynamic-slice",
                    vec![("dynamic_slice_sizes", Cow::Owned(braces(&sizes)))],
                )
            }
            _ => return self.products(body, op, operands),
        }))
    }

    /// A constant; one number at all places becomes a broadcast.
    fn constant(
        &mut self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        array: &XlaArray,
    ) -> Parsed<Option<Vec<usize>>> {
        let text = op.needs(&["value"])?;
        let text = self.aliases.resolve(text);
        let (values, _) = text.rsplit_once(':').unwrap_or((text, ""));
        let scalar = XlaArray::new(array.element, &[]);
        let (Some(one), Some(sizes)) = (optc_hlo::tensor_type(&scalar), array.sizes()) else {
            return Ok(None);
        };
        let count = sizes.iter().fold(1u64, |n, &d| n.saturating_mul(d));
        let found = elements(
            values,
            one.dtype,
            count,
            self.aliases,
            op.span,
            &crate::syntax::MLIR,
        )?;
        // The type of a constant with too many elements to count is kept as text.
        let (Some(found), Some(ty)) = (found, optc_hlo::tensor_type(array)) else {
            return Ok(None);
        };
        let own = Arc::new(XlaShape::Array(scalar));
        let whole = Arc::new(XlaShape::Array(array.clone()));
        let make = |body: &mut Body<'a>, shape: Arc<XlaShape>, bytes: Vec<u8>, rank: usize| {
            let at = body.push("constant", shape, Vec::new(), Vec::new());
            if rank == 0 {
                let text = scalar_text(&bytes, ty.dtype);
                body.instructions[at].payload = text.map(Cow::Owned);
            }
            let dims = if rank == 0 {
                Vec::new()
            } else {
                ty.dims.clone()
            };
            let ty = optc_ir::TensorType::new(dims, ty.dtype).into();
            body.instructions[at].dense = Some(Arc::new(Dense {
                ty,
                bytes,
                splat: false,
            }));
            at
        };
        Ok(Some(vec![match found {
            Elements::All(bytes) => make(body, whole, bytes, sizes.len()),
            Elements::Splat(bytes) => {
                let one = make(body, own, bytes, 0);
                body.push(
                    "broadcast",
                    whole,
                    vec![one],
                    vec![("dimensions", Cow::Borrowed("{}"))],
                )
            }
            Elements::Elided(name) => {
                let at = body.push("constant", whole, Vec::new(), Vec::new());
                body.instructions[at].payload = Some(Cow::Borrowed("{...}"));
                body.instructions[at].name = Cow::Owned(name);
                at
            }
        }]))
    }

    /// The operation as an opaque instruction.
    fn kept(
        &mut self,
        body: &mut Body<'a>,
        op: &'a Op<'a>,
        shapes: &[Arc<XlaShape>],
    ) -> Parsed<Vec<usize>> {
        let made = verbatim(op, self.aliases, &crate::syntax::MLIR, |name| {
            self.funcs.contains_key(name)
        });
        for &name in &made.functions {
            if !self.done.contains_key(name) {
                let built = self.copy(name, Vec::new(), op.span)?;
                self.done.insert(name, built);
            }
        }
        let operands = body.values(&made.operands)?;
        let whole = match shapes {
            [one] => one.clone(),
            many => Arc::new(XlaShape::Tuple(
                many.iter().map(|s| (**s).clone()).collect(),
            )),
        };
        let effect = crate::opcodes::effect_of(op);
        let mut attrs = vec![
            ("text", Cow::Owned(made.text)),
            ("effect", Cow::Borrowed(effect.name())),
        ];
        if is_assertion(op) {
            attrs.push(("asserts", Cow::Borrowed("true")));
        }
        if !made.functions.is_empty() {
            attrs.push(("called_computations", Cow::Borrowed("")));
        }
        let at = body.push(op.name, whole, operands, attrs);
        if !made.functions.is_empty() {
            let list = made
                .functions
                .iter()
                .filter_map(|f| self.done.get(f).copied());
            body.instructions[at].called = vec![("called_computations", list.collect())];
        }
        Ok(match shapes {
            [_] => vec![at],
            many => body.parts(at, many),
        })
    }
}

/// Returns whether an array is one number that can be a size.
fn is_number(array: &XlaArray) -> bool {
    array.dims.is_empty() && [XlaType::S32, XlaType::S64].contains(&array.element)
}

/// A broadcast. In HLO it does not expand dimensions of one element.
fn broadcast<'a>(
    body: &mut Body<'a>,
    x: usize,
    dims: &[i64],
    shape: &Arc<XlaShape>,
) -> Option<usize> {
    let (from, to) = (body.array(x)?.clone(), shape.as_array()?);
    if from.dims.len() != dims.len() {
        return None;
    }
    let mut kept = Vec::new();
    for (&dim, size) in dims.iter().zip(&from.dims) {
        let wide = to.dims.get(usize::try_from(dim).ok()?)?;
        if size == wide {
            kept.push((dim, size.clone()));
        } else if *size != XlaDim::Size(1) {
            return None;
        }
    }
    let mut at = x;
    if kept.len() != dims.len() {
        let sizes = kept.iter().map(|(_, size)| size.clone()).collect();
        let mut narrow = XlaShape::Array(XlaArray {
            dims: sizes,
            notation: None,
            ..from
        });
        narrow.complete();
        at = body.push("reshape", Arc::new(narrow), vec![x], Vec::new());
    }
    let dims: Vec<i64> = kept.iter().map(|(dim, _)| *dim).collect();
    let attrs = vec![("dimensions", Cow::Owned(braces(&dims)))];
    Some(body.push("broadcast", shape.clone(), vec![at], attrs))
}

/// The ranges of a slice in HLO text.
fn ranges(op: &Op<'_>) -> Parsed<String> {
    let text = |start: &str, limit: &str, step: &str| format!("[{start}:{limit}:{step}]");
    let mut parts = Vec::new();
    if let Some(list) = op.attr("[]") {
        let inner = list.trim_matches(['[', ']', ' ']);
        for range in inner.split(',').filter(|r| !r.trim().is_empty()) {
            let ends: Vec<&str> = range.split(':').map(str::trim).collect();
            let number = |text: &&str| text.parse::<i64>().is_ok();
            match ends[..] {
                _ if !ends.iter().all(number) => return Err(op.bad(&["ranges"], range)),
                [start, limit] => parts.push(text(start, limit, "1")),
                [start, limit, step] => parts.push(text(start, limit, step)),
                _ => return Err(op.bad(&["ranges"], range)),
            }
        }
    } else {
        let starts = op.needs_ints(&["start_indices"])?;
        let limits = op.needs_ints(&["limit_indices"])?;
        let steps = match op.attr("strides") {
            Some(steps) => ints(steps).ok_or_else(|| op.bad(&["strides"], steps))?,
            None => vec![1; starts.len()],
        };
        let three = starts.iter().zip(&limits).zip(&steps);
        parts.extend(three.map(|((s, l), d)| text(&s.to_string(), &l.to_string(), &d.to_string())));
    }
    Ok(format!("{{{}}}", parts.join(", ")))
}

/// The text of a scalar, which determines a reduction that starts from it.
fn scalar_text(bytes: &[u8], dtype: optc_ir::DType) -> Option<String> {
    if dtype.complex_part().is_some() {
        return None;
    }
    let tensor = optc_ir::Tensor::from_bytes(dtype, Vec::new(), bytes).ok()?;
    if dtype.is_bool() {
        return Some((tensor.i64_at(0) != 0).to_string());
    }
    if dtype.is_int() {
        return Some(tensor.i128_at(0).to_string());
    }
    Some(format!("{:e}", tensor.f64_at(0)))
}
