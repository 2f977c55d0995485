//! The attributes of an operation as a typed struct, declared once.
//!
//! From one list of fields, [`attributes!`](crate::attributes) makes the struct, its reader and its writer for an
//! attribute dictionary. [`words!`](crate::words) makes an enumeration that is written as a word.

use crate::attr::{Attr, AttrDict};
use crate::codes;
use crate::op::error::OpError;
use crate::op::op_ref::OpRef;
use crate::types::{DType, Type};
use std::sync::Arc;

/// One attribute of an operation, for documentation and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in the dictionary.
    pub name: &'static str,
    /// The kind of its value, for messages: "an integer".
    pub kind: &'static str,
    /// The default value as source text. `None` if there is no default: the attribute is required, or it may be absent.
    pub default: Option<&'static str>,
    /// True if the attribute is required.
    pub required: bool,
    /// The meaning.
    pub doc: &'static str,
}

/// The attributes of an operation, as a struct made by [`attributes!`](crate::attributes).
pub trait Attributes: Sized {
    /// Every attribute of the operation, in the order of the struct.
    const FIELDS: &'static [Field];

    /// Reads the attributes of an operation and fills in defaults. Constraints that need the types of the operands are
    /// checked by the shape rule instead.
    ///
    /// # Errors
    /// An attribute is missing (`attribute-missing`) or of the wrong kind (`attribute-kind`, or the code that the field
    /// states).
    fn read(op: &OpRef<'_>) -> Result<Self, OpError>;

    /// The dictionary that reads back as this struct. Optional attributes that are absent are left out.
    fn write(&self) -> AttrDict;
}

/// A Rust type that an attribute can hold.
pub trait AttrValue: Sized {
    /// The kind of value, for messages: "an integer".
    const KIND: &'static str;
    /// The value, if the attribute is of this kind.
    fn from_attr(attr: &Attr) -> Option<Self>;
    /// The attribute.
    fn to_attr(&self) -> Attr;
}

/// The type of a field, which may be optional.
pub trait FieldValue: Sized {
    /// The kind of value, for messages.
    const KIND: &'static str;
    /// True if the attribute may be absent without a default.
    const OPTIONAL: bool;
    /// The value of an attribute; `None` if it is of the wrong kind.
    fn load(attr: &Attr) -> Option<Self>;
    /// The value of an absent attribute without a default; `None` if the attribute is required.
    fn absent() -> Option<Self>;
    /// The attribute to write, if any.
    fn store(&self) -> Option<Attr>;
}

impl<T: AttrValue> FieldValue for Option<T> {
    const KIND: &'static str = T::KIND;
    const OPTIONAL: bool = true;
    fn load(attr: &Attr) -> Option<Self> {
        T::from_attr(attr).map(Some)
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn store(&self) -> Option<Attr> {
        self.as_ref().map(T::to_attr)
    }
}

/// Makes these types usable as fields. Such a field is required unless it has a default.
#[macro_export]
macro_rules! field_values {
    ($($ty:ty),* $(,)?) => {$(
        impl $crate::op::FieldValue for $ty {
            const KIND: &'static str = <$ty as $crate::op::AttrValue>::KIND;
            const OPTIONAL: bool = false;
            fn load(attr: &$crate::Attr) -> Option<Self> {
                <$ty as $crate::op::AttrValue>::from_attr(attr)
            }
            fn absent() -> Option<Self> {
                None
            }
            fn store(&self) -> Option<$crate::Attr> {
                Some($crate::op::AttrValue::to_attr(self))
            }
        }
    )*};
}

impl AttrValue for i64 {
    const KIND: &'static str = "an integer";
    fn from_attr(attr: &Attr) -> Option<Self> {
        attr.as_int()
    }
    fn to_attr(&self) -> Attr {
        Attr::int(*self)
    }
}

/// A truth value. The integers 0 and 1 are accepted too, and `unit` means true.
impl AttrValue for bool {
    const KIND: &'static str = "true or false";
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Unit => Some(true),
            Attr::Bool(b) => Some(*b),
            Attr::Int(n @ (0 | 1), _) => Some(*n == 1),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::Bool(*self)
    }
}

impl AttrValue for f64 {
    const KIND: &'static str = "a number";
    fn from_attr(attr: &Attr) -> Option<Self> {
        attr.as_float()
    }
    fn to_attr(&self) -> Attr {
        Attr::float(*self)
    }
}

impl AttrValue for Vec<i64> {
    const KIND: &'static str = "a list of integers";
    fn from_attr(attr: &Attr) -> Option<Self> {
        attr.as_ints()
    }
    fn to_attr(&self) -> Attr {
        Attr::ints(self)
    }
}

impl AttrValue for Vec<f64> {
    const KIND: &'static str = "a list of numbers";
    fn from_attr(attr: &Attr) -> Option<Self> {
        attr.as_array()?.iter().map(Attr::as_float).collect()
    }
    fn to_attr(&self) -> Attr {
        Attr::Array(self.iter().map(|&x| Attr::float(x)).collect())
    }
}

impl AttrValue for Arc<str> {
    const KIND: &'static str = "a string";
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Str(text) => Some(text.clone()),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::Str(self.clone())
    }
}

impl AttrValue for DType {
    const KIND: &'static str = "an element type";
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Type(Type::Scalar(dtype)) => Some(*dtype),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::Type(Type::Scalar(*self))
    }
}

/// Any attribute, unchanged.
impl AttrValue for Attr {
    const KIND: &'static str = "an attribute";
    fn from_attr(attr: &Attr) -> Option<Self> {
        Some(attr.clone())
    }
    fn to_attr(&self) -> Attr {
        self.clone()
    }
}

/// A list of any attributes.
impl AttrValue for Vec<Attr> {
    const KIND: &'static str = "a list";
    fn from_attr(attr: &Attr) -> Option<Self> {
        attr.as_array().map(<[Attr]>::to_vec)
    }
    fn to_attr(&self) -> Attr {
        Attr::Array(self.clone())
    }
}

field_values!(
    i64,
    bool,
    f64,
    Vec<i64>,
    Vec<f64>,
    Arc<str>,
    DType,
    Attr,
    Vec<Attr>,
);

/// The error for a missing attribute.
#[must_use]
pub fn missing(op: &OpRef<'_>, name: &str) -> OpError {
    let message = format!("{} needs the attribute `{name}`", op.name);
    OpError::new(codes::ATTRIBUTE_MISSING, message)
}

/// Reads one field; used by [`attributes!`](crate::attributes).
///
/// # Errors
/// The attribute is missing and has no default, or it is of the wrong kind.
pub fn read_field<T: FieldValue>(
    op: &OpRef<'_>,
    field: &Field,
    code: Option<crate::Code>,
    default: Option<T>,
) -> Result<T, OpError> {
    let Some(attr) = op.props.get(field.name) else {
        let absent = default.or_else(T::absent);
        return absent.ok_or_else(|| missing(op, field.name));
    };
    T::load(attr).ok_or_else(|| {
        let name = field.name;
        match (code, attr.as_str()) {
            (Some(code), Some(found)) => {
                let message = format!("{} has {name} = \"{found}\", wanted {}", op.name, T::KIND);
                OpError::new(code, message)
            }
            _ => OpError::new(codes::ATTRIBUTE_KIND, format!("`{name}` wants {}", T::KIND)),
        }
    })
}

/// Declares the attributes of an operation: a struct with one public field each, and its
/// [`Attributes`](crate::op::Attributes).
///
/// A field with `= default` may be absent; one of type `Option` may be absent without a default; any other is required.
/// `[CODE]` after the type is the code that reports a word that is not among the enumeration's words. The attribute has
/// the name of its field.
///
/// ```
/// optc_ir::attributes! {
///     /// A softmax.
///     pub struct Softmax {
///         /// The axis along which the results add up to 1; negative ones count from the end.
///         axis: i64 = -1,
///     }
/// }
/// assert_eq!(Softmax { axis: 2 }.axis, 2);
/// ```
#[macro_export]
macro_rules! attributes {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident : $ty:ty $([$code:expr])? $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                pub $field: $ty,
            )*
        }

        impl $crate::op::Attributes for $name {
            const FIELDS: &'static [$crate::op::Field] = &[$(
                $crate::op::Field {
                    name: stringify!($field),
                    kind: <$ty as $crate::op::FieldValue>::KIND,
                    default: $crate::attributes!(@text $($default)?),
                    required: !<$ty as $crate::op::FieldValue>::OPTIONAL
                        && $crate::attributes!(@text $($default)?).is_none(),
                    doc: concat!($($doc),*),
                },
            )*];

            #[allow(
                unused_variables,
                unused_mut,
                reason = "an operation may have no attributes"
            )]
            fn read(op: &$crate::OpRef<'_>) -> Result<Self, $crate::OpError> {
                let mut fields = Self::FIELDS.iter();
                Ok(Self {
                    $($field: {
                        let code: &[$crate::Code] = &[$($code)?];
                        let default: Option<$ty> = $crate::attributes!(@default $($default)?);
                        match fields.next() {
                            Some(field) => $crate::op::read_field(op, field, code.first().copied(), default)?,
                            None => return Err($crate::op::missing(op, stringify!($field))),
                        }
                    },)*
                })
            }

            #[allow(unused_mut, reason = "an operation may have no attributes")]
            fn write(&self) -> $crate::AttrDict {
                let mut dict = $crate::AttrDict::new();
                $(
                    if let Some(attr) = $crate::op::FieldValue::store(&self.$field) {
                        dict.set(stringify!($field), attr);
                    }
                )*
                dict
            }
        }
    };
    (@text) => { None::<&'static str> };
    (@text $default:expr) => { Some(stringify!($default)) };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
}

/// Declares an enumeration that an attribute writes as a word.
///
/// ```
/// optc_ir::words! {
///     /// How many.
///     pub enum Count {
///         /// One.
///         One = "one",
///         /// More.
///         Many = "many",
///     }
/// }
/// assert_eq!(Count::Many.word(), "many");
/// assert_eq!(Count::of_word("one"), Some(Count::One));
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident = $first:literal
            ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$doc])* $variant, )+
        }

        impl $name {
            /// All variants.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word of the variant.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $first,)+
                }
            }

            /// The variant with this word.
            #[must_use]
            pub fn of_word(word: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }
        }

        impl $crate::op::AttrValue for $name {
            const KIND: &'static str = $crate::words!(@list $($first),+);
            fn from_attr(attr: &$crate::Attr) -> Option<Self> {
                $name::of_word(attr.as_str()?)
            }
            fn to_attr(&self) -> $crate::Attr {
                $crate::Attr::str(self.word())
            }
        }

        $crate::field_values!($name);
    };
    (@list $first:literal $(, $rest:literal)*) => {
        concat!("one of ", $first $(, ", ", $rest)*)
    };
}
