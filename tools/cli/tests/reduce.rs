//! `optc reduce`: the smallest program on which a command still fails.

use crate::support;

use support::{Folder, optc};

/// The test reads the weights in the folder of its model, as a runtime does.
#[test]
fn weights_are_beside_the_program_that_is_tried() {
    let folder = Folder::new("reduce-weights");
    let program = folder.write(
        "a.ir",
        r#"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "hbir.constant"() <{data = #hbir.external<"w.bin", 0, 8>}> : () -> tensor<2xf32>
  %1 = "hbir.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "hbir.exp"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "hbir.add"(%2, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
"#,
    );
    folder.write("w.bin", "12345678");
    std::fs::create_dir(folder.path("out")).unwrap();
    for format in ["onnx", "ir"] {
        let out = folder.path(&format!("out/small.{format}"));
        let test =
            "--test=grep -q w.bin %s && grep -q 12345678 $(dirname %s)/w.bin && exit 1; exit 0";
        let ran = optc(&["reduce", test, &program, "-o", &out]);
        assert_eq!(ran.status, 0, "{}", ran.errors);
        assert!(
            ran.errors.contains("operations in place of 4"),
            "{}",
            ran.errors
        );
        let small = optc(&["--emit=ir", &out]).ok();
        assert!(
            small.contains("w.bin") && !small.contains("hbir.exp"),
            "{small}"
        );
        assert_eq!(folder.read("out/w.bin"), "12345678");
        std::fs::remove_file(folder.path("out/w.bin")).unwrap();
    }
}
