//! Products of f32 at the precision that a user asks for: estimates and plans count with its rate, and kernels, HLO and
//! StableHLO state it.

use optc::estimate::{Estimate, Prices};
use optc::{Compiler, Precision, Program, SizeTable, find_target};
use std::sync::Arc;

/// Two products; the second one states XLA's highest precision.
const PROGRAM: &str = r#"
func.func @main(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>, %v: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = "hbir.matmul"(%x, %w) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %1 = "hbir.tanh"(%0) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %2 = "hbir.matmul"(%1, %v) {hlo.operand_precision = "{highest,highest}"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %2 : tensor<256x256xf32>
}
"#;

/// The program, and a compiler for this target at this precision.
fn given(target: &str, precision: Precision) -> (Program, Compiler) {
    let mut compiler = Compiler::new();
    compiler.target = Some(Arc::new(find_target(target).unwrap()));
    compiler.precision = Some(precision);
    (compiler.parse("two.ir", PROGRAM).unwrap(), compiler)
}

/// The seconds that an estimate counts for the arithmetic of each product.
fn seconds(program: &Program, compiler: &Compiler) -> Vec<f64> {
    let target = compiler.context(program).unwrap().target;
    let sizes = SizeTable::new(&compiler.bindings.0);
    let prices = Prices {
        target: &target,
        sizes: &sizes,
        cast: None,
    };
    let estimate = Estimate::of(&program.module, compiler.registry(), &prices).unwrap();
    let products = estimate.items.iter();
    let products = products.filter(|item| item.ops.iter().any(|op| &**op == "hbir.matmul"));
    products.map(|item| item.compute_seconds).collect()
}

#[test]
fn kernels_have_the_precision_that_plans_count_with() {
    for (target, precision, words) in [
        (
            "tpu",
            Precision::Ieee,
            ["Precision.HIGHEST", "Precision.HIGHEST"],
        ),
        (
            "tpu",
            Precision::Bf16,
            ["Precision.DEFAULT", "Precision.HIGHEST"],
        ),
        ("triton", Precision::Ieee, ["\"ieee\"", "\"ieee\""]),
        ("triton", Precision::Tf32, ["\"tf32\"", "\"ieee\""]),
        ("triton", Precision::Tf32x3, ["\"tf32x3\"", "\"ieee\""]),
    ] {
        let (mut program, compiler) = given(target, precision);
        let cx = compiler.context(&program).unwrap();
        let unit = &cx.target.units[&cx.target.row("matmul").unwrap().unit];
        let exact = unit.rates.of(true, 32).unwrap();
        let rates = [unit.f32.of(precision).unwrap_or(exact), exact];
        let operations = 2.0 * 256f64.powi(3);
        for (found, rate) in seconds(&program, &compiler).into_iter().zip(rates) {
            let wanted = operations / rate;
            assert!(
                (found - wanted).abs() < 1e-9 * wanted,
                "{target} {precision}"
            );
        }
        let passes = "inline,canonicalize,view-fold,tile-propagate";
        compiler.compile(&mut program, passes).unwrap();
        let (module, registry) = (&program.module, compiler.registry());
        let text = match target {
            "tpu" => optc::pallas::emit(module, registry, &cx.target),
            _ => optc::triton::emit(module, registry, &cx.target),
        };
        let text = text.unwrap();
        let found = text.split("precision=").skip(1);
        let found: Vec<&str> = found
            .map(|rest| rest[..rest.find([',', ')']).unwrap()].trim_start_matches("lax."))
            .collect();
        assert_eq!(found, words, "{target} {precision}\n{text}");
    }
}

#[test]
fn programs_state_the_precision_that_was_asked_for() {
    let none = |_: &str, _, _, _| unreachable!("the program has no files");
    for (precision, word) in [(Precision::Ieee, "HIGHEST"), (Precision::Bf16, "DEFAULT")] {
        let (program, compiler) = given("tpu", precision);
        let target = compiler.context(&program).unwrap().target;
        let (module, registry) = (&program.module, compiler.registry());
        let text = optc::stablehlo::emit(module, registry, Some(&target), &none).unwrap();
        let text = text.text;
        for word in [word, "HIGHEST"] {
            let pair = format!("#stablehlo<precision {word}>, #stablehlo<precision {word}>");
            assert!(text.contains(&pair), "{pair}\n{text}");
        }
        let jax = optc::jax::emit(module, registry, &target).unwrap();
        assert!(jax.contains(&format!("lax.Precision.{word}")), "{jax}");
    }
    let (program, mut compiler) = given("tpu", Precision::Ieee);
    compiler.precision = None;
    let target = compiler.context(&program).unwrap().target;
    let text = optc::hlo::emit(&program.module, compiler.registry(), Some(&target), &none);
    let text = text.unwrap().text;
    assert_eq!(
        text.matches("operand_precision={highest,highest}").count(),
        1,
        "{text}"
    );
}

#[test]
fn a_precision_without_a_rate_is_refused() {
    let (program, compiler) = given("cpu", Precision::Tf32);
    let error = compiler.context(&program).unwrap_err().to_string();
    assert!(
        error.contains("target `cpu` has no products of f32 at `tf32`, wanted `ieee`"),
        "{error}"
    );
}
