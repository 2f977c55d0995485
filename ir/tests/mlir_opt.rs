//! `mlir-opt` accepts the printed text, and its output has the same meaning.
//!
//! Runs `mlir-opt-19` or `mlir-opt`; skips without one, unless `CI_REQUIRE_PEERS=1`.

use optc_ir::text::{parse, print};
use optc_ir::{Func, Module};
use std::io::Write;
use std::process::{Command, Stdio};

/// Programs that together use every form of the text.
const CASES: &[&str] = &[
    // The example of the design page.
    r#"func.func @main(%x: tensor<128x128xsi8>) -> tensor<32x4x128xsi8> {
  %0 = "hbir.reshape"(%x) <{shape = [4, 32, 128]}> : (tensor<128x128xsi8>) -> tensor<4x32x128xsi8>
  %1 = "hbir.transpose"(%0) <{perm = [1, 0, 2]}> : (tensor<4x32x128xsi8>) -> tensor<32x4x128xsi8>
  return %1 : tensor<32x4x128xsi8>
}"#,
    // A bare file with the shorthand of papers in the field.
    r#"%1 = "hbir.view"(%0) <{}> : tensor<128x128xsi8, layout = {block = 128W, order = [0, 1]}>
      -> tensor<4x32x128xsi8, axes = "NHW", block = 128W, order = [0, 1, 2]>"#,
    // Attributes of every kind.
    r#"#ext = #hbir.external<"dir/m.weights", 16, 64>
#map = affine_map<(d0, d1) -> (d1, d0)>
func.func public @"odd name"(%x: tensor<2x2xf32>) -> (tensor<2x2xf32> {hbir.name = "out/0"}) attributes {a = 1.0e-05, b} {
  %0 = "hbir.k"(%x) <{d = #ext, e = #map, f = 0x7FF0000000000000 : f64, g = 1.5 : f32, h = [1, -2],
    i, j = array<i64: 1, 2>, k = @"odd name", l = f32, m = 4 : si32, n = "a\0Ab\22\\\tß",
    o = tensor<4xf32, {block = "2W"}>, p = [], q = {r = {}, s = [unit, "x"]}, y = true, z = -3,
    u1 = 18446744073709551615 : ui64, u2 = 255 : i8, u3 = 1 : i1, bf = 1.0e-40 : bf16, hf = -0.0 : f16,
    "we ird" = (i32) -> i32, idx = 3 : index, nan = 0x7FC00001 : f32, nested = @a::@b, ty = !foo.bar<1, "x">,
    big = 1.7976931348623157e308, small = 5.0e-324, third = 0.1 : f32, str = "typed" : !foo.str}>
    {keep, note = "n"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}"#,
    // Constants.
    r#"func.func @main() -> tensor<2x2xf32> {
  %0 = "hbir.constant"() <{value = dense<[[1.0, 2.5e10], [0x7FC00000, 1.0e-40]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  "hbir.k"() <{a = dense<true> : tensor<2xi1>, b = dense<[true, false]> : tensor<2xi1>, c = dense<"0x01020384"> : tensor<4xi8>,
    d = dense<> : tensor<0xf32>, e = dense<1> : tensor<3xsi8>, f = dense<[0x7F80, 0x3F80]> : tensor<2xbf16>,
    g = dense<[18446744073709551615, 0]> : tensor<2xui64>, h = dense<7> : tensor<si64>, i = dense<[[], []]> : tensor<2x0xi32>,
    j = dense<[-8, 7]> : tensor<2xi4>, k = dense<3.0> : tensor<f16>, l = dense<"0xFFFE"> : tensor<13xi1>}> : () -> ()
  return %0 : tensor<2x2xf32>
}"#,
    // Several results, several functions, a module, locations and their aliases.
    r#"module @m attributes {hbir.target = "cpu"} {
  func.func private @f(%a: tensor<4xf32> {hbir.name = "in:0"}, %b.1: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %p:2, %q = "hbir.split3"(%a) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<0xf32>) loc(fused["a", "f":1:2])
    "hbir.sink"(%q, %b.1) : (tensor<0xf32>, tensor<f32>) -> () loc(callsite("a" at "b"))
    return %p#1, %p#0 : tensor<2xf32>, tensor<2xf32> loc(unknown)
  } loc("fn"("g":3:4))
  func.func @main() {
    return
  } loc(#loc1)
} loc(fused<"meta">["x"])
#loc0 = loc("inner")
#loc1 = loc("outer"(#loc0))"#,
    // Layouts in every notation, symbols, and types that are kept as text.
    r#"!t = tensor<?x?x768xf32, {dims = ["B", "?", 768]}>
#l = {block = "8H128W|2H1W"}
func.func @main(%a: !t, %b: tensor<8x1280xbf16, {xla = "1,0:T(8,128)(2,1)S(1)"}>, %c: tensor<16x128xsi8, #l>,
    %d: tensor<4x4xf32, {strides = [8, 1], offset = 2, size = 30}>, %e: tensor<128xf32, {digits = "32:d0 4:d0/32"}>,
    %f: tensor<6x4xui8, {block = "3W|2W", order = [[0, 1], [1, 0]]}>, %g: tensor<?x4xf32, {block = "2W", dims = ["n", 4], order = [1, 0]}>,
    %h: vector<4xf32>, %i: tensor<*xf32>, %j: !foo.bar<[1, {a = "->"}], (f32) -> ()>, %k: none, %l: index, %m: tensor<4xcomplex<f32>>,
    %n: (i32, f32) -> (i32), %o: tensor<2x!foo.bar>, %p: f32) -> !t {
  return %a : !t
}"#,
    // A function type as the only result, and a result that is an argument.
    r#"func.func @main(%x: () -> ()) -> (() -> (), () -> ()) {
  %0 = "a.b"(%x) : (() -> ()) -> (() -> ())
  return %0, %x : () -> (), () -> ()
}"#,
];

/// The path of `mlir-opt`, or `None` with a reason on standard error.
fn mlir_opt() -> Option<&'static str> {
    let runs = |name: &&&str| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    let found = ["mlir-opt-19", "mlir-opt"].iter().find(runs).copied();
    if found.is_none() {
        assert!(
            std::env::var("CI_REQUIRE_PEERS").as_deref() != Ok("1"),
            "mlir-opt is not installed"
        );
        eprintln!("skipped: mlir-opt is not installed (Debian package mlir-19-tools)");
    }
    found
}

fn run(tool: &str, text: &str, extra: &[&str]) -> String {
    let mut child = Command::new(tool)
        .arg("--allow-unregistered-dialect")
        .args(extra)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success(),
        "mlir-opt refuses what was printed\n{text}\n{errors}"
    );
    String::from_utf8(out.stdout).unwrap()
}

#[track_caller]
fn read(text: &str) -> Module {
    parse(text).unwrap_or_else(|diags| {
        let shown: Vec<String> = diags
            .iter()
            .map(|d| optc_ir::render(d, "text", text))
            .collect();
        panic!("{}\n{text}", shown.join(""))
    })
}

/// The text without everything that `mlir-opt` drops: the names of arguments, the module around functions, and
/// locations unless they were requested.
fn essence(mut module: Module, locations: bool) -> String {
    module.explicit = true;
    for func in &mut module.funcs {
        rename(func);
        if !locations {
            func.loc = optc_ir::Loc::Unknown;
            for op in func.body.clone() {
                func.ops[op].loc = optc_ir::Loc::Unknown;
            }
        }
    }
    if !locations {
        module.loc = optc_ir::Loc::Unknown;
    }
    print(&module)
}

fn rename(func: &mut Func) {
    for (i, port) in func.arg_ports.iter_mut().enumerate() {
        let given = port.attrs.str("hbir.name").map(std::sync::Arc::from);
        port.name = Some(given.unwrap_or_else(|| std::sync::Arc::from(format!("arg{i}"))));
    }
    for (i, value) in func.args.clone().into_iter().enumerate() {
        func.values[value].name = Some(std::sync::Arc::from(format!("arg{i}")));
    }
}

#[test]
fn mlir_opt_accepts_what_is_printed_and_prints_the_same_program() {
    let Some(tool) = mlir_opt() else { return };
    for case in CASES {
        let text = print(&read(case));
        let want = essence(read(&text), false);
        let pretty = run(tool, &text, &[]);
        assert_eq!(essence(read(&pretty), false), want, "\n{text}\n{pretty}");
        let generic = run(tool, &text, &["--mlir-print-op-generic"]);
        assert_eq!(essence(read(&generic), false), want, "\n{text}\n{generic}");
    }
}

#[test]
fn mlir_opt_keeps_locations() {
    let Some(tool) = mlir_opt() else { return };
    let text = print(&read(CASES[4]));
    for extra in [
        &["--mlir-print-debuginfo"][..],
        &["--mlir-print-debuginfo", "--mlir-print-op-generic"],
    ] {
        let back = read(&run(tool, &text, extra));
        let main = back.funcs.iter().find(|f| &*f.name == "f").unwrap();
        let locs: Vec<String> = main
            .body
            .iter()
            .map(|&op| optc_ir::text::print_loc(&main.ops[op].loc))
            .collect();
        assert_eq!(
            locs,
            [r#"loc(fused["a", "f":1:2])"#, r#"loc(fused["a", "b"])"#]
        );
    }
}

#[test]
fn printing_is_a_fixed_point() {
    for case in CASES {
        let once = print(&read(case));
        assert_eq!(print(&read(&once)), once);
    }
}
