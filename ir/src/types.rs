//! Element types, dimensions and tensor types.

use crate::mini_float::MiniFloat;
use crate::size::{NAMELESS, Size};
use optc_layout::{Layout, LayoutError, Notation};
use std::fmt;
use std::sync::Arc;

/// The interpretation of the top bit of an integer type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sign {
    /// `i8`: MLIR's signless integers; arithmetic treats them as signed. `i1` is bool.
    Signless,
    /// `si8`
    Signed,
    /// `ui8`
    Unsigned,
}

/// The type of one element.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// A float of at most 8 bits; it is stored, moved and converted, but no operation computes with it.
    Mini(MiniFloat),
    /// Two binary32, the real part first; it is stored and moved, but no operation computes with it.
    Complex64,
    /// Two binary64, the real part first; it is stored and moved, but no operation computes with it.
    Complex128,
    /// An integer of 1, 2, 4, 8, 16, 32 or 64 bits; `i1` (signless) is bool.
    Int {
        /// The width in bits.
        bits: u8,
        /// The signedness.
        sign: Sign,
    },
}

impl DType {
    /// Bool, `i1`.
    pub const BOOL: DType = DType::Int {
        bits: 1,
        sign: Sign::Signless,
    };
    /// 64-bit signed integers, `si64`.
    pub const SI64: DType = DType::Int {
        bits: 64,
        sign: Sign::Signed,
    };
    /// 32-bit signed integers, `si32`.
    pub const SI32: DType = DType::Int {
        bits: 32,
        sign: Sign::Signed,
    };
    /// 8-bit signed integers, `si8`.
    pub const SI8: DType = DType::Int {
        bits: 8,
        sign: Sign::Signed,
    };
    /// 8-bit unsigned integers, `ui8`.
    pub const UI8: DType = DType::Int {
        bits: 8,
        sign: Sign::Unsigned,
    };

    /// The width of one element in memory, in bits: `i1` takes a byte (8 bits).
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            DType::Complex128 => 128,
            DType::F64 | DType::Complex64 => 64,
            DType::F32 => 32,
            DType::F16 | DType::BF16 => 16,
            DType::Mini(float) => float.bits(),
            DType::Int { bits: 1, .. } => 8,
            DType::Int { bits, .. } => u32::from(bits),
        }
    }

    /// Returns whether this is a floating-point type that operations compute with.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
    }

    /// Returns whether this is an integer type, including bool.
    #[must_use]
    pub fn is_int(self) -> bool {
        matches!(self, DType::Int { .. })
    }

    /// Returns whether operations compute with this type. Other types are bits that are only stored, moved or
    /// converted.
    #[must_use]
    pub fn computes(self) -> bool {
        self.is_float() || self.is_int()
    }

    /// The float type of both parts of a complex number; `None` for any other type.
    #[must_use]
    pub fn complex_part(self) -> Option<DType> {
        match self {
            DType::Complex64 => Some(DType::F32),
            DType::Complex128 => Some(DType::F64),
            DType::F64 | DType::F32 | DType::F16 | DType::BF16 => None,
            DType::Mini(_) | DType::Int { .. } => None,
        }
    }

    /// Returns whether this is bool.
    #[must_use]
    pub fn is_bool(self) -> bool {
        self == DType::BOOL
    }

    /// Returns whether arithmetic on this type is signed (floats, signed and signless integers).
    #[must_use]
    pub fn is_signed(self) -> bool {
        match self {
            DType::F64 | DType::F32 | DType::F16 | DType::BF16 => true,
            DType::Int { sign, .. } => sign != Sign::Unsigned && !self.is_bool(),
            DType::Mini(_) | DType::Complex64 | DType::Complex128 => false,
        }
    }

    /// The type with this MLIR name, such as `f32`, `si8`, `i1`, `f8E4M3FN`, `complex<f32>`. A small float may also
    /// have its name in the dialect, `!hbir.f4E2M1FN`.
    #[must_use]
    pub fn parse(text: &str) -> Option<DType> {
        let int = |digits: &str, sign| {
            let bits: u8 = digits.parse().ok()?;
            let known = matches!(bits, 1 | 2 | 4 | 8 | 16 | 32 | 64) && !digits.starts_with('0');
            known.then_some(DType::Int { bits, sign })
        };
        match text {
            "f64" => Some(DType::F64),
            "f32" => Some(DType::F32),
            "f16" => Some(DType::F16),
            "bf16" => Some(DType::BF16),
            "complex<f32>" => Some(DType::Complex64),
            "complex<f64>" => Some(DType::Complex128),
            _ => {
                let name = text.strip_prefix("!hbir.").unwrap_or(text);
                if let Some(mini) = MiniFloat::ALL.into_iter().find(|m| m.name() == name) {
                    Some(DType::Mini(mini))
                } else if let Some(d) = text.strip_prefix("si") {
                    int(d, Sign::Signed)
                } else if let Some(d) = text.strip_prefix("ui") {
                    int(d, Sign::Unsigned)
                } else if let Some(d) = text.strip_prefix('i') {
                    int(d, Sign::Signless)
                } else {
                    None
                }
            }
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DType::F64 => f.write_str("f64"),
            DType::F32 => f.write_str("f32"),
            DType::F16 => f.write_str("f16"),
            DType::BF16 => f.write_str("bf16"),
            DType::Mini(float) => f.write_str(float.text()),
            DType::Complex64 => f.write_str("complex<f32>"),
            DType::Complex128 => f.write_str("complex<f64>"),
            DType::Int {
                bits,
                sign: Sign::Signless,
            } => write!(f, "i{bits}"),
            DType::Int {
                bits,
                sign: Sign::Signed,
            } => write!(f, "si{bits}"),
            DType::Int {
                bits,
                sign: Sign::Unsigned,
            } => write!(f, "ui{bits}"),
        }
    }
}

/// The extent of one dimension.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dim {
    /// A known number of elements.
    Fixed(u64),
    /// An unknown size with a name, or an expression of names such as `2*B` or `S+1`. The text is in the canonical
    /// spelling of [`Size`], so equal sizes have equal texts. It is made by [`Dim::named`] and [`Dim::of_size`].
    Symbol(Arc<str>),
    /// An unknown size that is not known to equal any other size.
    Unknown,
}

impl Dim {
    /// The number, if it is known.
    #[must_use]
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Dim::Fixed(n) => Some(*n),
            Dim::Symbol(_) | Dim::Unknown => None,
        }
    }
    /// The size with this name or expression; the empty text gives [`Dim::Unknown`].
    #[must_use]
    pub fn named(text: &str) -> Dim {
        if text.is_empty() {
            return Dim::Unknown;
        }
        Dim::Symbol(Arc::from(Size::of_text(text).to_text()))
    }
    /// The extent for a size; [`Dim::Unknown`] if it is negative, or depends on a size without a name.
    #[must_use]
    pub fn of_size(size: &Size) -> Dim {
        match size.as_constant() {
            Some(n) => u64::try_from(n).map_or(Dim::Unknown, Dim::Fixed),
            None if size.names().iter().any(|n| &**n == NAMELESS) => Dim::Unknown,
            None => Dim::Symbol(Arc::from(size.to_text())),
        }
    }
    /// The size as a polynomial; `None` for [`Dim::Unknown`].
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        match self {
            Dim::Fixed(n) => Some(Size::from(*n)),
            Dim::Symbol(text) => Some(Size::of_text(text)),
            Dim::Unknown => None,
        }
    }
    /// The size as a polynomial, with the name [`NAMELESS`] for [`Dim::Unknown`].
    #[must_use]
    pub fn cost(&self) -> Size {
        self.size().unwrap_or_else(|| Size::name(NAMELESS))
    }
    /// Returns whether the two sizes provably differ, given that names are at least 1.
    #[must_use]
    pub fn differs(&self, other: &Dim) -> bool {
        if self == other {
            return false;
        }
        let difference = || self.size()?.minus(&other.size()?);
        difference().is_some_and(|d| d.is_nonzero())
    }
    /// Returns whether both sizes are provably equal.
    #[must_use]
    pub fn same(&self, other: &Dim) -> bool {
        !matches!(self, Dim::Unknown) && self == other
    }
    /// Returns whether the size is known to be 1.
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Dim::Fixed(1)
    }
}

impl From<u64> for Dim {
    fn from(n: u64) -> Self {
        Dim::Fixed(n)
    }
}

impl fmt::Display for Dim {
    /// The form in messages: the number, the symbol's name, or `?`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(n) => write!(f, "{n}"),
            Dim::Symbol(s) => f.write_str(s),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// A tensor type: dimensions, element type and layout.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// The extents, outermost first.
    pub dims: Vec<Dim>,
    /// The element type.
    pub dtype: DType,
    /// The layout's notation; [`Notation::RowMajor`] prints as no encoding.
    pub notation: Notation,
}

impl TensorType {
    /// A row-major type of known extents.
    #[must_use]
    pub fn fixed(shape: &[u64], dtype: DType) -> Self {
        let dims = shape.iter().map(|&n| Dim::Fixed(n)).collect();
        Self {
            dims,
            dtype,
            notation: Notation::RowMajor,
        }
    }
    /// A row-major type.
    #[must_use]
    pub fn new(dims: Vec<Dim>, dtype: DType) -> Self {
        Self {
            dims,
            dtype,
            notation: Notation::RowMajor,
        }
    }
    /// The number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
    /// All extents, if all are known.
    #[must_use]
    pub fn shape(&self) -> Option<Vec<u64>> {
        self.dims.iter().map(Dim::fixed).collect()
    }
    /// The extents, with every unknown size replaced by the result of `bind`.
    #[must_use]
    pub fn shape_with(&self, bind: &dyn Fn(&Dim) -> u64) -> Vec<u64> {
        self.dims
            .iter()
            .map(|d| d.fixed().unwrap_or_else(|| bind(d)))
            .collect()
    }
    /// The number of elements, if it is known and less than 2^64.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        self.shape()?
            .iter()
            .try_fold(1u64, |a, &d| a.checked_mul(d))
    }
    /// The bytes of all elements without padding, as a polynomial in the unknown sizes. If the polynomial exceeds its
    /// limits, the result is the largest number.
    #[must_use]
    pub fn logical_bytes(&self) -> Size {
        if let Some(bytes) = self.known_bytes() {
            return bytes.into();
        }
        let sizes: Vec<Size> = self.dims.iter().map(Dim::cost).collect();
        let total = Size::product(&sizes).and_then(|n| n.in_bytes(self.dtype.bits()));
        total.unwrap_or_else(|| Size::constant(i128::MAX))
    }

    /// [`TensorType::logical_bytes`] for known sizes, without arithmetic on polynomials.
    fn known_bytes(&self) -> Option<u64> {
        let bits = self.elements()?.checked_mul(u64::from(self.dtype.bits()))?;
        Some(bits.div_ceil(8))
    }

    /// The same type without a layout.
    #[must_use]
    pub fn without_layout(&self) -> Self {
        Self {
            notation: Notation::RowMajor,
            ..self.clone()
        }
    }
    /// The same type with this layout notation.
    #[must_use]
    pub fn with_notation(&self, notation: Notation) -> Self {
        Self {
            notation,
            ..self.clone()
        }
    }
    /// The layout function; `None` when a dimension is unknown.
    ///
    /// # Errors
    /// The notation does not fit the shape.
    pub fn layout(&self) -> Option<Result<Layout, LayoutError>> {
        let shape = self.shape()?;
        Some(Layout::new(
            self.notation.clone(),
            &shape,
            self.dtype.bits(),
        ))
    }
}

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A tensor.
    Tensor(Arc<TensorType>),
    /// A bare element type, as in attributes.
    Scalar(DType),
    /// Any other type, kept as text (`none`, `index`, `!dialect.type`, a function type).
    Other(Arc<str>),
}

impl Type {
    /// A row-major tensor of known extents.
    #[must_use]
    pub fn tensor(shape: &[u64], dtype: DType) -> Type {
        Type::Tensor(Arc::new(TensorType::fixed(shape, dtype)))
    }
    /// The tensor type, if it is one.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            Type::Scalar(_) | Type::Other(_) => None,
        }
    }
}

impl From<TensorType> for Type {
    fn from(t: TensorType) -> Self {
        Type::Tensor(Arc::new(t))
    }
}
