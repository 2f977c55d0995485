//! The loops of the example against the reference interpreter.

use super::{attention, bridge, input, run};
use optc::interp::NoData;
use optc::{Compiler, Fate, Tensor};

#[test]
fn the_loops_compute_what_the_reference_computes() {
    let nodes = attention(2, 5, 3, 4);
    let compiler = Compiler::new();
    let (module, _) = bridge(&compiler, &nodes).expect("the shapes fit");
    let program = compiler.program("attention", module).expect("well formed");
    let func = &program.module.funcs[0];
    let mut inputs = indexmap::IndexMap::new();
    for (i, &arg) in func.args.iter().enumerate() {
        let ty = func.ty(arg).as_tensor().expect("a tensor");
        let (shape, key) = (ty.shape().expect("known"), func.arg_key(i));
        let mut numbers = Vec::new();
        super::Run::each(&shape, |index| numbers.push(input(&key, index)));
        let shape = shape.iter().map(|&n| n as usize).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        inputs.insert(
            key,
            Tensor::from_bytes(ty.dtype, shape, &bytes).expect("it fits"),
        );
    }
    let wanted = compiler.run(&program, &inputs, &NoData).expect("it runs");
    let found = run(&nodes, input).expect("it runs");
    let wanted: Vec<f64> = wanted[0].to_f64();
    assert_eq!(found.len(), wanted.len());
    for (a, b) in found.iter().zip(&wanted) {
        assert!((f64::from(*a) - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn every_node_is_found_again() {
    let compiler = Compiler::new();
    let (module, values) = bridge(&compiler, &attention(2, 5, 3, 4)).expect("the shapes fit");
    let program = compiler.program("attention", module).expect("well formed");
    let answer = compiler.fold(&program).expect("it folds");
    for value in values {
        assert!(matches!(answer.fate(value), Ok(Fate::Held(_))), "{value}");
    }
    assert_eq!(answer.stats().movement_bytes, 0);
}
