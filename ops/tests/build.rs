//! The builder of functions, on the operations of the dialect.

use optc_ir::text::{parse, print};
use optc_ir::verify::verify;
use optc_ir::{Attr, AttrDict, DType, FuncBuilder, Loc, NewOp, TensorType, Type, Value};
use optc_ops::{Add, Reshape, Split, Transpose};

fn f32s(shape: &[u64]) -> TensorType {
    TensorType::fixed(shape, DType::F32)
}

#[test]
fn types_follow_from_the_shape_rules() {
    let registry = optc_ops::registry();
    let mut b = FuncBuilder::new(&registry);
    let x = b.arg("x", f32s(&[2, 3, 5]));
    let perm = vec![2, 0, 1];
    let y = b.one(&Transpose { perm }, &[x]).unwrap();
    let y = b.one(&Reshape::to(&[6, 5]), &[y]).unwrap();
    let (axis, sizes) = (0, vec![2, 4]);
    b.loc = Loc::name("halves");
    let halves = b.op(&Split { axis, sizes }, &[y]).unwrap();
    let module = b.finish(&halves);
    verify(&module, &registry).unwrap();
    assert_eq!(
        print(&module),
        r#"func.func @main(%x: tensor<2x3x5xf32>) -> (tensor<2x5xf32>, tensor<4x5xf32>) {
  %0 = "hbir.transpose"(%x) <{perm = [2, 0, 1]}> : (tensor<2x3x5xf32>) -> tensor<5x2x3xf32>
  %1 = "hbir.reshape"(%0) <{shape = [6, 5]}> : (tensor<5x2x3xf32>) -> tensor<6x5xf32>
  %2:2 = "hbir.split"(%1) <{axis = 0, sizes = [2, 4]}> : (tensor<6x5xf32>) -> (tensor<2x5xf32>, tensor<4x5xf32>) loc("halves")
  return %2#0, %2#1 : tensor<2x5xf32>, tensor<4x5xf32>
}
"#
    );
}

#[test]
fn what_a_rule_refuses_is_not_added() {
    let registry = optc_ops::registry();
    let mut b = FuncBuilder::new(&registry);
    let x = b.arg("x", f32s(&[2, 3]));
    let code = |found: Result<Value, optc_ir::OpError>| found.unwrap_err().code;
    assert_eq!(
        code(b.one(&Reshape::to(&[4, 5]), &[x])),
        "reshape-volume-mismatch"
    );
    assert_eq!(code(b.one(&Add {}, &[x])), "operand-count");
    let (axis, sizes) = (0, vec![1, 1]);
    assert_eq!(code(b.one(&Split { axis, sizes }, &[x])), "result-count");
    let unknown = NewOp::new("x.unknown", &[x], AttrDict::new());
    assert_eq!(code(b.add_one(unknown)), "hbir-op-unknown");
    assert!(b.func.body.is_empty());
}

#[test]
fn stated_results_keep_their_layouts_and_must_fit() {
    let registry = optc_ops::registry();
    let mut b = FuncBuilder::new(&registry);
    let x = b.arg("x", f32s(&[2, 3]));
    let turned = || Transpose { perm: vec![1, 0] };
    let stated = |b: &mut FuncBuilder<'_>, ty: TensorType| {
        b.add_one(NewOp::of(&turned(), &[x]).typed(vec![Type::from(ty)]))
    };
    let text = "func.func @f(%x: tensor<3x2xf32, {strides = [1, 3]}>) { return }";
    let laid = parse(text).unwrap().funcs.remove(0);
    let laid = laid.ty(laid.args[0]).as_tensor().unwrap().clone();
    let y = stated(&mut b, laid.clone()).unwrap();
    assert_eq!(b.tensor(y), Some(&laid));
    let wrong = stated(&mut b, f32s(&[2, 3])).unwrap_err();
    assert_eq!(wrong.code, "result-shape-mismatch");
    let wrong = stated(&mut b, TensorType::fixed(&[3, 2], DType::SI8)).unwrap_err();
    assert_eq!(wrong.code, "result-type-mismatch");
}

#[test]
fn operations_of_other_dialects_state_their_results() {
    let registry = optc_ops::registry();
    let mut b = FuncBuilder::new(&registry);
    let x = b.arg("x", f32s(&[2]));
    let props = AttrDict::new().with("kind", Attr::str("a"));
    let op = NewOp::new("x.split", &[x], props).typed(vec![f32s(&[1]).into(); 2]);
    let parts = b.add(op).unwrap();
    assert_eq!(parts.len(), 2);
    verify(&b.finish(&parts), &registry).unwrap();
}
