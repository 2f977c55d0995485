//! Certificates of folds: every fold of the cases has a certificate that is accepted, and no program that computes
//! something else has one.

use optc_check::{Certificate, Digest, Witness, validate};
use optc_ir::{Module, Registry, text, verify};
use optc_passes::Boundary;
use optc_target::Target;
use optc_tests::chains::{Sizes, chain};
use optc_tests::check::{Ran, cases, run_passes, same_meaning, words};
use optc_tests::paths::{files, relative, root};
use optc_tests::tamper::mutants;
use optc_tests::{Profile, program};
use std::sync::Arc;

const TARGETS: [&str; 5] = ["cpu", "tpu", "triton", "mosaic_gpu", "journey6"];

fn free() -> Boundary {
    Boundary {
        free_all: true,
        ..Boundary::default()
    }
}

/// The fold of a canonical program and its certificate, both read back from their text.
fn certified(
    original: &Module,
    ran: &Ran,
    target: &str,
    registry: &Registry,
) -> Result<(), String> {
    let certificate = ran.certificate(original);
    let read = Certificate::from_text(&certificate.to_text()).map_err(|d| words(&[*d]))?;
    if read != certificate {
        return Err("the certificate does not read back".to_owned());
    }
    let target = Target::builtin(target).map_err(|e| e.to_string())?;
    optc_check::check(original, &ran.module, &read, registry, &target).map_err(|d| words(&d))
}

#[test]
fn every_case_is_certified() {
    let registry = Arc::new(optc_ops::registry());
    let (mut accepted, mut symbolic, mut failures) = (0, 0, Vec::new());
    for path in files(&root().join("tests/cases"), "ir") {
        let source = std::fs::read_to_string(&path).expect("a case is text");
        for part in source.split("// -----") {
            let Ok(module) = text::parse(part) else {
                continue;
            };
            if verify::verify(&module, &registry).is_err() {
                continue;
            }
            for target in TARGETS {
                for boundary in [Boundary::default(), free()] {
                    let run = |m: &Module, pass| run_passes(m, pass, target, &boundary, &registry);
                    let Ok(canonical) = run(&module, "canonicalize") else {
                        continue;
                    };
                    // A fold that the pass refuses has no certificate.
                    let Ok(ran) = run(&canonical.module, "view-fold") else {
                        continue;
                    };
                    accepted += 1;
                    symbolic += usize::from(part.contains('?'));
                    if let Err(e) = certified(&canonical.module, &ran, target, &registry) {
                        failures.push(format!("{} on {target}: {e}", relative(&path)));
                    }
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {accepted} fail\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(
        1000 < accepted && 100 < symbolic,
        "{accepted} folds, {symbolic} of them symbolic"
    );
}

/// Programs with operations, including effects, and chains of reshapes with known, named and open sizes.
fn originals(seed: u64, registry: &Registry) -> Module {
    match seed % 5 {
        0 => program(seed, Profile::Moves, registry),
        1 => program(seed, Profile::Mixed, registry),
        2 => chain(seed, Sizes::Fixed, registry),
        3 => chain(seed, Sizes::Named, registry),
        _ => chain(seed, Sizes::Open, registry),
    }
}

/// Both the witness of the original fold and a new one for the tampered program must be refused, since an attacker can
/// write the certificate too.
#[test]
fn no_program_that_computes_something_else_is_certified() {
    let registry = Arc::new(optc_ops::registry());
    let wanted = usize::try_from(cases(200)).expect("a number").min(20_000);
    let (mut refused, mut equal, mut seed) = (0, 0, 0);
    while refused + equal < wanted {
        let original = originals(seed, &registry);
        let target = TARGETS[usize::try_from(seed).expect("a number") % TARGETS.len()];
        seed += 1;
        let ran = run_passes(
            &original,
            "view-fold",
            target,
            &Boundary::default(),
            &registry,
        );
        let ran = ran.unwrap_or_else(|e| panic!("{target}: {e}\n{}", text::print(&original)));
        let printed = text::print(&ran.module);
        let certificate = ran.certificate(&original);
        // A few mutants of each program, so that there are many programs.
        let all = mutants(&ran.module);
        let step = all.len() / 12 + 1;
        for (what, mutant) in all
            .into_iter()
            .skip(usize::try_from(seed).expect("a number") % step)
            .step_by(step)
        {
            if text::print(&mutant) == printed || verify::verify(&mutant, &registry).is_err() {
                continue;
            }
            let own = optc_check::Witness::in_step(&original, &mutant, &registry);
            let accepted = [&certificate.witness, &own]
                .iter()
                .any(|witness| validate(&original, &mutant, witness, &registry).is_ok());
            if !accepted {
                refused += 1;
                continue;
            }
            equal += 1;
            if let Err(e) = same_meaning(&original, &mutant, &registry)
                && !e.contains("the first program cannot be run")
            {
                panic!(
                    "seed {}: certified, {what}: {e}\n{}",
                    seed - 1,
                    text::print(&mutant)
                );
            }
            assert_ne!(Digest::of(&mutant), certificate.folded, "{what}");
        }
    }
    // Printed with `--nocapture`.
    eprintln!("{refused} tampered programs refused, {equal} equal");
    assert!(wanted <= 3 * refused, "{refused} refused, {equal} equal");
}

/// Any modification of a certificate is refused, or is true as well.
#[test]
fn no_other_witness_proves_more() {
    let registry = Arc::new(optc_ops::registry());
    for seed in 0..cases(20) {
        let original = program(seed, Profile::Moves, &registry);
        let ran = run_passes(
            &original,
            "view-fold",
            "cpu",
            &Boundary::default(),
            &registry,
        );
        let ran = ran.unwrap_or_else(|e| panic!("{e}\n{}", text::print(&original)));
        let good = ran.certificate(&original);
        let lines: Vec<String> = good.to_text().lines().map(str::to_owned).collect();
        for at in 0..lines.len() {
            for change in [
                &|l: &str| l.replace('1', "2"),
                &|l: &str| l.replace('0', "1"),
                &|l: &str| l.replace("[1, 0]", "[0, 1]"),
            ] as [&dyn Fn(&str) -> String; 3]
            {
                let mut changed = lines.clone();
                changed[at] = change(&lines[at]);
                let text = changed.join("\n");
                let Ok(other) = Certificate::from_text(&text) else {
                    continue;
                };
                if other == good {
                    continue;
                }
                let target = Target::builtin("cpu").expect("built in");
                let found = optc_check::check(&original, &ran.module, &other, &registry, &target);
                // Two equal operations, or two values with the same contents.
                let also_true = other.witness != good.witness && found.is_ok();
                assert!(found.is_err() || also_true, "seed {seed}:\n{text}");
            }
        }
    }
}

#[test]
fn hostile_certificates_are_refused() {
    let head = "optc-certificate 3\ntarget cpu\nmovement_bytes 0\noriginal sha256:";
    let digest = Digest::of_text("").to_string();
    let programs = format!("{head}{digest}\nfolded sha256:{digest}\n");
    for lines in [
        "op 1 = 2",
        "func @f\nop 18446744073709551616 = 0",
        "func @f\nop -1 = 0",
        "func @f\n0.0 = 0.0",
        "func @f\n0.0 = 0.0 : row-major",
        "func @f\na = a : row-major of a",
        "func @f\n\u{0}",
        "func @f\n0.0 = 0.0 : row-major of ",
        "func @f\nboundary x0 = free",
        "func @f\nboundary a0",
    ] {
        let error = Certificate::from_text(&format!("{programs}{lines}\n")).expect_err(lines);
        assert_eq!(error.code, "certificate-syntax", "{lines}");
    }
    for text in [
        "",
        head,
        &programs[..programs.len() - 9],
        "optc-certificate 2\ntarget cpu\nmovement_bytes 0\n",
    ] {
        let error = Certificate::from_text(text).expect_err(text);
        assert_eq!(error.code, "certificate-syntax", "{text}");
    }
    // Places that do not exist, and operations that are stated twice.
    let registry = Arc::new(optc_ops::registry());
    let original = program(3, Profile::Moves, &registry);
    let ran = run_passes(
        &original,
        "view-fold",
        "cpu",
        &Boundary::default(),
        &registry,
    );
    let ran = ran.unwrap_or_else(|e| panic!("{e}\n{}", text::print(&original)));
    let good = ran.certificate(&original);
    for line in [
        "op 4294967295 = 4294967295",
        "op 0 = 0\nop 0 = 0",
        "a99 = a99 : row-major of a99",
        "0.7 = a0 : row-major of a0",
        "boundary a99 = free",
        "boundary r0 = free\nboundary r0 = free",
        "boundary r0 = {order = [7]}",
    ] {
        let text = format!("{}{line}\n", good.to_text());
        let bad = Certificate::from_text(&text).expect("it reads");
        assert!(
            validate(&original, &ran.module, &bad.witness, &registry).is_err(),
            "{line}"
        );
    }
}

/// A fold with a free boundary states this. Without the statement, or with another layout, it is refused.
#[test]
fn a_boundary_that_changed_is_stated() {
    let registry = Arc::new(optc_ops::registry());
    let source = r#"
func.func @main(%x: tensor<4x6xf32>) -> tensor<6x4xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = "hbir.relu"(%0) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}"#;
    let original = text::parse(source).expect("it reads");
    let kept = run_passes(
        &original,
        "view-fold",
        "cpu",
        &Boundary::default(),
        &registry,
    );
    let kept = kept.unwrap_or_else(|e| panic!("{e}"));
    let stated = |certificate: &Certificate| certificate.witness.funcs[0].boundary.clone();
    assert_eq!(stated(&kept.certificate(&original)), []);
    certified(&original, &kept, "cpu", &registry).unwrap();
    let freed = run_passes(&original, "view-fold", "cpu", &free(), &registry);
    let freed = freed.unwrap_or_else(|e| panic!("{e}"));
    let good = freed.certificate(&original);
    assert_eq!(stated(&good).len(), 2);
    certified(&original, &freed, "cpu", &registry).unwrap();
    let cases = [
        (Vec::new(), "the original declares row-major"),
        (
            vec![
                (
                    optc_check::End::Arg(0),
                    Some("{order = [1, 0], offset = 1}".to_owned()),
                ),
                (
                    optc_check::End::Result(0),
                    Some("{order = [1, 0], offset = 1}".to_owned()),
                ),
            ],
            "the witness states {order = [1, 0], offset = 1}",
        ),
    ];
    for (boundary, said) in cases {
        let mut witness = good.witness.clone();
        witness.funcs[0].boundary = boundary;
        let diags = validate(&original, &freed.module, &witness, &registry).expect_err(said);
        assert!(words(&diags).contains(said), "{}", words(&diags));
    }
}

/// A line pairs two computing operations; a line about a constant or a rearrangement is refused. Each live value must
/// have a line.
#[test]
fn lines_about_nothing_and_lines_that_are_left_out_are_refused() {
    let registry = Arc::new(optc_ops::registry());
    let source = r#"
func.func @main(%x: tensor<3x5xf32>) -> tensor<4x3xf32> {
  %0 = "hbir.constant"() <{value = dense<1.0> : tensor<5x4xf32>}> : () -> tensor<5x4xf32>
  %1 = "hbir.matmul"(%x, %0) : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  %2 = "hbir.relu"(%1) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = "hbir.transpose"(%2) <{perm = [1, 0]}> : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}"#;
    let original = text::parse(source).expect("it reads");
    let boundary = Boundary::default();
    let ran = run_passes(&original, "view-fold", "cpu", &boundary, &registry).expect("folds");
    let witness = ran.certificate(&original).witness;
    let code = |witness: &Witness| {
        let refused = validate(&original, &ran.module, witness, &registry).err();
        refused.map(|diags| diags[0].code.to_string())
    };
    assert_eq!(code(&witness), None, "as it was made");
    let folded = &ran.module.funcs[0];
    for left in 0..original.funcs[0].body.len() {
        for right in 0..folded.body.len() {
            let mut more = witness.clone();
            more.funcs[0].operations.push((left, right));
            let found = code(&more);
            assert_eq!(
                found.as_deref(),
                Some("certificate-mismatch"),
                "op {left} = {right}"
            );
        }
    }
    let values = &witness.funcs[0].values;
    let mut left_out = 0;
    for (at, held) in values.iter().enumerate() {
        let mut less = witness.clone();
        less.funcs[0].values.remove(at);
        let alone = values
            .iter()
            .filter(|other| other.value == held.value)
            .count()
            == 1;
        let wanted = alone.then_some("certificate-witness");
        assert_eq!(
            code(&less).as_deref(),
            wanted,
            "{} = {}",
            held.value,
            held.by
        );
        left_out += usize::from(alone);
    }
    assert!(3 <= left_out, "{left_out} of {}", values.len());
}

/// A value that the folded program computes several times must be the same operation on the same operands each time.
#[test]
fn what_is_computed_several_times_is_computed_alike() {
    let registry = Arc::new(optc_ops::registry());
    let source = r#"
func.func @main(%x: tensor<3x5xsi8>, %y: tensor<3x5xsi8>, %s: tensor<f32>) -> (tensor<3x5xf32>, tensor<5x3xf32>) {
  %0 = "hbir.dequantize"(%x, %s) : (tensor<3x5xsi8>, tensor<f32>) -> tensor<3x5xf32>
  %1 = "hbir.dequantize"(%y, %s) : (tensor<3x5xsi8>, tensor<f32>) -> tensor<3x5xf32>
  %2 = "hbir.sub"(%0, %1) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %3 = "hbir.transpose"(%2) <{perm = [1, 0]}> : (tensor<3x5xf32>) -> tensor<5x3xf32>
  return %2, %3 : tensor<3x5xf32>, tensor<5x3xf32>
}"#;
    let original = text::parse(source).expect("it reads");
    let boundary = Boundary::default();
    let ran = run_passes(&original, "view-fold", "cpu", &boundary, &registry).expect("folds");
    let witness = ran.certificate(&original).witness;
    let accepts =
        |module: &Module, witness: &Witness| validate(&original, module, witness, &registry);
    assert!(accepts(&ran.module, &witness).is_ok());
    let runs = |name: &str| {
        let func = &ran.module.funcs[0];
        let names = func.body.iter().map(|&op| &*func.ops[op].name);
        names.filter(|other| *other == name).count()
    };
    assert_eq!((runs("hbir.dequantize"), runs("hbir.sub")), (4, 2));
    let func = &ran.module.funcs[0];
    for &op in &func.body {
        let name = &func.ops[op].name;
        if !matches!(&**name, "hbir.dequantize" | "hbir.sub") {
            continue;
        }
        // Another operation, other operands, the same ones in another order, and a missing statement.
        let mut other = ran.module.clone();
        other.funcs[0].ops[op].name = match &**name {
            "hbir.sub" => "hbir.add".into(),
            _ => "hbir.mul".into(),
        };
        assert!(accepts(&other, &witness).is_err(), "{name} is another one");
        let mut other = ran.module.clone();
        match &**name {
            "hbir.sub" => other.funcs[0].ops[op].operands.swap(0, 1),
            _ => {
                let given = other.funcs[0].ops[op].operands[0];
                let ty = other.funcs[0].ty(given).clone();
                let alike = |v: &optc_ir::Value| *v != given && *other.funcs[0].ty(*v) == ty;
                let all: Vec<optc_ir::Value> = other.funcs[0].values.ids().collect();
                let wrong = *all.iter().find(|v| alike(v)).expect("there are two");
                other.funcs[0].ops[op].operands[0] = wrong;
            }
        }
        assert!(accepts(&other, &witness).is_err(), "{name} of others");
    }
    for at in 0..witness.funcs[0].operations.len() {
        let mut less = witness.clone();
        less.funcs[0].operations.remove(at);
        assert!(
            accepts(&ran.module, &less).is_err(),
            "pair {at} is not stated"
        );
    }
}

/// An operation that draws random numbers, or has an effect besides its results, is never duplicated.
#[test]
fn what_is_not_pure_is_computed_once() {
    let registry = optc_ops::registry();
    for (effect, accepted) in [
        ("pure", true),
        ("random", false),
        ("read", false),
        ("write", false),
    ] {
        let op = |result: &str| {
            format!(
                "  {result} = \"hbir.opaque\"(%x) <{{kind = \"F\", domain = \"d\", effect = \"{effect}\"}}> : (tensor<5xf32>) -> tensor<5xf32>\n"
            )
        };
        let program = |ops: &str, second: &str| {
            let text = format!(
                "func.func @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {{\n{ops}  return %0, {second} : tensor<5xf32>, tensor<5xf32>\n}}\n"
            );
            text::parse(&text).expect("it reads")
        };
        let original = program(&op("%0"), "%0");
        let twice = program(&(op("%0") + &op("%1")), "%1");
        let mut witness = Witness::in_step(&original, &twice, &registry);
        witness.funcs[0].operations = vec![(0, 0), (0, 1)];
        let verdict = validate(&original, &twice, &witness, &registry);
        assert_eq!(verdict.is_ok(), accepted, "{effect}: {verdict:?}");
    }
}
