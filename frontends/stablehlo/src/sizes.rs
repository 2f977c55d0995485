//! Sizes that are not numbers: finds the integers of a program that are sizes, and names each `?` by them.
//!
//! JAX computes unknown sizes of shapes from the arguments (`get_dimension_size`), by operations on integers and by
//! calls of functions that do the same, and passes them to the operations that need them. An integer is tracked as a
//! polynomial of named sizes. A `?` with a known polynomial gets it as its name, and any other `?` gets a new name. A
//! `shape_assertion` is assumed to hold, since the program stops there if it does not.
//!
//! For example, let `%0 = get_dimension_size %x, dim = 0` of a `tensor<?x4xf32>` whose first size is named `n0`, and
//! `%1 = multiply %0, 2`. A result of type `tensor<?xf32>` that is given `%1` as its size then has the size `2*n0`.

use crate::attrs::{Attributes as _, field_ints};
use crate::known::{Facts, Given, Integers, Known, MOST_INTEGERS, global, truth};
use crate::opcodes::{is_assertion, target};
use crate::translate::{Body, HANDED, Translator};
use indexmap::{IndexMap, IndexSet};
use optc_hlo::size;
use optc_ir::{Size, Tensor};
use optc_layout::{XlaArray, XlaDim, XlaShape, XlaType};
use optc_mlir_syntax::int;
use optc_mlir_syntax::{Elements, elements};
use optc_mlir_syntax::{Op, Use};
use std::sync::Arc;

/// The deepest nesting of calls of functions that compute sizes.
const MOST_DEPTH: usize = 16;

/// The most operations of called functions that are searched for sizes.
const MOST_STEPS: usize = 1 << 18;

/// Returns whether a type has an unknown size.
fn leaves_open(shape: &XlaShape) -> bool {
    let open = |array: &&XlaArray| array.dims.contains(&XlaDim::Unbounded);
    shape.leaves().iter().any(open)
}

/// The dimension of a size that is not a known number.
fn named(size: &Size) -> Option<XlaDim> {
    let open = size.as_constant().is_none();
    open.then(|| XlaDim::Named(Arc::from(size.to_text())))
}

/// The number of elements.
fn volume(dims: &[XlaDim]) -> Option<Size> {
    let sizes: Vec<Size> = dims.iter().map(size).collect::<Option<_>>()?;
    Size::product(&sizes)
}

impl<'a> Body<'a> {
    /// The size of a dimension of a value.
    fn size_of(&self, used: &Use<'a>, dim: usize) -> Option<Size> {
        size(self.array(self.value(used).ok()?)?.dims.get(dim)?)
    }

    /// The names of sizes that parameters have as extents or as values.
    pub(crate) fn bound(&self) -> IndexSet<Arc<str>> {
        let parameters = self.parameters.iter().map(|&at| &self.instructions[at]);
        let handed = parameters.clone().filter_map(|made| made.attrs.get(HANDED));
        let handed = handed.filter_map(Size::parse);
        let arrays = parameters.flat_map(|made| made.shape.leaves());
        let sizes = arrays.flat_map(|array| &array.dims).filter_map(size);
        sizes
            .chain(handed)
            .filter(|size| size.as_linear().is_some())
            .flat_map(|size| size.names())
            .collect()
    }
}

impl Body<'_> {
    /// Returns whether an emitter of these sizes finds every name at a parameter or at one of these operands.
    pub(crate) fn has_sizes<'s>(
        &self,
        operands: &[usize],
        sizes: impl IntoIterator<Item = &'s Size>,
    ) -> bool {
        let mut bound = self.bound();
        let own = operands.iter().filter_map(|&at| self.array(at));
        let own = own.flat_map(|array| &array.dims).filter_map(size);
        bound.extend(own.filter_map(|size| size.as_name().map(Arc::from)));
        let mut names = sizes.into_iter().flat_map(Size::names);
        names.all(|name| bound.contains(&name))
    }
}

impl<'a> Translator<'a> {
    /// A new name that no size has.
    fn fresh(&mut self) -> XlaDim {
        loop {
            let name: Arc<str> = Arc::from(format!("n{}", self.sizes));
            self.sizes += 1;
            if !self.taken.contains(&*name) {
                return XlaDim::Named(name);
            }
        }
    }

    /// Gives each `?` of a shape its name in `found`, or a new one.
    pub(crate) fn name_sizes(&mut self, shape: &mut XlaShape, found: Option<&XlaShape>) {
        match (shape, found) {
            (XlaShape::Array(array) | XlaShape::Buffer(array), found) => {
                let found = found.and_then(XlaShape::as_array);
                for (at, dim) in array.dims.iter_mut().enumerate() {
                    if *dim != XlaDim::Unbounded {
                        continue;
                    }
                    let known = found.and_then(|found| found.dims.get(at));
                    *dim = match known {
                        Some(named @ XlaDim::Named(_)) => named.clone(),
                        _ => self.fresh(),
                    };
                }
            }
            (XlaShape::Tuple(parts), found) => {
                let found = found.map_or(&[][..], XlaShape::elements);
                for (at, part) in parts.iter_mut().enumerate() {
                    self.name_sizes(part, found.get(at));
                }
            }
            (XlaShape::Token | XlaShape::Opaque, _) => {}
        }
    }

    /// A shape in which every `?` has a name of its own, or the name that the caller passes.
    pub(crate) fn opened(
        &mut self,
        shape: Arc<XlaShape>,
        given: Option<&XlaShape>,
    ) -> Arc<XlaShape> {
        if !leaves_open(&shape) {
            return shape;
        }
        let mut own = (*shape).clone();
        self.name_sizes(&mut own, given);
        Arc::new(own)
    }

    /// Names each `?` of the instructions from `from` on: by the sizes of their operands, else with a new name.
    pub(crate) fn settle(&mut self, body: &mut Body<'a>, from: usize) {
        for at in from..body.instructions.len() {
            if !leaves_open(&body.instructions[at].shape) {
                continue;
            }
            let (before, rest) = body.instructions.split_at(at);
            let made = &rest[0];
            let found = match made.opcode {
                "conditional" => {
                    let mut all = made.called.iter().flat_map(|(_, list)| list);
                    let mut root = || Some(&*self.computations[*all.next()?].root().shape);
                    let first = root();
                    let mut same = true;
                    while let Some(next) = root() {
                        same &= Some(next) == first;
                    }
                    first.filter(|_| same).cloned()
                }
                "gather" => gathered(made, before),
                "reduce-window" => windowed(made, before),
                "convolution" => convolved(made, before),
                // The element type is stated. A change of its width changes the last dimension, which is known.
                "convert" | "bitcast-convert" => {
                    let x = made.operands.first();
                    x.map(|&x| (*before[x].shape).clone())
                }
                _ => optc_hlo::infer(made, before, &self.computations),
            };
            let mut shape = (*made.shape).clone();
            self.name_sizes(&mut shape, found.as_ref());
            body.instructions[at].shape = Arc::new(shape);
        }
    }

    /// Sets the shapes of the results by the integers that are given to the operation for them.
    pub(crate) fn stated(&self, body: &Body<'a>, op: &Op<'a>, shapes: &mut [Arc<XlaShape>]) {
        let [shape] = shapes else { return };
        if !leaves_open(shape) {
            return;
        }
        let Some(sizes) = stated(body, op) else {
            return;
        };
        let XlaShape::Array(mut array) = (**shape).clone() else {
            return;
        };
        if array.dims.len() != sizes.len() {
            return;
        }
        for (dim, size) in array.dims.iter_mut().zip(&sizes) {
            if let (XlaDim::Unbounded, Some(known)) = (&*dim, named(size)) {
                *dim = known;
            }
        }
        *shape = Arc::new(XlaShape::Array(array));
    }

    /// Returns whether an operation with its result's sizes as operands may become one that has them in its type: an
    /// emitter must find every name at a parameter or at the operand.
    pub(crate) fn is_sized(&self, body: &Body<'a>, operands: &[usize], array: &XlaArray) -> bool {
        let known = |at: usize| body.array(at).and_then(optc_hlo::tensor_type).is_some();
        if leaves_open(&XlaShape::Array(array.clone()))
            || optc_hlo::tensor_type(array).is_none()
            || !operands.iter().all(|&at| known(at))
        {
            return false;
        }
        let sizes: Vec<Size> = array.dims.iter().filter_map(size).collect();
        body.has_sizes(operands, &sizes)
    }

    /// Returns whether a reshape keeps the number of elements for all sizes.
    pub(crate) fn keeps_volume(&self, body: &Body<'a>, x: usize, array: &XlaArray) -> bool {
        let from = body.array(x).and_then(|from| volume(&from.dims));
        from.is_some() && from == volume(&array.dims)
    }

    /// Tracks integers through an operation with named results.
    pub(crate) fn learn(&mut self, body: &mut Body<'a>, op: &'a Op<'a>) {
        if !self.open {
            return;
        }
        let dims = |used: &Use<'a>, dim: usize| body.size_of(used, dim);
        let found = self.integers(&body.known, op, &dims, 0);
        body.known.note(op, found);
        body.follow(op);
        if self.open && is_assertion(op) {
            let condition = op.operands.first();
            let both = condition.and_then(|c| body.known.equalities.get(&(c.name, c.part)));
            self.facts.equal.extend(both.cloned());
        }
        let callee = op
            .callee()
            .filter(|_| matches!(op.name, "call" | "func.call"));
        if let Some(func) = callee.and_then(|name| self.funcs.get(name)) {
            for (used, text) in op.operands.iter().zip(&func.arg_attrs) {
                let name = global(text).filter(|name| !name.is_empty());
                if let (Some(name), Some([one])) = (name, body.known.get(used).map(Vec::as_slice)) {
                    self.facts.named.push((one.clone(), Arc::from(name)));
                }
            }
        }
    }

    /// The integers of an operation's results, one entry for each result.
    fn integers(
        &mut self,
        known: &Known<'a>,
        op: &'a Op<'a>,
        dims: &dyn Fn(&Use<'a>, usize) -> Option<Size>,
        depth: usize,
    ) -> Vec<Option<Integers>> {
        if matches!(op.name, "call" | "func.call") {
            return self.through(known, op, depth);
        }
        let one = self.integers_of(known, op, dims);
        // Truncated integers, and floats, are other numbers.
        let ty = op.result_types.first();
        let shape = ty.and_then(|ty| self.shape(ty, op.span).ok());
        let wide = shape
            .as_ref()
            .and_then(|s| s.as_array())
            .is_some_and(|array| {
                let wide = [XlaType::S32, XlaType::S64, XlaType::U32, XlaType::U64];
                wide.contains(&array.element) || array.element == XlaType::Pred
            });
        vec![one.filter(|list| wide && list.len() <= MOST_INTEGERS)]
    }

    fn integers_of(
        &mut self,
        known: &Known<'a>,
        op: &'a Op<'a>,
        dims: &dyn Fn(&Use<'a>, usize) -> Option<Size>,
    ) -> Option<Integers> {
        let operand = |at: usize| known.get(op.operands.get(at)?).cloned();
        let each = |f: &mut dyn FnMut(&Size, &Size) -> Option<Size>| {
            let (a, b) = (operand(0)?, operand(1)?);
            let same = a.len() == b.len();
            let all = a.iter().zip(&b).map(|(a, b)| f(a, b));
            all.collect::<Option<Integers>>().filter(|_| same)
        };
        let facts = &mut self.facts;
        match op.name {
            "stablehlo.constant" => self.constants(op),
            "stablehlo.get_dimension_size" => {
                let dim = op
                    .attr("dim")
                    .or_else(|| op.attr("dimension"))
                    .and_then(int)?;
                let size = dims(op.operands.first()?, usize::try_from(dim).ok()?)?;
                Some(vec![size])
            }
            "stablehlo.reshape" | "stablehlo.convert" => operand(0),
            "stablehlo.broadcast_in_dim" => {
                let [one] = &operand(0)?[..] else { return None };
                self.repeated(op, one)
            }
            "stablehlo.concatenate" => {
                // Along another dimension than the first, the parts would be interleaved.
                let dim = op.attr("dim").or_else(|| op.attr("dimension"));
                let parts = (0..op.operands.len()).map(operand);
                let all = parts.collect::<Option<Vec<Integers>>>()?.concat();
                (dim.and_then(int) == Some(0)).then_some(all)
            }
            "stablehlo.add" => each(&mut |a, b| a.plus(b)),
            "stablehlo.subtract" => each(&mut |a, b| a.minus(b)),
            "stablehlo.multiply" => each(&mut |a, b| a.times(b)),
            "stablehlo.maximum" => each(&mut |a, b| a.maximum(b)),
            "stablehlo.minimum" => each(&mut |a, b| a.minimum(b)),
            // Division rounds toward zero, which is down if nothing is negative.
            "stablehlo.divide" => each(&mut |a, b| match (a.as_constant(), b.as_constant()) {
                (Some(a), Some(b)) => a.checked_div(b).map(Size::constant),
                _ => facts.is_positive(a).then(|| a.quotient(b))?,
            }),
            "stablehlo.remainder" => each(&mut |a, b| {
                if let (Some(a), Some(b)) = (a.as_constant(), b.as_constant()) {
                    return a.checked_rem(b).map(Size::constant);
                }
                let rest = facts.is_positive(a).then(|| a.remainder(b))??;
                if rest.as_constant().is_none() {
                    let of = (rest.clone(), [a.clone(), b.clone()]);
                    facts.remainders.push(of);
                }
                Some(rest)
            }),
            "stablehlo.sign" => operand(0)?.iter().map(sign).collect(),
            "stablehlo.compare" => {
                let direction = op.direction()?;
                each(&mut |a, b| facts.compare(direction, a, b).map(truth))
            }
            "stablehlo.and" | "stablehlo.or" => {
                connected(op.name == "stablehlo.or", [operand(0), operand(1)])
            }
            "stablehlo.not" => {
                let turned = |x: &Size| x.as_constant().map(|x| truth(x == 0));
                operand(0)?.iter().map(turned).collect()
            }
            "stablehlo.select" => match operand(0).as_deref() {
                Some([one]) => operand(if one.as_constant()? == 0 { 2 } else { 1 }),
                Some(_) => None,
                None => known.chosen(op),
            },
            _ => None,
        }
    }

    /// A number as all elements of the result.
    fn repeated(&mut self, op: &'a Op<'a>, one: &Size) -> Option<Integers> {
        let shape = self.shape(op.result_types.first()?, op.span).ok()?;
        let sizes = shape.as_array()?.sizes()?;
        let count = usize::try_from(sizes.iter().product::<u64>()).ok()?;
        let fits = sizes.len() <= 1 && count <= MOST_INTEGERS;
        fits.then(|| vec![one.clone(); count])
    }

    /// The elements of a constant of integers.
    fn constants(&mut self, op: &'a Op<'a>) -> Option<Integers> {
        let shape = self.shape(op.result_types.first()?, op.span).ok()?;
        let array = shape.as_array()?;
        let (ty, sizes) = (optc_hlo::tensor_type(array)?, array.sizes()?);
        let count = sizes.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?;
        let fits = usize::try_from(count).ok()? <= MOST_INTEGERS;
        if !fits || !(ty.dtype.is_int() || ty.dtype.is_bool()) {
            return None;
        }
        let text = self.aliases.resolve(op.attr("value")?);
        let (values, _) = text.rsplit_once(':').unwrap_or((text, ""));
        let found = elements(
            values,
            ty.dtype,
            count,
            self.aliases,
            op.span,
            &crate::syntax::MLIR,
        );
        let (bytes, own) = match found.ok()?? {
            Elements::All(bytes) => (bytes, usize::try_from(count).ok()?),
            Elements::Splat(bytes) => (bytes, 1),
            Elements::Elided(_) => return None,
        };
        let tensor = Tensor::from_bytes(ty.dtype, vec![own], &bytes).ok()?;
        let all = 0..usize::try_from(count).ok()?;
        let number = |i: usize| Size::constant(tensor.i128_at(if own == 1 { 0 } else { i }));
        Some(all.map(number).collect())
    }

    /// The integers that a called function returns.
    fn through(
        &mut self,
        known: &Known<'a>,
        op: &'a Op<'a>,
        depth: usize,
    ) -> Vec<Option<Integers>> {
        let none = vec![None; op.count()];
        let Some(&func) = op.callee().and_then(|name| self.funcs.get(name)) else {
            return none;
        };
        let given = op
            .operands
            .iter()
            .map(|used| (known.get(used), known.division(used)));
        let given: Vec<_> = given.collect();
        let helps = given
            .iter()
            .any(|(one, other)| one.is_some() || other.is_some());
        let numbers = |ty: &&str| {
            let inner = ty.trim_start_matches("tensor<");
            inner.starts_with(['i', 'u', 's']) || inner.starts_with(|c: char| c.is_ascii_digit())
        };
        if MOST_DEPTH < depth || !helps || !func.result_types.iter().any(numbers) {
            return none;
        }
        let mut inner = Known::default();
        for ((name, _), (integers, division)) in func.body.args.iter().zip(given) {
            if let Some(integers) = integers {
                inner.set(name, 0, integers.clone());
            }
            if let Some(division) = division {
                inner.divisions.insert((name, 0), division.clone());
            }
        }
        let Some((end, ops)) = func.body.ops.split_last() else {
            return none;
        };
        for op in ops {
            self.steps += 1;
            if MOST_STEPS < self.steps {
                return none;
            }
            if op.regions.is_empty() {
                let found = self.integers(&inner, op, &|_, _| None, depth + 1);
                inner.note(op, found);
            }
        }
        end.operands
            .iter()
            .map(|used| inner.get(used).cloned())
            .collect()
    }

    /// The sizes of the entry's arguments by the facts that were found, in terms of their sizes at that time.
    pub(crate) fn learned(&mut self, arguments: &[Arc<XlaShape>]) -> Vec<Given> {
        let dims = arguments.iter().flat_map(|shape| shape.leaves());
        let own: IndexSet<Arc<str>> = dims
            .flat_map(|array| &array.dims)
            .filter_map(|dim| match dim {
                XlaDim::Named(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
        let facts = std::mem::take(&mut self.facts);
        let mut meant: IndexMap<Arc<str>, Size> = IndexMap::new();
        for [a, b] in &facts.equal {
            if let Some((name, size)) = self.solved(&facts, &own, &meant, [a, b]) {
                for known in meant.values_mut() {
                    let with = |n: &str| (*n == *name).then(|| size.clone());
                    if let Some(new) = known.substituted(&with) {
                        *known = new;
                    }
                }
                meant.insert(name, size);
            }
        }
        // The names that callees have for the remaining sizes.
        let mut called: IndexMap<Arc<str>, Size> = IndexMap::new();
        let mut given: IndexSet<Arc<str>> = IndexSet::new();
        for (size, name) in &facts.named {
            let size = size.substituted(&|n| meant.get(n).cloned());
            if let Some(own) = size.as_ref().and_then(Size::as_name)
                && !called.contains_key(own)
                && given.insert(name.clone())
            {
                called.insert(Arc::from(own), Size::name(name));
            }
        }
        let resolved = |dim: &mut XlaDim| {
            let meant = size(dim).and_then(|s| s.substituted(&|n| meant.get(n).cloned()));
            let meant = meant.and_then(|s| s.substituted(&|n| called.get(n).cloned()));
            if let Some(named) = meant.as_ref().and_then(named) {
                *dim = named;
            }
        };
        let shape = |shape: &Arc<XlaShape>| {
            let mut own = (**shape).clone();
            if let XlaShape::Array(array) = &mut own {
                array.dims.iter_mut().for_each(resolved);
            }
            Given {
                shape: Some(Arc::new(own)),
                integers: None,
            }
        };
        arguments.iter().map(shape).collect()
    }

    /// The argument's size that an equality determines, and its value.
    fn solved(
        &mut self,
        facts: &Facts,
        own: &IndexSet<Arc<str>>,
        meant: &IndexMap<Arc<str>, Size>,
        [a, b]: [&Size; 2],
    ) -> Option<(Arc<str>, Size)> {
        let whole = facts.remainders.iter().find(|(rest, _)| rest == a);
        let (a, b) = match whole {
            Some((_, [dividend, divisor])) if b.as_constant() == Some(0) => {
                let XlaDim::Named(name) = self.fresh() else {
                    return None;
                };
                (dividend.clone(), divisor.times(&Size::name(&name))?)
            }
            _ => (a.clone(), b.clone()),
        };
        let now = |size: &Size| size.substituted(&|n| meant.get(n).cloned());
        let (a, b) = (now(&a)?, now(&b)?);
        for (one, other) in [(&a, &b), (&b, &a)] {
            let [name] = &one.names()[..] else { continue };
            let around = one.minus(&Size::name(name))?;
            let free = !other.names().contains(name) && around.as_constant().is_some();
            if free && own.contains(name) {
                let size = other.minus(&around)?;
                // A size that is a number stays a `?` of the text.
                return size.as_constant().is_none().then(|| (name.clone(), size));
            }
        }
        None
    }
}

/// Returns whether an operation is a reduction over windows with the sizes as operands.
pub(crate) fn is_reduce_window(op: &Op<'_>) -> bool {
    op.operands.len() == 7 && target(op) == Some("stablehlo.dynamic_reduce_window")
}

/// The sizes of a result by the integers given for it.
fn stated<'a>(body: &Body<'a>, op: &Op<'a>) -> Option<Vec<Size>> {
    let integers = |at: usize| body.known.get(op.operands.get(at)?);
    let dims = || {
        let array = body.array(body.value(op.operands.first()?).ok()?)?;
        array.dims.iter().map(size).collect::<Option<Vec<Size>>>()
    };
    match op.name {
        "stablehlo.dynamic_reshape" | "stablehlo.dynamic_broadcast_in_dim" => integers(1).cloned(),
        "stablehlo.dynamic_iota" => integers(0).cloned(),
        "stablehlo.custom_call" if is_reduce_window(op) => {
            let lists = [integers(2)?, integers(3)?, integers(4)?, integers(5)?];
            let (pads, one) = (integers(6)?, Size::constant(1));
            let count = |(d, n): (usize, &Size)| {
                let [size, step, base, dilation] = lists.map(|list| list.get(d));
                let stretched = |n: &Size, by: &Size| n.minus(&one)?.times(by)?.plus(&one);
                let around = pads.get(2 * d)?.plus(pads.get(2 * d + 1)?)?;
                let whole = stretched(n, base?)?.plus(&around)?;
                let span = stretched(size?, dilation?)?;
                whole.minus(&span)?.quotient(step?)?.plus(&one)
            };
            dims()?.iter().enumerate().map(count).collect()
        }
        "stablehlo.dynamic_pad" => {
            let lists = [integers(2)?, integers(3)?, integers(4)?];
            let mut all = Vec::new();
            for (at, n) in dims()?.iter().enumerate() {
                let [low, high, between] = lists.map(|list| list.get(at));
                let gaps = n.minus(&Size::constant(1))?.times(between?)?;
                all.push(n.plus(low?)?.plus(high?)?.plus(&gaps)?);
            }
            Some(all)
        }
        "stablehlo.real_dynamic_slice" if integers(1).is_none() => body.taken(op).cloned(),
        "stablehlo.real_dynamic_slice" => {
            let (starts, limits, steps) = (integers(1)?, integers(2)?, integers(3)?);
            let three = starts.iter().zip(limits).zip(steps);
            let length = |((start, limit), step): ((&Size, &Size), &Size)| {
                limit.minus(start)?.quotient_up(step)
            };
            three.map(length).collect()
        }
        "stablehlo.dynamic_gather" => {
            let text = op.attr("dimension_numbers")?;
            let list = |name: &str| -> Option<Vec<usize>> {
                let list = field_ints(text, name)?;
                list.into_iter().map(|n| usize::try_from(n).ok()).collect()
            };
            let indices = body.array(body.value(op.operands.get(1)?).ok()?)?;
            let places: Option<Vec<Size>> = indices.dims.iter().map(size).collect();
            let vector = crate::attrs::field(text, "index_vector_dim")
                .and_then(int)
                .unwrap_or(0);
            let dropped = [
                list("collapsed_slice_dims")?,
                list("operand_batching_dims").unwrap_or_default(),
            ];
            let vector = usize::try_from(vector).ok()?;
            taken(
                integers(2)?,
                &dropped.concat(),
                &list("offset_dims")?,
                &places?,
                vector,
            )
        }
        _ => None,
    }
}

/// The sizes of a gather's result: those of the indices, and at the places `offsets` those of a slice.
fn taken(
    slice: &[Size],
    dropped: &[usize],
    offsets: &[usize],
    indices: &[Size],
    vector: usize,
) -> Option<Vec<Size>> {
    let batch = indices.iter().enumerate().filter(|(d, _)| *d != vector);
    let mut batch = batch.map(|(_, size)| size.clone());
    let kept = slice
        .iter()
        .enumerate()
        .filter(|(d, _)| !dropped.contains(d));
    let mut kept = kept.map(|(_, size)| size.clone());
    let rank = offsets.len() + indices.len() - usize::from(vector < indices.len());
    let place = |d: usize| {
        if offsets.contains(&d) {
            kept.next()
        } else {
            batch.next()
        }
    };
    (0..rank).map(place).collect()
}

/// The shape of an instruction's operand of this number.
fn operand<'i>(
    made: &optc_hlo::Instruction<'_>,
    before: &'i [optc_hlo::Instruction<'_>],
    number: usize,
) -> Option<&'i XlaArray> {
    before.get(*made.operands.get(number)?)?.shape.as_array()
}

fn numbers(made: &optc_hlo::Instruction<'_>, name: &str) -> Vec<usize> {
    let text = made.attrs.get(name).unwrap_or("").trim_matches(['{', '}']);
    text.split(',')
        .filter_map(|n| n.trim().parse().ok())
        .collect()
}

/// The sign of a number, if it is known.
fn sign(n: &Size) -> Option<Size> {
    match n.as_constant() {
        Some(n) => Some(Size::constant(n.signum())),
        None => n.is_at_least(1).then(|| Size::constant(1)),
    }
}

/// The truth value of two ones by `or`, else by `and`. One operand that decides is enough.
fn connected(or: bool, [a, b]: [Option<Integers>; 2]) -> Option<Integers> {
    let decides = truth(or);
    let all = |list: &Option<Integers>| list.as_ref().is_some_and(|l| l[..] == [decides.clone()]);
    if all(&a) || all(&b) {
        return Some(vec![decides]);
    }
    let other = truth(!or);
    let rest = a?.iter().chain(&b?).all(|x| *x == other);
    rest.then(|| vec![other])
}

fn gathered(
    made: &optc_hlo::Instruction<'_>,
    before: &[optc_hlo::Instruction<'_>],
) -> Option<XlaShape> {
    let sizes = numbers(made, "slice_sizes").into_iter();
    let slice: Vec<Size> = sizes.map(|n| Size::from(n as u64)).collect();
    let dropped = [
        numbers(made, "collapsed_slice_dims"),
        numbers(made, "operand_batching_dims"),
    ];
    let indices = &operand(made, before, 1)?.dims;
    let indices: Vec<Size> = indices.iter().map(size).collect::<Option<_>>()?;
    let vector = made.attrs.get("index_vector_dim")?.parse().ok()?;
    let offsets = numbers(made, "offset_dims");
    let sizes = taken(&slice, &dropped.concat(), &offsets, &indices, vector)?;
    shaped(made, sizes.iter().map(named))
}

/// The shape of an instruction with these names for each `?`.
fn shaped(
    made: &optc_hlo::Instruction<'_>,
    names: impl Iterator<Item = Option<XlaDim>>,
) -> Option<XlaShape> {
    let mut array = made.shape.as_array()?.clone();
    for (dim, name) in array.dims.iter_mut().zip(names) {
        if let (XlaDim::Unbounded, Some(name)) = (&*dim, name) {
            *dim = name;
        }
    }
    Some(XlaShape::Array(array))
}

/// The number of windows of this dimension, in the text form of a window, that fit into `n` elements. At least one is
/// assumed to fit.
fn windows(text: &str, d: usize, n: &Size) -> Option<Size> {
    let window = text.trim_matches(['{', '}']);
    let field = |name: &str| {
        let mut fields = window.split(' ').filter_map(|part| part.split_once('='));
        let list = fields.find(|(key, _)| *key == name)?.1;
        list.split('x').nth(d)
    };
    let number = |name: &str, usual: i128| match field(name) {
        Some(text) => text.parse().ok().map(Size::constant),
        None => Some(Size::constant(usual)),
    };
    let (low, high) = field("pad").unwrap_or("0_0").split_once('_')?;
    let around = low.parse::<i128>().ok()?.checked_add(high.parse().ok()?)?;
    let one = Size::constant(1);
    let stretched = |n: &Size, step: &Size| n.minus(&one)?.times(step)?.plus(&one);
    let whole = stretched(n, &number("lhs_dilate", 1)?)?.plus(&Size::constant(around))?;
    let span = stretched(&number("size", 1)?, &number("rhs_dilate", 1)?)?;
    let steps = whole.minus(&span)?.quotient(&number("stride", 1)?)?;
    steps.plus(&one)
}

fn windowed(
    made: &optc_hlo::Instruction<'_>,
    before: &[optc_hlo::Instruction<'_>],
) -> Option<XlaShape> {
    let window = made.attrs.get("window")?;
    let dims = &operand(made, before, 0)?.dims;
    let count = |(d, dim): (usize, &XlaDim)| named(&windows(window, d, &size(dim)?)?);
    shaped(made, dims.iter().enumerate().map(count))
}

/// The sizes of a convolution's result: its number of images is that of its operand.
fn convolved(
    made: &optc_hlo::Instruction<'_>,
    before: &[optc_hlo::Instruction<'_>],
) -> Option<XlaShape> {
    let (left, rest) = made.attrs.get("dim_labels")?.split_once('_')?;
    let (_, result) = rest.split_once("->")?;
    let one = made.attrs.get("batch_group_count").is_none_or(|n| n == "1");
    let window = made.attrs.get("window").unwrap_or("{}");
    let dims = &operand(made, before, 0)?.dims;
    let place = |label: char| {
        let own = dims.get(left.find(label)?)?;
        match label.to_digit(10) {
            Some(d) => named(&windows(window, usize::try_from(d).ok()?, &size(own)?)?),
            None => (label == 'b' && one).then(|| own.clone()),
        }
    };
    shaped(made, result.chars().map(place))
}
