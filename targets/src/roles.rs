//! What rows speak of: what operations do along dimensions, and when an alternative is one.

use serde::Deserialize;

/// What an operation does along a dimension, as rows speak of it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum PortRole {
    /// A contraction is repeated over it; the batch of a window operation.
    Batch,
    /// Of the left operand and the result.
    M,
    /// Of the right operand and the result.
    N,
    /// Summed over by a contraction.
    K,
    /// The channels that a convolution sums over.
    Input,
    /// The channels that a convolution makes.
    Output,
    /// Any channels of a window operation.
    Channel,
    /// The groups of a convolution.
    Group,
    /// Along it a window slides.
    Spatial,
    /// The taps of a kernel.
    Tap,
    /// Worked along: reduced, gathered, concatenated, sliced.
    Axis,
    /// Independent of each other along it.
    Parallel,
}

impl PortRole {
    /// As a file writes it.
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

    /// What `distinct` tells apart: the batch and the positions of a convolution are the M of its product.
    #[must_use]
    pub fn kind(self) -> PortRole {
        match self {
            PortRole::Batch | PortRole::Spatial => PortRole::Spatial,
            other => other,
        }
    }

    /// Whether a dimension of the role `other` is one of this role: `channel` are inputs and outputs too.
    #[must_use]
    pub fn covers(self, other: PortRole) -> bool {
        let channels = [PortRole::Input, PortRole::Output, PortRole::Channel];
        self == other || (self == PortRole::Channel && channels.contains(&other))
    }
}

/// When an alternative is one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Of a convolution that only mixes channels.
    Pointwise,
    /// Of a convolution that has each channel for itself.
    Depthwise,
    /// Of any other.
    Mixing,
    /// Without tiles: of a convolution of one group that reads each position of its data once, as the extents of the data
    /// are those of the result times those of the kernel. It reads its operands as the row's other alternatives say, and its
    /// data in any order of dimensions of which the innermost is one that a patch has several elements of.
    Patches,
    /// Of a contraction without tiles, of operands of floats.
    Floats,
    /// On a machine with tiles, of a program whose sizes are unknown: it is laid out without tiles.
    Untiled,
}

/// Names joined by a word.
pub(crate) fn list(roles: &[PortRole], word: &str) -> String {
    let names: Vec<&str> = roles.iter().map(|r| r.name()).collect();
    names.join(&format!(" {word} "))
}

pub(crate) fn either(roles: &[PortRole]) -> String {
    list(roles, "or")
}
