//! Reading and printing: shorthand, names, constants, and arbitrary bytes.

use optc_ir::render;
use optc_ir::text::{parse, parse_partial, print, print_attr, print_func, print_type, split};
use optc_ir::verify::verify;
use optc_ir::{Attr, AttrDict, DType, Dim, Func, Loc, Module, Type};
use std::fmt::Write;
use std::sync::Arc;

#[track_caller]
fn read(text: &str) -> Module {
    parse(text).unwrap_or_else(|diags| {
        let shown: Vec<String> = diags.iter().map(|d| render(d, "text", text)).collect();
        panic!("{}\n{text}", shown.join(""))
    })
}

/// Checks the printed form of a text, which must be a fixed point of printing.
#[track_caller]
fn check(text: &str, wanted: &str) {
    let once = print(&read(text));
    assert_eq!(once.trim_end(), wanted.trim_end());
    assert_eq!(print(&read(&once)), once, "printing is a fixed point");
}

/// Checks the printed form of an attribute of an operation of the dialect.
#[track_caller]
fn check_attr(text: &str, wanted: &str) {
    let module = read(&format!("\"hbir.k\"() <{{x = {text}}}> : () -> ()"));
    let func = &module.funcs[0];
    let attr = func.ops[func.body[0]].props.get("x").unwrap();
    let once = print_attr(attr);
    assert_eq!(once, wanted, "{text}");
    if once != text {
        check_attr(&once, wanted);
    }
}

/// Checks the printed form of a tensor type.
#[track_caller]
fn check_type(text: &str, wanted: &str) {
    let module = read(&format!("\"hbir.k\"(%x) : ({text}) -> ()"));
    let func = &module.funcs[0];
    assert_eq!(print_type(func.ty(func.args[0])), wanted, "{text}");
    if text != wanted {
        check_type(wanted, wanted);
    }
}

const DESIGN: &str = r#"func.func @main(%x: tensor<128x128xsi8>) -> tensor<32x4x128xsi8> {
  %0 = "hbir.reshape"(%x) <{shape = [4, 32, 128]}> : (tensor<128x128xsi8>) -> tensor<4x32x128xsi8>
  %1 = "hbir.transpose"(%0) <{perm = [1, 0, 2]}> : (tensor<4x32x128xsi8>) -> tensor<32x4x128xsi8>
  return %1 : tensor<32x4x128xsi8>
}
"#;

#[test]
fn the_example_of_the_design_prints_as_it_is() {
    check(DESIGN, DESIGN);
}

#[test]
fn bare_operations_are_an_implicit_main() {
    let text = r#"
%1 = "hbir.reshape"(%0) <{shape = [4, 32, 128]}> : (tensor<128x128xsi8>) -> tensor<4x32x128xsi8>"#;
    check(
        text,
        r#"func.func @main(%arg0: tensor<128x128xsi8> {hbir.name = "0"}) -> tensor<4x32x128xsi8> {
  %0 = "hbir.reshape"(%arg0) <{shape = [4, 32, 128]}> : (tensor<128x128xsi8>) -> tensor<4x32x128xsi8>
  return %0 : tensor<4x32x128xsi8>
}"#,
    );
    let func = &read(text).funcs[0];
    assert!(func.bare);
    assert_eq!(
        (&*func.name, func.arg_key(0), func.result_key(0)),
        ("main", "0".into(), "result0".into())
    );
    // Arguments are in the order of their use; results are the unused values, in the order of the text.
    let text = r#"
%s:2 = "a.split"(%b, %a) : (f32, f16) -> (f32, f32)
%y = "a.neg"(%s#1) : (f32) -> f32
"a.sink"(%a) : (f16) -> ()"#;
    check(
        text,
        r#"func.func @main(%b: f32, %a: f16) -> (f32, f32 {hbir.name = "y"}) {
  %0:2 = "a.split"(%b, %a) : (f32, f16) -> (f32, f32)
  %1 = "a.neg"(%0#1) : (f32) -> f32
  "a.sink"(%a) : (f16) -> ()
  return %0#0, %1 : f32, f32
}"#,
    );
    // An explicit return gives the results; a module may surround it.
    let text = "module {\n%0 = \"a.b\"(%x) : f32 -> f32\n%1 = \"a.b\"(%0) : f32 -> f32\nreturn %0 : f32\n}";
    assert_eq!(read(text).funcs[0].results.len(), 1);
}

#[test]
fn names_of_ports_survive() {
    let text = r#"func.func @main(%x: f32, %y: f32 {hbir.name = "in/1"}) -> (f32, f32 {hbir.name = "out", a = 1}, f32) {
  %sum = "a.b"(%x, %y) : (f32, f32) -> f32
  return %sum, %sum, %x : f32, f32, f32
}"#;
    let module = read(text);
    let keys = |f: &Func| {
        let args: Vec<String> = (0..f.args.len()).map(|i| f.arg_key(i)).collect();
        let results: Vec<String> = (0..f.results.len()).map(|i| f.result_key(i)).collect();
        (args.join(" "), results.join(" "))
    };
    let wanted = ("x in/1".to_owned(), "sum out result2".to_owned());
    assert_eq!(keys(&module.funcs[0]), wanted);
    assert_eq!(keys(&read(&print(&module)).funcs[0]), wanted);
    // Names that are not SSA names, repeated names, missing names.
    let mut func = Func::new("main");
    let ty = Type::tensor(&[2], DType::F32);
    for name in [
        Some("a/b"),
        Some("a:b"),
        None,
        Some("7"),
        Some("9lives"),
        Some("ok.1"),
        Some(""),
    ] {
        func.add_arg(ty.clone(), name);
    }
    let first = func.args[0];
    func.add_result(first, Some("r"));
    let printed = print_func(&func);
    let names = "%a_b: , %a_b_: , %arg2: , %arg3: , %_9lives: , %ok.1: , %arg6: ";
    let mut at = 0;
    for name in names.split(", ") {
        at += printed[at..]
            .find(name)
            .unwrap_or_else(|| panic!("{name} in {printed}"));
    }
    let back = read(&printed);
    assert_eq!(
        keys(&back.funcs[0]),
        ("a/b a:b arg2 7 9lives ok.1 ".to_owned(), "r".to_owned())
    );
}

#[test]
fn layouts_have_sugar_on_input_and_one_form_on_output() {
    let wanted = r#"tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>"#;
    for text in [
        r#"tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>"#,
        r#"tensor<4x8xsi8, {order = [1, 0], block = "2W2H"}>"#,
        r#"tensor<4x8xsi8, block = "2W2H", order = [1, 0]>"#,
        "tensor<4x8xsi8, block = 2W2H, order = [1,0]>",
        "tensor<4x8xsi8, layout = {block = 2W2H, order = [1, 0]}>",
        "tensor<4x8xsi8, {layout = {block = 2W2H, order = [1, 0]}}>",
        "tensor< 4x8xsi8 , { block = 2W2H // inside\n , order = [ 1 , 0 ] } >",
        "tensor<4x8xsi8, {block = \"2W2H\", order = [1 : i64, 0]}>",
    ] {
        check_type(text, wanted);
    }
    check_type(
        "tensor<16x128xsi8, block = 8H128W|2H1W>",
        r#"tensor<16x128xsi8, {block = "8H128W|2H1W", order = [0, 1]}>"#,
    );
    check_type(
        "tensor<16x128xsi8, block = 8d0 128d1>",
        &print_type_of("tensor<16x128xsi8, {block = \"8d0 128d1\"}>"),
    );
    check_type("tensor<4x8xsi8, {}>", "tensor<4x8xsi8>");
    check_type(
        r#"tensor<?x4x?xf32, {dims = ["B", 4, "?"]}>"#,
        r#"tensor<?x4x?xf32, {dims = ["B", 4, "?"]}>"#,
    );
    check_type(
        r#"tensor<?x4x?xf32, dims = [B, 4, ?], axes = "xyz", order = [2, 1, 0]>"#,
        r#"tensor<?x4x?xf32, {axes = "xyz", dims = ["B", 4, "?"], order = [2, 1, 0]}>"#,
    );
    check_type("tensor<?x4xf32>", "tensor<?x4xf32>");
    check_type("tensor<f32>", "tensor<f32>");
    check_type("tensor<0x8xf32>", "tensor<0x8xf32>");
    let module =
        read("#l = {block = 128W}\n#m = {layout = #l}\n\"a.b\"(%x) : tensor<2x128xf32, #m> -> ()");
    assert!(print(&module).contains(r#"{block = "128W", order = [0, 1]}"#));
}

fn print_type_of(text: &str) -> String {
    let module = read(&format!("\"hbir.k\"(%x) : ({text}) -> ()"));
    print_type(module.funcs[0].ty(module.funcs[0].args[0]))
}

#[test]
fn symbols_are_part_of_the_type() {
    let module = read(r#""a.b"(%x) : (tensor<?x?x3xf32, {dims = ["B", "?", 3]}>) -> ()"#);
    let func = &module.funcs[0];
    let dims = &func.ty(func.args[0]).as_tensor().unwrap().dims;
    assert_eq!(
        *dims,
        [Dim::Symbol(Arc::from("B")), Dim::Unknown, Dim::Fixed(3)]
    );
}

#[test]
fn numbers_read_back_bit_by_bit() {
    for (text, wanted) in [
        ("1", "1"),
        ("-0x10", "-16"),
        ("4 : i64", "4"),
        ("4 : si32", "4 : si32"),
        ("255 : i8", "-1 : i8"),
        ("1 : i1", "true"),
        ("18446744073709551615 : ui64", "18446744073709551615 : ui64"),
        ("3 : index", "3 : index"),
        ("1.0", "1.0"),
        ("1e-5", "1.0e-05"),
        ("-2.5E10 : f32", "-25000000000.0 : f32"),
        ("1.0e+300", "1.0e+300"),
        ("0.1 : f32", "0.1 : f32"),
        ("0.1 : bf16", "0.100097656 : bf16"),
        ("-0.0", "-0.0"),
        ("5.0e-324", "5.0e-324"),
        ("0x7FF0000000000000 : f64", "0x7FF0000000000000 : f64"),
        ("0xFFC00001 : f32", "0xFFC00001 : f32"),
        ("0x3F800000 : f32", "1.0 : f32"),
        ("2.0 : f64", "2.0"),
        ("1.0e400", "0x7FF0000000000000 : f64"),
    ] {
        check_attr(text, wanted);
    }
    let mut state = 7;
    for _ in 0..20_000 {
        let bits = next(&mut state);
        let x = f64::from_bits(bits);
        let text = print_attr(&Attr::Float(x, None));
        let narrow = f32::from_bits(u32::try_from(bits >> 32).unwrap());
        let text32 = print_attr(&Attr::Float(f64::from(narrow), Some(DType::F32)));
        let module = read(&format!(
            "\"hbir.k\"() <{{x = {text}, y = {text32}}}> : () -> ()"
        ));
        let props = &module.funcs[0].ops[module.funcs[0].body[0]].props;
        let Some(Attr::Float(back, None)) = props.get("x") else {
            panic!("{text}")
        };
        assert_eq!(back.to_bits(), bits, "{text}");
        let Some(Attr::Float(back, Some(DType::F32))) = props.get("y") else {
            panic!("{text32}")
        };
        assert!(
            (*back as f32).to_bits() == narrow.to_bits() || narrow.is_nan(),
            "{text32}"
        );
    }
}

#[test]
fn attributes_have_one_form() {
    for (text, wanted) in [
        ("unit", "unit"),
        ("[1,2 , 3]", "[1, 2, 3]"),
        (
            "{b = 1, a, \"c d\" = [unit]}",
            "{a, b = 1, \"c d\" = [unit]}",
        ),
        ("array<i64: 1, 2>", "[1, 2]"),
        ("array<f32: 1.0>", "[1.0 : f32]"),
        ("array<i1: true, false>", "[true, false]"),
        ("array<i8>", "[]"),
        ("@f", "@f"),
        ("@\"a b\"", "@\"a b\""),
        ("@a::@b", "@a::@b"),
        (
            "\"q\\22 \\\\ \\n\\t\\C3\\9F é\"",
            "\"q\\22 \\\\ \\0A\\09ß é\"",
        ),
        ("\"\\FF\"", "\"\\FF\""),
        ("f32", "f32"),
        ("tensor<2xsi8>", "tensor<2xsi8>"),
        ("(i32)->f32", "(i32) -> f32"),
        (
            "#hbir.external<\"m.weights\", 0, 12>",
            "#hbir.external<\"m.weights\", 0, 12>",
        ),
        ("#foo<\"x\", (a -> b)>", "#foo<\"x\", (a -> b)>"),
        (
            "affine_map<(d0)  ->\n(d0 floordiv 2)>",
            "affine_map<(d0) -> (d0 floordiv 2)>",
        ),
        (
            "dense_resource<w> : tensor<2xf32>",
            "dense_resource<w> : tensor<2xf32>",
        ),
        ("dense<1> : tensor<2x3xi8>", "dense<1> : tensor<2x3xi8>"),
        (
            "dense<[[1, 1], [1, 1]]> : tensor<2x2xi8>",
            "dense<1> : tensor<2x2xi8>",
        ),
        (
            "dense<[[1, 2], [3, -4]]> : tensor<2x2xi8>",
            "dense<[[1, 2], [3, -4]]> : tensor<2x2xi8>",
        ),
        (
            "dense<\"0x01FF\"> : tensor<2xsi8>",
            "dense<[1, -1]> : tensor<2xsi8>",
        ),
        (
            "dense<\"0x0000803F\"> : tensor<9xf32>",
            "dense<1.0> : tensor<9xf32>",
        ),
        (
            "dense<\"0x05\"> : tensor<3xi1>",
            "dense<[true, false, true]> : tensor<3xi1>",
        ),
        (
            "dense<[1.5, 0x7E00]> : tensor<2xf16>",
            "dense<[1.5, 0x7E00]> : tensor<2xf16>",
        ),
        ("dense<> : tensor<0x2xf32>", "dense<> : tensor<0x2xf32>"),
        (
            "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>",
            "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>",
        ),
    ] {
        check_attr(text, wanted);
    }
    // Another dialect keeps its packed arrays.
    let foreign = "\"tosa.k\"() <{x = array<i64: 1, 2>}> : () -> ()";
    assert!(print(&read(foreign)).contains("array<i64: 1, 2>"));
    // Long constants are hex; bool is packed.
    let long: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    check_attr(
        &format!("dense<[{}]> : tensor<100xui8>", long.join(",")),
        &format!(
            "dense<\"0x{}\"> : tensor<100xui8>",
            (0..100).map(|i| format!("{i:02X}")).collect::<String>()
        ),
    );
    let bools: Vec<&str> = (0..67)
        .map(|i| if i % 2 == 0 { "true" } else { "false" })
        .collect();
    check_attr(
        &format!("dense<[{}]> : tensor<67xi1>", bools.join(",")),
        "dense<\"0x555555555555555505\"> : tensor<67xi1>",
    );
}

#[test]
fn sizes_that_lie_cost_nothing() {
    check_attr(
        "dense<1> : tensor<9000000000000000000xi8>",
        "dense<1> : tensor<9000000000000000000xi8>",
    );
    for text in [
        "\"a\"() <{x = dense<[1]> : tensor<9000000000000000000xi8>}> : () -> ()",
        "\"a\"() <{x = dense<\"0x0102\"> : tensor<9000000000000000000xi8>}> : () -> ()",
        "\"a\"() <{x = dense<\"0x0102\"> : tensor<9000000000000000000xi1>}> : () -> ()",
        "\"a\"() <{x = dense<1> : tensor<9000000000x9000000000x9000000000xi8>}> : () -> ()",
        "%a:4000000000 = \"a\"() : () -> ()",
        "\"a\"() <{x = #hbir.external<\"f\", 18446744073709551615, 2>}> : () -> ()",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn locations_are_kept_and_spans_are_not_printed() {
    for (text, wanted) in [
        ("loc(\"n\")", " loc(\"n\")"),
        ("loc(\"f\":1:2)", " loc(\"f\":1:2)"),
        ("loc(unknown)", ""),
        (
            "loc(fused[\"a\", \"f\":1:2])",
            " loc(fused[\"a\", \"f\":1:2])",
        ),
        ("loc(fused<\"x\">[\"a\", unknown])", " loc(\"a\")"),
        ("loc(\"n\"(\"f\":1:2))", " loc(fused[\"n\", \"f\":1:2])"),
        ("loc(callsite(\"a\" at #l))", " loc(fused[\"a\", \"late\"])"),
        ("", ""),
    ] {
        let text = format!("\"a.b\"() : () -> () {text}\n#l = loc(\"late\")");
        check(
            &text,
            &format!("func.func @main() {{\n  \"a.b\"() : () -> (){wanted}\n  return\n}}"),
        );
    }
    let module = read("\n  %0 = \"a.b\"(%x) : f32 -> f32");
    let func = &module.funcs[0];
    let span = func.ops[func.body[0]].span;
    assert_eq!((span.start, span.end), (8, 13));
}

#[test]
fn modules_functions_and_groups_print_in_the_generic_form() {
    let text = r#"module @m attributes {hbir.target = "cpu"} {
  func.func private @f(%x: f32) -> (f32 {a = 1}) attributes {b} {
    %0:2 = "a.two"(%x) <{p = 1}> {q = 2} : (f32) -> (f32, f32)
    "a.none"() : () -> ()
    return %0#1 : f32
  } loc("fn")
  func.func @main() {
    return
  }
} loc("mod")
"#;
    check(text, text);
    let generic = r#""builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (f32) -> f32, res_attrs = [{a = 1}], sym_name = "f", sym_visibility = "private"}> ({
  ^bb0(%arg: f32 loc("x")):
    %a, %b = "a.two"(%arg) <{p = 1}> {q = 2} : (f32) -> (f32, f32)
    "a.none"() : () -> ()
    "func.return"(%b) : (f32) -> ()
  }) {b} : () -> () loc(#fn)
  "func.func"() <{function_type = () -> (), sym_name = "main"}> ({ "func.return"() : () -> () }) : () -> ()
}) {hbir.target = "cpu"} : () -> () loc("mod")
#fn = loc("fn")"#;
    let module = read(generic);
    assert_eq!(print(&module).replace("%arg", "%x"), {
        text.replace("(f32 {a = 1})", "(f32 {a = 1, hbir.name = \"b\"})")
    });
    let call =
        "func.func @f() {\n  return\n}\nfunc.func @g() {\n  call @f() : () -> ()\n  func.return\n}";
    assert!(print(&read(call)).contains("\"func.call\"() <{callee = @f}> : () -> ()"));
}

#[test]
fn files_split_into_modules() {
    let text = "a\n// -----\nb\n // -----\nc\n// ----- x\n";
    assert_eq!(
        split(text),
        [(0, "a\n"), (11, "b\n // -----\nc\n"), (36, "")]
    );
    assert_eq!(split(""), [(0, "")]);
    for (offset, part) in split(text) {
        assert!(text[offset..].starts_with(part));
    }
    // Without splitting, the line is a comment.
    let both = format!("{DESIGN}// -----\n{}", DESIGN.replace("@main", "@other"));
    assert_eq!(read(&both).funcs.len(), 2);
    assert_eq!(read("").funcs.len(), 0);
}

#[test]
fn what_is_well_formed_is_read_beside_errors() {
    let text = format!(
        "{DESIGN}func.func @broken(%x: f32) {{\n  \"a\"(%y) : (f32) -> ()\n  \"b\"(%x) : (f32) -> ()\n  return\n}}\n"
    );
    let parsed = parse_partial(&text);
    assert_eq!(parsed.diags.len(), 1);
    assert_eq!(parsed.module.funcs.len(), 2);
}

#[test]
fn modules_made_by_code_print_and_read_back() {
    let mut func = Func::new("odd name");
    let ty = Type::tensor(&[2, 3], DType::F32);
    let x = func.add_arg(ty.clone(), None);
    let props = AttrDict::new()
        .with(
            "wide",
            Attr::Int(
                -1,
                Some(DType::Int {
                    bits: 64,
                    sign: optc_ir::Sign::Unsigned,
                }),
            ),
        )
        .with("bit", Attr::Int(1, Some(DType::BOOL)))
        .with("narrow", Attr::Int(300, Some(DType::SI8)))
        .with("float", Attr::Int(2, Some(DType::F32)))
        .with("inf", Attr::float(f64::INFINITY))
        .with("list", Attr::ints(&[1usize, 2]))
        .with("text", Attr::str("a\u{7f}\r\"\\"));
    let loc = Loc::Fused(
        [
            Loc::Unknown,
            Loc::Fused([Loc::name("a"), Loc::name("b")].into()),
        ]
        .into(),
    );
    let op = func.push_op("a.b", vec![x], props, vec![ty.clone(), ty], loc);
    let last = func.ops[op].results[1];
    func.add_result(last, Some("y"));
    let module = Module {
        funcs: vec![func],
        ..Module::default()
    };
    check(
        &print(&module),
        r#"func.func @"odd name"(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32> {hbir.name = "y"}) {
  %0:2 = "a.b"(%arg0) <{bit = true, float = 2.0 : f32, inf = 0x7FF0000000000000 : f64, list = [1, 2], narrow = 44 : si8, text = "a\7F\0D\22\\", wide = 18446744073709551615 : ui64}> : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) loc(fused["a", "b"])
  return %0#1 : tensor<2x3xf32>
}"#,
    );
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Texts that together reach every reader.
const SEEDS: &[&str] = &[
    DESIGN,
    r#"%1 = "hbir.view"(%0) <{}> : tensor<128x128xsi8, layout = {block = 128W, order = [0, 1]}> -> tensor<4x32x128xsi8, axes = "NHW", block = 128W, order = [0, 1, 2]> loc("a"("f":1:2))"#,
    r#"#e = #hbir.external<"a.w", 0, 16>
#m = affine_map<(d0) -> (d0)>
!t = tensor<?x4xf32, {dims = ["B", 4], strides = [4, 1]}>
module @m attributes {my.a = 1.0e-05} { func.func private @f(%x: !t {hbir.name = "x"}) -> (!t {hbir.name = "y"}) attributes {b} {
  %0:2, %q = "a.b"(%x) <{e = #e, m = #m, d = dense<[[1.0, 0x7FC00000], [3.0, 4.0]]> : tensor<2x2xf32>, h = dense<"0x01020304"> : tensor<4xi8>,
    k = @f, l = [1, -2 : si8, "s\22"], o = tensor<16x128xsi8, {block = "8H128W|2H1W", order = [[0, 1], [1, 0]]}>, r = array<i64: 1>, u}> {z = unit}
    : (!t) -> (!t, f32, (i32) -> i32) loc(fused<"x">["a", #l, callsite("b" at unknown)])
  return %0#0 : !t } }
#l = loc("late")"#,
    r#""builtin.module"() ({ "func.func"() <{function_type = (f32) -> (), sym_name = "g", arg_attrs = [{hbir.name = "q"}]}> ({ ^bb0(%a: f32):
  "hbir.call"(%a) <{callee = @g}> : (f32) -> () "func.return"() : () -> () }) : () -> () }) : () -> ()"#,
    r#"%0 = "hbir.relu"(%x) : (tensor<8x1280xbf16, {xla = "1,0:T(8,128)(2,1)S(1)"}>) -> tensor<8x1280xbf16, {digits = "8:d0 1280:d1"}>
%1 = "hbir.concat"(%0, %0) <{axis = 0}> : (tensor<8x1280xbf16>, tensor<8x1280xbf16>) -> tensor<16x1280xbf16>"#,
];

const PIECES: &[&str] = &[
    "<",
    ">",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "#",
    "!",
    "%",
    "@",
    "=",
    "->",
    "x",
    "0x",
    "-",
    "?",
    "\\",
    "é",
    "\u{0}",
    "99999999999999999999",
    "tensor<",
    "dense<",
    "loc(",
    "//",
    "\n",
    "^bb0",
    "%x#9",
    "#e",
    "!t",
    "18446744073709551615",
    "1.0e999",
    "dims = [\"A\"]",
    "strides = [9223372036854775807, -9223372036854775808]",
    "block = 0W",
    "9223372036854775807x",
    "0x7F : f32",
];

fn mutate(text: &str, state: &mut u64) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let times = 1 + next(state) % 4;
    for _ in 0..times {
        let at = usize::try_from(next(state)).unwrap_or(0) % bytes.len().max(1);
        let other = usize::try_from(next(state)).unwrap_or(0) % bytes.len().max(1);
        match next(state) % 6 {
            0 => bytes[at] = u8::try_from(next(state) % 128).unwrap(),
            1 => drop(bytes.drain(at..(at + 1 + other % 9).min(bytes.len()))),
            2 => bytes.truncate(at.max(1)),
            3 => {
                let piece = PIECES[other % PIECES.len()];
                bytes.splice(at..at, piece.bytes());
            }
            4 => {
                let part: Vec<u8> = bytes[at..(at + other % 40).min(bytes.len())].to_vec();
                bytes.splice(other..other, part);
            }
            _ => bytes.swap(at, other),
        }
        if bytes.is_empty() {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn no_text_makes_the_parser_or_verifier_panic() {
    let registry = optc_ops::registry();
    let mut state = 0x9E37_79B9_7F4A_7C15;
    let mut accepted = 0;
    for round in 0..24_000 {
        let text = mutate(SEEDS[round % SEEDS.len()], &mut state);
        match parse(&text) {
            Ok(module) => {
                accepted += 1;
                let printed = print(&module);
                let again = read(&printed);
                assert_eq!(print(&again), printed, "{text}");
                if let Err(diags) = verify(&module, &registry) {
                    diags.iter().for_each(|d| drop(render(d, "f", &text)));
                }
            }
            Err(diags) => {
                assert!(!diags.is_empty(), "a refusal has a reason\n{text}");
                for diag in &diags {
                    assert!(!diag.labels.is_empty(), "{diag:?}");
                    assert!(render(diag, "f", &text).lines().count() > 2, "{diag:?}");
                }
            }
        }
    }
    assert!(
        accepted > 300,
        "{accepted} of the mutations are still programs"
    );
}

#[test]
fn deep_texts_are_refused() {
    for (open, close) in [
        ("[", "]"),
        ("{a = ", "}"),
        ("tensor<1x", ">"),
        ("(", ") -> ()"),
        ("complex<", ">"),
    ] {
        for n in [50, 100_000] {
            let text = format!(
                "\"a\"() <{{x = {}1{}}}> : () -> ()",
                open.repeat(n),
                close.repeat(n)
            );
            let _ = parse(&text);
        }
    }
    let text = format!("\"a\"() : () -> () loc({}", "fused[".repeat(100_000));
    assert!(parse(&text).is_err());
    let mut chain = String::from("#a0 = 1\n#l0 = loc(\"x\")\n!t0 = f32\n");
    for i in 1..2000 {
        let _ = writeln!(
            chain,
            "#a{i} = [#a{0}]\n#l{i} = loc(#l{0})\n!t{i} = (!t{0}) -> ()",
            i - 1
        );
    }
    for tail in [
        "\"a\"() <{x = #a1999}> : () -> ()",
        "\"a\"() : () -> () loc(#l1999)",
        "\"a\"(%x) : (!t1999) -> ()",
    ] {
        assert!(parse(&format!("{chain}{tail}")).is_err());
    }
}
