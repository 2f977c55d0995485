//! `hbir.subview`: the part that a [slice](crate::Slice) takes or, with `broadcast`, the numpy broadcast to the
//! result's shape. The result is a read-only window into the bytes of the operand, which stays alive; nothing is moved.

use crate::broadcast::{self, Broadcast};
use crate::prelude::*;
use crate::slice::{self, Bounds, Cut, Slice, SlicePart};
use optc_ir::OpData;
use optc_ir::attr::AttrDict;
use optc_ir::op::missing;

attributes! {
    /// A part or a repetition of the operand in place.
    pub struct Subview {
        /// The first element along each dimension; absent in a broadcast.
        starts: Option<Bounds>,
        /// The exclusive limit along each dimension, in the direction of the stride; absent in a broadcast.
        limits: Option<Bounds>,
        /// The stride along each dimension; 1 when absent.
        strides: Option<Vec<i64>>,
        /// True for a broadcast, false for a part.
        broadcast: bool = false,
        /// The shape to broadcast with, as in `hbir.broadcast`.
        shape: Option<Vec<Attr>>,
    }
}

impl Operation for Subview {
    const NAME: &'static str = "hbir.subview";
    const SUMMARY: &'static str = "a part or a repetition of the operand, in place";
    const FAMILY: &'static str = "slice";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const IS_PART: bool = true;
    const CODES: &'static [Code] = slice::CODES;

    /// The constraints are those of the slice or, with `broadcast`, of the broadcast.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        if self.broadcast {
            broadcast::infer(op, self.shape.as_deref())
        } else {
            self.cut(op)?.infer(op)
        }
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        if self.broadcast {
            broadcast::eval(call)
        } else {
            self.cut(call.op)?.eval(call)
        }
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        match self.broadcast {
            true => IterationDomain::broadcasting(op),
            false => self.cut(op)?.iteration_domain(op),
        }
    }

    fn parts(&self, op: &OpRef<'_>, _: &Known<'_>) -> Vec<Part> {
        match self.broadcast {
            true => broadcast::as_part(op),
            false => self
                .cut(op)
                .map_or_else(|_| Vec::new(), |cut| cut.as_part(op)),
        }
    }
}

impl Subview {
    /// The attributes of the subview that replaces a slice or a broadcast; `None` for any other operation.
    #[must_use]
    pub fn of_copy(name: &str, props: &AttrDict) -> Option<AttrDict> {
        let mut props = props.clone();
        match name {
            Slice::NAME => {}
            Broadcast::NAME => props.set("broadcast", Attr::Bool(true)),
            _ => return None,
        }
        Some(props)
    }

    /// The name and the attributes of the slice or broadcast that copies the elements of a subview.
    #[must_use]
    pub fn as_copy(mut props: AttrDict) -> (&'static str, AttrDict) {
        let repeats = props.remove("broadcast") == Some(Attr::Bool(true));
        let name = if repeats {
            Broadcast::NAME
        } else {
            Slice::NAME
        };
        (name, props)
    }

    /// Replaces a subview by the operation that copies its elements.
    pub fn copy(subview: &mut OpData) {
        let (name, props) = Subview::as_copy(std::mem::take(&mut subview.props));
        (subview.name, subview.props) = (name.into(), props);
    }

    /// For a subview that is no broadcast, the part of each dimension.
    ///
    /// # Errors
    /// `starts` or `limits` is missing, or a constraint of the slice does not hold.
    pub fn parts(&self, op: &OpRef<'_>) -> Result<Vec<SlicePart>, OpError> {
        self.cut(op)?.parts(op)
    }

    fn cut(&self, op: &OpRef<'_>) -> Result<Cut<'_>, OpError> {
        Ok(Cut {
            starts: self.starts.as_ref().ok_or_else(|| missing(op, "starts"))?,
            limits: self.limits.as_ref().ok_or_else(|| missing(op, "limits"))?,
            strides: self.strides.as_deref(),
        })
    }
}
