//! Bytes that depend on unknown sizes.

use optc_ir::size::{Size, SizeTable};
use optc_ir::{StandIns, TensorType};
use optc_layout::{Layout, Notation};
use optc_target::Price;

/// A number of bytes: a polynomial if there is one, else a number at given sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A polynomial for all sizes.
    Exact(Size),
    /// A number that holds only at the sizes at which costs are compared: a layout has no polynomial, or the polynomial
    /// would be too large.
    At(u64),
}

impl Default for Amount {
    fn default() -> Amount {
        Amount::Exact(Size::default())
    }
}

impl From<Size> for Amount {
    fn from(size: Size) -> Amount {
        Amount::Exact(size)
    }
}

/// The polynomial; if there is none, the number `at`, which holds at the sizes at which costs are compared.
pub fn amount(polynomial: Option<Size>, at: u64) -> Amount {
    polynomial.map_or(Amount::At(at), Amount::Exact)
}

impl Amount {
    /// The number at these sizes.
    pub fn at(&self, sizes: &SizeTable) -> u64 {
        match self {
            Amount::Exact(size) => sizes.value(size),
            Amount::At(n) => *n,
        }
    }

    /// The polynomial, if the amount has one.
    #[must_use]
    pub fn polynomial(self) -> Option<Size> {
        match self {
            Amount::Exact(size) => Some(size),
            Amount::At(_) => None,
        }
    }

    /// Adds bytes. A sum without a polynomial becomes a number at `sizes`.
    pub fn add(&mut self, other: &Amount, sizes: &SizeTable) {
        let sum = match (&*self, other) {
            (Amount::Exact(a), Amount::Exact(b)) => a.plus(b),
            (Amount::Exact(_) | Amount::At(_), _) => None,
        };
        *self = match sum {
            Some(sum) => Amount::Exact(sum),
            None => Amount::At(self.at(sizes).saturating_add(other.at(sizes))),
        };
    }

    /// Subtracts bytes.
    #[must_use]
    pub fn minus(&self, other: &Amount, sizes: &SizeTable) -> Amount {
        let difference = match (self, other) {
            (Amount::Exact(a), Amount::Exact(b)) => a.minus(b),
            (Amount::Exact(_) | Amount::At(_), _) => None,
        };
        match difference {
            Some(difference) => Amount::Exact(difference),
            None => Amount::At(self.at(sizes).saturating_sub(other.at(sizes))),
        }
    }

    /// The bytes times a price, fractions of a byte dropped.
    #[must_use]
    pub fn priced(&self, price: Price, sizes: &SizeTable) -> Amount {
        let exact = match self {
            Amount::Exact(size) => {
                let thousandths = size.times(&Size::from(price.factor.thousandths()));
                thousandths.and_then(|n| n.quotient(&Size::from(1000)))
            }
            Amount::At(_) => None,
        };
        exact.map_or_else(|| Amount::At(price.of(self.at(sizes))), Amount::Exact)
    }

    /// The amount in words: `24 bytes`, or with the polynomial in front, `12*B bytes, 24 at B=2`.
    pub fn words(&self, sizes: &SizeTable) -> String {
        match self {
            Amount::Exact(size) if size.as_constant().is_none() => {
                let bound = |name| format!("{name}={}", sizes.get(name));
                let names: Vec<String> = size.names().iter().map(|n| bound(n)).collect();
                format!("{size:#} bytes, {} at {}", self.at(sizes), names.join(", "))
            }
            Amount::Exact(_) | Amount::At(_) => format!("{} bytes", self.at(sizes)),
        }
    }
}

/// Physical bytes of a value of this type, padding included.
pub fn bytes_of(ty: &TensorType, sizes: &SizeTable) -> Amount {
    if let Some(Ok(layout)) = ty.layout() {
        return Amount::Exact(Size::from(layout.bytes()));
    }
    let dims: Vec<Size> = ty.dims.iter().map(optc_ir::Dim::cost).collect();
    let bits = ty.dtype.bits();
    if let Some(bytes) = padded(&ty.notation, &dims).and_then(|n| n.in_bytes(bits)) {
        return Amount::Exact(bytes);
    }
    let shape: Vec<u64> = dims.iter().map(|size| sizes.value(size)).collect();
    match Layout::new(ty.notation.clone(), &shape, bits) {
        Ok(layout) => Amount::At(layout.bytes()),
        Err(_) => {
            let count = shape.iter().fold(1u64, |a, &n| a.saturating_mul(n));
            Amount::At(count.saturating_mul(u64::from(bits)).div_ceil(8))
        }
    }
}

/// The number of positions of a layout, padding included; `None` if it is not a polynomial in the extents and their
/// quotients.
fn padded(notation: &Notation, dims: &[Size]) -> Option<Size> {
    match notation {
        Notation::RowMajor => Size::product(dims),
        Notation::Block(block) => {
            let mut extents = vec![1u64; dims.len()];
            for factor in block.levels().first().into_iter().flatten() {
                let extent = extents.get_mut(factor.dim)?;
                *extent = extent.checked_mul(factor.extent)?;
            }
            // One block of the grid, with the padding of its own levels.
            let one = Layout::new(notation.clone(), &extents, 8).ok()?.positions();
            let blocks = dims.iter().zip(&extents);
            let blocks: Option<Vec<Size>> = blocks
                .map(|(size, &extent)| size.quotient_up(&Size::from(extent)))
                .collect();
            Size::product(&blocks?)?.times(&Size::from(one))
        }
        _ => None,
    }
}

/// Physical bytes of a layout whose shape has stand-ins for unknown sizes.
pub fn layout_bytes(layout: &Layout, numbers: &StandIns, sizes: &SizeTable) -> Amount {
    let open = layout.shape().iter().filter(|&&n| numbers.stands(n));
    let Some(volume) = open.clone().try_fold(1u64, |a, &n| a.checked_mul(n)) else {
        return Amount::At(layout.bytes());
    };
    if volume == 1 {
        return Amount::Exact(Size::from(layout.bytes()));
    }
    let positions = layout.positions();
    let exact = || {
        let extents: Option<Vec<Size>> = open.map(|&n| numbers.size(n)).collect();
        let rest = positions
            .is_multiple_of(volume)
            .then(|| positions / volume)?;
        let all = Size::product(&extents?)?.times(&Size::from(rest))?;
        all.in_bytes(layout.elem_bits())
    };
    exact().map_or_else(
        || {
            // A block along an unknown size.
            let dims: Vec<Size> = layout
                .shape()
                .iter()
                .filter_map(|&n| numbers.size(n))
                .collect();
            let bytes = padded(layout.notation(), &dims);
            let bytes = bytes.and_then(|n| n.in_bytes(layout.elem_bits()));
            let bound = || sizes.value(&Size::product(&dims).unwrap_or_default());
            bytes.map_or_else(|| Amount::At(bound()), Amount::Exact)
        },
        Amount::Exact,
    )
}
