//! Validates a fold: proves with the pass's witness that both programs compute the same.
//!
//! The folded program is walked once. The walk describes each value as an element map of a source: an argument, a
//! constant, or the result of an operation that computes. Then the original is walked. The witness says which values to
//! compare; it is not trusted.
//!
//! 1. An argument corresponds to the argument with the same number.
//! 2. An operation that computes corresponds to the operations that the witness names. Each must have the same name and
//!    attributes, results of the same sizes in the same memory spaces, and for each operand the same element map of the
//!    same source.
//! 3. A rearrangement adds a step to a map, and a conversion adds none. Maps are compared as functions.
//! 4. Operations with effects correspond one to one and in order. A pure operation may correspond to several operations, or
//!    to none if nothing reads it.
//! 5. The function returns the same values. Every live value is where the witness says, in the layout that it states.
//!
//! For example, let the original be `%0 = transpose(%x)`, `%1 = relu(%0)`, and the folded program the same with a
//! `view` in place of the transpose. The witness pairs the two `relu`. Their operands are the same element map of
//! argument 0, so both results count as one value, and the function returns it in both programs.
//!
//! [`verify`](optc_ir::verify::verify) must have accepted both programs: it ensures that views are legal and shapes
//! agree. [`check_target`] decides whether the target accepts the layouts. This module shares no code with the search and
//! knows no candidates, rules or costs.

use crate::certificate::Certificate;
use crate::codes;
use crate::digest::Digest;
use crate::element_map::ElementMap;
use crate::stats::Stats;
use crate::target::{check_target, ports, runs_functions, same_layout};
use crate::witness::{End, FuncWitness, Holder, Kind, Kinds, Places, ValuePosition, Witness};
use indexmap::{IndexMap, IndexSet};
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::text::print_attr;
use optc_ir::{
    Attr, AttrDict, Diagnostic, Dim, Func, Joint, Module, Op, Operation, Registry, Site, StandIns,
    Value, ValueDef, ViewDims, named_sizes, unbound_sizes,
};
use optc_layout::ViewMap;
use optc_ops::Subview;
use optc_target::Target;
use std::borrow::Cow;

/// Accepts or refuses a folded module by its certificate. The digests must be those of the programs, the target must
/// accept the result, the result must move the stated number of bytes, and the witness must prove the fold.
///
/// # Errors
/// Every point in which the folded module contradicts the original, the target or the certificate.
pub fn check(
    original: &Module,
    folded: &Module,
    certificate: &Certificate,
    registry: &Registry,
    target: &Target,
) -> Result<(), Vec<Diagnostic>> {
    let mut diags = Vec::new();
    if certificate.target != target.name {
        let message = format!(
            "the certificate is for target `{}`, found `{}`",
            certificate.target, target.name
        );
        diags.push(Diagnostic::error(codes::CERTIFICATE_TARGET, message));
    }
    let programs = [
        ("original", original, certificate.original),
        ("folded", folded, certificate.folded),
    ];
    for (what, module, stated) in programs {
        let found = Digest::of(module);
        if found != stated {
            let message = format!(
                "the certificate is about an {what} program of digest {stated}, found one of {found}"
            );
            diags.push(Diagnostic::error(
                codes::CERTIFICATE_DIGEST,
                message.replace("an folded", "a folded"),
            ));
        }
    }
    let sizes = unbound_sizes(original, registry);
    let bytes = Stats::on(folded, registry, &sizes, target).movement_bytes;
    if bytes != certificate.movement_bytes {
        let message = format!(
            "the certificate states {} movement bytes, found {bytes}",
            certificate.movement_bytes
        );
        diags.push(Diagnostic::error(codes::CERTIFICATE_BYTES, message));
    }
    diags.extend(
        validate(original, folded, &certificate.witness, registry)
            .err()
            .into_iter()
            .flatten(),
    );
    diags.extend(check_target(folded, registry, target));
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

/// Accepts a folded module if the witness proves that it computes what the original does.
///
/// # Errors
/// For each function, the first point at which the proof fails.
pub fn validate(
    original: &Module,
    folded: &Module,
    witness: &Witness,
    registry: &Registry,
) -> Result<(), Vec<Diagnostic>> {
    let count = original.funcs.len();
    if folded.funcs.len() != count || witness.funcs.len() != count {
        let message = format!(
            "the original has {count} functions, the folded program {}, the witness {}",
            folded.funcs.len(),
            witness.funcs.len()
        );
        return Err(vec![mismatch(message)]);
    }
    let (left, right) = (
        named_sizes(original, registry),
        named_sizes(folded, registry),
    );
    let effects = (
        Effects::of_module(&left, registry),
        Effects::of_module(&right, registry),
    );
    let mut functions: IndexMap<&str, &Func> = IndexMap::new();
    for func in &right.funcs {
        functions.entry(&func.name).or_insert(func);
    }
    let ops = left
        .funcs
        .iter()
        .flat_map(|f| f.body.iter().map(|&op| &f.ops[op]));
    let named: IndexSet<&str> = ops.flat_map(|op| op.props.symbols()).collect();
    let mut diags = Vec::new();
    for ((a, b), stated) in left.funcs.iter().zip(&right.funcs).zip(&witness.funcs) {
        let proved = Proof::new(a, b, &functions, registry, (&effects.0, &effects.1))
            .and_then(|mut proof| proof.run(stated));
        diags.extend(proved.err().map(|diag| *diag));
        // If an operation refers to the function, the check of that operation compares the boundary.
        if !named.contains(&*a.name) {
            diags.extend(boundary(a, b, stated).err().map(|diag| *diag));
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

/// The memory space of a tensor.
fn space(func: &Func, value: Value) -> Option<u32> {
    func.ty(value).as_tensor().map(|ty| ty.notation.space())
}

/// Checks that arguments and results keep the layouts and memory spaces that the original declares, unless the witness
/// states another layout.
fn boundary(a: &Func, b: &Func, stated: &FuncWitness) -> Result<(), Box<Diagnostic>> {
    let mut said: IndexMap<End, Option<&str>> = IndexMap::new();
    for (end, layout) in &stated.boundary {
        let twice = said.insert(*end, layout.as_deref()).is_some();
        if twice || end.value(a).is_none() {
            let message = format!(
                "@{}: the line `boundary {end}` repeats another one, or names no argument or result",
                a.name
            );
            return Err(Box::new(Diagnostic::error(
                codes::CERTIFICATE_WITNESS,
                message,
            )));
        }
    }
    let args = (0..a.args.len()).map(End::Arg);
    for end in args.chain((0..a.results.len()).map(End::Result)) {
        let (Some(u), Some(v)) = (end.value(a), end.value(b)) else {
            continue;
        };
        let found = crate::target::encoding(b, v);
        let fits = match said.get(&end) {
            Some(None) => true,
            Some(Some(layout)) => found == **layout,
            None => same_layout(a, u, b, v) && space(a, u) == space(b, v),
        };
        if !fits {
            let wanted = match said.get(&end) {
                Some(Some(layout)) => format!("states {layout}"),
                _ => format!("declares {}", crate::target::encoding(a, u)),
            };
            let who = if said.contains_key(&end) {
                "witness"
            } else {
                "original"
            };
            let (what, i) = match end {
                End::Arg(i) => ("argument", i),
                End::Result(i) => ("result", i),
            };
            let name = &a.name;
            return Err(Box::new(mismatch(format!(
                "{what} {i} of @{name} has the layout {found}, the {who} {wanted}"
            ))));
        }
    }
    Ok(())
}

fn mismatch(message: String) -> Diagnostic {
    Diagnostic::error(codes::CERTIFICATE_MISMATCH, message)
}

/// The source of a value's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ElementSource {
    /// An argument or a computed value of the folded function. Of values that are proved equal, it is the first one.
    Computed(Value),
    /// The constant with this number in [`Numbers`].
    Constant(usize),
    /// The reshape with this number in [`Numbers`]: one whose result sizes do not follow from its operand.
    Reshaped(usize),
}

/// A value as an element map of its source.
#[derive(Clone, Debug)]
struct Seen {
    source: ElementSource,
    map: Option<ElementMap>,
    /// The number in [`Numbers`] of the chain of rearrangements. It is compared if there is no map.
    steps: usize,
}

/// A rearrangement as a key: its source, the source's shape, the permutation, and the resulting sizes.
type Reshape = (ElementSource, Vec<Dim>, Vec<usize>, Vec<Dim>);

/// Numbers for chains, constants, reshapes and sizes that are the same in both programs.
struct Numbers {
    /// Chains of rearrangements: the number of the chain before the last step, and the last step. Chain 0 is empty.
    steps: IndexSet<(usize, Vec<Dim>, Vec<usize>)>,
    /// Constants, compared by their contents and not by their position.
    constants: IndexSet<String>,
    /// Rearrangements without a known map: for each key, their operands and numbers.
    reshapes: IndexMap<Reshape, Vec<(Seen, usize)>>,
    reshape_count: usize,
    /// Stand-ins for sizes; `None` if the sizes are too large.
    sizes: Option<StandIns>,
    /// The stand-in for each dimension `?` of a source.
    open: IndexMap<(ElementSource, usize), u64>,
}

impl Numbers {
    fn new(func: &Func, registry: &Registry) -> Numbers {
        Numbers {
            steps: IndexSet::new(),
            constants: IndexSet::new(),
            reshapes: IndexMap::new(),
            reshape_count: 0,
            sizes: StandIns::for_func(func, registry),
            open: IndexMap::new(),
        }
    }

    /// The extents of a source, with stand-ins for unknown sizes.
    fn shape(&mut self, source: ElementSource, dims: &[Dim]) -> Option<Vec<u64>> {
        let sizes = self.sizes.as_mut()?;
        let number = |(at, dim): (usize, &Dim)| match (dim, self.open.get(&(source, at)).copied()) {
            (Dim::Unknown, Some(known)) => Some(known),
            (Dim::Unknown, None) => {
                let number = sizes.number(dim)?;
                self.open.insert((source, at), number);
                Some(number)
            }
            _ => sizes.number(dim),
        };
        dims.iter().enumerate().map(number).collect()
    }

    fn view_map(&mut self, from: &[u64], view: &ViewDims, result: &[Dim]) -> Option<ViewMap> {
        self.sizes.as_mut()?.view_map(from, view, result)
    }

    fn reshape(&mut self, seen: &Seen, view: &ViewDims, result: &[Dim]) -> usize {
        let key = (
            seen.source,
            view.shape.clone(),
            view.perm.clone(),
            result.to_vec(),
        );
        let alike = self.reshapes.entry(key).or_default();
        let known = alike.iter().find(|(s, _)| s.same(seen));
        if let Some(&(_, number)) = known {
            return number;
        }
        self.reshape_count += 1;
        alike.push((seen.clone(), self.reshape_count - 1));
        self.reshape_count - 1
    }

    fn then(&mut self, chain: usize, view: ViewDims) -> usize {
        self.steps.insert_full((chain, view.shape, view.perm)).0 + 1
    }

    fn constant(&mut self, func: &Func, op: Op, result: usize) -> usize {
        let data = &func.ops[op];
        let ty = func.ty(data.results[result]).as_tensor();
        let dims = ty.map(|t| (&t.dims, t.dtype));
        let props = props_text(&data.props);
        let text = format!("{} {result} {props} {dims:?}", data.name);
        self.constants.insert_full(text).0
    }
}

impl Seen {
    fn same(&self, other: &Seen) -> bool {
        self.source == other.source
            && match (&self.map, &other.map) {
                (Some(a), Some(b)) => a.same(b),
                _ => self.steps == other.steps,
            }
    }
}

/// A walk over one function, with the values that it has described so far.
struct Walk<'a> {
    func: &'a Func,
    registry: &'a Registry,
    kinds: Kinds<'a>,
    seen: SideTable<Value, Option<Seen>>,
}

impl<'a> Walk<'a> {
    fn new(func: &'a Func, registry: &'a Registry) -> Self {
        Walk {
            func,
            registry,
            kinds: Kinds::new(func, registry),
            seen: SideTable::new(None),
        }
    }

    fn start(&mut self, value: Value, source: ElementSource, numbers: &mut Numbers) {
        let ty = self.func.ty(value).as_tensor();
        let map = ty.and_then(|ty| {
            let shape = numbers.shape(source, &ty.dims)?;
            Some(ElementMap::identity(&shape, ty.dtype.bits()))
        });
        self.seen[value] = Some(Seen {
            source,
            map,
            steps: 0,
        });
    }

    /// Describes the results of an operation that does not compute.
    fn follow(&mut self, op: Op, numbers: &mut Numbers) -> Result<(), Box<Diagnostic>> {
        let data = &self.func.ops[op];
        match self.kinds.of(op) {
            Kind::Convert => {
                if let (Some(&x), Some(&y)) = (data.operands.first(), data.results.first()) {
                    self.seen[y] = self.seen[x].clone();
                }
            }
            Kind::Rearrange => self.rearrange(op, numbers)?,
            Kind::Constant => {
                for (i, &result) in data.results.iter().enumerate() {
                    let number = numbers.constant(self.func, op, i);
                    self.start(result, ElementSource::Constant(number), numbers);
                }
            }
            Kind::Compute => {}
        }
        Ok(())
    }

    fn rearrange(&mut self, op: Op, numbers: &mut Numbers) -> Result<(), Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let (Some(&x), Some(&y)) = (data.operands.first(), data.results.first()) else {
            return Ok(());
        };
        let Some(seen) = self.seen[x].clone() else {
            return Ok(());
        };
        let dims = self
            .registry
            .rearrangement(&self.func.op_ref(op))
            .map_err(|e| Box::new(Diagnostic::error(e.code, e.message)))?;
        let result = self.func.ty(y).as_tensor().map_or(&[][..], |ty| &ty.dims);
        let map = match seen.map.clone() {
            Some(map) => match numbers.view_map(map.shape(), &dims, result) {
                Some(view) => map.then(view),
                None => {
                    let number = numbers.reshape(&seen, &dims, result);
                    self.start(y, ElementSource::Reshaped(number), numbers);
                    return Ok(());
                }
            },
            None => None,
        };
        let steps = numbers.then(seen.steps, dims);
        self.seen[y] = Some(Seen {
            source: seen.source,
            map,
            steps,
        });
        Ok(())
    }
}

/// The proof of one function.
struct Proof<'a> {
    registry: &'a Registry,
    left: Walk<'a>,
    right: Walk<'a>,
    /// For a value of the folded function that is computed again: the first value that is proved equal to it.
    first: SideTable<Value, Option<Value>>,
    numbers: Numbers,
    effects: (&'a Effects<'a>, &'a Effects<'a>),
    functions: &'a IndexMap<&'a str, &'a Func>,
}

impl<'a> Proof<'a> {
    /// Walks the folded function. Each result of an operation that computes is a new source.
    fn new(
        a: &'a Func,
        b: &'a Func,
        functions: &'a IndexMap<&'a str, &'a Func>,
        registry: &'a Registry,
        effects: (&'a Effects<'a>, &'a Effects<'a>),
    ) -> Result<Proof<'a>, Box<Diagnostic>> {
        let mut numbers = Numbers::new(a, registry);
        let mut right = Walk::new(b, registry);
        for &arg in &b.args {
            right.start(arg, ElementSource::Computed(arg), &mut numbers);
        }
        for &op in &b.body {
            right.follow(op, &mut numbers)?;
            if right.kinds.of(op) == Kind::Compute {
                for &result in &b.ops[op].results {
                    right.start(result, ElementSource::Computed(result), &mut numbers);
                }
            }
        }
        Ok(Proof {
            registry,
            left: Walk::new(a, registry),
            right,
            first: SideTable::new(None),
            numbers,
            effects,
            functions,
        })
    }

    /// Returns whether an operation of the folded program and the functions that it runs agree on layouts: each value that
    /// they share has one layout at all ports. If a port holds the values of all iterations, only the order must agree.
    fn agrees(&self, op: Op) -> bool {
        let of_name = |name: &str| self.functions.get(name).copied();
        let Some(site) = Site::of(self.right.func, op, self.registry, of_name) else {
            return false;
        };
        site.joined.iter().all(|class| {
            let parts = class.iter().filter(|joint| joint.axis.is_none());
            let mut parts = parts.filter_map(|joint| site.value(joint.place));
            let Some((func, first)) = parts.next() else {
                return true;
            };
            let order = order_of(func, first);
            let alike = |joint: &Joint| {
                let Some((whole, value)) = site.value(joint.place) else {
                    return false;
                };
                if joint.axis.is_none() {
                    return same_layout(func, first, whole, value);
                }
                // Each iteration reads or writes one part of this value, so only the order of the part is compared.
                match (&order, order_of(whole, value)) {
                    (Some(order), Some(whole)) => joint.of_one_round(&whole) == *order,
                    _ => true,
                }
            };
            class.iter().all(alike)
        })
    }

    fn run(&mut self, stated: &FuncWitness) -> Result<(), Box<Diagnostic>> {
        let (a, b) = (self.left.func, self.right.func);
        let name = a.name.escape_default().to_string();
        if a.name != b.name || stated.name != name {
            let message = format!(
                "found @{} and a witness of @{}, wanted @{name}",
                b.name, stated.name
            );
            return Err(Box::new(mismatch(message)));
        }
        self.arguments()?;
        let pairs = self.pairs(stated)?;
        for &op in &a.body {
            match self.left.kinds.of(op) {
                // If no operation corresponds to this one, its results stay undescribed, and a reader of them is refused.
                Kind::Compute => {
                    for &by in &pairs[op] {
                        self.stands_for(op, by)?;
                    }
                }
                _ => self.left.follow(op, &mut self.numbers)?,
            }
        }
        self.results()?;
        self.every_live_value(stated, &pairs)?;
        stated.values.iter().try_for_each(|held| self.holds(held))
    }

    /// Checks that the witness has a line for each live value: operands and results of the computing operations that it
    /// pairs, and the values that the function returns.
    fn every_live_value(
        &self,
        stated: &FuncWitness,
        pairs: &SideTable<Op, Vec<Op>>,
    ) -> Result<(), Box<Diagnostic>> {
        let a = self.left.func;
        let places = Places::new(a);
        let held: IndexSet<ValuePosition> = stated.values.iter().map(|held| held.value).collect();
        let paired = a.body.iter().filter(|&&op| !pairs[op].is_empty());
        let ports = paired.flat_map(|&op| a.ops[op].operands.iter().chain(&a.ops[op].results));
        for &value in ports.chain(&a.results) {
            if let Some(place) = places.of(a, value)
                && !held.contains(&place)
            {
                let message = format!(
                    "@{}: the witness has no line for {place}, which is live",
                    a.name
                );
                return Err(Box::new(Diagnostic::error(
                    codes::CERTIFICATE_WITNESS,
                    message,
                )));
            }
        }
        Ok(())
    }

    fn arguments(&mut self) -> Result<(), Box<Diagnostic>> {
        let (a, b) = (self.left.func, self.right.func);
        if a.args.len() != b.args.len() || a.results.len() != b.results.len() {
            let count =
                |f: &Func| format!("{} arguments and {} results", f.args.len(), f.results.len());
            let message = format!("@{} has {}, the original {}", a.name, count(b), count(a));
            return Err(Box::new(mismatch(message)));
        }
        for (i, (&u, &v)) in a.args.iter().zip(&b.args).enumerate() {
            if !same_type(a, u, b, v) {
                let message = format!("argument {i} of @{} is of another type", a.name);
                return Err(Box::new(mismatch(message)));
            }
            self.left
                .start(u, ElementSource::Computed(v), &mut self.numbers);
        }
        Ok(())
    }

    /// The operations that the witness names for each operation of the original. Checks that operations with effects
    /// correspond one to one and in order.
    fn pairs(&self, stated: &FuncWitness) -> Result<SideTable<Op, Vec<Op>>, Box<Diagnostic>> {
        let (a, b) = (self.left.func, self.right.func);
        let mut pairs: SideTable<Op, Vec<Op>> = SideTable::new(Vec::new());
        let mut stated_once: IndexSet<(usize, usize)> = IndexSet::new();
        for &(x, y) in &stated.operations {
            let (Some(&op), Some(&by)) = (a.body.get(x), b.body.get(y)) else {
                let message = format!(
                    "operations {x} and {y} of @{}: one of them is not there",
                    a.name
                );
                return Err(Box::new(mismatch(message)));
            };
            if !stated_once.insert((x, y)) {
                let message = format!("operation {x} of @{} is stated twice", a.name);
                return Err(Box::new(
                    mismatch(message).at(a.ops[op].span, "the original"),
                ));
            }
            for (walk, at, program) in [
                (&self.left, op, "original"),
                (&self.right, by, "folded program"),
            ] {
                if walk.kinds.of(at) != Kind::Compute {
                    let message = format!(
                        "operations {x} and {y} of @{}: `{}` of the {program} does not compute; a line `op` may name only operations that compute",
                        a.name, walk.func.ops[at].name
                    );
                    return Err(Box::new(mismatch(message)));
                }
            }
            pairs[op].push(by);
        }
        let effectful = |walk: &Walk<'_>, effects: &Effects<'_>| -> Vec<Op> {
            let stays = |op: &Op| {
                walk.kinds.of(*op) == Kind::Compute && !effects.of(walk.func, *op).is_pure()
            };
            walk.func.body.iter().copied().filter(stays).collect()
        };
        let left = effectful(&self.left, self.effects.0);
        let right = effectful(&self.right, self.effects.1);
        let wanted = left.iter().map(|&op| &pairs[op][..]);
        if !wanted.eq(right.iter().map(std::slice::from_ref)) {
            let message = format!(
                "@{}: operations with effects differ from the original's: wanted each once, in the same order",
                a.name
            );
            return Err(Box::new(mismatch(message)));
        }
        Ok(pairs)
    }

    fn stands_for(&mut self, x: Op, y: Op) -> Result<(), Box<Diagnostic>> {
        let (a, b) = (self.left.func, self.right.func);
        let (p, q) = (&a.ops[x], &b.ops[y]);
        let refuse = |message: String| Err(Box::new(mismatch(message).at(p.span, "the original")));
        let (first, second) = (as_copy(&p.name, &p.props), as_copy(&q.name, &q.props));
        if first.0 != second.0
            || !same_props(&first.1, &second.1)
            || p.operands.len() != q.operands.len()
            || p.results.len() != q.results.len()
        {
            return refuse(format!("found `{}` in the place of `{}`", q.name, p.name));
        }
        if runs_functions(b, y) && b.callee(y).is_none() && !self.agrees(y) {
            for (i, (u, v)) in ports(a, x).into_iter().zip(ports(b, y)).enumerate() {
                if !same_layout(a, u, b, v) {
                    return refuse(format!(
                        "port {i} of `{}` has another layout than the functions it runs were written for",
                        q.name
                    ));
                }
            }
        }
        for (i, (&u, &v)) in p.operands.iter().zip(&q.operands).enumerate() {
            if !self.same(u, v) {
                return refuse(format!(
                    "operand {i} of `{}` is another value or another view",
                    q.name
                ));
            }
        }
        for (i, (&u, &v)) in p.results.iter().zip(&q.results).enumerate() {
            if space(a, u) != space(b, v) {
                return refuse(format!(
                    "result {i} of `{}` lies in another memory space",
                    q.name
                ));
            }
            if !same_type(a, u, b, v) {
                return refuse(format!("result {i} of `{}` is of another type", q.name));
            }
            match &self.left.seen[u] {
                // Another operation of the witness computes this value already: this one computes it again.
                Some(Seen {
                    source: ElementSource::Computed(first),
                    ..
                }) => self.first[v] = Some(*first).filter(|first| *first != v),
                _ => self
                    .left
                    .start(u, ElementSource::Computed(v), &mut self.numbers),
            }
        }
        Ok(())
    }

    fn results(&self) -> Result<(), Box<Diagnostic>> {
        let (a, b) = (self.left.func, self.right.func);
        for (i, (&u, &v)) in a.results.iter().zip(&b.results).enumerate() {
            if !self.same(u, v) {
                let message = format!("result {i} of @{} is another value", a.name);
                return Err(Box::new(mismatch(message)));
            }
        }
        Ok(())
    }

    /// Checks the witness's line of one live value against the folded function.
    fn holds(&self, held: &Holder) -> Result<(), Box<Diagnostic>> {
        let (a, b) = (self.left.func, self.right.func);
        let stated = |what: String| {
            Err(Box::new(Diagnostic::error(
                codes::CERTIFICATE_WITNESS,
                format!(
                    "@{}: {} is said to be in {}: {what}",
                    a.name, held.value, held.by
                ),
            )))
        };
        let (Some(u), Some(v)) = (held.value.value(a), held.by.value(b)) else {
            return stated("there is no such value".to_owned());
        };
        if !self.same(u, v) {
            return stated("it is another value, or at other indices".to_owned());
        }
        let layout = crate::target::encoding(b, v);
        if layout != held.layout {
            return stated(format!(
                "found layout {layout}, the witness states {}",
                held.layout
            ));
        }
        let (root, map) = self.right.kinds.origin(v);
        if held.root.value(b) != Some(root) || map != held.map {
            let place = |value: Value| match b.values[value].def {
                ValueDef::Arg(i) => ValuePosition::Arg(i).to_string(),
                ValueDef::Result(op, i) => format!("result {i} of `{}`", b.ops[op].name),
            };
            return stated(format!(
                "found {} by {map:?}, the witness states {} by {:?}",
                place(root),
                held.root,
                held.map
            ));
        }
        Ok(())
    }

    fn same(&self, u: Value, v: Value) -> bool {
        same_type(self.left.func, u, self.right.func, v)
            && match (&self.left.seen[u], &self.right.seen[v]) {
                (Some(x), Some(y)) => x.same(&self.known(y)),
                _ => false,
            }
    }

    /// The description of a value of the folded function, with the first equal value as its source.
    fn known<'s>(&self, seen: &'s Seen) -> Cow<'s, Seen> {
        let first = match seen.source {
            ElementSource::Computed(value) => self.first[value],
            ElementSource::Constant(_) | ElementSource::Reshaped(_) => None,
        };
        match first {
            None => Cow::Borrowed(seen),
            Some(first) => Cow::Owned(Seen {
                source: ElementSource::Computed(first),
                ..seen.clone()
            }),
        }
    }
}

/// Returns whether two values have the same sizes and element type; for values that are not tensors, the same type.
fn same_type(a: &Func, u: Value, b: &Func, v: Value) -> bool {
    match (a.ty(u).as_tensor(), b.ty(v).as_tensor()) {
        (Some(x), Some(y)) => x.dims == y.dims && x.dtype == y.dtype,
        (None, None) => a.ty(u) == b.ty(v),
        _ => false,
    }
}

/// The name and the attributes of an operation. For a `subview`, those of the operation that would copy its elements.
fn as_copy<'n>(name: &'n str, props: &AttrDict) -> (&'n str, AttrDict) {
    match name {
        Subview::NAME => Subview::as_copy(props.clone()),
        _ => (name, props.clone()),
    }
}

/// Returns whether two operations have the same attributes. An attribute may be represented in two ways, as built and as
/// read from text, but both print alike.
fn same_props(a: &AttrDict, b: &AttrDict) -> bool {
    a == b || props_text(a) == props_text(b)
}

fn props_text(props: &AttrDict) -> String {
    let text = |(name, attr): (&str, &Attr)| format!("{name:?} = {}, ", print_attr(attr));
    props.iter().map(text).collect()
}

/// The dimensions of a value that are longer than 1, major to minor; `None` if its layout is not an order of
/// dimensions.
fn order_of(func: &Func, value: Value) -> Option<Vec<usize>> {
    let ty = func.ty(value).as_tensor()?;
    let mut order = ty.notation.order(ty.rank())?;
    order.retain(|&dim| !ty.dims[dim].is_one());
    Some(order)
}
