//! The codes that the operations report. `acme-opt explain CODE` knows them.

use optc::codes;

codes! {
    /// Every code of the dialect, sorted.
    pub const CODES;

    ENERGY_C1 = input(
        "an energy of a tensor without dimensions, or of no floats",
        "tensor<f32>",
        "give floats of rank 1 or more",
    );
    GATE_C1 = input(
        "the operands of a gate differ",
        "two shapes",
        "give both operands one type",
    );
    HARD_TANH_C1 = input(
        "a hard_tanh of no floats",
        "tensor<4xsi32>",
        "give floats",
    );
    SHUFFLE_C1 = input(
        "channels that do not fall into groups",
        "5 channels in 2 groups",
        "give a number that divides the channels",
    );
    UNIT_C1 = input(
        "a unit of a tensor without dimensions, or of no floats",
        "tensor<f32>",
        "give floats of rank 1 or more",
    );
}
