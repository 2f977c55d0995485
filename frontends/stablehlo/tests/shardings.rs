//! Shardings of Shardy in StableHLO: read as splits and constraints, moved with the dimensions that they split, and
//! written again.

use optc_ir::Module;
use optc_ir::text::print;

/// A program as JAX prints it, with a transpose and a reshape on both sides of a constraint.
const PROGRAM: &str = r#"
module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%arg0: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x64xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {?}]>}) {
    %0 = stablehlo.reshape %arg0 : (tensor<8x64xf32>) -> tensor<8x4x16xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<8x4x16xf32>) -> tensor<4x8x16xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"model"}, {"data", ?}, {}]> : tensor<4x8x16xf32>
    %3 = stablehlo.exponential %2 : tensor<4x8x16xf32>
    %4 = stablehlo.transpose %3, dims = [1, 0, 2] : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32>
    %5 = stablehlo.reshape %4 : (tensor<8x4x16xf32>) -> tensor<8x64xf32>
    return %5 : tensor<8x64xf32>
  }
}
"#;

fn import(text: &str) -> Module {
    optc_stablehlo::import(text)
        .expect("the text is valid")
        .module
}

/// The program after a pipeline, as StableHLO.
fn written(text: &str, passes: &str) -> String {
    let mut compiler = optc::Compiler::new();
    compiler.target = Some(std::sync::Arc::new(optc::find_target("xla").unwrap()));
    let mut program = compiler.program("test", import(text)).unwrap();
    compiler.compile(&mut program, passes).unwrap();
    let none = |_: &str, _: u64, _: u64, _: optc_ir::DType| Err("there are no files".to_owned());
    let emitted = optc_emit::stablehlo::emit(&program.module, compiler.registry(), None, &none);
    emitted.unwrap().text
}

#[test]
fn the_mesh_and_the_splits_of_ports_are_attributes() {
    let text = print(&import(PROGRAM));
    assert!(
        text.contains(r#"hbir.mesh = ["data:4", "model:2"]"#),
        "{text}"
    );
    assert!(
        text.contains(r#"%arg0: tensor<8x64xf32> {hbir.shard = ["data@d0/2"]}"#),
        "{text}"
    );
    // A port that leaves a dimension open states no split; its text stays.
    assert!(
        text.contains(r#"sdy.sharding = #sdy.sharding<@mesh, [{\22data\22, \22model\22}, {?}]>"#),
        "{text}"
    );
}

#[test]
fn constraints_are_operations_and_are_written_again() {
    let text = print(&import(PROGRAM));
    assert!(
        text.contains(r#""hbir.sharding_constraint"(%2) <{split = ["model:2", "data:4 ?", ""]}>"#),
        "{text}"
    );
    let out = written(PROGRAM, "normalize-layouts");
    for line in [
        r#"sdy.mesh @mesh = <["data"=4, "model"=2]>"#,
        r#"{sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}"#,
        r#"{jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {?}]>}"#,
        r#"<{sharding = #sdy.sharding<@mesh, [{"model"}, {"data", ?}, {}]>}> : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>"#,
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    assert_eq!(written(&out, "normalize-layouts"), out);
}

#[test]
fn a_constraint_moves_with_the_dimensions_that_it_splits() {
    let out = written(PROGRAM, "default,normalize-layouts");
    assert!(!out.contains("stablehlo.transpose"), "{out}");
    let moved = r#"<{sharding = #sdy.sharding<@mesh, [{"data", ?}, {"model"}, {}]>}> : (tensor<8x4x16xf32>)"#;
    assert!(out.contains(moved), "{out}");
}

#[test]
fn parts_of_axes_are_kept() {
    let text = PROGRAM.replace(
        r#"[{"model"}, {"data", ?}, {}]"#,
        r#"[{"data":(1)2}, {"data":(2)2}, {"model"}]"#,
    );
    let out = written(&text, "normalize-layouts");
    assert!(
        out.contains(r#"[{"data":(1)2}, {"data":(2)2}, {"model"}]"#),
        "{out}"
    );
}

#[test]
fn other_forms_stay_as_text() {
    for other in [
        r#"[{"model"}p1, {?}, {}]"#,
        r#"[{}, {?}, {}], replicated={"model"}"#,
        r#"[{"else"}, {?}, {}]"#,
    ] {
        let text = PROGRAM.replace(r#"[{"model"}, {"data", ?}, {}]"#, other);
        let module = import(&text);
        assert!(print(&module).contains("hbir.opaque"), "{other}");
        assert!(
            written(&text, "normalize-layouts").contains(other),
            "{other}"
        );
    }
}

/// A program as JAX prints it without Shardy.
const TILES: &str = r#"
module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x32xf32> {mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"}, %arg1: tensor<32x64xf32> {jax.x = 1 : i32, mhlo.sharding = "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"}, %arg2: tensor<8x64xf32> {mhlo.sharding = "{replicated}"}, %arg3: tensor<8x64xf32> {mhlo.sharding = "{maximal device=0}"}) -> (tensor<8x64xf32> {jax.result_info = "result", mhlo.sharding = "{devices=[8,1]<=[8]}"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "", mhlo.sharding = "{devices=[2,4]<=[4,2]T(1,0)}"} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %2 = stablehlo.add %1, %arg2 : tensor<8x64xf32>
    %3 = stablehlo.add %2, %arg3 : tensor<8x64xf32>
    return %3 : tensor<8x64xf32>
  }
}
"#;

#[test]
fn shardings_of_gspmd_are_splits_over_a_mesh_of_digits() {
    let text = print(&import(TILES));
    for wanted in [
        r#"hbir.mesh = ["axis0:4", "axis1:2"]"#,
        r#"%arg0: tensor<8x32xf32> {hbir.shard = ["axis0@d0/2"]}"#,
        r#"%arg1: tensor<32x64xf32> {hbir.shard = ["axis1@d1/32"], stablehlo.attrs = "{jax.x = 1 : i32}"}"#,
        r#"%arg2: tensor<8x64xf32> {hbir.shard = []}"#,
        r#"%arg3: tensor<8x64xf32> {stablehlo.attrs = "{mhlo.sharding = \22{maximal device=0}\22}"}"#,
        r#"hbir.shard = ["axis0@d0/2", "axis1@d0"], stablehlo.attrs = "{jax.result_info = \22result\22}""#,
        r#""hbir.sharding_constraint"(%0) <{split = ["axis1:2", "axis0:4"]}>"#,
    ] {
        assert!(text.contains(wanted), "wanted {wanted} in\n{text}");
    }
    // They are written as shardings of Shardy.
    let text = written(TILES, "default");
    assert!(
        text.contains(r#"sdy.mesh @mesh = <["axis0"=4, "axis1"=2]>"#),
        "{text}"
    );
    assert!(text.contains(r#"[{"axis1"}, {"axis0"}]"#), "{text}");
}
