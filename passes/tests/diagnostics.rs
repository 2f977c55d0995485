//! Refusals and remarks of the passes, by code.

use optc_check::{Certificate, Stats, Witness, check, check_target};
use optc_ir::{Diagnostic, Module, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use std::sync::Arc;

const ATTENTION: &str = r#"
func.func @main(%x: tensor<5x6xf32>, %y: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %1 = "hbir.add"(%0, %y) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  return %1 : tensor<6x5xf32>
}
"#;

fn context() -> PassContext {
    let target = Target::builtin("cpu").expect("built in");
    PassContext::new(Arc::new(optc_ops::registry()), Arc::new(target))
}

fn fold(cx: &mut PassContext, pipeline: &str) -> Result<(Module, Module), Vec<Diagnostic>> {
    let before = text::parse(ATTENTION).expect("well formed");
    let mut after = before.clone();
    let stages = PassList::builtin().parse(pipeline).map_err(|d| vec![*d])?;
    run(&mut after, &stages, cx, &mut Hooks::default())?;
    Ok((before, after))
}

fn codes(diags: &[Diagnostic]) -> Vec<&'static str> {
    diags.iter().map(|d| d.code.as_str()).collect()
}

#[test]
fn a_certificate_that_was_tampered_with_is_refused() {
    let mut cx = context();
    let (before, after) = fold(&mut cx, "view-fold").expect("folds");
    let bytes = Stats::of(&after, &cx.registry).movement_bytes;
    let good = Certificate::of(
        &before,
        &after,
        Witness::in_step(&before, &after, &cx.registry),
        "cpu",
        bytes,
    );
    let verdict = |c: &Certificate| check(&before, &after, c, &cx.registry, &cx.target);
    assert_eq!(verdict(&good), Ok(()));
    let mut bad = good.clone();
    bad.movement_bytes += 1;
    assert_eq!(codes(&verdict(&bad).unwrap_err()), ["certificate-bytes"]);
    let mut bad = good.clone();
    bad.witness.funcs[0].values[0].layout.push('x');
    assert_eq!(codes(&verdict(&bad).unwrap_err()), ["certificate-witness"]);
    let mut bad = good.clone();
    bad.folded = bad.original;
    assert_eq!(codes(&verdict(&bad).unwrap_err()), ["certificate-digest"]);
    let mut bad = good.clone();
    bad.target = "journey6".to_owned();
    assert_eq!(codes(&verdict(&bad).unwrap_err()), ["certificate-target"]);
    let error = Certificate::from_text("nonsense").unwrap_err();
    assert_eq!(error.code, "certificate-syntax");
    assert_eq!(Certificate::from_text(&good.to_text()).as_ref(), Ok(&good));
}

#[test]
fn another_program_is_refused() {
    let mut cx = context();
    let (before, _) = fold(&mut cx, "view-fold").expect("folds");
    let other = text::parse(&ATTENTION.replace("hbir.add", "hbir.sub")).expect("well formed");
    let certificate = Certificate::of(
        &before,
        &other,
        Witness::in_step(&before, &other, &cx.registry),
        "cpu",
        240,
    );
    let diags = check(&before, &other, &certificate, &cx.registry, &cx.target).unwrap_err();
    assert_eq!(codes(&diags), ["certificate-mismatch"]);
}

#[test]
fn layouts_that_the_target_does_not_take_are_refused() {
    let cx = context();
    let source = "%0 = \"hbir.add\"(%x, %y) : (tensor<5x6xf32, {order = [1, 0]}>, tensor<5x6xf32>) \
                  -> tensor<5x6xf32>";
    let module = text::parse(source).expect("well formed");
    assert_eq!(
        codes(&check_target(&module, &cx.registry, &cx.target)),
        ["target-layout"]
    );
}

#[test]
fn what_a_pipeline_text_may_not_say() {
    let list = PassList::builtin();
    let code = |text: &str| list.parse(text).unwrap_err().code;
    assert_eq!(code("nonsense"), "unknown-pass");
    assert_eq!(code("view-fold{nonsense=1}"), "unknown-option");
    assert_eq!(code("view-fold{max-layouts=1"), "pipeline-syntax");
    let mut cx = context();
    let refused = |pipeline: &str, cx: &mut PassContext| codes(&fold(cx, pipeline).unwrap_err());
    assert_eq!(
        refused("view-fold{max-layouts=0}", &mut cx),
        ["option-value"]
    );
    assert_eq!(
        refused("view-fold{rules=nonsense}", &mut cx),
        ["unknown-rule"]
    );
}

#[test]
fn a_pin_that_does_not_fit_is_refused() {
    let mut cx = context();
    let fields = [("order".to_owned(), optc_layout::Field::Ints(vec![0, 2, 1]))];
    let notation = optc_layout::Notation::from_fields(&fields, 3).expect("of rank 3");
    cx.boundary.pins.insert("x".to_owned(), notation);
    assert_eq!(
        codes(&fold(&mut cx, "view-fold").unwrap_err()),
        ["pin-layout"]
    );
}

#[test]
fn what_stays_is_remarked() {
    let mut cx = context();
    fold(&mut cx, "view-fold{max-layouts=1}").expect("folds");
    assert!(codes(&cx.remarks).contains(&"conversion-stays"));
}

struct Liar;

static LIAR: optc_passes::PassInfo = optc_passes::PassInfo {
    name: "liar",
    summary: "says that it changed nothing",
    phases: (optc_passes::Phase::Imported, optc_passes::Phase::Canonical),
    required: false,
    options: &[],
};

impl optc_passes::Pass for Liar {
    fn info(&self) -> &'static optc_passes::PassInfo {
        &LIAR
    }

    fn run(
        &self,
        module: &mut Module,
        _cx: &mut PassContext,
    ) -> Result<optc_passes::Outcome, Box<Diagnostic>> {
        module.attrs.set("hbir.note", optc_ir::Attr::str("changed"));
        Ok(optc_passes::Changed::No.into())
    }
}

#[test]
fn the_manager_holds_passes_to_what_they_say() {
    let stages = [optc_passes::Stage {
        pass: Arc::new(Liar),
        options: optc_passes::Options::default(),
    }];
    let mut cx = context();
    let mut module = text::parse(ATTENTION).expect("well formed");
    let outcome = run(&mut module, &stages, &mut cx, &mut Hooks::default());
    if cfg!(debug_assertions) {
        assert_eq!(codes(&outcome.unwrap_err()), ["pass-changed"]);
    }
    let (_, mut laid) = fold(&mut cx, "view-fold").expect("folds");
    let outcome = run(&mut laid, &stages, &mut cx, &mut Hooks::default());
    assert_eq!(codes(&outcome.unwrap_err()), ["pass-phase"]);
}

#[test]
fn a_target_that_pads_wants_known_sizes_where_it_pads() {
    let target = Target::builtin("journey6").expect("built in");
    let fold = |dims: &str, shape: &str| {
        let mut cx = PassContext::new(Arc::new(optc_ops::registry()), Arc::new(target.clone()));
        let ty = format!("tensor<{shape}xf32, {{dims = [{dims}]}}>");
        let source = format!("%0 = \"hbir.relu\"(%x) : ({ty}) -> {ty}");
        let mut module = text::parse(&source).expect("well formed");
        let stages = PassList::builtin().parse("view-fold").expect("built in");
        let outcome = run(&mut module, &stages, &mut cx, &mut Hooks::default());
        outcome.map(|_| text::print(&module))
    };
    let folded = fold("\"B\", 6", "?x6").expect("the padded size is known");
    assert!(folded.contains("block = \"32W\""), "{folded}");
    for dims in ["6, \"B\"", "6, \"B+1\""] {
        let error = fold(dims, "6x?").unwrap_err();
        assert_eq!(codes(&error), ["target-wants-sizes"]);
        let (message, size) = (&error[0].message, &dims[4..dims.len() - 1]);
        let wanted = format!("has the size {size} in dimension 1 of argument %x");
        assert!(message.contains(&wanted), "{message}");
    }
    fold("6, \"32*B\"", "6x?").expect("32 elements or more");
}

/// Values of unknown types are read, produced and returned.
#[test]
fn results_of_no_known_type_are_folded() {
    let text = r#"
func.func @main(%x: !hbir.unknown) -> !hbir.unknown {
  %0 = "hbir.opaque"(%x) <{kind = "A"}> : (!hbir.unknown) -> !hbir.unknown
  return %0 : !hbir.unknown
}
"#;
    let mut module = text::parse(text).expect("well formed");
    let stages = PassList::builtin().parse("default").expect("built in");
    run(&mut module, &stages, &mut context(), &mut Hooks::default()).expect("it folds");
    let func = &module.funcs[0];
    assert_eq!((func.body.len(), func.results.len()), (1, 1));
}
