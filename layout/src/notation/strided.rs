//! The strided notation: `strides = [8, 1], offset = 3, size = 64`.

use crate::build::element_count;
use crate::chain::{Chain, Cut, normalize};
use crate::error::LayoutError;
use crate::function::{Function, independent_groups};
use crate::map::Renaming;
use crate::notation::fields::{Field, Fields};
use crate::notation::written::{Hints, Notate, Rules, Written, expect_rank};
use crate::placement::{Placement, Storage};

/// The strided notation, all in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StridedNotation {
    /// Distance between adjacent elements along each dimension.
    pub(crate) strides: Vec<i64>,
    /// Offset of element 0.
    pub(crate) offset: u64,
    /// Positions of the buffer, if the text states them.
    pub(crate) size: Option<u64>,
}

impl StridedNotation {
    /// Distance in elements between adjacent elements along each dimension.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Offset of element 0 in elements.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Written for StridedNotation {
    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = Vec::new();
        if self.offset != 0 {
            fields.push(("offset", Field::Int(self.offset as i64)));
        }
        if let Some(size) = self.size {
            fields.push(("size", Field::Int(size as i64)));
        }
        fields.push(("strides", Field::Ints(self.strides.clone())));
        fields
    }

    fn function(&self, shape: &[u64], storage: &mut Storage) -> Result<Function, LayoutError> {
        expect_rank("strides", self.strides.len(), shape.len())?;
        let overflow = || LayoutError::overflow(shape);
        let elements = element_count(shape).ok_or_else(overflow)?;
        if elements == 0 {
            return Ok(Function::logical(Chain::new(), self.offset));
        }
        let (mut low, mut high) = (i128::from(self.offset), i128::from(self.offset));
        let mut size = elements;
        let mut cuts = Vec::with_capacity(shape.len());
        for (&count, &stride) in shape.iter().zip(&self.strides) {
            size /= count;
            let last = i128::from(stride) * i128::from(count - 1);
            (low, high) = (low + last.min(0), high + last.max(0));
            if 1 < count {
                cuts.push(Cut { size, stride });
            }
        }
        let needed = u64::try_from(high + 1)
            .ok()
            .filter(|&needed| i64::try_from(needed).is_ok());
        let needed = needed.ok_or_else(overflow)?;
        let size = self.size.unwrap_or(needed);
        if low < 0 || size < needed {
            return Err(LayoutError::OutOfBuffer { low, high, size });
        }
        storage.positions = size;
        Ok(Function::logical(normalize(cuts, elements), self.offset))
    }
}

impl Notate for StridedNotation {
    const RULES: Rules = Rules {
        name: "strided",
        summary: "Strides in elements",
        own: &["strides"],
        others: &["offset", "size"],
        wanted: "beside `strides` only offset, size",
        choice: 2,
        says_storage: false,
    };

    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError> {
        let strides = fields.ints("strides")?.unwrap_or(&[]).to_vec();
        if strides.len() != rank {
            return Err(LayoutError::RankMismatch {
                key: "strides",
                found: strides.len(),
                rank,
            });
        }
        let offset = fields.natural("offset", 0)?.unwrap_or(0);
        Ok(Self {
            strides,
            offset,
            size: fields.natural("size", 0)?,
        })
    }

    fn of(placement: &Placement, _hints: &Hints<'_>) -> Result<Self, LayoutError> {
        let shape = placement.shape();
        let function = placement.function();
        if function.order.is_some() {
            return Err(Self::refuse("it cuts across merged dimensions"));
        }
        if placement.elements() == 0 {
            return Ok(Self {
                strides: vec![1; shape.len()],
                offset: 0,
                size: None,
            });
        }
        let groups = independent_groups(&function.chain, shape);
        let mut strides = Vec::with_capacity(shape.len());
        let (mut inner, mut highest) = (1i64, i128::from(function.offset));
        for (dims, size, part) in groups.iter().rev() {
            let stride = match &**part {
                [] => inner,
                [cut] if dims.len() == 1 => cut.stride,
                _ => {
                    let names: Vec<String> = dims.clone().map(|dim| format!("d{dim}")).collect();
                    let names = names.join(" and ");
                    return Err(Self::refuse(format!(
                        "{names} is not one run with a constant stride"
                    )));
                }
            };
            strides.extend(dims.clone().map(|_| stride));
            let last = i128::from(stride) * i128::from(size.saturating_sub(1));
            highest = highest.saturating_add(last.max(0));
            inner = stride.saturating_mul(i64::try_from(*size).unwrap_or(i64::MAX));
        }
        strides.reverse();
        strides.truncate(shape.len());
        let size = placement.positions();
        let dense = i128::from(size) == highest.saturating_add(1);
        let size = (!dense).then_some(size);
        Ok(Self {
            strides,
            offset: function.offset,
            size,
        })
    }

    fn like(&self, placement: &Placement) -> Option<Self> {
        Self::of(placement, &Hints::default()).ok()
    }

    fn transposed(&self, renaming: &Renaming<'_>) -> Option<Self> {
        Some(Self {
            strides: renaming.perm.iter().map(|&old| self.strides[old]).collect(),
            ..self.clone()
        })
    }
}
