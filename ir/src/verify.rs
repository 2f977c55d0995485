//! The verifier: the invariants that every other stage relies on.
//!
//! For example, `%0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<2x3xf32>` is refused with
//! the code `result-shape-mismatch`: the shape rule infers 3x2.
//!
//! All errors are reported, in the order of the text, except that each operation reports only its first error.
//!
//! # Modules
//! - The functions have different names (`function-duplicate`).
//! - Attributes of the module, of arguments and of results have the name of a dialect before a point, as MLIR requires
//!   (`attribute-dialect`).
//! - Calls form no cycle (`call-target-recursive`).
//!
//! # Functions
//! - Each argument and each result has one port (`port-count`). The names of the arguments differ, and so do those of
//!   the results (`port-name-duplicate`).
//! - Ids are those of the function's own tables. Each operation is in the body once and owns its results
//!   (`value-foreign`).
//! - Operands and returned values are arguments, or results of an earlier operation (`value-undefined`).
//!
//! # Types
//! - Arguments and results have fewer than 2^63 positions, and a layout fits its shape (`layout-invalid`). Types with
//!   unknown dimensions are checked with stand-in numbers.
//!
//! # Operations
//! - An operation of the `hbir` dialect has a declaration (`hbir-op-unknown`). An operation of another dialect without
//!   a declaration is opaque: its types are accepted as written.
//! - The shape rule accepts the operation (the codes of the operation, `operand-count`, `operand-kind`,
//!   `attribute-missing`, `attribute-kind`). It infers the stated number of results (`result-count`), which are tensors
//!   (`result-kind`) with the stated dimensions (`result-shape-mismatch`) and element type (`result-type-mismatch`). An
//!   unknown dimension matches every other dimension, a symbol matches itself. The results of an operation without a
//!   shape rule (`hbir.opaque`, `hbir.call`) need not be tensors.
//! - The further constraints of the declaration hold (the codes of the operation).
//! - `hbir.view`: the layouts agree exactly with the index map (`view-illegal`); its shapes and permutation fit
//!   (`view-shape`).
//! - `hbir.call`, `func.call`: the callee exists (`call-target-missing`), and its arguments and results have these
//!   types (`call-argument-mismatch`, `call-result-mismatch`).
//!
//! # Further checks of functions
//! - The registry's checks of functions as a whole hold ([`Registry::checks`]), for example of plans of tiles.
//!
//! # Splits over a mesh
//! - The axes of `hbir.mesh` are well-formed and differ (`shard-mesh`). Shardings are well-formed (`shard-syntax`), name
//!   its axes (`shard-axis`), and their digits divide the extents (`shard-split`); see [`shard`].
//!
//! # Symbolic dimensions
//! A view between types of unknown dimensions is decided with stand-in numbers for sizes ([`StandIns`]). A `?` whose
//! size follows from the number of elements gets that size. A stated name agrees with an inferred expression (`T` with
//! `S+1`) unless the two provably differ.
//!
//! # Not checked here
//! - That the tiles of a result cover it, and that they fit a target's memory.
//! - That the module's `hbir.target` accepts the layouts: this crate knows no targets.
//! - That the bytes of an external constant exist: this crate reads no files.

use crate::attr::{Attr, AttrDict};
use crate::codes;
use crate::diag::{Code, CodeName, Diagnostic, nearest};
use crate::entity::EntityId;
use crate::module::{Func, Module, Op, Port, Value, ValueDef};
use crate::op::{OpError, OpRef, Registry, Structure, ViewDims, check_results};
use crate::shard;
use crate::span::Span;
use crate::stand_in::{LEAST_PRIMES, StandIns};
use crate::text::{print_type, same_type};
use crate::types::{Dim, TensorType, Type};
use indexmap::{IndexMap, IndexSet};
use optc_layout::{Layout, LayoutError, Notation, ViewMap, gcd, is_view};
use std::sync::Arc;

/// Checks a module.
///
/// # Errors
/// All violations, in the order of the text.
pub fn verify(module: &Module, registry: &Registry) -> Result<(), Vec<Diagnostic>> {
    let mut verifier = Verifier {
        registry,
        funcs: IndexMap::new(),
        layouts: IndexSet::new(),
        diags: Vec::new(),
    };
    for func in &module.funcs {
        if verifier.funcs.contains_key(&*func.name) {
            let message = format!("the function @{} is defined twice", func.name);
            let error = Diagnostic::error(codes::FUNCTION_DUPLICATE, message);
            verifier.diags.push(error.at(func.span, "the second one"));
        } else {
            verifier.funcs.insert(&func.name, func);
        }
    }
    verifier.dialect_attrs(&module.attrs, "the module", Span::default());
    module.funcs.iter().for_each(|f| verifier.func(f));
    verifier.recursion(module);
    if verifier.diags.is_empty() {
        verifier
            .diags
            .extend(shard::check(module).err().into_iter().flatten());
    }
    if verifier.diags.is_empty() {
        Ok(())
    } else {
        Err(verifier.diags)
    }
}

/// A module that [`verify`] accepted.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'m>(&'m Module);

impl<'m> Verified<'m> {
    /// Checks a module.
    ///
    /// # Errors
    /// As [`verify`].
    pub fn new(module: &'m Module, registry: &Registry) -> Result<Self, Vec<Diagnostic>> {
        verify(module, registry).map(|()| Verified(module))
    }
    /// The module.
    #[must_use]
    pub fn module(self) -> &'m Module {
        self.0
    }
}

struct Verifier<'m> {
    registry: &'m Registry,
    funcs: IndexMap<&'m str, &'m Func>,
    /// The types whose layout fits, by address; `funcs` keeps them alive.
    layouts: IndexSet<usize>,
    diags: Vec<Diagnostic>,
}

impl<'m> Verifier<'m> {
    fn error(&mut self, code: Code, message: String, span: Span, label: &str) {
        self.diags
            .push(Diagnostic::error(code, message).at(span, label));
    }

    fn func(&mut self, func: &'m Func) {
        self.ports(func, &func.arg_ports, func.args.len(), "argument");
        self.ports(func, &func.result_ports, func.results.len(), "result");
        let mut defined = vec![false; func.values.len()];
        for (i, &arg) in func.args.iter().enumerate() {
            let data = func.values.get(arg);
            if data.is_none_or(|data| data.def != ValueDef::Arg(i)) {
                let message = format!(
                    "argument {i} of @{} is not a value of the function",
                    func.name
                );
                self.error(codes::VALUE_FOREIGN, message, func.span, "this function");
                return;
            }
            defined[arg.index()] = true;
            self.value_layout(func, arg, func.span);
        }
        let mut placed = vec![false; func.ops.len()];
        for &op in &func.body {
            if !self.owned(func, op, &mut placed) {
                return;
            }
            self.uses(func, op, &defined);
            func.ops[op]
                .results
                .iter()
                .for_each(|v| defined[v.index()] = true);
            self.op(func, op);
        }
        for check in self.registry.checks() {
            self.diags
                .extend(check(func, self.registry).err().into_iter().flatten());
        }
        for (i, &value) in func.results.iter().enumerate() {
            let own = func.values.get(value).is_some();
            if !(own && defined[value.index()]) {
                let message = format!("result {i} of @{} is defined nowhere in it", func.name);
                self.error(codes::VALUE_UNDEFINED, message, func.span, "this function");
            }
        }
    }

    fn dialect_attrs(&mut self, attrs: &AttrDict, owner: &str, span: Span) {
        let plain = |name: &str| {
            name.split_once('.')
                .is_none_or(|(dialect, _)| dialect.is_empty())
        };
        if let Some((name, _)) = attrs.iter().find(|(name, _)| plain(name)) {
            let message = format!(
                "{owner} has the attribute `{name}`, wanted a dialect before it, `my.{name}`"
            );
            self.error(codes::ATTRIBUTE_DIALECT, message, span, "here");
        }
    }

    fn ports(&mut self, func: &Func, ports: &[Port], wanted: usize, what: &str) {
        if ports.len() != wanted {
            let message = format!(
                "@{} has {} ports, wanted {wanted}, one a {what}",
                func.name,
                ports.len()
            );
            return self.error(codes::PORT_COUNT, message, func.span, "this function");
        }
        let key = |i| {
            if what == "argument" {
                func.arg_key(i)
            } else {
                func.result_key(i)
            }
        };
        for (i, port) in ports.iter().enumerate() {
            self.dialect_attrs(
                &port.attrs,
                &format!("{what} {i} of @{}", func.name),
                func.span,
            );
        }
        let mut seen = IndexSet::new();
        for i in 0..wanted {
            let name = key(i);
            if seen.contains(&name) {
                let message = format!("two {what}s of @{} are named `{name}`", func.name);
                return self.error(
                    codes::PORT_NAME_DUPLICATE,
                    message,
                    func.span,
                    "this function",
                );
            }
            seen.insert(name);
        }
    }

    /// Returns whether the operation and its results are in the function's own tables and in its body once.
    fn owned(&mut self, func: &Func, op: Op, placed: &mut [bool]) -> bool {
        let own = func.ops.get(op).is_some();
        let results = own && !placed[op.index()] && {
            placed[op.index()] = true;
            let own = |(i, v): (usize, &Value)| {
                let data = func.values.get(*v);
                data.is_some_and(|data| data.def == ValueDef::Result(op, i))
            };
            func.ops[op].results.iter().enumerate().all(own)
        };
        if !results {
            let message = format!(
                "{op} is in the body of @{} twice, or belongs to another function",
                func.name
            );
            self.error(codes::VALUE_FOREIGN, message, func.span, "this function");
        }
        results
    }

    fn uses(&mut self, func: &Func, op: Op, defined: &[bool]) {
        let data = &func.ops[op];
        for (i, &value) in data.operands.iter().enumerate() {
            let own = func.values.get(value).is_some();
            if !(own && defined[value.index()]) {
                let message = format!("operand {i} of {} is not defined before it", data.name);
                return self.error(codes::VALUE_UNDEFINED, message, data.span, "this operation");
            }
        }
    }

    fn op(&mut self, func: &'m Func, op: Op) {
        let data = &func.ops[op];
        let before = self.diags.len();
        data.results
            .iter()
            .for_each(|&v| self.value_layout(func, v, data.span));
        let foreign = data.operands.iter().any(|&v| func.values.get(v).is_none());
        if self.diags.len() > before || foreign {
            return;
        }
        let checked = match self.registry.get(&data.name) {
            Some(decl) if decl.is_part() => {
                check_results(&func.op_ref(op), decl).and_then(|()| part(&func.op_ref(op)))
            }
            Some(decl) => check_results(&func.op_ref(op), decl),
            None => self.undeclared(&data.name),
        };
        let checked = checked.and_then(|()| match self.registry.structure(&data.name) {
            Structure::View => view(&func.op_ref(op), self.registry),
            Structure::Call => self.call(func, op),
            Structure::Plain | Structure::Convert | Structure::Constant | Structure::Opaque => {
                Ok(())
            }
        });
        if let Err(error) = checked {
            let mut diag =
                Diagnostic::error(error.code, error.message).at(data.span, "this operation");
            diag.notes.extend(error.hint.map(|h| format!("hint: {h}")));
            diag.notes.extend(misplaced(error.code, func, op));
            self.diags.push(diag);
        }
    }

    fn undeclared(&self, name: &str) -> Result<(), OpError> {
        let Some(short) = name.strip_prefix("hbir.") else {
            return Ok(());
        };
        let error = OpError::new(
            codes::HBIR_OP_UNKNOWN,
            format!("found {name}, wanted an operation of the dialect"),
        );
        let all = self.registry.all();
        let known = all.iter().filter_map(|d| d.name().strip_prefix("hbir."));
        Err(match nearest(short, known) {
            Some(near) => error.hint(format!("did you mean hbir.{near}?")),
            None => error,
        })
    }

    fn call(&self, func: &Func, op: Op) -> Result<(), OpError> {
        let data = &func.ops[op];
        let Some(Attr::Symbol(callee)) = data.props.get("callee") else {
            return Err(OpError::new(
                codes::ATTRIBUTE_MISSING,
                format!("{} needs the attribute `callee`", data.name),
            ));
        };
        let Some(target) = self.funcs.get(&**callee) else {
            let error = OpError::new(
                codes::CALL_TARGET_MISSING,
                format!("there is no function @{callee}"),
            );
            return Err(match nearest(callee, self.funcs.keys().copied()) {
                Some(near) => error.hint(format!("did you mean @{near}?")),
                None => error,
            });
        };
        let agree = |code: Code, what: &str, given: &[Value], taken: &[Value]| {
            if given.len() != taken.len() {
                let message = format!(
                    "found {} {what}s, wanted {} by @{callee}",
                    given.len(),
                    taken.len()
                );
                return Err(OpError::new(code, message));
            }
            for (i, (&given, &taken)) in given.iter().zip(taken).enumerate() {
                if target.values.get(taken).is_none() {
                    continue;
                }
                let (found, wanted) = (func.ty(given), target.ty(taken));
                if !same_type(found, wanted) {
                    let (found, wanted) = (print_type(found), print_type(wanted));
                    let message = format!("{what} {i} is {found}, wanted {wanted} by @{callee}");
                    return Err(OpError::new(code, message));
                }
            }
            Ok(())
        };
        agree(
            codes::CALL_ARGUMENT_MISMATCH,
            "argument",
            &data.operands,
            &target.args,
        )?;
        agree(
            codes::CALL_RESULT_MISMATCH,
            "result",
            &data.results,
            &target.results,
        )
    }

    /// Refuses call cycles; visits each function once.
    fn recursion(&mut self, module: &'m Module) {
        let mut state: IndexMap<&str, bool> = IndexMap::new();
        for func in &module.funcs {
            let mut stack = vec![(func, 0usize)];
            if state.contains_key(&*func.name) {
                continue;
            }
            state.insert(&func.name, false);
            while let Some((at, next)) = stack.pop() {
                let Some(&op) = at.body.get(next) else {
                    state.insert(&at.name, true);
                    continue;
                };
                stack.push((at, next + 1));
                if at.ops.get(op).is_none() {
                    continue;
                }
                let target = at.callee(op).and_then(|name| self.funcs.get(name));
                let Some(&target) = target else { continue };
                match state.get(&*target.name) {
                    None => {
                        state.insert(&target.name, false);
                        stack.push((target, 0));
                    }
                    Some(true) => {}
                    Some(false) => {
                        let message =
                            format!("@{} calls itself, through @{}", target.name, at.name);
                        let span = at.ops[op].span;
                        self.error(codes::CALL_TARGET_RECURSIVE, message, span, "this call");
                        return;
                    }
                }
            }
        }
    }

    fn value_layout(&mut self, func: &Func, value: Value, span: Span) {
        let Type::Tensor(ty) = func.ty(value) else {
            return;
        };
        let key = Arc::as_ptr(ty).addr();
        if self.layouts.contains(&key) {
            return;
        }
        match layout_fits(ty) {
            Ok(()) => {
                self.layouts.insert(key);
            }
            Err(error) => {
                let message = format!("{}: {error}", print_type(func.ty(value)));
                self.error(codes::LAYOUT_INVALID, message, span, "a value here");
            }
        }
    }
}

/// A note for an operation that lacks an inherent attribute but has discardable ones.
fn misplaced(code: CodeName, func: &Func, op: Op) -> Option<String> {
    let data = &func.ops[op];
    if code != codes::ATTRIBUTE_MISSING || data.attrs.is_empty() {
        return None;
    }
    let names: Vec<String> = data
        .attrs
        .iter()
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    Some(format!(
        "hint: {} stands in {{…}}; the operation reads what stands in <{{…}}>",
        names.join(", ")
    ))
}

/// Checks that the buffer has fewer than 2^63 positions and that the layout fits the shape.
fn layout_fits(ty: &TensorType) -> Result<(), LayoutError> {
    let shape = ty.shape();
    if ty.notation == Notation::RowMajor {
        let Some(shape) = shape else { return Ok(()) };
        let fits = match ty.elements() {
            Some(n) => n
                .checked_mul(u64::from(ty.dtype.bits()))
                .is_some_and(|bits| i64::try_from(bits).is_ok()),
            None => shape.contains(&0),
        };
        return if fits {
            Ok(())
        } else {
            Err(LayoutError::Overflow { shape })
        };
    }
    if let Some(shape) = shape {
        return Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).map(drop);
    }
    let mut last = Ok(());
    for least in LEAST_PRIMES {
        let mut numbers = StandIns::new(least);
        numbers.avoid(&ty.dims);
        let shape: Option<Vec<u64>> = ty.dims.iter().map(|d| numbers.number(d)).collect();
        let Some(shape) = shape else { continue };
        last = Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).map(drop);
        if !matches!(last, Err(LayoutError::Overflow { .. })) {
            break;
        }
    }
    last
}

/// Checks that a part is in the memory space of its operand.
fn part(op: &OpRef<'_>) -> Result<(), OpError> {
    let (whole, part) = (
        op.operand(0)?.notation.space(),
        op.result(0)?.notation.space(),
    );
    if whole == part {
        return Ok(());
    }
    let message = format!(
        "the operand is in memory space {whole}, the result in {part}; {} moves nothing",
        op.name
    );
    let hint = "take the part in the operand's memory space and move it with `hbir.layout_convert`, or copy it with `hbir.slice`";
    Err(OpError::new(codes::PART_SPACE, message).hint(hint))
}

/// Decides whether the layouts of a view agree with its index map.
fn view(op: &OpRef<'_>, registry: &Registry) -> Result<(), OpError> {
    let (x, y) = (op.operand(0)?, op.result(0)?);
    let dims = registry.rearrangement(op)?;
    let identity = dims.perm.iter().enumerate().all(|(i, &p)| i == p);
    if identity && x.notation == Notation::RowMajor && y.notation == Notation::RowMajor {
        return Ok(());
    }
    let mut refused = None;
    for least in LEAST_PRIMES {
        let Some(bound) = Bound::new(x, &dims, y, least) else {
            continue;
        };
        match bound.decide(x, y) {
            Ok(()) => return Ok(()),
            // The numbers are too large; smaller stand-ins may fit.
            Err((_, true)) => {}
            Err((mut error, false)) => {
                error.message = bound.numbers.reword(&error.message);
                error.hint = error.hint.map(|hint| bound.numbers.reword(&hint));
                refused = Some(error);
                break;
            }
        }
    }
    Err(refused.unwrap_or_else(|| {
        let message = format!("the sizes of {} are too large to decide it", op.name);
        OpError::new(codes::VIEW_SHAPE, message)
    }))
}

/// The shapes of a view, with numbers in place of unknown sizes.
struct Bound {
    operand: Vec<u64>,
    map: ViewMap,
    numbers: StandIns,
}

impl Bound {
    /// Chooses numbers for the unknown sizes of a view, such that the decision for these numbers holds for all sizes.
    ///
    /// Sizes that must be equal get the same number. Other sizes get numbers without common factors, so that no reshape
    /// fits by coincidence. A single `?` on one side gets the volume of the other side divided by the known sizes.
    fn new(x: &TensorType, view: &ViewDims, y: &TensorType, least: u64) -> Option<Bound> {
        let mut numbers = StandIns::new(least);
        for dims in [&x.dims, &view.shape, &y.dims] {
            numbers.avoid(dims);
        }
        numbers.equate(&x.dims, &view.shape);
        numbers.equate(&view.shape, &y.dims);
        // In a row-major value that is not transposed, only the order of the elements matters, not their division into
        // dimensions.
        let identity = view.perm.iter().enumerate().all(|(i, &p)| i == p);
        let open = |ty: &TensorType| identity && ty.notation == Notation::RowMajor;
        let (open_operand, open_result) = (open(x), open(y));
        let scale = scale(x, [&view.shape, &y.dims], &mut numbers)?;
        let mut bind = |dims: &[Dim], like: &[(Dim, u64)], total: Option<u64>, open: bool| {
            let mut sizes: Vec<Option<u64>> = Vec::with_capacity(dims.len());
            for dim in dims {
                sizes.push(match dim {
                    Dim::Fixed(_) | Dim::Symbol(_) => Some(numbers.number(dim)?),
                    Dim::Unknown => None,
                });
            }
            fill(&mut sizes, like, total, open, &mut numbers)?;
            sizes.into_iter().collect::<Option<Vec<u64>>>()
        };
        let known = |dims: &[Dim]| dims.iter().all(|d| *d != Dim::Unknown);
        let whole = [&view.shape, &y.dims].into_iter().find(|d| known(d));
        let total = match whole {
            Some(dims) if open_operand => volume(&bind(dims, &[], None, false)?),
            _ => None,
        };
        let mut operand = bind(&x.dims, &[], total, open_operand)?;
        if total.is_none() {
            for (size, _) in (operand.iter_mut().zip(&x.dims)).filter(|(_, d)| **d == Dim::Unknown)
            {
                *size = size.checked_mul(scale)?;
            }
        }
        let pair = |dims: &[Dim], sizes: &[u64]| -> Vec<(Dim, u64)> {
            dims.iter().cloned().zip(sizes.iter().copied()).collect()
        };
        let like = pair(&x.dims, &operand);
        let total = volume(&operand);
        let shape = bind(&view.shape, &like, total, identity)?;
        let moved: Vec<u64> = view
            .perm
            .iter()
            .map(|&p| shape.get(p).copied())
            .collect::<Option<_>>()?;
        let mut like_result = pair(&view.transposed(), &moved);
        like_result.extend(like.into_iter().filter(|(d, _)| *d != Dim::Unknown));
        let result = bind(&y.dims, &like_result, total, open_result)?;
        let map = ViewMap {
            shape: Some(shape),
            perm: Some(view.perm.clone()),
            result,
        };
        Some(Bound {
            operand,
            map,
            numbers,
        })
    }

    /// Decides the view for these numbers. An error comes with a flag, which is true if the numbers are too large.
    fn decide(&self, x: &TensorType, y: &TensorType) -> Result<(), (OpError, bool)> {
        let layout = |ty: &TensorType, shape: &[u64]| {
            Layout::new(ty.notation.clone(), shape, ty.dtype.bits()).map_err(|error| {
                let too_large = matches!(error, LayoutError::Overflow { .. });
                (
                    OpError::new(codes::LAYOUT_INVALID, error.to_string()),
                    too_large,
                )
            })
        };
        let input = layout(x, &self.operand)?;
        let output = layout(y, &self.map.result)?;
        is_view(&input, &self.map, &output).map_err(|no| {
            let mut message = format!("hbir.view is no view: {}", no.reason);
            if let Some(cause) = no.cause {
                message.push_str(&format!("; {cause}"));
            }
            let mut error = OpError::new(codes::VIEW_ILLEGAL, message);
            error.hint = no.hint;
            (error, false)
        })
    }
}

/// A factor for the number of the operand's only `?`. It makes the only `?` of each other shape a whole number: the
/// operand's volume divided by the known sizes of that shape.
fn scale(x: &TensorType, others: [&[Dim]; 2], numbers: &mut StandIns) -> Option<u64> {
    let open_once = |dims: &[Dim]| dims.iter().filter(|d| **d == Dim::Unknown).count() == 1;
    let mut known = |dims: &[Dim]| {
        let known = dims.iter().filter(|d| **d != Dim::Unknown);
        let sizes: Option<Vec<u64>> = known.map(|d| numbers.number(d)).collect();
        volume(&sizes?)
    };
    let mut scale = 1u64;
    for dims in others {
        if open_once(&x.dims) && open_once(dims) {
            let (own, other) = (known(&x.dims)?, known(dims)?);
            let more = other.checked_div(gcd(own, other)).unwrap_or(1);
            scale = lcm(scale, more)?;
        }
    }
    Some(scale)
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    a.checked_div(gcd(a, b))?.checked_mul(b)
}

fn volume(sizes: &[u64]) -> Option<u64> {
    sizes.iter().try_fold(1u64, |a, &n| a.checked_mul(n))
}

/// Gives each `?` a number. A single `?` gets the rest of the volume `total`. Several get the numbers of the `?` in
/// `like` if these are equally many, else new primes. With `open` only the volume matters: without such numbers in
/// `like`, the first `?` gets the whole rest and the others get 1.
fn fill(
    sizes: &mut [Option<u64>],
    like: &[(Dim, u64)],
    total: Option<u64>,
    open: bool,
    numbers: &mut StandIns,
) -> Option<()> {
    let unknown = sizes.iter().filter(|s| s.is_none()).count();
    let known = sizes
        .iter()
        .flatten()
        .try_fold(1u64, |a, &n| a.checked_mul(n));
    let mut same: Vec<u64> = like
        .iter()
        .filter(|(d, _)| *d == Dim::Unknown)
        .map(|(_, n)| *n)
        .collect();
    if same.len() != unknown {
        same.clear();
    }
    let mut unset = sizes.iter_mut().filter(|s| s.is_none());
    if let (Some(total), Some(known)) = (total, known)
        && (unknown == 1 || open && same.is_empty())
        && known > 0
        && total % known == 0
    {
        for (i, size) in unset.enumerate() {
            *size = Some(if i == 0 { total / known } else { 1 });
        }
        return Some(());
    }
    let mut same = same.into_iter();
    unset.try_for_each(|size| {
        *size = Some(match same.next() {
            Some(n) => n,
            None => numbers.number(&Dim::Unknown)?,
        });
        Some(())
    })
}
