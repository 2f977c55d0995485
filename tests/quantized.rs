//! Products and convolutions of bytes minus a zero point, written as casts: bit for bit the numbers of the reference
//! interpreter, in poisoned memory, by kernels that read the bytes.

use indexmap::IndexMap;
use optc_compare::{compare, compare_exact};
use optc_exec::{ExecOptions, Executable, Isa, StepProfile};
use optc_interp::{NoData, argument_keys, run_reference};
use optc_ir::{Bindings, DType, Tensor};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_tests::check::{parse, target, words};
use std::sync::Arc;

/// Numbers of a type, including its minimum and maximum.
fn number(i: usize, unsigned: bool) -> i64 {
    let byte = match i * i % 13 {
        0 | 7 => 0x80,
        1 | 5 => 0xFF,
        3 => 0x7F,
        4 => 0x00,
        _ => (i * 89 % 251) as u8,
    };
    match unsigned {
        true => i64::from(byte),
        false => i64::from(byte.cast_signed()),
    }
}

fn count(dims: &str) -> usize {
    let sizes = dims.split('x').filter_map(|n| n.parse::<usize>().ok());
    sizes.product()
}

/// A constant of bytes in hex digits.
fn constant(name: &str, dims: &str, unsigned: bool, of: impl Fn(usize) -> i64) -> String {
    let dtype = if unsigned { "ui8" } else { "si8" };
    let bytes = (0..count(dims)).map(|i| format!("{:02X}", of(i) as u8));
    let bytes: String = bytes.collect();
    format!(
        "  {name} = \"hbir.constant\"() <{{value = dense<\"0x{bytes}\"> : tensor<{dims}x{dtype}>}}> : () -> \
         tensor<{dims}x{dtype}>\n"
    )
}

/// Converts `name`, bytes of these dimensions, to 32-bit integers minus a zero point, which is an argument if it is not
/// known.
fn centred(name: &str, dims: &str, dtype: &str, zero: Option<i64>) -> String {
    let wide = format!("tensor<{dims}xsi32>");
    let zero = match zero {
        Some(zero) => format!(
            "  {name}z = \"hbir.constant\"() <{{value = dense<{zero}> : tensor<si32>}}> : () -> tensor<si32>\n"
        ),
        None => format!(
            "  {name}z = \"hbir.cast\"(%zero) <{{to = si32}}> : (tensor<{dtype}>) -> tensor<si32>\n"
        ),
    };
    format!(
        "  {name}w = \"hbir.cast\"({name}) <{{to = si32}}> : (tensor<{dims}x{dtype}>) -> {wide}\n{zero}  \
         {name}c = \"hbir.sub\"({name}w, {name}z) : ({wide}, tensor<si32>) -> {wide}\n"
    )
}

/// Runs a program with and without passes on bytes; returns the steps of the last run.
#[track_caller]
fn check(text: &str, seed: usize) -> Vec<StepProfile> {
    check_with(text, seed, compare_exact)
}

#[track_caller]
fn check_with<E: std::fmt::Display>(
    text: &str,
    seed: usize,
    compare: impl Fn(&Tensor, &Tensor) -> Result<(), E>,
) -> Vec<StepProfile> {
    let registry = Arc::new(optc_ops::registry());
    let module = parse(text);
    let func = &module.funcs[0];
    let mut inputs = IndexMap::new();
    for (key, &arg) in argument_keys(func).into_iter().zip(&func.args) {
        let ty = func.ty(arg).as_tensor().expect("arguments are tensors");
        let shape: Vec<usize> = ty
            .shape()
            .expect("sizes")
            .iter()
            .map(|&n| n as usize)
            .collect();
        let n = shape.iter().product();
        let bytes: Vec<u8> = (0..n)
            .map(|i| number(i + seed, ty.dtype == DType::UI8) as u8)
            .collect();
        let tensor = Tensor::from_bytes(ty.dtype, shape, &bytes).expect("as many bytes");
        inputs.insert(key, tensor);
    }
    let bindings = Bindings::default();
    let wanted = run_reference(&module, &registry, "main", &inputs, &NoData, &bindings);
    let wanted = wanted.unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut steps = Vec::new();
    for passes in [
        "canonicalize,view-fold,bufferize,plan-memory",
        "bufferize,plan-memory",
        "bufferize",
    ] {
        let stages = PassList::builtin().parse(passes).expect("built-in passes");
        let mut cx = PassContext::new(registry.clone(), target("cpu"));
        let mut after = module.clone();
        run(&mut after, &stages, &mut cx, &mut Hooks::default())
            .unwrap_or_else(|d| panic!("{}", words(&d)));
        let lesser = Isa::available().into_iter().map(|isa| (isa, 1));
        for (isa, threads) in lesser.chain([(Isa::detect(), 3)]) {
            let options = ExecOptions {
                isa: Some(isa),
                poison: true,
                threads,
                always_share: true,
                ..ExecOptions::default()
            };
            let made = Executable::new(
                &after, &registry, "main", &inputs, &NoData, &bindings, &options,
            );
            let made = made.unwrap_or_else(|d| panic!("{}\n{text}", words(&[*d])));
            for _ in 0..2 {
                let found = made
                    .run(&inputs)
                    .unwrap_or_else(|d| panic!("{}\n{text}", words(&[*d])));
                for ((key, found), wanted) in found.iter().zip(wanted.values()) {
                    let same = compare(found, wanted);
                    same.unwrap_or_else(|e| {
                        panic!("{key}, {passes}, {isa}, {threads} threads: {e}\n{text}")
                    });
                }
            }
            steps = made.profile(&inputs).expect("it runs").1.steps;
        }
    }
    steps
}

/// Returns whether products read bytes, so that no step converts them to 32-bit integers.
fn reads_bytes(steps: &[StepProfile]) -> bool {
    let made = |step: &StepProfile| {
        step.op != "hbir.cast" && step.op != "hbir.sub" || step.kernel == "bytes"
    };
    steps.iter().all(made)
}

#[test]
fn products_of_bytes_less_a_number_are_exact() {
    let sizes = [(1, 3, 1), (5, 64, 17), (13, 301, 40), (50, 1030, 33)];
    for (seed, (m, k, n)) in sizes.into_iter().enumerate() {
        let types = [
            ("ui8", 0),
            ("ui8", 128),
            ("ui8", 255),
            ("si8", -128),
            ("si8", 0),
            ("si8", 127),
        ];
        for (dtype, zero) in types {
            for (unsigned, other) in [(false, 0), (true, 0), (true, 120), (false, 127)] {
                let wide = if unsigned { "ui8" } else { "si8" };
                let weights = constant("%w", &format!("{k}x{n}"), unsigned, |i| {
                    number(i + 3, unsigned)
                });
                let x = centred("%x", &format!("{m}x{k}"), dtype, Some(zero));
                let w = centred("%w", &format!("{k}x{n}"), wide, Some(other));
                let text = format!(
                    "func.func @main(%x: tensor<{m}x{k}x{dtype}>) -> tensor<{m}x{n}xsi32> {{\n{weights}{x}{w}  \
                     %y = \"hbir.matmul\"(%xc, %wc) : (tensor<{m}x{k}xsi32>, tensor<{k}x{n}xsi32>) -> tensor<{m}x{n}xsi32>\n  \
                     return %y : tensor<{m}x{n}xsi32>\n}}\n"
                );
                let steps = check(&text, seed);
                assert!(reads_bytes(&steps), "{steps:?}\n{text}");
            }
        }
    }
}

#[test]
fn products_of_computed_bytes_are_exact() {
    for (left, right, [a, b]) in [
        ("ui8", "si8", [Some(0), Some(0)]),
        ("si8", "ui8", [Some(-128), Some(255)]),
        ("ui8", "ui8", [Some(255), Some(128)]),
        ("si8", "si8", [Some(3), Some(-5)]),
        ("ui8", "si8", [None, Some(7)]),
        ("si8", "ui8", [None, Some(1)]),
    ] {
        for (m, k, n) in [(7, 66, 5), (30, 259, 70)] {
            let x = centred("%x", &format!("{m}x{k}"), left, a);
            let w = centred("%w", &format!("{k}x{n}"), right, b);
            let text = format!(
                "func.func @main(%x: tensor<{m}x{k}x{left}>, %w: tensor<{k}x{n}x{right}>, %zero: tensor<{left}>) -> \
                 tensor<{m}x{n}xsi32> {{\n{x}{w}  \
                 %y = \"hbir.matmul\"(%xc, %wc) : (tensor<{m}x{k}xsi32>, tensor<{k}x{n}xsi32>) -> tensor<{m}x{n}xsi32>\n  \
                 return %y : tensor<{m}x{n}xsi32>\n}}\n"
            );
            for seed in 0..3 {
                let steps = check(&text, seed);
                let casts = steps
                    .iter()
                    .filter(|s| s.op == "hbir.cast" && s.kernel != "bytes")
                    .count();
                assert!(casts <= usize::from(a.is_none()), "{steps:?}\n{text}");
            }
        }
    }
}

/// The memory of the bytes is overwritten between their cast and the subtraction of the zero point.
#[test]
fn bytes_are_brought_to_another_place_before_theirs_is_written_over() {
    let own = |name: &str, dims: &str, dtype: &str| {
        let ty = format!("tensor<{dims}{dtype}>");
        format!("  {name} = \"hbir.max\"({name}0, {name}0) : ({ty}, {ty}) -> {ty}\n")
    };
    for (dtype, zero) in [
        ("ui8", None),
        ("si8", None),
        ("ui8", Some(200)),
        ("si8", Some(-100)),
    ] {
        let (m, k, n) = (64, 96, 48);
        let weights = constant("%w", &format!("{k}x{n}"), false, |i| number(i, false));
        let again = constant("%v", &format!("{n}x{k}"), true, |i| number(i, true));
        let made = own("%zero", "", dtype) + &own("%x", &format!("{m}x{k}x"), dtype);
        let x = centred("%x", &format!("{m}x{k}"), dtype, zero);
        let w = centred("%w", &format!("{k}x{n}"), "si8", Some(0));
        let v = centred("%v", &format!("{n}x{k}"), "ui8", Some(121));
        let y = centred("%q", &format!("{m}x{n}"), dtype, zero);
        let text = format!(
            "func.func @main(%x0: tensor<{m}x{k}x{dtype}>, %zero0: tensor<{dtype}>) -> tensor<{m}x{k}xsi32> {{\n\
             {weights}{again}{made}{x}{w}{v}  \
             %p = \"hbir.matmul\"(%xc, %wc) : (tensor<{m}x{k}xsi32>, tensor<{k}x{n}xsi32>) -> tensor<{m}x{n}xsi32>\n  \
             %f = \"hbir.cast\"(%p) <{{to = f32}}> : (tensor<{m}x{n}xsi32>) -> tensor<{m}x{n}xf32>\n  \
             %d = \"hbir.constant\"() <{{value = dense<700.5> : tensor<f32>}}> : () -> tensor<f32>\n  \
             %q = \"hbir.quantize\"(%f, %d, %zero) <{{to = {dtype}}}> : (tensor<{m}x{n}xf32>, tensor<f32>, tensor<{dtype}>) -> tensor<{m}x{n}x{dtype}>\n\
             {y}  \
             %r = \"hbir.matmul\"(%qc, %vc) : (tensor<{m}x{n}xsi32>, tensor<{n}x{k}xsi32>) -> tensor<{m}x{k}xsi32>\n  \
             return %r : tensor<{m}x{k}xsi32>\n}}\n"
        );
        for seed in 0..3 {
            check(&text, seed);
        }
    }
}

#[test]
fn sums_of_many_extreme_bytes_wrap_around() {
    let k = 100_000;
    for (dtype, x, zero, w) in [
        ("ui8", 255, 0, -128),
        ("ui8", 0, 255, -128),
        ("si8", -128, 127, -128),
        ("ui8", 255, 0, 127),
    ] {
        let weights = constant("%w", &format!("{k}x2"), false, |_| w);
        let own = constant("%k", &format!("1x{k}"), dtype == "ui8", |_| x);
        let centre = centred("%a", &format!("1x{k}"), dtype, Some(zero));
        let right = centred("%w", &format!("{k}x2"), "si8", Some(0));
        let text = format!(
            "func.func @main(%x: tensor<1x1x{dtype}>) -> tensor<1x2xsi32> {{\n{weights}{own}  \
             %m = \"hbir.max\"(%k, %x) : (tensor<1x{k}x{dtype}>, tensor<1x1x{dtype}>) -> tensor<1x{k}x{dtype}>\n  \
             %a = \"hbir.min\"(%k, %m) : (tensor<1x{k}x{dtype}>, tensor<1x{k}x{dtype}>) -> tensor<1x{k}x{dtype}>\n{centre}{right}  \
             %y = \"hbir.matmul\"(%ac, %wc) : (tensor<1x{k}xsi32>, tensor<{k}x2xsi32>) -> tensor<1x2xsi32>\n  \
             return %y : tensor<1x2xsi32>\n}}\n"
        );
        let steps = check(&text, 0);
        assert!(reads_bytes(&steps), "{steps:?}");
    }
}

/// The epilogue of the sums of channels: scaled, optionally with an addition, and rounded.
fn rounded(dims: &str, channels: &str, plus: bool, to: &str) -> String {
    let n = count(channels);
    let list = |at: usize| {
        let all = (0..n).map(|i| format!("{}", ((i * at) % 17 + 1) as f32 * 0.000_123));
        all.collect::<Vec<_>>().join(", ")
    };
    let scale = format!(
        "  %s1 = \"hbir.constant\"() <{{value = dense<[{}]> : tensor<{n}xf32>}}> : () -> tensor<{n}xf32>\n  \
         %s = \"hbir.reshape\"(%s1) <{{shape = [{}]}}> : (tensor<{n}xf32>) -> tensor<{channels}xf32>\n",
        list(7),
        channels.replace('x', ", ")
    );
    let float = format!("tensor<{dims}xf32>");
    let (more, last) = match plus {
        true => (
            format!("  %p = \"hbir.add\"(%m, %s) : ({float}, tensor<{channels}xf32>) -> {float}\n"),
            "%p",
        ),
        false => (String::new(), "%m"),
    };
    let end = match to {
        "f32" => format!("  return {last} : {float}\n"),
        _ => format!(
            "  %d = \"hbir.constant\"() <{{value = dense<0.07> : tensor<f32>}}> : () -> tensor<f32>\n  \
             %o = \"hbir.constant\"() <{{value = dense<9> : tensor<{to}>}}> : () -> tensor<{to}>\n  \
             %q = \"hbir.quantize\"({last}, %d, %o) : ({float}, tensor<f32>, tensor<{to}>) -> tensor<{dims}x{to}>\n  \
             return %q : tensor<{dims}x{to}>\n"
        ),
    };
    format!(
        "{scale}  %f = \"hbir.cast\"(%y) <{{to = f32}}> : (tensor<{dims}xsi32>) -> {float}\n  \
         %m = \"hbir.mul\"(%f, %s) : ({float}, tensor<{channels}xf32>) -> {float}\n{more}{end}"
    )
}

#[test]
fn sums_of_channels_are_scaled_and_rounded_where_they_are_made() {
    for (plus, to) in [(false, "ui8"), (true, "si8"), (false, "f32"), (true, "f32")] {
        for (channels, m) in [("37", 9), ("1", 30), ("9x1", 9)] {
            let (k, n) = (70, 37);
            let weights = constant("%w", &format!("{k}x{n}"), false, |i| number(i, false));
            let x = centred("%x", &format!("{m}x{k}"), "ui8", Some(128));
            let w = centred("%w", &format!("{k}x{n}"), "si8", Some(0));
            let text = format!(
                "func.func @main(%x: tensor<{m}x{k}xui8>) -> tensor<{m}x{n}x{to}> {{\n{weights}{x}{w}  \
                 %y = \"hbir.matmul\"(%xc, %wc) : (tensor<{m}x{k}xsi32>, tensor<{k}x{n}xsi32>) -> tensor<{m}x{n}xsi32>\n{}}}\n",
                rounded(&format!("{m}x{n}"), channels, plus, to)
            );
            let steps = check(&text, 1);
            assert_eq!(steps.len(), 1, "{steps:?}\n{text}");
        }
    }
}

#[test]
fn convolutions_of_bytes_less_a_number_are_exact() {
    for (group, kernel, attributes) in [
        (1, 3, "pads = [1, 1, 1, 1]"),
        (1, 1, "strides = [2, 1]"),
        (2, 3, "pads = [0, 2, 1, 0], strides = [2, 2]"),
        (1, 2, "dilations = [2, 2], pads = [1, 1, 1, 1]"),
        (6, 3, "pads = [1, 1, 1, 1]"),
    ] {
        let size = |at: usize| {
            let ends = [
                attributes.contains("[0, 2, 1, 0]").then_some([1, 2]),
                attributes.contains("[1, 1, 1, 1]").then_some([2, 2]),
            ];
            let pads = ends.into_iter().flatten().next().map_or(0, |ends| ends[at]);
            let dilated = if attributes.contains("dilations") {
                3
            } else {
                kernel
            };
            let stride = match attributes {
                a if a.contains("[2, 2], pads") => 1,
                a if a.contains("strides = [2, 2]") => 2,
                a if a.contains("strides = [2, 1]") => 2 - at,
                _ => 1,
            };
            (11 + pads - dilated) / stride + 1
        };
        for (dtype, zero) in [("ui8", 0), ("ui8", 131), ("si8", -7), ("si8", 0)] {
            for (unsigned, other, nhwc) in [(false, 0, false), (true, 120, false), (false, 0, true)]
            {
                let wide = if unsigned { "ui8" } else { "si8" };
                let kernels = format!("36x{}x{kernel}x{kernel}", 6 / group);
                let weights = constant("%w", &kernels, unsigned, |i| number(i + 3, unsigned));
                let x = centred("%x", "2x6x11x11", dtype, Some(zero));
                let w = centred("%w", &kernels, wide, Some(other));
                let y = format!("2x36x{}x{}", size(0), size(1));
                let bias = (0..36).map(|i| (i * 1000 - 9000).to_string());
                let bias = bias.collect::<Vec<_>>().join(", ");
                let order = if nhwc { ", {order = [0, 2, 3, 1]}" } else { "" };
                let text = format!(
                    "func.func @main(%x: tensor<2x6x11x11x{dtype}{order}>) -> tensor<{y}xui8{order}> {{\n{weights}{x}{w}  \
                     %b = \"hbir.constant\"() <{{value = dense<[{bias}]> : tensor<36xsi32>}}> : () -> tensor<36xsi32>\n  \
                     %y = \"hbir.conv\"(%xc, %wc, %b) <{{group = {group}, {attributes}}}> : \
                     (tensor<2x6x11x11xsi32>, tensor<{kernels}xsi32>, tensor<36xsi32>) -> tensor<{y}xsi32>\n{}}}\n",
                    rounded(&y, "36x1x1", true, "ui8")
                );
                let text = match nhwc {
                    true => laid(&text, order),
                    false => text,
                };
                let steps = check(&text, 2);
                if group != 6 {
                    assert!(reads_bytes(&steps), "{steps:?}\n{text}");
                }
            }
        }
    }
}

/// The program with all non-constant values of four dimensions in this order.
fn laid(text: &str, order: &str) -> String {
    let mut made = String::new();
    for (i, part) in text.split("tensor<").enumerate() {
        let (ty, rest) = part.split_once('>').unwrap_or((part, ""));
        let whole = i != 0 && ty.starts_with("2x") && !ty.contains('{');
        made.push_str(if i == 0 { "" } else { "tensor<" });
        made.push_str(ty);
        made.push_str(if whole { order } else { "" });
        if part.contains('>') {
            made.push('>');
        }
        made.push_str(rest);
    }
    made
}

/// Floats made from bytes minus a zero point, with scales that are powers of two (so that sums of floats are exact), or
/// with others.
fn floats(
    name: &str,
    dims: &str,
    dtype: &str,
    axis: Option<(usize, usize)>,
    exact: bool,
) -> String {
    let scale = |i: usize| match exact {
        true => 0.5f32.powi(4 + (i % 3) as i32),
        false => 0.001_7 * (i % 5 + 1) as f32,
    };
    let (list, zeros, shape, attributes) = match axis {
        None => (
            scale(1).to_string(),
            "3".to_owned(),
            String::new(),
            String::new(),
        ),
        Some((axis, n)) => {
            let all = |each: &dyn Fn(usize) -> String| {
                let all = (0..n).map(each).collect::<Vec<_>>().join(", ");
                format!("[{all}]")
            };
            let attributes = format!(" <{{axis = {axis}}}>");
            (
                all(&|i| scale(i).to_string()),
                all(&|_| "0".to_owned()),
                format!("{n}x"),
                attributes,
            )
        }
    };
    let (scales, zero) = (
        format!("tensor<{shape}f32>"),
        format!("tensor<{shape}{dtype}>"),
    );
    format!(
        "  {name}s = \"hbir.constant\"() <{{value = dense<{list}> : {scales}}}> : () -> {scales}\n  \
         {name}z = \"hbir.constant\"() <{{value = dense<{zeros}> : {zero}}}> : () -> {zero}\n  \
         {name}d = \"hbir.dequantize\"({name}, {name}s, {name}z){attributes} : \
         (tensor<{dims}x{dtype}>, {scales}, {zero}) -> tensor<{dims}xf32>\n"
    )
}

/// An addition to a product of floats, and its epilogue.
fn ended(dims: &str, channels: usize, adds: bool, to: &str) -> String {
    let list = (0..channels).map(|i| (i as f32 - 9.0) * 0.25);
    let list = list
        .map(|x| format!("{x:?}"))
        .collect::<Vec<_>>()
        .join(", ");
    let float = format!("tensor<{dims}xf32>");
    let bias = format!(
        "  %b = \"hbir.constant\"() <{{value = dense<[{list}]> : tensor<{channels}xf32>}}> : () -> tensor<{channels}xf32>\n"
    );
    let (bias, last) = match adds {
        true => (
            format!(
                "{bias}  %p = \"hbir.add\"(%y, %b) : ({float}, tensor<{channels}xf32>) -> {float}\n"
            ),
            "%p",
        ),
        false => (String::new(), "%y"),
    };
    let end = match to {
        "f32" => format!("  return {last} : {float}\n"),
        _ => format!(
            "  %r = \"hbir.relu\"({last}) : ({float}) -> {float}\n  \
             %o = \"hbir.constant\"() <{{value = dense<8.0> : tensor<f32>}}> : () -> tensor<f32>\n  \
             %c = \"hbir.constant\"() <{{value = dense<5> : tensor<{to}>}}> : () -> tensor<{to}>\n  \
             %q = \"hbir.quantize\"(%r, %o, %c) <{{to = {to}}}> : ({float}, tensor<f32>, tensor<{to}>) -> tensor<{dims}x{to}>\n  \
             return %q : tensor<{dims}x{to}>\n"
        ),
    };
    bias + &end
}

#[test]
fn products_of_floats_that_are_bytes_multiply_these() {
    for (dtype, adds, to, exact) in [
        ("ui8", true, "ui8", true),
        ("si8", false, "si8", true),
        ("ui8", true, "f32", true),
        ("si8", true, "f32", false),
        ("ui8", false, "f32", false),
    ] {
        for (m, k, n) in [(9, 40, 37), (1, 3, 5), (40, 301, 64)] {
            if exact && 40 < k {
                continue;
            }
            let weights = constant("%w", &format!("{k}x{n}"), false, |i| number(i + 1, false));
            let x = floats("%x", &format!("{m}x{k}"), dtype, None, exact);
            let w = floats("%w", &format!("{k}x{n}"), "si8", Some((1, n)), exact);
            let text = format!(
                "func.func @main(%x: tensor<{m}x{k}x{dtype}>) -> tensor<{m}x{n}x{to}> {{\n{weights}{x}{w}  \
                 %y = \"hbir.matmul\"(%xd, %wd) : (tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>\n{}}}\n",
                ended(&format!("{m}x{n}"), n, adds, to)
            );
            let steps = match exact {
                true => check(&text, 1),
                false => check_with(&text, 1, compare),
            };
            assert_eq!(steps.len(), 1, "{steps:?}\n{text}");
        }
    }
}

#[test]
fn convolutions_of_floats_that_are_bytes_multiply_these() {
    for (group, dtype, to, exact) in [
        (1, "ui8", "ui8", true),
        (1, "si8", "f32", false),
        (2, "ui8", "si8", true),
    ] {
        let kernels = format!("36x{}x3x3", 4 / group);
        let weights = constant("%w", &kernels, false, |i| number(i + 1, false));
        let x = floats("%x", "2x4x11x11", dtype, None, exact);
        let w = floats("%w", &kernels, "si8", Some((0, 36)), exact);
        let bias = (0..36).map(|i| format!("{:?}", (i - 9) as f32 * 0.25));
        let bias = bias.collect::<Vec<_>>().join(", ");
        let y = "2x36x11x11";
        let text = format!(
            "func.func @main(%x: tensor<2x4x11x11x{dtype}>) -> tensor<{y}x{to}> {{\n{weights}{x}{w}  \
             %b = \"hbir.constant\"() <{{value = dense<[{bias}]> : tensor<36xf32>}}> : () -> tensor<36xf32>\n  \
             %y = \"hbir.conv\"(%xd, %wd, %b) <{{group = {group}, pads = [1, 1, 1, 1]}}> : \
             (tensor<2x4x11x11xf32>, tensor<{kernels}xf32>, tensor<36xf32>) -> tensor<{y}xf32>\n{}}}\n",
            ended(y, 36, false, to)
        );
        let steps = match exact {
            true => check(&text, 1),
            false => check_with(&text, 1, compare),
        };
        // Grouped convolutions use the float kernels.
        assert!(1 < group || steps.len() == 1, "{steps:?}\n{text}");
    }
}

/// The parameters of a convolution of bytes; all others follow from a number.
struct Sliding {
    group: usize,
    channels: [usize; 2],
    image: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    /// Padding before both dimensions, then after them.
    pads: [usize; 4],
}

impl Sliding {
    fn of(seed: usize) -> Sliding {
        let pick = |salt: usize, from: &[usize]| {
            let mixed = (seed * 31 + salt).wrapping_mul(0x9E37_79B9) >> 7;
            from[mixed % from.len()]
        };
        let group = pick(0, &[1, 1, 2, 8, 8, 12]);
        let each = match group {
            8 | 12 => [pick(1, &[1, 1, 4]), pick(2, &[1, 1, 2])],
            _ => [pick(1, &[4, 8, 3, 20]), pick(2, &[1, 5, 16])],
        };
        let kernel = [pick(3, &[1, 3, 3, 5]), pick(4, &[1, 3, 3, 2, 7])];
        let dilations = [pick(5, &[1, 1, 2]), pick(6, &[1, 1, 2, 5])];
        let pads = [7, 8, 9, 10].map(|salt| pick(salt, &[0, 1, 2]));
        let image = [0, 1].map(|d| {
            let least = (kernel[d] - 1) * dilations[d] + 1;
            least + pick(11 + d, &[0, 4, 11, 13, 31])
        });
        Sliding {
            group,
            channels: each.map(|n| n * group),
            image,
            kernel,
            strides: [pick(13, &[1, 1, 2]), pick(14, &[1, 1, 2, 3])],
            dilations,
            pads,
        }
    }

    /// The dimensions of the input, of the weights and of the result.
    fn dims(&self) -> [String; 3] {
        let size = |d: usize| {
            let reach = (self.kernel[d] - 1) * self.dilations[d] + 1;
            (self.image[d] + self.pads[d] + self.pads[d + 2] - reach) / self.strides[d] + 1
        };
        let [c, m] = self.channels;
        let [kh, kw] = self.kernel;
        [
            format!("2x{c}x{}x{}", self.image[0], self.image[1]),
            format!("{m}x{}x{kh}x{kw}", c / self.group),
            format!("2x{m}x{}x{}", size(0), size(1)),
        ]
    }

    fn attributes(&self) -> String {
        format!(
            "group = {}, strides = {:?}, dilations = {:?}, pads = {:?}",
            self.group, self.strides, self.dilations, self.pads
        )
    }
}

/// Convolutions of bytes with all kinds of windows, in two orders, with zero points at the ends of the range.
#[test]
fn convolutions_of_bytes_slide_as_those_of_numbers() {
    let (mut alone, mut all) = (0, 0);
    for seed in 0..160 {
        let sliding = Sliding::of(seed);
        let [x, kernels, y] = sliding.dims();
        let channels = sliding.channels[1];
        let (dtype, zero) = [
            ("ui8", 0),
            ("ui8", 255),
            ("si8", -128),
            ("si8", 127),
            ("ui8", 131),
        ][seed % 5];
        let (unsigned, other) = if seed % 7 == 3 {
            (true, 120)
        } else {
            (false, 0)
        };
        let to = ["ui8", "si8", "si32"][seed / 5 % 3];
        let nhwc = seed % 4 == 1 && channels != 2;
        let order = if nhwc { ", {order = [0, 2, 3, 1]}" } else { "" };
        let wide = if unsigned { "ui8" } else { "si8" };
        let weights = constant("%w", &kernels, unsigned, |i| number(i + seed, unsigned));
        let (from, by) = (
            centred("%x", &x, dtype, Some(zero)),
            centred("%w", &kernels, wide, Some(other)),
        );
        let bias = (0..channels).map(|i| (i as i64 * 1000 - 9000).to_string());
        let bias = bias.collect::<Vec<_>>().join(", ");
        let end = match to {
            "si32" => format!("  return %y : tensor<{y}xsi32>\n"),
            _ => rounded(&y, &format!("{channels}x1x1"), seed % 2 == 0, to),
        };
        let text = format!(
            "func.func @main(%x: tensor<{x}x{dtype}{order}>) -> tensor<{y}x{to}{order}> {{\n{weights}{from}{by}  \
             %b = \"hbir.constant\"() <{{value = dense<[{bias}]> : tensor<{channels}xsi32>}}> : () -> tensor<{channels}xsi32>\n  \
             %y = \"hbir.conv\"(%xc, %wc, %b) <{{{}}}> : \
             (tensor<{x}xsi32>, tensor<{kernels}xsi32>, tensor<{channels}xsi32>) -> tensor<{y}xsi32>\n{end}}}\n",
            sliding.attributes()
        );
        let text = if nhwc { laid(&text, order) } else { text };
        let steps = check(&text, seed);
        if !unsigned && !nhwc {
            all += 1;
            alone += usize::from(steps.len() == 1);
        }
    }
    // Most convolutions multiply bytes and convert the result to bytes in one step.
    assert!(0 < alone && all * 9 <= alone * 10, "{alone} of {all}");
}

/// As above, for floats that are bytes times scales of channels.
#[test]
fn convolutions_of_floats_that_are_bytes_slide_as_they_do() {
    let (mut alone, mut all) = (0, 0);
    for seed in 0..60 {
        let sliding = Sliding::of(seed + 1000);
        let [x, kernels, y] = sliding.dims();
        let channels = sliding.channels[1];
        let dtype = ["ui8", "si8"][seed % 2];
        let to = ["ui8", "f32", "si8"][seed % 3];
        let weights = constant("%w", &kernels, false, |i| number(i + seed, false));
        let from = floats("%x", &x, dtype, None, true);
        let by = floats("%w", &kernels, "si8", Some((0, channels)), true);
        let bias = (0..channels).map(|i| format!("{:?}", (i as f32 - 9.0) * 0.25));
        let bias = bias.collect::<Vec<_>>().join(", ");
        let text = format!(
            "func.func @main(%x: tensor<{x}x{dtype}>) -> tensor<{y}x{to}> {{\n{weights}{from}{by}  \
             %b = \"hbir.constant\"() <{{value = dense<[{bias}]> : tensor<{channels}xf32>}}> : () -> tensor<{channels}xf32>\n  \
             %y = \"hbir.conv\"(%xd, %wd, %b) <{{{}}}> : \
             (tensor<{x}xf32>, tensor<{kernels}xf32>, tensor<{channels}xf32>) -> tensor<{y}xf32>\n{}}}\n",
            sliding.attributes(),
            ended(&y, channels, false, to)
        );
        let steps = check(&text, seed);
        all += 1;
        alone += usize::from(steps.len() == 1);
    }
    assert!(0 < alone && all * 9 <= alone * 10, "{alone} of {all}");
}

/// Bytes that products read in place are written, even if their dequantized values have other readers.
#[test]
fn bytes_that_others_read_too_are_written() {
    let wide = "tensor<4x8xf32>";
    let ends = [
        format!("  return %m, %xd : tensor<4x6xf32>, {wide}\n"),
        format!(
            "  %n = \"hbir.neg\"(%xd) : ({wide}) -> {wide}\n  return %m, %n : tensor<4x6xf32>, {wide}\n"
        ),
    ];
    for end in &ends {
        let weights = constant("%w", "8x6", false, |i| number(i, false));
        let by = floats("%w", "8x6", "si8", None, true);
        let text = format!(
            "func.func @main(%a: tensor<4x8xui8>) -> (tensor<4x6xf32>, {wide}) {{\n  \
             %f = \"hbir.cast\"(%a) <{{to = f32}}> : (tensor<4x8xui8>) -> {wide}\n  \
             %g = \"hbir.abs\"(%f) : ({wide}) -> {wide}\n  \
             %qs = \"hbir.constant\"() <{{value = dense<2.0> : tensor<f32>}}> : () -> tensor<f32>\n  \
             %qz = \"hbir.constant\"() <{{value = dense<3> : tensor<ui8>}}> : () -> tensor<ui8>\n  \
             %x = \"hbir.quantize\"(%g, %qs, %qz) <{{to = ui8}}> : ({wide}, tensor<f32>, tensor<ui8>) -> tensor<4x8xui8>\n\
             {weights}{}{by}  \
             %m = \"hbir.matmul\"(%xd, %wd) : ({wide}, tensor<8x6xf32>) -> tensor<4x6xf32>\n{end}}}\n",
            floats("%x", "4x8", "ui8", None, true)
        );
        check(&text, 5);
        let wide = "tensor<4x8xsi32>";
        let text = format!(
            "func.func @main(%a: tensor<4x8xui8>) -> (tensor<4x6xsi32>, {wide}) {{\n  \
             %f = \"hbir.cast\"(%a) <{{to = f32}}> : (tensor<4x8xui8>) -> tensor<4x8xf32>\n  \
             %qs = \"hbir.constant\"() <{{value = dense<2.0> : tensor<f32>}}> : () -> tensor<f32>\n  \
             %qz = \"hbir.constant\"() <{{value = dense<3> : tensor<ui8>}}> : () -> tensor<ui8>\n  \
             %x = \"hbir.quantize\"(%f, %qs, %qz) <{{to = ui8}}> : (tensor<4x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<4x8xui8>\n\
             {weights}{}{}  \
             %m = \"hbir.matmul\"(%xc, %wc) : ({wide}, tensor<8x6xsi32>) -> tensor<4x6xsi32>\n{}}}\n",
            centred("%x", "4x8", "ui8", Some(3)),
            centred("%w", "8x6", "si8", Some(0)),
            end.replace("xf32", "xsi32").replace("%xd", "%xc")
        );
        check(&text, 5);
    }
}
