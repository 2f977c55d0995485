//! The chain of pads, reshapes and transposes agrees with the index formula.

use crate::support;

use optc_layout::notation::parse_tensor;
use optc_layout::{Explanation, Rearrangement, explain};
use support::{Rng, random_case, random_shape};

/// Numbers under a shape; -1 is padding.
struct Array {
    shape: Vec<u64>,
    data: Vec<i64>,
}

fn unravel(mut k: usize, shape: &[u64]) -> Vec<usize> {
    let mut e = vec![0; shape.len()];
    for (index, &size) in e.iter_mut().zip(shape).rev() {
        *index = k % size as usize;
        k /= size as usize;
    }
    e
}

fn number(e: &[usize], shape: &[u64]) -> usize {
    e.iter().zip(shape).fold(0, |k, (i, n)| k * *n as usize + i)
}

impl Array {
    fn apply(self, step: &Rearrangement) -> Array {
        match step {
            Rearrangement::Crop { high } => {
                let mut data = self.data;
                data.truncate(data.len() - *high as usize);
                Array {
                    shape: vec![data.len() as u64],
                    data,
                }
            }
            Rearrangement::Reshape { shape } => {
                assert_eq!(shape.iter().product::<u64>() as usize, self.data.len());
                Array {
                    shape: shape.clone(),
                    data: self.data,
                }
            }
            Rearrangement::Transpose { perm } => {
                let shape: Vec<u64> = perm.iter().map(|&axis| self.shape[axis]).collect();
                let source = |k| {
                    let mut e = vec![0; perm.len()];
                    for (&axis, index) in perm.iter().zip(unravel(k, &shape)) {
                        e[axis] = index;
                    }
                    self.data[number(&e, &self.shape)]
                };
                let data = (0..self.data.len()).map(source).collect();
                Array { shape, data }
            }
            Rearrangement::Pad { low, high } => {
                let added = |i: usize| self.shape[i] + low[i] + high[i];
                let shape: Vec<u64> = (0..self.shape.len()).map(added).collect();
                let mut data = vec![-1; shape.iter().product::<u64>() as usize];
                for (k, &value) in self.data.iter().enumerate() {
                    let e = unravel(k, &self.shape);
                    let moved: Vec<usize> =
                        e.iter().zip(low).map(|(i, n)| i + *n as usize).collect();
                    data[number(&moved, &shape)] = value;
                }
                Array { shape, data }
            }
        }
    }
}

fn buffer(explanation: &Explanation) -> Vec<i64> {
    let n: u64 = explanation.shape.iter().product();
    let start = Array {
        shape: explanation.shape.clone(),
        data: (0..n as i64).collect(),
    };
    let steps = explanation.steps.iter();
    steps.fold(start, |array, (step, _)| array.apply(step)).data
}

#[test]
fn the_steps_give_the_buffer() {
    let mut rng = Rng::new(21);
    let mut refused = 0;
    for _ in 0..1500 {
        let shape = random_shape(&mut rng, 4, 9, 200);
        let case = random_case(&mut rng, &shape);
        let layout = parse_tensor(&case.text).expect("the text reads").layout;
        match explain(&layout) {
            Ok(explanation) => {
                let mut wanted = vec![-1; case.positions as usize];
                for (k, &p) in case.table.iter().enumerate() {
                    wanted[p as usize] = k as i64;
                }
                assert_eq!(buffer(&explanation), wanted, "{}", case.text);
            }
            Err(error) => {
                refused += 1;
                assert!(case.strided, "{}: {error}", case.text);
            }
        }
    }
    assert!(0 < refused);
}

#[test]
fn words_and_program() {
    let layout = parse_tensor("f32[3,5]{1,0:T(2,2)}")
        .expect("a tensor")
        .layout;
    let explanation = explain(&layout).expect("tiles are steps");
    let words = "a tensor of shape 3x5\n \
        1. pad 3x5 to 4x6 for tile (2,2): 4x6\n \
        2. cut into 2x3 blocks of 2x2: 2x2x3x2\n \
        3. move the insides of the blocks to the end: 2x3x2x2\n \
        4. lay it out in one line: 24\n";
    assert_eq!(explanation.words(), words);
    let program = "func.func @layout(%x: tensor<3x5xf32>) -> tensor<24xf32> {\n  \
        %0 = \"hbir.pad\"(%x) <{high = [1, 1], low = [0, 0]}> : (tensor<3x5xf32>) -> tensor<4x6xf32>\n  \
        %1 = \"hbir.reshape\"(%0) <{shape = [2, 2, 3, 2]}> : (tensor<4x6xf32>) -> tensor<2x2x3x2xf32>\n  \
        %2 = \"hbir.transpose\"(%1) <{perm = [0, 2, 1, 3]}> : (tensor<2x2x3x2xf32>) -> tensor<2x3x2x2xf32>\n  \
        %3 = \"hbir.reshape\"(%2) <{shape = [24]}> : (tensor<2x3x2x2xf32>) -> tensor<24xf32>\n  \
        return %3 : tensor<24xf32>\n}\n";
    assert_eq!(explanation.ir("f32"), program);
}
