//! Gives every rearrangement one spelling, raises operations that are written in parts, and removes dead and duplicate
//! operations.
//!
//! ```ir before
//! %0 = "hbir.unsqueeze"(%x) <{axes = [0]}> : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
//! %1 = "hbir.transpose"(%0) <{perm = [0, 2, 1]}> : (tensor<1x2x3xf32>) -> tensor<1x3x2xf32>
//! %2 = "hbir.transpose"(%1) <{perm = [2, 1, 0]}> : (tensor<1x3x2xf32>) -> tensor<2x3x1xf32>
//! %3 = "hbir.relu"(%2) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
//! ```
//! ```ir after
//! %0 = "hbir.reshape"(%x) <{shape = [1, 2, 3]}> : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
//! %1 = "hbir.transpose"(%0) <{perm = [1, 2, 0]}> : (tensor<1x2x3xf32>) -> tensor<2x3x1xf32>
//! %2 = "hbir.relu"(%1) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
//! ```
//!
//! # Soundness
//! 1. Each rule is an equation, which is matched as it is written. Two rules are code: their right sides depend on labels.
//! 2. A size that a type leaves open is written where a shape rule determines it.
//! 3. A softmax, a norm or a gate in parts becomes one operation (`raise`) where its numbers are those of the parts, within
//!    the tolerance of the element type.
//!
//! # Not done
//! Other arithmetic is not simplified. A softmax without its maximum stays as it is, as its exponentials may overflow. So
//! does a norm whose variance is the mean of squares less the square of the mean, as the difference may cancel, and a norm
//! over other axes than the last ones. A rotary embedding in parts stays: nothing states that the halves of its cosines
//! are equal. Parts with other readers stay.
//!
//! # Cost
//! Linear in operations. Every rule that fires makes the chain of rearrangements shorter, moves a merge behind the next
//! operation, or replaces an operation by operations that no rule replaces again. Rules that raise read the function again
//! after they fired, at most a few times.
//!
//! # Neighbours
//! Run before `view-fold`.
//!
//! # Source
//! ONNX operators `DepthToSpace`, `SpaceToDepth`, `Einsum`; composition of permutations as in numpy.

mod merges;
mod named;
mod raise;

use crate::codes;
use crate::pass::{Changed, Outcome, Pass, PassContext, PassInfo, Phase, RuleInfo};
use crate::rewrite::Rewrite;
use crate::rules::{EVERY_OP, LocalRule, Patch, Plan, Refusal, Site, ensure};
use indexmap::IndexMap;
pub(crate) use named::NAMED;
use named::tensor;
use optc_ir::analysis::live_ops;
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::text::print_type;
use optc_ir::{Attr, Diagnostic, Func, Module, Op, Operation, Registry, Value, name_sizes};
use optc_ops::{DotGeneral, Einsum, Reduce, ReduceKind, Transpose};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, LazyLock};

static INFO: PassInfo = PassInfo {
    name: "canonicalize",
    summary: "one spelling of every rearrangement, nothing dead or duplicate",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[],
};

/// The pass.
#[derive(Clone, Default)]
pub struct Canonicalize {
    /// Rules of a library user; they are tried after the built-in ones.
    pub rules: Vec<Arc<dyn LocalRule>>,
}

impl fmt::Debug for Canonicalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rules.iter().map(|r| r.name());
        f.debug_list().entries(names).finish()
    }
}

impl Pass for Canonicalize {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn list_rules(&self) -> Vec<RuleInfo<'_>> {
        let own = self.rules.iter().map(|rule| RuleInfo {
            name: rule.name(),
            equation: rule.equation(),
            summary: rule.summary(),
        });
        builtin_rules().into_iter().chain(own).collect()
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let mut by_root = ByRoot::new();
        let known = local_rules().into_iter().map(|rule| (rule, false));
        for (rule, is_own) in known.chain(self.rules.iter().map(|rule| (rule.clone(), true))) {
            let root = rule.root().to_owned();
            by_root
                .entry(root)
                .or_default()
                .push(Tried { rule, is_own });
        }
        let mut changed = name_sizes(module, &cx.registry);
        for func in &mut module.funcs {
            changed |= rewrite(func, cx, &by_root)?;
            changed |= share(func, &cx.registry);
        }
        let effects = Effects::of_module(module, &cx.registry);
        for func in &mut module.funcs {
            changed |= sweep(func, &effects);
            for _ in 0..RAISE_LIMIT {
                if !raise::raise(func, &cx.registry) {
                    break;
                }
                changed = true;
                rewrite(func, cx, &by_root)?;
                share(func, &cx.registry);
                sweep(func, &effects);
            }
        }
        Ok(Changed::from(changed).into())
    }
}

/// An operation that a rule of a library user does not replace, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The number of the function.
    pub func: usize,
    /// The operation.
    pub op: Op,
    /// The name of the rule.
    pub rule: String,
    /// The reason.
    pub reason: Refusal,
}

impl Canonicalize {
    /// Tries the rules of the library user on each operation that they look at, and returns the refusals in order. The
    /// module stays as it is.
    #[must_use]
    pub fn refusals(&self, module: &Module, registry: &Registry) -> Vec<Refused> {
        let mut refused = Vec::new();
        for (number, func) in module.funcs.iter().enumerate() {
            let mut scratch = func.clone();
            for &op in &func.body {
                let looks = |root: &str| root == EVERY_OP || *root == *func.ops[op].name;
                for rule in self.rules.iter().filter(|rule| looks(rule.root())) {
                    let plan = rule.plan(Site { func, op, registry });
                    let tried =
                        plan.and_then(|plan| plan(&mut Patch::new(&mut scratch, registry, op)));
                    refused.extend(tried.err().map(|reason| Refused {
                        func: number,
                        op,
                        rule: rule.name().to_owned(),
                        reason,
                    }));
                }
            }
        }
        refused
    }
}

/// A rule, and whether it is one of the library user.
struct Tried {
    rule: Arc<dyn LocalRule>,
    is_own: bool,
}

/// The rules by the names of the operations that they look at.
type ByRoot = IndexMap<String, Vec<Tried>>;

/// The number of rewrites of one input operation after which it is left alone. Chains of rules are shorter than this.
const REWRITE_LIMIT: usize = 64;

/// The most times that a function is read to raise operations. A norm takes three: itself, its scale and its bias.
const RAISE_LIMIT: usize = 16;

/// Applies local rules from the first operation to the last. Returns whether any fired.
fn rewrite(func: &mut Func, cx: &PassContext, rules: &ByRoot) -> Result<bool, Box<Diagnostic>> {
    let mut replaced: SideTable<Value, Option<Value>> = SideTable::new(None);
    let mut body = Vec::with_capacity(func.body.len());
    let mut changed = false;
    for op in std::mem::take(&mut func.body) {
        let mut queue = VecDeque::from([op]);
        let mut fired_here: Vec<&Tried> = Vec::new();
        while let Some(op) = queue.pop_front() {
            resolve_operands(func, op, &replaced);
            let fired = match fired_here.len() < REWRITE_LIMIT {
                true => fire(func, cx, rules, op)?,
                false => circular(func, op, &fired_here)?,
            };
            let Some(Fired { rule, ops, values }) = fired else {
                body.push(op);
                continue;
            };
            fired_here.push(rule);
            changed = true;
            let results = func.ops[op].results.clone();
            for (old, new) in results.into_iter().zip(values) {
                let new = replaced[new].unwrap_or(new);
                replaced[old] = Some(new);
                func.record(old, new);
            }
            for op in ops.into_iter().rev() {
                queue.push_front(op);
            }
        }
    }
    func.body = body;
    for i in 0..func.results.len() {
        func.results[i] = resolve(func.results[i], &replaced);
    }
    Ok(changed)
}

/// Refuses rules of a library user that rewrite the same operation again and again.
fn circular<'r>(
    func: &Func,
    op: Op,
    fired: &[&Tried],
) -> Result<Option<Fired<'r>>, Box<Diagnostic>> {
    let last = &fired[fired.len() / 2..];
    let mut names: Vec<&str> = last.iter().map(|tried| tried.rule.name()).collect();
    names.sort_unstable();
    names.dedup();
    match last.iter().find(|tried| tried.is_own) {
        Some(tried) => {
            let what = format!("it is still rewritten after {REWRITE_LIMIT} rewrites");
            let note = format!("the rules that fired last: {}", names.join(", "));
            let diag = broken(func, op, &*tried.rule, &what).note(note);
            Err(Box::new(diag.hint(
                "a right side must match the left side of no rule that leads back to it",
            )))
        }
        None => Ok(None),
    }
}

/// The error about a rule of a library user that is no rule.
fn broken(func: &Func, op: Op, rule: &dyn LocalRule, what: &str) -> Diagnostic {
    let data = &func.ops[op];
    let message = format!("rule `{}` on `{}`: {what}", rule.name(), data.name);
    let diag = Diagnostic::error(codes::RULE_BROKEN, message);
    diag.at(data.span, "this operation").of(data.loc.names())
}

fn resolve(mut value: Value, replaced: &SideTable<Value, Option<Value>>) -> Value {
    while let Some(next) = replaced[value] {
        value = next;
    }
    value
}

fn resolve_operands(func: &mut Func, op: Op, replaced: &SideTable<Value, Option<Value>>) {
    for i in 0..func.ops[op].operands.len() {
        let value = func.ops[op].operands[i];
        func.ops[op].operands[i] = resolve(value, replaced);
    }
}

/// A rule that fired, with its operations and the values that replace the results.
struct Fired<'r> {
    rule: &'r Tried,
    ops: Vec<Op>,
    values: Vec<Value>,
}

/// Applies the first matching rule.
///
/// # Errors
/// A rule of a library user replaces nothing, or has results of another number or type.
fn fire<'r>(
    func: &mut Func,
    cx: &PassContext,
    rules: &'r ByRoot,
    op: Op,
) -> Result<Option<Fired<'r>>, Box<Diagnostic>> {
    let own = rules.get(&*func.ops[op].name).into_iter().flatten();
    for tried in own.chain(rules.get(EVERY_OP).into_iter().flatten()) {
        let rule = &*tried.rule;
        let plan = match rule.plan(Site {
            func,
            op,
            registry: &cx.registry,
        }) {
            Ok(plan) => plan,
            Err(refusal) => {
                tracing::trace!(rule = rule.name(), %op, reason = refusal.0, "refused");
                continue;
            }
        };
        let mut patch = Patch::new(func, &cx.registry, op);
        if plan(&mut patch).is_err() {
            continue;
        }
        let (ops, replacement) = (std::mem::take(&mut patch.ops), patch.replacement.take());
        match replaces(func, op, replacement) {
            Ok(values) => {
                tracing::debug!(rule = rule.name(), %op, "fired");
                let rule = tried;
                return Ok(Some(Fired { rule, ops, values }));
            }
            Err(what) if tried.is_own => return Err(Box::new(broken(func, op, rule, &what))),
            Err(what) => tracing::debug!(rule = rule.name(), %op, what, "dropped"),
        }
    }
    Ok(None)
}

/// The values that replace the results of an operation; or what is wrong with them, in words.
fn replaces(func: &Func, op: Op, values: Option<Vec<Value>>) -> Result<Vec<Value>, String> {
    let values = values.ok_or("it replaces nothing; wanted a call of `Patch::replace`")?;
    let results = &func.ops[op].results;
    if results.len() != values.len() {
        let (found, wanted) = (values.len(), results.len());
        return Err(format!(
            "found {found} values in place of its results, wanted {wanted}"
        ));
    }
    for (i, (&result, &value)) in results.iter().zip(&values).enumerate() {
        let wanted = func.ty(result);
        match func.values.get(value).map(|data| &data.ty) {
            None => return Err(format!("value {i} is of another function")),
            Some(found) if found != wanted => {
                let [found, wanted] = [found, wanted].map(print_type);
                return Err(format!(
                    "found {found} in place of result {i}, wanted {wanted}"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(values)
}

/// Gives equal operations on equal operands one result.
fn share(func: &mut Func, registry: &Registry) -> bool {
    let mut known: IndexMap<(Arc<str>, Vec<Value>, String), Op> = IndexMap::new();
    let mut replaced: SideTable<Value, Option<Value>> = SideTable::new(None);
    // For each operation, the other operations that it replaces.
    let mut joined: IndexMap<Op, Vec<Op>> = IndexMap::new();
    let mut changed = false;
    let mut body = Vec::with_capacity(func.body.len());
    for op in std::mem::take(&mut func.body) {
        resolve_operands(func, op, &replaced);
        let Some(key) = share_key(func, op, registry) else {
            body.push(op);
            continue;
        };
        match known.get(&key) {
            Some(&first) if same_results(func, first, op) => {
                let pairs: Vec<(Value, Value)> = func.ops[op]
                    .results
                    .iter()
                    .copied()
                    .zip(func.ops[first].results.clone())
                    .collect();
                for (old, new) in pairs {
                    replaced[old] = Some(new);
                    func.record(old, new);
                }
                joined.entry(first).or_default().push(op);
                changed = true;
            }
            Some(_) => body.push(op),
            None => {
                known.insert(key, op);
                body.push(op);
            }
        }
    }
    func.body = body;
    for (first, others) in joined {
        let all = std::iter::once(&first).chain(&others);
        func.ops[first].loc = optc_ir::Loc::fuse(all.map(|&op| &func.ops[op].loc));
    }
    for i in 0..func.results.len() {
        func.results[i] = resolve(func.results[i], &replaced);
    }
    changed
}

/// The most bytes of a dense constant that are compared; larger constants are left alone.
const SHARE_LIMIT: usize = 4096;

/// A key that equal operations have in common; `None` for an operation that is never merged.
fn share_key(func: &Func, op: Op, registry: &Registry) -> Option<(Arc<str>, Vec<Value>, String)> {
    let data = &func.ops[op];
    let pure = registry.effect(&func.op_ref(op)).is_pure();
    if !pure || !data.attrs.is_empty() {
        return None;
    }
    let big = data.props.iter().any(|(_, a)| match a {
        Attr::Dense(d) => SHARE_LIMIT < d.bytes.len(),
        _ => false,
    });
    (!big).then(|| {
        (
            data.name.clone(),
            data.operands.clone(),
            format!("{:?}", data.props),
        )
    })
}

fn same_results(func: &Func, a: Op, b: Op) -> bool {
    let types = |op: Op| {
        func.ops[op]
            .results
            .iter()
            .map(|&r| func.ty(r))
            .collect::<Vec<_>>()
    };
    types(a) == types(b)
}

/// Removes operations that no result depends on and that have no other effect.
fn sweep(func: &mut Func, effects: &Effects<'_>) -> bool {
    let live = live_ops(func, effects);
    let before = func.body.len();
    func.body.retain(|&op| live[op]);
    func.body.len() != before
}

type PlanFn = fn(Site<'_>) -> Result<Plan, Refusal>;

/// A built-in rule in code.
#[derive(Clone, Copy)]
struct Rule {
    info: RuleInfo<'static>,
    root: &'static str,
    plan: PlanFn,
}

impl LocalRule for Rule {
    fn name(&self) -> &str {
        self.info.name
    }
    fn equation(&self) -> &str {
        self.info.equation
    }
    fn summary(&self) -> &str {
        self.info.summary
    }
    fn root(&self) -> &str {
        self.root
    }
    fn plan(&self, site: Site<'_>) -> Result<Plan, Refusal> {
        (self.plan)(site)
    }
}

/// The rules that are equations, in the order in which they are tried.
const EQUATIONS: &[RuleInfo<'static>] = &[
    RuleInfo {
        name: "squeeze-is-reshape",
        equation: "(squeeze ?x) => (reshape :shape (result-shape) ?x)",
        summary: "a squeeze is the reshape to its result",
    },
    RuleInfo {
        name: "unsqueeze-is-reshape",
        equation: "(unsqueeze ?x) => (reshape :shape (result-shape) ?x)",
        summary: "an unsqueeze is the reshape to its result",
    },
    RuleInfo {
        name: "flatten-is-reshape",
        equation: "(flatten ?x) => (reshape :shape (result-shape) ?x)",
        summary: "a flatten is the reshape to its result",
    },
    RuleInfo {
        name: "broadcast-by-one",
        equation: "(broadcast ?x) => (reshape :shape (result-shape) ?x) if (repeats-nothing ?x)",
        summary: "a broadcast that repeats nothing is a reshape",
    },
    RuleInfo {
        name: "tile-by-one",
        equation: "(tile ?x) => ?x if (known-sizes ?x)",
        summary: "a tile that repeats nothing is its operand",
    },
    RuleInfo {
        name: "identity",
        equation: "(identity ?x) => ?x",
        summary: "an identity is its operand",
    },
    RuleInfo {
        name: "cast-to-same",
        equation: "(cast ?x) => ?x",
        summary: "a cast to the type that is there is its operand",
    },
    RuleInfo {
        name: "concat-of-one",
        equation: "(concat ?x) => ?x",
        summary: "a concatenation of one value is that value",
    },
    RuleInfo {
        name: "slice-of-all",
        equation: "(slice ?x) => ?x if (steps-of-one) and (fixed-sizes ?x)",
        summary: "a slice of the whole is the whole",
    },
    RuleInfo {
        name: "pad-by-nothing",
        equation: "(pad ?x) => ?x if (pads-nothing)",
        summary: "a pad by nothing is its operand",
    },
    RuleInfo {
        name: "reshape-identity",
        equation: "(reshape ?x) => ?x if (known-sizes ?x)",
        summary: "a reshape to the shape that is there is its operand",
    },
    RuleInfo {
        name: "reshape-back",
        equation: "(reshape (reshape ?x)) => ?x if (known-sizes ?x)",
        summary: "a reshape back to the shape before another one is what was reshaped",
    },
    RuleInfo {
        name: "reshape-compose",
        equation: "(reshape (reshape ?x)) => (reshape :shape (result-shape) ?x) if (may-reshape ?x)",
        summary: "two reshapes are the second",
    },
    RuleInfo {
        name: "transpose-identity",
        equation: "(transpose :perm ?p ?x) => ?x if (identity ?p)",
        summary: "a transpose that moves no dimension is its operand",
    },
    RuleInfo {
        name: "gather-of-one-is-slice",
        equation: "(gather ?x (constant)) => (reshape :shape (result-shape) (slice :starts (index-start) :limits (index-limit) ?x))",
        summary: "one index that is known names a part",
    },
    RuleInfo {
        name: "transpose-compose",
        equation: "(transpose :perm ?q (transpose :perm ?p ?x)) => (transpose :perm (compose ?p ?q) ?x)",
        summary: "two transposes are one by their product",
    },
    RuleInfo {
        name: "depth-to-space-is-rearrangement",
        equation: "(depth_to_space ?x) => (reshape :shape (result-shape) (transpose :perm (block-perm) (reshape :shape (block-shape) ?x))) if (fixed-sizes ?x)",
        summary: "depth to space is a reshape, a transpose and a reshape",
    },
    RuleInfo {
        name: "space-to-depth-is-rearrangement",
        equation: "(space_to_depth ?x) => (reshape :shape (result-shape) (transpose :perm (block-perm) (reshape :shape (block-shape) ?x))) if (fixed-sizes ?x)",
        summary: "space to depth is a reshape, a transpose and a reshape",
    },
];

/// The rules in code, tried after the equations.
const RULES: &[Rule] = &[
    Rule {
        info: RuleInfo {
            name: "einsum-is-contraction",
            equation: "(einsum ?x ?y) => (transpose (dot_general (reduce ?x) (reduce ?y)))",
            summary: "an einsum is a contraction of what its operands keep, transposed",
        },
        root: Einsum::NAME,
        plan: einsum,
    },
    Rule {
        info: RuleInfo {
            name: "sink-merge",
            equation: "(f (merge ?x)) => (merge (f ?x)) if (independent-along-merge)",
            summary: "what is computed on named sizes in one dimension is computed on them apart",
        },
        root: EVERY_OP,
        plan: merges::sink_merge,
    },
];

/// The built-in rules, in the order in which they are tried.
#[must_use]
pub fn builtin_rules() -> Vec<RuleInfo<'static>> {
    let coded = RULES.iter().map(|rule| rule.info);
    let raises = raise::RAISES.iter().map(|rule| rule.info);
    EQUATIONS
        .iter()
        .copied()
        .chain(coded)
        .chain(raises)
        .collect()
}

fn local_rules() -> Vec<Arc<dyn LocalRule>> {
    static READ: LazyLock<Vec<Arc<dyn LocalRule>>> = LazyLock::new(|| {
        let read = |rule: &RuleInfo<'_>| -> Arc<dyn LocalRule> { Arc::new(Rewrite::builtin(rule)) };
        let coded = |rule: &Rule| -> Arc<dyn LocalRule> { Arc::new(*rule) };
        let equations = EQUATIONS.iter().map(read);
        equations.chain(RULES.iter().map(coded)).collect()
    });
    READ.clone()
}

/// The labels of an equation without an ellipsis and without repeated labels in one operand.
fn equation(text: &str) -> Result<(Vec<Vec<char>>, Vec<char>), Refusal> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    ensure(!text.contains('.'), "the equation has an ellipsis")?;
    let (left, right) = match text.split_once("->") {
        Some((l, r)) => (l.to_owned(), r.to_owned()),
        None => (text.clone(), implicit(&text)),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    let repeats = |t: &[char]| t.iter().enumerate().any(|(i, c)| t[..i].contains(c));
    ensure(
        !terms.iter().any(|t| repeats(t)),
        "a label is repeated in one operand",
    )?;
    let out: Vec<char> = right.chars().collect();
    ensure(!repeats(&out), "a label is repeated in the result")?;
    Ok((terms, out))
}

/// Labels that appear once, in alphabetical order.
fn implicit(left: &str) -> String {
    let mut labels: Vec<char> = left.chars().filter(|c| c.is_alphabetic()).collect();
    labels.sort_unstable();
    let once = |c: &&char| labels.iter().filter(|d| d == c).count() == 1;
    labels.iter().filter(once).collect()
}

fn einsum(site: Site<'_>) -> Result<Plan, Refusal> {
    let (terms, out) = equation(&site.typed::<Einsum>()?.equation)?;
    let operands = site.func.ops[site.op].operands.clone();
    ensure(terms.len() == operands.len(), "as many terms as operands")?;
    for (term, &x) in terms.iter().zip(&operands) {
        ensure(
            term.len() == tensor(&site, x)?.rank(),
            "a term does not fit its operand",
        )?;
    }
    let result = site.result(0)?;
    match terms.len() {
        1 => Ok(einsum_one(operands[0], terms[0].clone(), out, result)),
        2 => {
            let sizes = (tensor(&site, operands[0])?, tensor(&site, operands[1])?);
            for (i, label) in terms[0].iter().enumerate() {
                if let Some(j) = terms[1].iter().position(|l| l == label) {
                    ensure(
                        sizes.0.dims[i].same(&sizes.1.dims[j]),
                        "a label is broadcast",
                    )?;
                }
            }
            Ok(einsum_two(
                [operands[0], operands[1]],
                [terms[0].clone(), terms[1].clone()],
                out,
                result,
            ))
        }
        _ => Err(Refusal("more than two operands")),
    }
}

/// Sums over the labels that are not kept.
fn reduce_to(
    patch: &mut Patch<'_>,
    x: Value,
    term: &[char],
    keep: impl Fn(char) -> bool,
) -> Result<(Value, Vec<char>), Refusal> {
    let axes: Vec<usize> = (0..term.len()).filter(|&i| !keep(term[i])).collect();
    if axes.is_empty() {
        return Ok((x, term.to_vec()));
    }
    let sum = Reduce {
        kind: ReduceKind::Sum,
        axes: Some(axes.iter().map(|&a| a as i64).collect()),
        keepdims: false,
    };
    let y = patch.op(&sum, &[x])?;
    Ok((y, term.iter().copied().filter(|&c| keep(c)).collect()))
}

fn finish(
    patch: &mut Patch<'_>,
    x: Value,
    have: &[char],
    want: &[char],
    result: Value,
) -> Result<(), Refusal> {
    let perm: Option<Vec<usize>> = want
        .iter()
        .map(|c| have.iter().position(|h| h == c))
        .collect();
    let perm = perm.ok_or(Refusal("the result has a label that no operand has"))?;
    let ty = patch.ty(result);
    if perm.iter().enumerate().all(|(i, &p)| i == p) {
        patch.replace(&[x]);
        return Ok(());
    }
    let y = patch.op_typed(&Transpose::of_perm(&perm), &[x], vec![ty]);
    patch.replace(&y);
    Ok(())
}

fn einsum_one(x: Value, term: Vec<char>, out: Vec<char>, result: Value) -> Plan {
    Box::new(move |patch| {
        let (y, have) = reduce_to(patch, x, &term, |c| out.contains(&c))?;
        finish(patch, y, &have, &out, result)
    })
}

fn einsum_two(x: [Value; 2], terms: [Vec<char>; 2], out: Vec<char>, result: Value) -> Plan {
    Box::new(move |patch| {
        let [ta, tb] = terms;
        let (a, ta) = reduce_to(patch, x[0], &ta, |c| out.contains(&c) || tb.contains(&c))?;
        let (b, tb) = reduce_to(patch, x[1], &tb, |c| out.contains(&c) || ta.contains(&c))?;
        let at = |t: &[char], c: char| t.iter().position(|&d| d == c);
        let shared: Vec<char> = ta.iter().copied().filter(|c| tb.contains(c)).collect();
        let (batch, contract): (Vec<char>, Vec<char>) =
            shared.into_iter().partition(|c| out.contains(c));
        let axes = |t: &[char], labels: &[char]| -> Vec<i64> {
            let at = labels.iter().filter_map(|&c| at(t, c));
            at.map(|a| a as i64).collect()
        };
        let dot = DotGeneral {
            lhs_batch: axes(&ta, &batch),
            rhs_batch: axes(&tb, &batch),
            lhs_contract: axes(&ta, &contract),
            rhs_contract: axes(&tb, &contract),
            to: None,
        };
        let y = patch.op(&dot, &[a, b])?;
        let free = |t: &[char]| -> Vec<char> {
            t.iter()
                .copied()
                .filter(|c| !batch.contains(c) && !contract.contains(c))
                .collect()
        };
        let have: Vec<char> = batch
            .iter()
            .copied()
            .chain(free(&ta))
            .chain(free(&tb))
            .collect();
        finish(patch, y, &have, &out, result)
    })
}
