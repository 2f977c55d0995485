//! HLO text through the command: properties that must be preserved.

use crate::support;

use support::{Folder, optc, optc_with};

const FOLD: &str = "--pass=canonicalize,view-fold";

/// The HLO text of a module after `canonicalize,view-fold`.
#[track_caller]
fn folded(name: &str, text: &str, options: &[&str]) -> String {
    let folder = Folder::new(name);
    let program = folder.write("a.hlo", text);
    let args = [
        FOLD,
        "--target=cpu",
        "--verify-each",
        "--emit=hlo",
        &program,
    ];
    let args: Vec<&str> = args.iter().chain(options).copied().collect();
    optc(&args).ok()
}

#[test]
fn constants_in_files_go_out_whole() {
    let folder = Folder::new("hlo-constants");
    let program = folder.write(
        "a.ir",
        r#"func.func @main(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = "hbir.constant"() <{data = #hbir.external<"w.bin", 4, 24>}> : () -> tensor<2x3xf32>
  %t = "hbir.transpose"(%w) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %r = "hbir.add"(%x, %t) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}
"#,
    );
    let error = optc(&["--emit=hlo", &program]).fails(1, "error[hlo-constant-data]");
    assert!(error.contains("`w.bin` does not exist"), "{error}");
    let bytes: Vec<u8> = [9.0f32, 0.0, 1.5, 2.0, -3.0, f32::INFINITY, 5.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    std::fs::write(folder.path("w.bin"), &bytes).unwrap();
    let literal = "constant({ {0, 1.5, 2}, {-3, inf, 5} })";
    // The numbers are in logical order, whatever layout a pass chooses.
    for pass in ["--pass=", FOLD] {
        let text = optc(&[pass, "--emit=hlo", &program]).ok();
        assert!(text.contains(literal), "{text}");
    }
    std::fs::write(folder.path("w.bin"), &bytes[..20]).unwrap();
    optc(&["--emit=hlo", &program]).fails(1, "`w.bin` has 20 bytes");
}

#[test]
fn a_constant_without_elements_stays_so_with_a_warning() {
    let text = "HloModule m\nENTRY e {\n x = f32[64]{0} parameter(0)\n c = f32[64]{0} constant({...})\n \
                ROOT r = f32[64]{0} add(x, c)\n}\n";
    let ran = optc_with(&["--from=hlo", "--emit=hlo", FOLD, "-"], text);
    assert!(
        ran.errors.contains("warning[hlo-constant-elided]"),
        "{}",
        ran.errors
    );
    assert!(ran.ok().contains("f32[64]{0} constant({...})"));
}

#[test]
fn element_widths_stay_at_the_boundary_and_inside() {
    let text = "HloModule m\ncallee {\n p = s4[8]{0} parameter(0)\n ROOT n = s4[8]{0} negate(p)\n}\n\
                ENTRY e {\n a = s4[8]{0} parameter(0)\n b = f32[8]{0:E(64)} parameter(1)\n \
                c = s4[8]{0:E(4)} parameter(2)\n f = s4[8]{0} call(a), to_apply=callee\n \
                g = f32[8]{0:E(64)} negate(b)\n h = s4[8]{0:E(4)} negate(c)\n \
                ROOT t = (s4[8]{0}, f32[8]{0:E(64)}, s4[8]{0:E(4)}) tuple(f, g, h)\n}\n";
    let wanted = "entry_computation_layout={(s4[8]{0}, f32[8]{0:E(64)}, s4[8]{0:E(4)})->\
                  (s4[8]{0}, f32[8]{0:E(64)}, s4[8]{0:E(4)})}";
    for options in [&[][..], &["--free-boundary"]] {
        let text = folded("hlo-widths", text, options);
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("%p = s4[8]{0} parameter(0)"), "{text}");
        assert!(!text.contains(" copy("), "{text}");
    }
}

#[test]
fn copies_between_memory_spaces_stay() {
    let text = "HloModule m\nENTRY e {\n a = f32[4,8]{1,0} parameter(0)\n \
                h = f32[4,8]{1,0:S(5)} copy(a)\n back = f32[4,8]{1,0} copy(h)\n \
                v = f32[4,8]{1,0:S(1)} copy(a)\n vb = f32[4,8]{1,0} copy(v)\n \
                cs = (f32[4,8]{1,0:S(1)}, f32[4,8]{1,0}, u32[]) copy-start(back)\n \
                cd = f32[4,8]{1,0:S(1)} copy-done(cs)\n n = f32[4,8]{1,0} negate(cd)\n \
                m = f32[4,8]{1,0} add(n, vb)\n \
                ROOT r = (f32[4,8]{1,0:S(5)}, f32[4,8]{1,0}) tuple(h, m)\n}\n";
    let out = folded("hlo-spaces", text, &[]);
    assert_eq!(out.matches(" copy(").count(), 4, "{out}");
    assert_eq!(out.matches(" copy-start(").count(), 1, "{out}");
    assert_eq!(out.matches("{1,0:S(5)} copy(%a)").count(), 1, "{out}");
    // A value in a memory space is read there; nothing else moves.
    assert_eq!(out.matches("{1,0:S(1)} copy").count(), 2, "{out}");
}

/// A transpose into another memory space is a view and one copy.
#[test]
fn a_copy_into_another_memory_space_takes_any_order() {
    let text = "HloModule m\nENTRY e {\n a = f32[4,8]{1,0} parameter(0)\n \
                ROOT t = f32[8,4]{0,1:S(5)} transpose(a), dimensions={1,0}\n}\n";
    let out = folded("hlo-space-order", text, &[]);
    assert_eq!(out.matches(" copy(").count(), 1, "{out}");
    assert!(out.contains("->f32[8,4]{0,1:S(5)}"), "{out}");
}

#[test]
fn the_certificate_wants_copies_into_memory_spaces_and_what_acts() {
    let folder = Folder::new("hlo-certificate");
    let program = folder.write(
        "a.ir",
        r#"func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "hbir.layout_convert"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32, {xla = "1,0:S(5)"}>
  %1 = "hbir.layout_convert"(%0) : (tensor<4x8xf32, {xla = "1,0:S(5)"}>) -> tensor<4x8xf32>
  %2 = "hbir.opaque"(%1) <{domain = "x", effect = "write", kind = "log"}> : (tensor<4x8xf32>) -> tensor<f32>
  %3 = "hbir.relu"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
"#,
    );
    let certificate = folder.path("c.txt");
    optc(&[
        FOLD,
        "--target=cpu",
        "--certificate",
        &certificate,
        &program,
    ])
    .ok();
    assert!(
        optc(&["verify", "--certificate", &certificate, &program])
            .ok()
            .contains("certified")
    );
    let text = folder.read("c.txt");
    let (head, result) = text.rsplit_once("func.func").unwrap();
    for dropped in ["hbir.opaque", "S(5)"] {
        let lines = result.lines().filter(|line| !line.contains(dropped));
        let fewer: Vec<&str> = lines.collect();
        let fewer = fewer.join("\n").replace("(%1)", "(%x)");
        let broken = folder.write("broken.txt", &format!("{head}func.func{fewer}\n"));
        optc(&["verify", "--certificate", &broken, &program]).fails(1, "error[certificate-");
    }
}

#[test]
fn what_acts_outside_stays_in_order() {
    let call = |target: &str, more: &str| {
        format!("s32[] custom-call(x), custom_call_target=\"{target}\"{more}")
    };
    let acts = ", custom_call_has_side_effect=true";
    let text = format!(
        "HloModule m\nsay {{\n x = f32[5,3] parameter(0)\n ROOT s = {}\n}}\n\
         ENTRY e {{\n x = f32[5,3] parameter(0)\n first = {}\n unread = {}\n \
         again = {}\n c = s32[] call(x), to_apply=say\n z = token[] after-all()\n \
         o = token[] outfeed(x, z), outfeed_shape=f32[5,3]{{1,0}}\n ROOT n = f32[5,3] negate(x)\n}}\n",
        call("inner", acts),
        call("one", acts),
        call("pure", ""),
        call("one", acts),
    );
    let out = folded("hlo-effects", &text, &[]);
    let order = ["\"one\"", "\"one\"", " call(", " outfeed("];
    let mut rest = out.split("ENTRY").nth(1).unwrap();
    for part in order {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("no {part} in\n{out}"));
        rest = &rest[at + part.len()..];
    }
    assert!(out.contains("\"inner\""), "{out}");
    assert!(!out.contains("\"pure\""), "{out}");
    assert!(!out.contains("effect=\""), "{out}");
}

#[test]
fn random_numbers_are_no_constants() {
    let text = "HloModule m\nENTRY e {\n lo = f32[] constant(0)\n hi = f32[] constant(1)\n \
                r = f32[3,5]{1,0} rng(lo, hi), distribution=rng_uniform\n \
                ROOT t = f32[5,3]{1,0} transpose(r), dimensions={1,0}\n}\n";
    let ran = optc_with(&["stats", "--from=hlo", "--json", "-"], text).ok();
    let json: serde_json::Value = serde_json::from_str(&ran).unwrap();
    let at = |key: &str| {
        json.pointer(&format!("/{key}"))
            .and_then(serde_json::Value::as_u64)
    };
    assert_eq!(at("movement_bytes"), Some(120), "{ran}");
    assert_eq!(at("constant_movement_bytes"), Some(0), "{ran}");
}

#[test]
fn ports_that_share_memory_keep_their_layouts() {
    let text = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e {\n \
                a = f32[4,8]{1,0} parameter(0)\n b = f32[8,4]{1,0} parameter(1)\n \
                ta = f32[8,4]{1,0} transpose(a), dimensions={1,0}\n \
                ROOT r = (f32[4,8]{0,1}, f32[8,4]{1,0}) tuple(s, n)\n}\n";
    let body = " s = f32[4,8]{1,0} negate(a)\n n = f32[8,4]{1,0} add(ta, b)\n ROOT";
    let text = text
        .replace(" ROOT", body)
        .replace("{0,1}, f32[8,4]", "{1,0}, f32[8,4]");
    let out = folded("hlo-alias", &text, &["--free-boundary"]);
    let wanted =
        "entry_computation_layout={(f32[4,8]{1,0}, f32[8,4]{0,1})->(f32[4,8]{1,0}, f32[8,4]{0,1})}";
    assert!(out.contains(wanted), "{out}");
    assert!(
        out.contains("input_output_alias={ {0}: (0, {}, may-alias) }"),
        "{out}"
    );
}

/// Two products, each with a matrix whose elements the text elides.
const LEFT_OUT: &str = "HloModule m\nENTRY e {\n x = f32[4,8]{1,0} parameter(0)\n a = f32[8,8]{1,0} constant({...})\n \
                        b = f32[8,8]{1,0} constant({...})\n \
                        p = f32[4,8]{1,0} dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n \
                        ROOT q = f32[4,8]{1,0} dot(p, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";

#[test]
fn constants_without_elements_are_not_one() {
    let folder = Folder::new("hlo-left-out");
    let (program, output) = (folder.write("a.hlo", LEFT_OUT), folder.path("b.hlo"));
    let ran = optc(&[&*program, "-o", &output, "--check"]);
    for name in ["a", "b"] {
        let warning = format!("the constant `{name}` of f32[8,8]{{1,0}} were left out");
        assert!(ran.errors.contains(&warning), "{}", ran.errors);
    }
    ran.ok();
    let text = folder.read("b.hlo");
    for name in ["a", "b"] {
        let line = format!("%{name} = f32[8,8]{{1,0}} constant({{...}})");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn constants_without_elements_run() {
    let folder = Folder::new("hlo-left-out-run");
    let text = LEFT_OUT.replace("parameter(0)", "constant({...})");
    let program = folder.write("a.hlo", &text);
    for exec in ["reference", "naive"] {
        let (exec, output) = (format!("--exec={exec}"), folder.path("y.npz"));
        optc(&["run", &exec, &program, "--output", &output]).ok();
    }
}

/// A convolution with the channels in dimension 1, between transposes of channels-last images.
const BETWEEN: &str = "HloModule m\nENTRY e {\n x = f32[1,6,6,8]{3,2,1,0} parameter(0)\n w = f32[8,8,3,3]{3,2,1,0} parameter(1)\n \
                       t = f32[1,8,6,6]{3,2,1,0} transpose(x), dimensions={0,3,1,2}\n \
                       c = f32[1,8,6,6]{3,2,1,0} convolution(t, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n \
                       ROOT r = f32[1,6,6,8]{3,2,1,0} transpose(c), dimensions={0,2,3,1}\n}\n";

#[test]
fn text_in_and_out_is_folded_for_its_own_target() {
    let folder = Folder::new("hlo-own");
    let (program, output) = (folder.write("a.hlo", BETWEEN), folder.path("b.hlo"));
    let said = optc(&[&*program, "-o", &output, "--check"]);
    assert!(said.errors.contains("b.hlo, for xla"), "{}", said.errors);
    said.ok();
    let text = folder.read("b.hlo");
    assert!(!text.contains(" transpose("), "{text}");
    assert!(text.contains("dim_labels=b01f_oi01->01bf"), "{text}");
    let json = optc(&[&*program, "-o", &output, "--json"]).ok();
    assert!(json.contains("\"target\": \"xla\""), "{json}");
    // An empty list of passes leaves the convolution unchanged.
    let same = optc(&["--pass=", "--emit=hlo", &program]).ok();
    assert!(same.contains("dim_labels=bf01_oi01->bf01"), "{same}");
    // Text with tiles keeps its layouts.
    let tiled = BETWEEN.replace("f32[1,6,6,8]{3,2,1,0}", "f32[1,6,6,8]{3,2,1,0:T(8,128)}");
    let program = folder.write("a.hlo", &tiled);
    let said = optc(&[&*program, "-o", &output]).errors;
    assert!(said.contains("b.hlo, for tpu"), "{said}");
    assert!(folder.read("b.hlo").contains("T(8,128)"));
}

/// For text without tiles XLA chooses all layouts except those of the entry.
#[test]
fn layouts_of_the_entry_stay() {
    let folder = Folder::new("hlo-entry");
    let run = |text: &str| {
        let (program, output) = (folder.write("a.hlo", text), folder.path("b.hlo"));
        let said = optc(&[&*program, "-o", &output, "--check", "--json"]).ok();
        (folder.read("b.hlo"), said)
    };
    let turned = "HloModule m, entry_computation_layout={(f32[4,6]{0,1})->f32[4,6]{0,1}}\n\nENTRY e {\n  \
                  p = f32[4,6]{0,1} parameter(0)\n  ROOT n = f32[4,6]{0,1} negate(p)\n}\n";
    let (text, said) = run(turned);
    let entry = "entry_computation_layout={(f32[4,6]{0,1})->f32[4,6]{0,1}}";
    assert!(text.contains(entry), "{text}");
    // A transpose between two layouts with the same order in memory moves nothing.
    assert!(said.contains(r#""movement_bytes": 0"#), "{said}");
    assert!(!said.contains(r#""movement_bytes": 192"#), "{said}");
    assert!(!said.contains("written-invalid"), "{said}");
    // The folded program reads the entry's arguments in their layouts.
    let between = BETWEEN.replace("x = f32[1,6,6,8]{3,2,1,0}", "x = f32[1,6,6,8]{2,1,3,0}");
    let (text, said) = run(&between);
    let entry = "entry_computation_layout={(f32[1,6,6,8]{2,1,3,0}, f32[8,8,3,3]{3,2,1,0})->f32[1,6,6,8]{3,2,1,0}}";
    assert!(text.contains(entry), "{text}");
    // Channels are first in the argument and last in the result, so one of the two is transposed.
    let again = optc(&["stats", "--json", &folder.path("b.hlo")]).ok();
    assert!(again.contains("\"movement_bytes\": 2304"), "{again}");
    assert!(said.contains("\"lower_bound_bytes\": 2304"), "{said}");
}

#[test]
fn stablehlo_in_and_out_is_folded_for_its_own_target() {
    let folder = Folder::new("stablehlo-own");
    let text = "module @m {\n  func.func public @main(%x: tensor<4x64x8x32xf32>, %w: tensor<8x32x16xf32>) -> tensor<4x64x16xf32> {\n    \
                %0 = stablehlo.transpose %x, dims = [0, 2, 1, 3] : (tensor<4x64x8x32xf32>) -> tensor<4x8x64x32xf32>\n    \
                %1 = stablehlo.dot_general %0, %w, contracting_dims = [3, 1] x [1, 0] : (tensor<4x8x64x32xf32>, tensor<8x32x16xf32>) -> tensor<4x64x16xf32>\n    \
                return %1 : tensor<4x64x16xf32>\n  }\n}\n";
    let (program, output) = (folder.write("a.mlir", text), folder.path("b.mlir"));
    let said = optc(&[&*program, "-o", &output, "--check"]);
    assert!(said.errors.contains("b.mlir, for xla"), "{}", said.errors);
    said.ok();
    let text = folder.read("b.mlir");
    assert!(text.contains("stablehlo.dot_general"), "{text}");
    assert!(!text.contains("stablehlo.transpose"), "{text}");
}

/// A branch and a loop, each with a transpose inside that is folded.
const CONTROL: &str = "module @m {\n  func.func public @main(%i: tensor<i32>, %x: tensor<4x4xf32>, %n: tensor<i32>) -> tensor<4x4xf32> {\n    \
    %b = \"stablehlo.case\"(%i) ({\n      %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>\n      \
    %p = stablehlo.dot_general %t, %x, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n      \
    stablehlo.return %p : tensor<4x4xf32>\n    }, {\n      stablehlo.return %x : tensor<4x4xf32>\n    }) : (tensor<i32>) -> tensor<4x4xf32>\n    \
    %z = stablehlo.constant dense<0> : tensor<i32>\n    \
    %w:2 = stablehlo.while(%k = %z, %v = %b) : tensor<i32>, tensor<4x4xf32>\n    cond {\n      \
    %m = stablehlo.constant dense<3> : tensor<i32>\n      %c = stablehlo.compare LT, %k, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n      \
    stablehlo.return %c : tensor<i1>\n    } do {\n      %one = stablehlo.constant dense<1> : tensor<i32>\n      \
    %next = stablehlo.add %k, %one : tensor<i32>\n      %t = stablehlo.transpose %v, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>\n      \
    %p = stablehlo.dot_general %t, %x, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n      \
    stablehlo.return %next, %p : tensor<i32>, tensor<4x4xf32>\n    }\n    return %w#1 : tensor<4x4xf32>\n  }\n}\n";

#[test]
fn loops_and_branches_are_run_by_the_check() {
    let folder = Folder::new("stablehlo-control");
    let (program, output) = (folder.write("a.mlir", CONTROL), folder.path("b.mlir"));
    optc(&[&*program, "-o", &output, "--check"]).ok();
    let text = folder.read("b.mlir");
    assert!(!text.contains("stablehlo.transpose"), "{text}");
    optc(&["verify", "--from=stablehlo", &program, &output]).ok();
    // One more iteration of the loop, or the other branch, is detected.
    for (from, to) in [("dense<3>", "dense<4>"), ("return %p", "return %x")] {
        assert!(text.contains("dense<3>"), "{text}");
        let other = folder.write("c.mlir", &CONTROL.replacen(from, to, 1));
        let ran = optc(&["verify", "--from=stablehlo", &other, &output]);
        assert!(ran.errors.contains("not-equivalent"), "{}", ran.errors);
    }
}

/// Unknown sizes as JAX exports them: `s` is the difference of `t` and `u`, with an assertion that it is at least 1.
const SIZES: &str = "module @m {\n  func.func public @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {\n    \
    %one = stablehlo.constant dense<1> : tensor<i32>\n    \
    %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>\n    \
    %t = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>\n    \
    %c = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>\n    \
    %u = stablehlo.get_dimension_size %y, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>\n    \
    %same = stablehlo.compare EQ, %c, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n    \
    stablehlo.custom_call @shape_assertion(%same, %b) {api_version = 2 : i32, error_message = \"{0}\", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()\n    \
    %s = stablehlo.subtract %t, %u : tensor<i32>\n    \
    %more = stablehlo.compare GE, %s, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n    \
    stablehlo.custom_call @shape_assertion(%more, %s) {api_version = 2 : i32, error_message = \"{0}\", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()\n    \
    %r = call @part(%u, %x, %y) : (tensor<i32>, tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>\n    return %r : tensor<?x?xf32>\n  }\n  \
    func.func private @part(%u: tensor<i32> {jax.global_constant = \"u\"}, %x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {\n    \
    %0 = stablehlo.transpose %y, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>\n    %1 = stablehlo.tanh %0 : tensor<?x?xf32>\n    \
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>\n    return %2 : tensor<?x?xf32>\n  }\n}\n";

#[test]
fn sizes_that_are_not_known_are_chosen_by_the_check() {
    let folder = Folder::new("stablehlo-sizes");
    let (program, output) = (folder.write("a.mlir", SIZES), folder.path("b.mlir"));
    optc(&[&*program, "-o", &output, "--check"]).ok();
    let text = folder.read("b.mlir");
    assert!(!text.contains("stablehlo.transpose"), "{text}");
    assert!(text.contains("shape_assertion"), "{text}");
    // Sizes for which an assertion fails.
    let ran = optc(&[
        &*program,
        "-o",
        &output,
        "--check",
        "--bind=u=9",
        "--bind=n1=9",
    ]);
    assert!(
        ran.errors.contains("asserts does not hold"),
        "{}",
        ran.errors
    );
    // Other numbers, another boundary, or another assertion are detected.
    let verify = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        let other = folder.write("c.mlir", &text.replacen(from, to, 1));
        optc(&["verify", "--from=stablehlo", &program, &other]).errors
    };
    let found = verify("stablehlo.tanh", "stablehlo.negate");
    assert!(found.contains("not-equivalent"), "{found}");
    let found = verify("comparison_direction GE", "comparison_direction LT");
    assert!(found.contains("asserts does not hold"), "{found}");
    let found = verify("comparison_direction EQ", "comparison_direction NE");
    assert!(found.contains("boundary-differs"), "{found}");
}

#[test]
fn a_loop_without_end_is_refused() {
    let folder = Folder::new("stablehlo-endless");
    let endless = CONTROL.replace("%next, %p", "%k, %p");
    let (program, output) = (folder.write("a.mlir", &endless), folder.path("b.mlir"));
    let ran = optc(&[&*program, "-o", &output, "--check"]);
    assert!(ran.errors.contains("run-steps"), "{}", ran.errors);
    assert!(!std::path::Path::new(&output).exists());
}

/// A constant with 10^9 elements.
#[test]
fn a_check_that_needs_too_much_memory_is_refused() {
    let folder = Folder::new("stablehlo-splat");
    let text = "module @m {\n  func.func public @main(%x: tensor<1000x1000x1000xf32>) -> tensor<1000x1000x1000xf32> {\n    \
                %c = stablehlo.constant dense<1.5> : tensor<1000x1000x1000xf32>\n    %0 = stablehlo.add %x, %c : tensor<1000x1000x1000xf32>\n    \
                return %0 : tensor<1000x1000x1000xf32>\n  }\n}\n";
    let inside = text
        .replace("%x: tensor<1000x1000x1000xf32>", "%x: tensor<f32>")
        .replace("stablehlo.add %x, %c", "stablehlo.negate %c");
    for text in [text, &inside] {
        let (program, output) = (folder.write("a.mlir", text), folder.path("b.mlir"));
        let ran = optc(&[&*program, "-o", &output, "--check"]);
        assert!(ran.errors.contains("tensor-too-large"), "{}", ran.errors);
        assert!(!std::path::Path::new(&output).exists());
    }
}

/// A loop in a loop; the inner one runs `turns` times.
fn nested_loops(turns: u32) -> String {
    let condition = |limit: u32| {
        format!(
            "cond {{\n      %m = stablehlo.constant dense<{limit}> : tensor<i32>\n      \
             %c = stablehlo.compare LT, %k, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n      \
             stablehlo.return %c : tensor<i1>\n    }}"
        )
    };
    let next = "%one = stablehlo.constant dense<1> : tensor<i32>\n      %next = stablehlo.add %k, %one : tensor<i32>\n";
    let (outer, inner) = (condition(2), condition(turns));
    format!(
        "module @m {{\n  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n    \
         %z = stablehlo.constant dense<0> : tensor<i32>\n    \
         %w:2 = stablehlo.while(%k = %z, %v = %x) : tensor<i32>, tensor<4xf32>\n    {outer} do {{\n      {next}      \
         %s = stablehlo.constant dense<0> : tensor<i32>\n      \
         %i:2 = stablehlo.while(%k = %s, %u = %v) : tensor<i32>, tensor<4xf32>\n    {inner} do {{\n      {next}      \
         %d = stablehlo.add %u, %u : tensor<4xf32>\n      stablehlo.return %next, %d : tensor<i32>, tensor<4xf32>\n    }}\n      \
         stablehlo.return %next, %i#1 : tensor<i32>, tensor<4xf32>\n    }}\n    return %w#1 : tensor<4xf32>\n  }}\n}}\n"
    )
}

#[test]
fn loops_in_loops_are_compared_too() {
    let folder = Folder::new("stablehlo-nested");
    let [a, b, c] = [("a", 3), ("b", 3), ("c", 4)]
        .map(|(name, turns)| folder.write(&format!("{name}.mlir"), &nested_loops(turns)));
    optc(&["verify", "--from=stablehlo", &a, &b]).ok();
    let ran = optc(&["verify", "--from=stablehlo", &a, &c]);
    assert!(ran.errors.contains("not-equivalent"), "{}", ran.errors);
}
