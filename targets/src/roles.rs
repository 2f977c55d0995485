//! The vocabulary of rows: roles of dimensions, and conditions of alternatives.

use serde::Deserialize;

/// The role of a dimension in an operation.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum PortRole {
    /// A dimension over which a contraction is repeated; the batch of a window operation.
    Batch,
    /// A dimension of the left operand and the result.
    M,
    /// A dimension of the right operand and the result.
    N,
    /// A dimension that a contraction sums over.
    K,
    /// The channels that a convolution sums over.
    Input,
    /// The channels that a convolution produces.
    Output,
    /// Any channels of a window operation.
    Channel,
    /// The groups of a convolution.
    Group,
    /// A dimension along which a window slides.
    Spatial,
    /// The taps of a kernel.
    Tap,
    /// An axis along which the operation works: reduces, gathers, concatenates or slices.
    Axis,
    /// A dimension along which elements are independent of each other.
    Parallel,
}

impl PortRole {
    /// The word in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PortRole::Batch => "batch",
            PortRole::M => "m",
            PortRole::N => "n",
            PortRole::K => "k",
            PortRole::Input => "input",
            PortRole::Output => "output",
            PortRole::Channel => "channel",
            PortRole::Group => "group",
            PortRole::Spatial => "spatial",
            PortRole::Tap => "tap",
            PortRole::Axis => "axis",
            PortRole::Parallel => "parallel",
        }
    }

    /// The kind that `distinct` distinguishes: the batch and the positions of a convolution are both the M of its
    /// product.
    #[must_use]
    pub fn kind(self) -> PortRole {
        match self {
            PortRole::Batch | PortRole::Spatial => PortRole::Spatial,
            other => other,
        }
    }

    /// Returns whether a dimension of the role `other` counts as this role: `channel` covers inputs and outputs, too.
    #[must_use]
    pub fn covers(self, other: PortRole) -> bool {
        let channels = [PortRole::Input, PortRole::Output, PortRole::Channel];
        self == other || (self == PortRole::Channel && channels.contains(&other))
    }
}

/// The condition of an alternative.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// A convolution that only mixes channels.
    Pointwise,
    /// A convolution with one group per channel.
    Depthwise,
    /// Any other convolution.
    Mixing,
    /// Without tiles: a convolution of one group that reads each position of its data once, that is, the extents of the
    /// data are those of the result times those of the kernel. It takes operands as the row's other alternatives do.
    /// The data may be in any order of dimensions whose innermost dimension has several elements in a patch.
    Patches,
    /// Without tiles: a contraction of float operands.
    Floats,
    /// Without tiles: a contraction of float operands that were not both dequantized. A runtime computes the others on
    /// integers.
    Unquantized,
    /// Without tiles: a contraction of two matrices, with several elements in dimensions of the left operand alone and
    /// of the right operand alone. The others are products of a vector, whose time is that of reading the matrix.
    Matrices,
    /// On a machine with tiles: a program with unknown sizes, which is laid out without tiles.
    Untiled,
}

impl When {
    /// The operations that it is for, in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            When::Pointwise => "where only channels are mixed",
            When::Depthwise => "where each channel is for itself",
            When::Mixing => "where channels are mixed",
            When::Patches => {
                "where each position is read once, the operands as elsewhere, and the data in any order that ends in a run of a patch"
            }
            When::Floats => "of floats",
            When::Unquantized => "of floats that were not both dequantized",
            When::Matrices => "of two matrices",
            When::Untiled => "without tiles, where sizes are unknown",
        }
    }
}

/// Names joined by a word.
pub(crate) fn list(roles: &[PortRole], word: &str) -> String {
    let names: Vec<&str> = roles.iter().map(|r| r.name()).collect();
    names.join(&format!(" {word} "))
}

pub(crate) fn either(roles: &[PortRole]) -> String {
    list(roles, "or")
}
