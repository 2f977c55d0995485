//! Refusals by the pass manager, by pipelines and by certificates; options of passes.

use optc_check::{Certificate, Digest, Witness};
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::{
    Attr, Diagnostic, Expr, Func, Inferred, Module, OpError, OpRef, Operation, Value, attributes,
    text,
};
use optc_ops::{Tanh, Transpose};
use optc_passes::canonicalize::Canonicalize;
use optc_passes::manager::{Hooks, run};
use optc_passes::rules::{LocalRule, Patch, Plan, Refusal, Rewrite, Site};
use optc_passes::view_fold::Proof;
use optc_passes::{
    Boundary, Changed, Options, Outcome, Pass, PassContext, PassInfo, PassList, Phase, Stage,
    pipeline,
};
use optc_target::Target;
use optc_tests::check::{parse, round_trip, run_passes, words};
use std::sync::Arc;

const TRANSPOSED: &str = r#"func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %1 = "hbir.tanh"(%0) : (tensor<5x3xf32>) -> tensor<5x3xf32>
  %2 = "hbir.transpose"(%1) <{perm = [1, 0]}> : (tensor<5x3xf32>) -> tensor<3x5xf32>
  return %2 : tensor<3x5xf32>
}"#;

fn context() -> PassContext {
    let target = Target::builtin("cpu").expect("built in");
    PassContext::new(Arc::new(optc_ops::registry()), Arc::new(target))
}

#[track_caller]
fn refused(answer: Result<impl std::fmt::Debug, Vec<Diagnostic>>, code: &str) {
    let diags = answer.expect_err("it is refused");
    assert!(diags.iter().any(|d| d.code == code), "{diags:?}");
}

fn stage(pass: impl Pass + 'static) -> Vec<Stage> {
    vec![Stage {
        pass: Arc::new(pass),
        options: Options::default(),
    }]
}

/// A pass that removes the last operation of a function that returns an argument.
struct DropsLast(Changed);

static DROPS_LAST: PassInfo = PassInfo {
    name: "drop-last",
    summary: "remove the last operation",
    phases: (Phase::Imported, Phase::Canonical),
    required: false,
    options: &[],
};

impl Pass for DropsLast {
    fn info(&self) -> &'static PassInfo {
        &DROPS_LAST
    }
    fn run(&self, module: &mut Module, _: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        module.funcs[0].body.pop();
        Ok(self.0.into())
    }
}

const UNUSED: &str = r#"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "hbir.tanh"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %x : tensor<3xf32>
}"#;

#[test]
fn a_pass_that_lies_is_caught() {
    let mut hooks = Hooks::default();
    let honest = run(
        &mut parse(UNUSED),
        &stage(DropsLast(Changed::Yes)),
        &mut context(),
        &mut hooks,
    );
    assert_eq!(honest.expect("the pass is right").len(), 1);
    if cfg!(debug_assertions) {
        let lie = run(
            &mut parse(UNUSED),
            &stage(DropsLast(Changed::No)),
            &mut context(),
            &mut hooks,
        );
        refused(lie, "pass-changed");
    }
}

#[test]
fn a_pass_that_breaks_the_program_is_caught() {
    let mut hooks = Hooks::default();
    let mut module = parse(TRANSPOSED);
    let broken = run(
        &mut module,
        &stage(DropsLast(Changed::Yes)),
        &mut context(),
        &mut hooks,
    );
    let diags = broken.expect_err("a value is not defined any more");
    assert!(
        diags
            .iter()
            .any(|d| d.notes.iter().any(|n| n.contains("drop-last"))),
        "{diags:?}"
    );
}

type Written = fn(&mut Patch<'_>, Value);

/// A rule of a library user that writes something wrong in place of a `tanh`.
struct Broken(&'static str, Written);

impl LocalRule for Broken {
    fn name(&self) -> &str {
        self.0
    }
    fn equation(&self) -> &str {
        "(tanh ?x) => ?"
    }
    fn root(&self) -> &str {
        "hbir.tanh"
    }
    fn plan(&self, site: Site<'_>) -> Result<Plan, Refusal> {
        let operand = site.operand(0)?;
        let write = self.1;
        Ok(Box::new(move |patch| {
            write(patch, operand);
            Ok(())
        }))
    }
}

#[test]
fn a_broken_rule_is_an_error_with_its_name() {
    let again = |patch: &mut Patch<'_>, x: Value| {
        let y = patch.op(&Tanh {}, &[x]).expect("it fits");
        patch.replace(&[y]);
    };
    let mistyped = |patch: &mut Patch<'_>, x: Value| {
        let perm = vec![1, 0];
        let y = patch.op(&Transpose { perm }, &[x]).expect("it fits");
        patch.replace(&[y]);
    };
    let all: [(&str, Written, &str); 4] = [
        ("nothing", |_, _| {}, "replaces nothing"),
        ("twice", |patch, x| patch.replace(&[x, x]), "found 2 values"),
        ("mistyped", mistyped, "in place of result 0"),
        ("again", again, "still rewritten"),
    ];
    for (name, write, says) in all {
        let pass = Canonicalize {
            rules: vec![Arc::new(Broken(name, write))],
        };
        let mut module = parse(TRANSPOSED);
        let found = run(
            &mut module,
            &stage(pass),
            &mut context(),
            &mut Hooks::default(),
        );
        let diags = found.expect_err("the rule is broken");
        assert_eq!(diags[0].code, "rule-broken", "{diags:?}");
        let message = &diags[0].message;
        assert!(
            message.contains(name) && message.contains(says),
            "{message}"
        );
        assert_eq!(diags[0].labels.len(), 1, "the place of the operation");
    }
}

#[test]
fn refusals_say_why_a_rule_does_not_fire() {
    let rule = Rewrite::new("r", "(tanh (tanh ?x)) => (tanh ?x)", "", &[]).expect("a rule");
    let pass = Canonicalize {
        rules: vec![Arc::new(rule)],
    };
    let module = parse(TRANSPOSED);
    let refused = pass.refusals(&module, &optc_ops::registry());
    let tanh = module.funcs[0].body[1];
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].op, &*refused[0].rule), (tanh, "r"));
    assert_eq!(refused[0].reason, Refusal("another operation"));
}

attributes! {
    /// An element-wise operation of a family that no target has a row for.
    pub struct Own {}
}

impl Operation for Own {
    const NAME: &'static str = "acme.own";
    const SUMMARY: &'static str = "twice the operand";
    const FAMILY: &'static str = "acme";
    const OPERANDS: (usize, usize) = (1, 1);

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }

    fn expression(&self) -> Option<Expr> {
        Some(Expr::A + Expr::A)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        IterationDomain::broadcasting(op)
    }
}

#[test]
fn a_family_without_a_row_is_a_remark() {
    let mut registry = optc_ops::registry();
    registry.add::<Own>();
    let mut cx = context();
    cx.registry = Arc::new(registry);
    let stages = PassList::builtin().parse("view-fold").expect("a pipeline");
    let mut module = parse(&TRANSPOSED.replace("hbir.tanh", "acme.own"));
    run(&mut module, &stages, &mut cx, &mut Hooks::default()).expect("it folds");
    let found = cx.remarks.iter().filter(|diag| diag.code == "row-absent");
    let found: Vec<&Diagnostic> = found.collect();
    assert_eq!(found.len(), 1, "{:?}", cx.remarks);
    assert!(found[0].message.contains("`acme`"), "{}", found[0].message);
}

#[test]
fn a_boundary_that_names_nothing_is_refused() {
    let mut cx = context();
    cx.boundary.free = vec!["y".to_owned()];
    let stages = PassList::builtin().parse("view-fold").expect("a pipeline");
    let found = run(
        &mut parse(TRANSPOSED),
        &stages,
        &mut cx,
        &mut Hooks::default(),
    );
    refused(found, "unknown-port");
}

/// A pass that falsely claims that `cpu` chose the present layouts.
struct ClaimsTarget;

static CLAIMS_TARGET: PassInfo = PassInfo {
    name: "claim-target",
    summary: "set the target",
    phases: (Phase::Imported, Phase::Canonical),
    required: false,
    options: &[],
};

impl Pass for ClaimsTarget {
    fn info(&self) -> &'static PassInfo {
        &CLAIMS_TARGET
    }
    fn run(&self, module: &mut Module, _: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        module.attrs.set("hbir.target", Attr::str("cpu"));
        Ok(Changed::Yes.into())
    }
}

#[test]
fn a_pass_that_leaves_layouts_the_target_does_not_take_is_caught() {
    let text = r#"func.func @main(%x: tensor<2x3xf32, {order = [1, 0]}>) -> tensor<2x3xf32> {
  %0 = "hbir.tanh"(%x) : (tensor<2x3xf32, {order = [1, 0]}>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}"#;
    let claim = |text: &str, verify_each| {
        let mut hooks = Hooks {
            verify_each,
            ..Hooks::default()
        };
        run(
            &mut parse(text),
            &stage(ClaimsTarget),
            &mut context(),
            &mut hooks,
        )
    };
    refused(claim(text, true), "target-layout");
    assert!(claim(text, false).is_ok(), "only --verify-each asks");
    assert!(claim(TRANSPOSED, true).is_ok(), "row-major is taken");
}

#[test]
fn a_pass_outside_its_phases_is_refused() {
    let folded = format!("module attributes {{hbir.target = \"cpu\"}} {{\n{UNUSED}\n}}");
    let stages = stage(DropsLast(Changed::Yes));
    refused(
        run(
            &mut parse(&folded),
            &stages,
            &mut context(),
            &mut Hooks::default(),
        ),
        "pass-phase",
    );
}

/// Any pass of a pipeline may be left out without making the program wrong, unless the pass says so.
#[test]
fn pipelines_are_right_without_any_of_their_passes() {
    let registry = Arc::new(optc_ops::registry());
    let module = parse(TRANSPOSED);
    let list = PassList::builtin();
    for skipped in pipeline::DEFAULT {
        let info = list
            .infos()
            .into_iter()
            .find(|i| i.name == *skipped)
            .expect("a built-in pass");
        if info.required {
            continue;
        }
        let rest: Vec<&str> = pipeline::DEFAULT
            .iter()
            .copied()
            .filter(|p| p != skipped)
            .collect();
        let ran = run_passes(
            &module,
            &rest.join(","),
            "cpu",
            &Boundary::default(),
            &registry,
        );
        let ran = ran.unwrap_or_else(|e| panic!("without {skipped}: {e}"));
        let same = optc_tests::check::same_meaning(&module, &ran.module, &registry);
        same.unwrap_or_else(|e| panic!("without {skipped}: {e}"));
    }
}

#[test]
fn pins_that_do_not_fit_are_refused() {
    let mut cx = context();
    let notation = parse(
        r#"func.func @main(%x: tensor<3x5x7xf32, {order = [2, 1, 0]}>) -> tensor<3x5x7xf32, {order = [2, 1, 0]}> {
  return %x : tensor<3x5x7xf32, {order = [2, 1, 0]}>
}"#,
    );
    let func: &Func = &notation.funcs[0];
    let notation = func
        .ty(func.args[0])
        .as_tensor()
        .expect("a tensor")
        .notation
        .clone();
    cx.boundary.pins.insert("x".to_owned(), notation);
    let stages = PassList::builtin().parse("view-fold").expect("a pipeline");
    let answer = run(
        &mut parse(TRANSPOSED),
        &stages,
        &mut cx,
        &mut Hooks::default(),
    );
    refused(answer, "pin-layout");
}

#[test]
fn sizes_that_say_too_little_are_refused() {
    let text = r#"func.func @main(%x: tensor<?x?x?x?x?x?x?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?x?x?x?x?x?x?xf32> {
  %0 = "hbir.relu"(%x) : (tensor<?x?x?x?x?x?x?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?x?x?x?x?x?x?xf32>
  return %0 : tensor<?x?x?x?x?x?x?x?x?x?x?x?xf32>
}"#;
    let stages = PassList::builtin().parse("view-fold").expect("a pipeline");
    let answer = run(
        &mut parse(text),
        &stages,
        &mut context(),
        &mut Hooks::default(),
    );
    refused(answer, "rearrange-unknown-size");
}

#[test]
fn candidates_that_are_dropped_are_told() {
    let text = r#"func.func @main(%x: tensor<2x3x5xf32>, %y: tensor<5x3x2xf32>, %z: tensor<3x2x5xf32>) -> (tensor<5x3x2xf32>, tensor<3x2x5xf32>) {
  %0 = "hbir.tanh"(%x) : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %1 = "hbir.transpose"(%0) <{perm = [2, 1, 0]}> : (tensor<2x3x5xf32>) -> tensor<5x3x2xf32>
  %2 = "hbir.add"(%1, %y) : (tensor<5x3x2xf32>, tensor<5x3x2xf32>) -> tensor<5x3x2xf32>
  %3 = "hbir.transpose"(%0) <{perm = [1, 0, 2]}> : (tensor<2x3x5xf32>) -> tensor<3x2x5xf32>
  %4 = "hbir.add"(%3, %z) : (tensor<3x2x5xf32>, tensor<3x2x5xf32>) -> tensor<3x2x5xf32>
  return %2, %4 : tensor<5x3x2xf32>, tensor<3x2x5xf32>
}"#;
    let registry = Arc::new(optc_ops::registry());
    let remarks = |pipeline: &str| -> Vec<&str> {
        let ran = run_passes(
            &parse(text),
            pipeline,
            "cpu",
            &Boundary::default(),
            &registry,
        );
        ran.expect("it folds")
            .cx
            .remarks
            .iter()
            .map(|d| d.code.as_str())
            .collect()
    };
    assert!(remarks("view-fold{max-layouts=1}").contains(&"layouts-dropped"));
    assert!(!remarks("view-fold").contains(&"layouts-dropped"));
}

/// A block in which each convolution reads all values before it, and every other value is transposed. The number of
/// crossing values equals the number of convolutions, which exceeds the tables of variable elimination.
fn dense_block(n: usize) -> String {
    let image = |channels: usize| format!("tensor<1x{channels}x6x4xf32>");
    let turned = |channels: usize| format!("tensor<1x{channels}x4x6xf32>");
    let attrs = "dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]";
    let mut values = vec![("%x".to_owned(), 8)];
    let mut text = String::new();
    let concat = |name: &str, values: &[(String, usize)]| {
        let names: Vec<&str> = values.iter().map(|v| v.0.as_str()).collect();
        let types: Vec<String> = values.iter().map(|v| image(v.1)).collect();
        let all: usize = values.iter().map(|v| v.1).sum();
        let (names, types, result) = (names.join(", "), types.join(", "), image(all));
        (
            all,
            format!("  {name} = \"hbir.concat\"({names}) <{{axis = 1}}> : ({types}) -> {result}\n"),
        )
    };
    for i in 0..n {
        let (c, line) = concat(&format!("%c{i}"), &values);
        text += &line;
        let weights = format!("tensor<4x{c}x3x3xf32>");
        text += &format!(
            "  %w{i} = \"hbir.constant\"() <{{data = #hbir.external<\"w\", 0, {}>}}> : () -> {weights}\n",
            4 * 9 * 4 * c
        );
        if i % 2 == 0 {
            let (from, to) = (image(c), image(4));
            text += &format!(
                "  %f{i} = \"hbir.conv\"(%c{i}, %w{i}) <{{{attrs}}}> : ({from}, {weights}) -> {to}\n"
            );
        } else {
            let (from, to) = (turned(c), turned(4));
            let turn = "\"hbir.transpose\"";
            text += &format!(
                "  %t{i} = {turn}(%c{i}) <{{perm = [0, 1, 3, 2]}}> : ({}) -> {from}\n",
                image(c)
            );
            text += &format!(
                "  %u{i} = \"hbir.conv\"(%t{i}, %w{i}) <{{{attrs}}}> : ({from}, {weights}) -> {to}\n"
            );
            text += &format!(
                "  %f{i} = {turn}(%u{i}) <{{perm = [0, 1, 3, 2]}}> : ({to}) -> {}\n",
                image(4)
            );
        }
        values.push((format!("%f{i}"), 4));
    }
    let (c, line) = concat("%r", &values);
    let (x, r) = (image(8), image(c));
    format!("func.func @main(%x: {x}) -> {r} {{\n{text}{line}  return %r : {r}\n}}\n")
}

#[test]
fn dense_blocks_fold_exactly() {
    let registry = Arc::new(optc_ops::registry());
    for n in [4, 16] {
        let module = parse(&dense_block(n));
        // A machine with the same rows that copies every part, so that the concat in which a value lies in place is
        // irrelevant.
        let ran = run_passes(
            &module,
            "view-fold",
            "mosaic_gpu",
            &Boundary::default(),
            &registry,
        );
        let ran = ran.expect("it folds");
        let report = ran.fold().expect("a report");
        assert!(report.bytes_after < report.bytes_before, "{n} convolutions");
        assert_eq!(report.proof.name(), "optimal", "{n} convolutions");
    }
}

fn folded() -> (Module, Module, Certificate) {
    let registry = Arc::new(optc_ops::registry());
    let module = parse(TRANSPOSED);
    let ran = run_passes(&module, "view-fold", "cpu", &Boundary::default(), &registry);
    let ran = ran.expect("it folds");
    let certificate = ran.certificate(&module);
    (module, ran.module, certificate)
}

/// The codes that the checker reports for a folded program, after `change` to its text and `claim` to the certificate.
fn check(change: impl Fn(&str) -> String, claim: impl Fn(&mut Certificate)) -> Vec<&'static str> {
    let (original, folded, mut certificate) = folded();
    let printed = text::print(&folded);
    let changed = parse(&change(&printed));
    certificate.folded = Digest::of(&changed);
    claim(&mut certificate);
    let target = Target::builtin("cpu").expect("built in");
    let registry = optc_ops::registry();
    match optc_check::check(&original, &changed, &certificate, &registry, &target) {
        Ok(()) => Vec::new(),
        Err(diags) => diags.iter().map(|d| d.code.as_str()).collect(),
    }
}

#[test]
fn certificates_say_what_is_wrong() {
    let same = str::to_owned;
    assert_eq!(check(same, |_| ()), [] as [&str; 0]);
    assert_eq!(
        check(same, |c| c.movement_bytes += 1),
        ["certificate-bytes"]
    );
    assert_eq!(check(same, |c| c.target.push('x')), ["certificate-target"]);
    assert_eq!(
        check(same, |c| c.folded = c.original),
        ["certificate-digest"]
    );
    assert_eq!(
        check(same, |c| c.witness.funcs[0].operations.clear()),
        ["certificate-mismatch"]
    );
    assert_eq!(
        check(same, |c| c.witness.funcs[0].values[0].layout.clear()),
        ["certificate-witness"]
    );
    let other = |text: &str| text.replace("hbir.tanh", "hbir.relu");
    assert_eq!(check(other, |_| ()), ["certificate-mismatch"]);
    let padded = |text: &str| text.replace("{order = [1, 0]}", "{block = \"4H\", order = [1, 0]}");
    assert!(check(padded, |_| ()).contains(&"target-layout"));
}

/// 24 = 3·8 = 8·3 have no common refinement: the value behind the second transpose has no layout.
const REGROUPED: &str = r#"
func.func @main(%x: tensor<24x5xf32>) -> tensor<24x5xf32> {
  %0 = "hbir.reshape"(%x) <{shape = [3, 8, 5]}> : (tensor<24x5xf32>) -> tensor<3x8x5xf32>
  %1 = "hbir.transpose"(%0) <{perm = [1, 0, 2]}> : (tensor<3x8x5xf32>) -> tensor<8x3x5xf32>
  %2 = "hbir.reshape"(%1) <{shape = [3, 8, 5]}> : (tensor<8x3x5xf32>) -> tensor<3x8x5xf32>
  %3 = "hbir.transpose"(%2) <{perm = [1, 0, 2]}> : (tensor<3x8x5xf32>) -> tensor<8x3x5xf32>
  %4 = "hbir.reshape"(%3) <{shape = [24, 5]}> : (tensor<8x3x5xf32>) -> tensor<24x5xf32>
  return %4 : tensor<24x5xf32>
}
"#;

#[test]
fn certificates_follow_what_no_layout_can() {
    let registry = Arc::new(optc_ops::registry());
    let target = Target::builtin("cpu").expect("built in");
    let original = parse(REGROUPED);
    let ran = run_passes(
        &original,
        "view-fold",
        "cpu",
        &Boundary::default(),
        &registry,
    );
    let ran = ran.expect("it folds");
    let certificate = ran.certificate(&original);
    let says = |original: &Module| {
        optc_check::check(original, &ran.module, &certificate, &registry, &target)
    };
    assert!(says(&original).is_ok());
    let other = REGROUPED.replace(
        "[1, 0, 2]}> : (tensor<3x8x5xf32>) -> tensor<8x3x5xf32>\n  %4",
        "[2, 1, 0]}> : (tensor<3x8x5xf32>) -> tensor<5x8x3xf32>\n  %4",
    );
    let other = other.replace(
        "(%3) <{shape = [24, 5]}> : (tensor<8x3x5xf32>)",
        "(%3) <{shape = [24, 5]}> : (tensor<5x8x3xf32>)",
    );
    assert_ne!(other, REGROUPED);
    refused(says(&parse(&other)), "certificate-mismatch");
}

#[test]
fn certificate_texts_are_read_strictly() {
    let (_, _, certificate) = folded();
    let text = certificate.to_text();
    assert_eq!(Certificate::from_text(&text).ok(), Some(certificate));
    for bad in [
        "",
        "optc-certificate 3\n",
        &text.replace("movement_bytes ", "bytes "),
    ] {
        let answer = Certificate::from_text(bad).map_err(|d| vec![*d]);
        refused(answer, "certificate-syntax");
    }
}

#[test]
fn only_rearrangements_are_views() {
    let module = parse(TRANSPOSED);
    let func = &module.funcs[0];
    let codes: Vec<Option<&str>> = func
        .body
        .iter()
        .map(|&op| {
            optc_ops::registry()
                .rearrangement(&func.op_ref(op))
                .err()
                .map(|e| e.code.as_str())
        })
        .collect();
    assert_eq!(codes, [None, Some("not-a-rearrangement"), None]);
}

/// Programs with calls, loops and branches on targets with tiles: the result verifies when it is read again, and its
/// certificate is accepted.
#[test]
fn hlo_modules_fold_on_every_target() {
    let registry = Arc::new(optc_ops::registry());
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../frontends/hlo/tests/modules"
    );
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "hlo") {
            let text = std::fs::read_to_string(&path).expect("a text");
            let import = optc_hlo::import(&text).unwrap_or_else(|d| panic!("{}", words(&d)));
            modules.push((path, import.module));
        }
    }
    assert!(4 <= modules.len());
    for (path, module) in &modules {
        for name in ["cpu", "tpu", "journey6"] {
            let run = |module: &Module, passes: &str| {
                let ran = run_passes(module, passes, name, &Boundary::default(), &registry);
                ran.unwrap_or_else(|e| panic!("{} on {name}: {e}", path.display()))
            };
            let read_again = |module: &Module| {
                let again = round_trip(module, &registry);
                again.unwrap_or_else(|e| panic!("{} on {name}: {e}", path.display()))
            };
            let canonical = run(module, "canonicalize").module;
            let ran = run(&canonical, "view-fold");
            let again = read_again(&ran.module);
            let certificate = Certificate {
                folded: Digest::of(&again),
                ..ran.certificate(&canonical)
            };
            let target = Target::builtin(name).expect("built in");
            let certified = optc_check::check(&canonical, &again, &certificate, &registry, &target);
            let certified = certified.map_err(|d| words(&d));
            assert_eq!(certified, Ok(()), "{} on {name}", path.display());
        }
    }
}

/// A constant may be written as one element or as all of them; its value is the same.
#[test]
fn certificates_compare_constants_by_value() {
    let registry = Arc::new(optc_ops::registry());
    let target = Target::builtin("cpu").expect("built in");
    let text = "ENTRY e {\n  x = f32[2,3] parameter(0)\n  \
        c = f32[2,3] constant({{1,1,1},{1,1,1}})\n  ROOT a = f32[2,3] add(x, c)\n}";
    let module = optc_hlo::import(text).expect("a module").module;
    let ran = run_passes(&module, "view-fold", "cpu", &Boundary::default(), &registry);
    let ran = ran.expect("it folds");
    let certificate = ran.certificate(&module);
    let printed = text::print(&ran.module);
    let says = |text: &str| {
        let (folded, registry) = (parse(text), &registry);
        let certificate = Certificate {
            folded: Digest::of(&folded),
            ..certificate.clone()
        };
        optc_check::check(&module, &folded, &certificate, registry, &target)
    };
    assert!(says(&printed).is_ok());
    let other = printed.replace("dense<1.0", "dense<2.0");
    assert_ne!(other, printed);
    refused(says(&other), "certificate-mismatch");
}

#[test]
fn certificates_of_calls_that_change_a_layout_are_refused() {
    let registry = Arc::new(optc_ops::registry());
    let target = Target::builtin("cpu").expect("built in");
    let program = |run: &str, port: &str| {
        parse(&format!(
            r#"module {{
  func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {{
    %0 = "hbir.layout_convert"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32{port}>
    %1 = {run} : (tensor<3x5xf32{port}>) -> tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }}
  func.func private @f(%y: tensor<3x5xf32, {{order = [1, 0]}}>) -> tensor<3x5xf32> {{
    %0 = "hbir.layout_convert"(%y) : (tensor<3x5xf32, {{order = [1, 0]}}>) -> tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }}
}}"#
        ))
    };
    let call = r#""hbir.call"(%0) <{callee = @f}>"#;
    let kept = r#""hbir.opaque"(%0) <{domain = "hlo", hlo.body = @f, kind = "while"}>"#;
    for (run, code) in [(call, "target-layout"), (kept, "certificate-mismatch")] {
        let (good, bad) = (program(run, ", {order = [1, 0]}"), program(run, ""));
        let of = |module: &Module| {
            let bytes = optc_check::Stats::of(module, &registry).movement_bytes;
            Certificate::of(
                &good,
                module,
                Witness::in_step(&good, module, &registry),
                "cpu",
                bytes,
            )
        };
        let right = optc_check::check(&good, &good, &of(&good), &registry, &target);
        assert_eq!(right.map_err(|d| words(&d)), Ok(()));
        refused(
            optc_check::check(&good, &bad, &of(&bad), &registry, &target),
            code,
        );
    }
}

/// A value that an operation shares with the functions that it runs has one layout; if a port has all rounds, one
/// order.
#[test]
fn certificates_of_loops_that_give_other_layouts_than_they_run_are_refused() {
    let registry = Arc::new(optc_ops::registry());
    let target = Target::builtin("cpu").expect("built in");
    let program = |part: &str, whole: &str| {
        let (p, w) = (
            format!("tensor<3x5xf32{part}>"),
            format!("tensor<2x3x5xf32{whole}>"),
        );
        let x = "tensor<2x3x5xf32>";
        parse(&format!(
            r#"module {{
  func.func @main(%h: {p}, %x: {x}) -> ({p}, {x}) {{
    %0 = "hbir.layout_convert"(%x) : ({x}) -> {w}
    %1:2 = "hbir.opaque"(%h, %0) <{{kind = "Scan", domain = "", effect = "pure", onnx.body = @f, onnx.num_scan_inputs = 1}}> : ({p}, {w}) -> ({p}, {w})
    %2 = "hbir.layout_convert"(%1#1) : ({w}) -> {x}
    return %1#0, %2 : {p}, {x}
  }}
  func.func private @f(%s: {p}, %y: {p}) -> ({p}, {p}) {{
    %0 = "hbir.add"(%s, %y) : ({p}, {p}) -> {p}
    return %0, %y : {p}, {p}
  }}
}}"#
        ))
    };
    let turned = ", {order = [1, 0]}";
    let original = program(turned, "");
    let says = |whole: &str| {
        let folded = program(turned, whole);
        let bytes = optc_check::Stats::of(&folded, &registry).movement_bytes;
        let witness = Witness::in_step(&original, &folded, &registry);
        let certificate = Certificate::of(&original, &folded, witness, "cpu", bytes);
        optc_check::check(&original, &folded, &certificate, &registry, &target)
    };
    for agrees in [
        ", {order = [0, 2, 1]}",
        ", {order = [2, 0, 1]}",
        ", {order = [2, 1, 0]}",
    ] {
        assert_eq!(says(agrees).map_err(|d| words(&d)), Ok(()), "{agrees}");
    }
    for differs in [", {order = [1, 0, 2]}", ", {order = [1, 2, 0]}"] {
        refused(says(differs), "certificate-mismatch");
    }
}

/// A program whose named batch grows by a factor in each layer, with each layer's result in two orders.
fn growing(layers: u32, factor: u64) -> String {
    let batch = |n: u64| match n {
        1 => "B".to_owned(),
        n => format!("{n}*B"),
    };
    let rows = |n: u64, columns: u64| {
        format!(
            r#"tensor<?x{columns}xf32, {{dims = ["{}", {columns}]}}>"#,
            batch(n)
        )
    };
    let columns = |n: u64| format!(r#"tensor<6x?xf32, {{dims = [6, "{}"]}}>"#, batch(n));
    let weight = format!("tensor<6x{}xf32>", 6 * factor);
    let (mut body, mut values, mut types) = (String::new(), Vec::new(), Vec::new());
    let (mut n, mut last) = (1u64, "%x".to_owned());
    for k in 0..layers {
        let (x, y) = (rows(n, 6), rows(n, 6 * factor));
        n *= factor;
        let (flat, turned) = (rows(n, 6), columns(n));
        body += &format!(
            r#"
  %m{k} = "hbir.matmul"({last}, %w) : ({x}, {weight}) -> {y}
  %r{k} = "hbir.reshape"(%m{k}) <{{shape = [-1, 6]}}> : ({y}) -> {flat}
  %t{k} = "hbir.transpose"(%r{k}) <{{perm = [1, 0]}}> : ({flat}) -> {turned}"#
        );
        last = format!("%r{k}");
        values.extend([last.clone(), format!("%t{k}")]);
        types.extend([flat, turned]);
    }
    let (values, types) = (values.join(", "), types.join(", "));
    let x = rows(1, 6);
    format!(
        "func.func @main(%x: {x}, %w: {weight}) -> ({types}) {{{body}\n  return {values} : {types}\n}}"
    )
}

/// Conversions that move 2^62 bytes or more in total, of values with fewer than 2^63 bits each, are handled like
/// others.
#[test]
fn conversions_of_the_largest_values_are_added_up() {
    let registry = Arc::new(optc_ops::registry());
    let bytes = |source: &str| {
        let module = parse(source);
        let ran = run_passes(&module, "view-fold", "cpu", &Boundary::default(), &registry);
        let ran = ran.unwrap_or_else(|e| panic!("{e}"));
        let report = ran.fold().expect("a report");
        let stats = optc_check::Stats::of(&ran.module, &registry);
        assert_eq!((stats.reshape, stats.transpose), (0, 0));
        (stats.layout_convert, report.proof, report.lower_bound_bytes)
    };
    let n = 1u64 << 56;
    let (wide, tall) = (format!("tensor<2x{n}xf32>"), format!("tensor<{n}x2xf32>"));
    let each = |f: &dyn Fn(usize) -> String, by: &str| (0..5).map(f).collect::<Vec<_>>().join(by);
    let source = format!(
        "func.func @main({}) -> ({}) {{\n{}\n  return {} : {}\n}}",
        each(&|i| format!("%x{i}: {wide}"), ", "),
        each(&|_| tall.clone(), ", "),
        each(
            &|i| format!(
                r#"  %{i} = "hbir.transpose"(%x{i}) <{{perm = [1, 0]}}> : ({wide}) -> {tall}"#
            ),
            "\n"
        ),
        each(&|i| format!("%{i}"), ", "),
        each(&|_| tall.clone(), ", "),
    );
    assert_eq!(bytes(&source), (5, Proof::Optimal, 5 * 16 * n));
    for (layers, factor) in [(18, 7), (50, 2)] {
        let (converted, ..) = bytes(&growing(layers, factor));
        assert_eq!(
            converted,
            u64::from(layers),
            "{layers} layers, times {factor} each"
        );
    }
}

/// Unnamed sizes that follow from the volume behind a reshape are the same before and after a fold.
#[test]
fn sizes_that_follow_from_volumes_are_named() {
    let mut body = String::new();
    let (mut last, mut rows) = ("%x".to_owned(), r#"tensor<?x6xf32, {dims = ["B", 6]}>"#);
    for k in 0..3 {
        body += &format!(
            r#"
  %m{k} = "hbir.matmul"({last}, %w) : ({rows}, tensor<6x42xf32>) -> tensor<?x42xf32>
  %r{k} = "hbir.reshape"(%m{k}) : (tensor<?x42xf32>) -> tensor<?x6xf32>
  %t{k} = "hbir.transpose"(%r{k}) <{{perm = [1, 0]}}> : (tensor<?x6xf32>) -> tensor<6x?xf32>
  %s{k} = "hbir.softmax"(%t{k}) <{{axis = 0}}> : (tensor<6x?xf32>) -> tensor<6x?xf32>
  %v{k} = "hbir.transpose"(%s{k}) <{{perm = [1, 0]}}> : (tensor<6x?xf32>) -> tensor<?x6xf32>"#
        );
        (last, rows) = (format!("%v{k}"), "tensor<?x6xf32>");
    }
    let source = format!(
        r#"func.func @main(%x: tensor<?x6xf32, {{dims = ["B", 6]}}>, %w: tensor<6x42xf32>) -> tensor<?x6xf32> {{{body}
  return {last} : tensor<?x6xf32>
}}"#
    );
    let registry = Arc::new(optc_ops::registry());
    let ran = run_passes(
        &parse(&source),
        "view-fold",
        "cpu",
        &Boundary::default(),
        &registry,
    );
    let module = ran.unwrap_or_else(|e| panic!("{e}")).module;
    assert_eq!(round_trip(&module, &registry).map(|_| ()), Ok(()));
    assert_eq!(optc_check::Stats::of(&module, &registry).movement_bytes, 0);
    assert!(text::print(&module).contains("343*B"));
}
