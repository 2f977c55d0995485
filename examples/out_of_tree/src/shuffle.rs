//! A rearrangement: passes fold it away as they fold a reshape.

use crate::codes;
use optc::{Dim, Inferred, OpError, OpRef, Operation, ViewDims, attributes};

attributes! {
    /// `acme.shuffle`: the channels of N C … in `groups` groups, dealt out in turn.
    pub struct Shuffle {
        /// The number of groups; it divides the channels.
        groups: i64,
    }
}

impl Operation for Shuffle {
    const NAME: &'static str = "acme.shuffle";
    const SUMMARY: &'static str = "the channels of N C … in groups, dealt out in turn";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);

    /// Constraint `shuffle-c1`: the groups divide a known number of channels.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        self.rearrangement(op)?;
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }

    /// Reshape C to `groups` by the rest, exchange the two, and merge them again.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        let x = op.operand(0)?;
        let refuse = || {
            let message = format!(
                "{} groups do not divide the channels, wanted a divisor",
                self.groups
            );
            OpError::new(codes::SHUFFLE_C1, message)
        };
        let channels = x.dims.get(1).and_then(Dim::fixed).ok_or_else(refuse)?;
        let groups = u64::try_from(self.groups).ok().filter(|&g| 0 < g);
        let groups = groups.filter(|g| channels % g == 0).ok_or_else(refuse)?;
        let mut shape = x.dims.clone();
        let cut = [Dim::Fixed(groups), Dim::Fixed(channels / groups)];
        shape.splice(1..2, cut);
        let mut perm: Vec<usize> = (0..shape.len()).collect();
        perm.swap(1, 2);
        Ok(ViewDims { shape, perm })
    }
}
