//! The codes that the operations report. `acme-opt explain CODE` knows them.

use optc::{Code, codes};

codes! {
    /// Every code of the dialect, sorted.
    pub const CODES;

    ENERGY_C1 = Code::input(
        "energy-c1",
        "an energy of a tensor without dimensions, or of no floats",
        "tensor<f32>",
        "give floats of rank 1 or more",
    );
    GATE_C1 = Code::input(
        "gate-c1",
        "the operands of a gate differ",
        "two shapes",
        "give both operands one type",
    );
    HARD_TANH_C1 = Code::input(
        "hard-tanh-c1",
        "a hard_tanh of no floats",
        "tensor<4xsi32>",
        "give floats",
    );
    SHUFFLE_C1 = Code::input(
        "shuffle-c1",
        "channels that do not fall into groups",
        "5 channels in 2 groups",
        "give a number that divides the channels",
    );
    UNIT_C1 = Code::input(
        "unit-c1",
        "a unit of a tensor without dimensions, or of no floats",
        "tensor<f32>",
        "give floats of rank 1 or more",
    );
}
