//! Tests of the pass `inline`: the result computes the same as the original, and the pass terminates.

use optc_check::Stats;
use optc_ir::{Attr, Module, Registry};
use optc_ops::registry;
use optc_passes::inline::Inline;
use optc_passes::{Boundary, Changed, Pass, PassContext};
use optc_tests::check::{Ran, parse, round_trip, run_passes, same_meaning, target, words};
use std::sync::Arc;

fn ran(module: &Module, pipeline: &str, registry: &Arc<Registry>) -> Ran {
    let ran = run_passes(module, pipeline, "cpu", &Boundary::default(), registry);
    ran.unwrap_or_else(|e| panic!("{pipeline}: {e}"))
}

/// Runs pipelines with `inline`, compares with the original program, and returns the result of `inline` alone.
#[track_caller]
fn same(text: &str) -> Ran {
    let registry = Arc::new(registry());
    let module = parse(text);
    for pipeline in ["inline", "default", "view-fold,inline"] {
        let ran = ran(&module, pipeline, &registry);
        round_trip(&ran.module, &registry).unwrap_or_else(|e| panic!("{pipeline}: {e}"));
        let same = same_meaning(&module, &ran.module, &registry);
        same.unwrap_or_else(|e| panic!("{pipeline}: {e}"));
    }
    ran(&module, "inline", &registry)
}

fn codes(ran: &Ran) -> Vec<&str> {
    ran.cx.remarks.iter().map(|d| d.code.as_str()).collect()
}

#[test]
fn calls_in_calls_compute_the_same() {
    let ran = same(
        r#"func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>) {
  %0:2 = "hbir.call"(%x, %y) <{callee = @swap}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>)
  %1 = "hbir.add"(%0#1, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2:2 = "hbir.call"(%1, %0#0) <{callee = @swap}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>)
  return %2#1, %2#0 : tensor<2x3xf32>, tensor<3x2xf32>
}
func.func private @swap(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %0 = "hbir.call"(%b) <{callee = @turn}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %1 = "hbir.add"(%0, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %b, %1 : tensor<3x2xf32>, tensor<2x3xf32>
}
func.func private @turn(%a: tensor<3x2xf32>) -> tensor<2x3xf32> {
  %0 = "hbir.transpose"(%a) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %1 = "hbir.tanh"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}"#,
    );
    assert_eq!(ran.module.funcs.len(), 1);
    assert!(codes(&ran).is_empty());
}

#[test]
fn layouts_at_a_call_keep_their_meaning() {
    let ran = same(
        r#"func.func @main(%x: tensor<4x6xf32, {order = [1, 0]}>) -> tensor<4x6xf32> {
  %0 = "hbir.call"(%x) <{callee = @f}> : (tensor<4x6xf32, {order = [1, 0]}>) -> tensor<4x6xf32, {order = [1, 0]}>
  %1 = "hbir.layout_convert"(%0) : (tensor<4x6xf32, {order = [1, 0]}>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
func.func private @f(%x: tensor<4x6xf32, {strides = [1, 4]}>) -> tensor<4x6xf32, {strides = [1, 4]}> {
  %0 = "hbir.view"(%x) <{perm = [1, 0], shape = [4, 6]}> : (tensor<4x6xf32, {strides = [1, 4]}>) -> tensor<6x4xf32>
  %1 = "hbir.tanh"(%0) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %2 = "hbir.view"(%1) <{perm = [1, 0], shape = [6, 4]}> : (tensor<6x4xf32>) -> tensor<4x6xf32, {strides = [1, 4]}>
  return %2 : tensor<4x6xf32, {strides = [1, 4]}>
}"#,
    );
    assert_eq!(ran.module.funcs.len(), 1);
}

#[test]
fn sizes_with_names_compute_the_same() {
    let ran = same(
        r#"func.func @main(%x: tensor<?x4xf32, {dims = ["N", 4]}>, %y: tensor<?x4xf32, {dims = ["M", 4]}>) -> (tensor<?x4xf32, {dims = ["N", 4]}>, tensor<4x?xf32, {dims = [4, "M"]}>) {
  %0 = "hbir.call"(%x) <{callee = @f}> : (tensor<?x4xf32, {dims = ["N", 4]}>) -> tensor<?x4xf32, {dims = ["N", 4]}>
  %1 = "hbir.call"(%y) <{callee = @g}> : (tensor<?x4xf32, {dims = ["M", 4]}>) -> tensor<4x?xf32, {dims = [4, "M"]}>
  return %0, %1 : tensor<?x4xf32, {dims = ["N", 4]}>, tensor<4x?xf32, {dims = [4, "M"]}>
}
func.func private @f(%x: tensor<?x4xf32, {dims = ["N", 4]}>) -> tensor<?x4xf32, {dims = ["N", 4]}> {
  %0 = "hbir.exp"(%x) : (tensor<?x4xf32, {dims = ["N", 4]}>) -> tensor<?x4xf32, {dims = ["N", 4]}>
  return %0 : tensor<?x4xf32, {dims = ["N", 4]}>
}
func.func private @g(%x: tensor<?x4xf32, {dims = ["M", 4]}>) -> tensor<4x?xf32, {dims = [4, "M"]}> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<?x4xf32, {dims = ["M", 4]}>) -> tensor<4x?xf32, {dims = [4, "M"]}>
  return %0 : tensor<4x?xf32, {dims = [4, "M"]}>
}"#,
    );
    assert_eq!(ran.module.funcs.len(), 1);
}

/// If a size is known only inside a function, it may differ between calls, so the calls stay.
#[test]
fn sizes_that_a_function_knows_alone_keep_it() {
    let registry = Arc::new(registry());
    let module = parse(
        r#"func.func @main(%x: tensor<3x?xf32>, %y: tensor<3x?xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "hbir.call"(%x) <{callee = @f}> : (tensor<3x?xf32>) -> tensor<3xf32>
  %1 = "hbir.call"(%y) <{callee = @f}> : (tensor<3x?xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}
func.func private @f(%x: tensor<3x?xf32>) -> tensor<3xf32> {
  %0 = "hbir.tanh"(%x) : (tensor<3x?xf32>) -> tensor<3x?xf32, {dims = [3, "S"]}>
  %1 = "hbir.reduce"(%0) <{axes = [1], keepdims = false, kind = "sum"}> : (tensor<3x?xf32, {dims = [3, "S"]}>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}"#,
    );
    let ran = ran(&module, "inline", &registry);
    assert_eq!(ran.module.funcs.len(), 2);
    assert_eq!(codes(&ran), ["call-kept"]);
    assert!(words(&ran.cx.remarks).contains("`S`"));
}

/// The verifier refuses recursive programs, but the pass terminates on them too.
#[test]
fn calls_that_go_round_stay() {
    let call = |from: &str, to: &str| {
        format!(
            "func.func private @{from}(%x: tensor<5xf32>) -> tensor<5xf32> {{\n  \
             %0 = \"hbir.call\"(%x) <{{callee = @{to}}}> : (tensor<5xf32>) -> tensor<5xf32>\n  \
             return %0 : tensor<5xf32>\n}}\n"
        )
    };
    let main = call("main", "f").replace("private ", "");
    for rest in [
        call("f", "f"),
        call("f", "g") + &call("g", "f"),
        call("f", "g") + &call("g", "h") + &call("h", "g"),
    ] {
        let mut module = parse(&(main.clone() + &rest));
        let mut cx = PassContext::new(Arc::new(registry()), target("cpu"));
        Inline.run(&mut module, &mut cx).expect("it ends");
        assert!(1 < module.funcs.len());
        let again = Inline.run(&mut module, &mut cx).expect("it ends");
        assert_eq!(again.changed, Changed::No, "there is nothing left to do");
    }
}

/// Functions that each call the previous one twice. Fully inlined, they are `2^depth` times the two operations of the first.
fn doubling(depth: usize) -> String {
    let mut text = String::new();
    for i in 0..=depth {
        let name = match i == depth {
            true => "func.func @main".to_owned(),
            false => format!("func.func private @f{i}"),
        };
        let op = |operand: &str| match i {
            0 => format!("\"hbir.tanh\"({operand})"),
            _ => format!("\"hbir.call\"({operand}) <{{callee = @f{}}}>", i - 1),
        };
        text += &format!(
            "{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n  %0 = {} : (tensor<2xf32>) -> tensor<2xf32>\n  \
             %1 = {} : (tensor<2xf32>) -> tensor<2xf32>\n  return %1 : tensor<2xf32>\n}}\n",
            op("%x"),
            op("%0"),
        );
    }
    text
}

#[test]
fn growth_is_bounded() {
    let registry = Arc::new(registry());
    let small = parse(&doubling(6));
    let whole = ran(&small, "inline", &registry);
    assert_eq!(whole.module.funcs.len(), 1);
    assert_eq!(whole.module.funcs[0].body.len(), 128);
    same_meaning(&small, &whole.module, &registry).expect("the same");
    let limited = ran(&small, "inline{limit=40}", &registry);
    same_meaning(&small, &limited.module, &registry).expect("the same");
    assert!(1 < limited.module.funcs.len() && !codes(&limited).is_empty());

    let large = parse(&doubling(60));
    let before: usize = large.funcs.iter().map(|f| f.body.len()).sum();
    let ran = ran(&large, "inline", &registry);
    let after: usize = ran.module.funcs.iter().map(|f| f.body.len()).sum();
    assert!(after <= (8 * before).max(before + 20_000), "{after}");
    assert!(codes(&ran).contains(&"call-kept"), "{:?}", codes(&ran));
}

/// Functions that are each called once are inlined whatever the limit, because their bodies move and are not copied.
#[test]
fn long_chains_are_moved() {
    let mut text = String::new();
    let depth = 3000;
    for i in 0..depth {
        let name = match i {
            0 => "func.func @main".to_owned(),
            _ => format!("func.func private @f{i}"),
        };
        let ty = "(tensor<2xf32>) -> tensor<2xf32>";
        text += &format!(
            "{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n  %0 = \"hbir.tanh\"(%x) : {ty}\n"
        );
        match i + 1 == depth {
            true => text += "  return %0 : tensor<2xf32>\n}\n",
            false => {
                text += &format!(
                    "  %1 = \"hbir.call\"(%0) <{{callee = @f{}}}> : {ty}\n  return %1 : tensor<2xf32>\n}}\n",
                    i + 1
                );
            }
        }
    }
    let ran = ran(&parse(&text), "inline{limit=1}", &Arc::new(registry()));
    assert_eq!(ran.module.funcs.len(), 1);
    assert_eq!(ran.module.funcs[0].body.len(), depth);
    assert!(codes(&ran).is_empty());
}

#[test]
fn plans_and_shared_memory_keep_a_function() {
    let registry = Arc::new(registry());
    let text = doubling(2);
    for (number, (name, attr)) in [
        ("hbir.groups", Attr::Array(Vec::new())),
        ("hbir.alias", Attr::Array(vec![Attr::int(0)])),
    ]
    .into_iter()
    .enumerate()
    {
        let mut module = parse(&text);
        match number {
            0 => module.funcs[0].attrs.set(name, attr),
            _ => module.funcs[0].arg_ports[0].attrs.set(name, attr),
        }
        let ran = ran(&module, "inline", &registry);
        assert_eq!(ran.module.funcs.len(), 2, "{name}");
        assert_eq!(codes(&ran), ["call-kept"], "{name}");
    }
}

/// A program with fusions moves no more bytes than the same program without them.
#[test]
fn fusions_move_what_their_program_moves() {
    const FUSED: &str = "HloModule m
turn { p = f32[6,5]{1,0} parameter(0)
 t = f32[5,6]{1,0} transpose(p), dimensions={1,0}
 ROOT r = f32[5,6]{1,0} tanh(t) }
back { p = f32[5,6]{1,0} parameter(0)
 q = f32[5,6]{1,0} parameter(1)
 s = f32[5,6]{1,0} add(p, q)
 ROOT t = f32[6,5]{1,0} transpose(s), dimensions={1,0} }
ENTRY e { x = f32[6,5]{1,0} parameter(0)
 a = f32[5,6]{1,0} fusion(x), kind=kLoop, calls=turn
 b = f32[5,6]{1,0} exponential(a)
 ROOT c = f32[6,5]{1,0} fusion(a, b), kind=kLoop, calls=back }
";
    const PLAIN: &str = "HloModule m
ENTRY e { x = f32[6,5]{1,0} parameter(0)
 t = f32[5,6]{1,0} transpose(x), dimensions={1,0}
 a = f32[5,6]{1,0} tanh(t)
 b = f32[5,6]{1,0} exponential(a)
 s = f32[5,6]{1,0} add(a, b)
 ROOT c = f32[6,5]{1,0} transpose(s), dimensions={1,0} }
";
    let registry = Arc::new(registry());
    let import = |text: &str| match optc_hlo::import(text) {
        Ok(import) => import.module,
        Err(diags) => panic!("{}", words(&diags)),
    };
    let (fused, plain) = (import(FUSED), import(PLAIN));
    let bytes = |module: &Module, pipeline: &str| {
        let ran = ran(module, pipeline, &registry);
        same_meaning(module, &ran.module, &registry).expect("the same");
        Stats::of(&ran.module, &registry).movement_bytes
    };
    let wanted = bytes(&plain, "canonicalize,view-fold");
    assert_eq!(bytes(&fused, "inline,canonicalize,view-fold"), wanted);
    assert!(wanted < bytes(&fused, "canonicalize,view-fold"));
}

/// Functions that only call the next one twice. Inlined, no operation remains of them, but the number of inlined calls is
/// bounded all the same.
#[test]
fn calls_that_leave_nothing_behind_are_bounded() {
    let ty = "(tensor<2xf32>) -> tensor<2xf32>";
    let mut text = String::new();
    for i in 0..40 {
        let (name, kind) = match i {
            0 => ("main".to_owned(), ""),
            _ => (format!("f{i}"), "private "),
        };
        let call = |from: &str, to: &str| {
            format!(
                "  {to} = \"hbir.call\"({from}) <{{callee = @f{}}}> : {ty}\n",
                i + 1
            )
        };
        text += &format!(
            "func.func {kind}@{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{}{}  return %1 : tensor<2xf32>\n}}\n",
            call("%x", "%0"),
            call("%0", "%1")
        );
    }
    text += "func.func private @f40(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n";
    let ran = ran(&parse(&text), "inline", &Arc::new(registry()));
    assert!(1 < ran.module.funcs.len());
    assert!(codes(&ran).contains(&"call-kept"), "{:?}", codes(&ran));
}
