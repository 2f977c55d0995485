//! The attributes of an operation as a typed struct, declared once.
//!
//! [`attributes!`](crate::attributes) makes of one list of fields the struct, what reads it from an attribute
//! dictionary and what writes it there; [`words!`](crate::words) makes an enumeration that is written as a word.

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
    /// What its value is: "an integer".
    pub kind: &'static str,
    /// What stands for it when it is absent, as source text; `None` if it must be there or may be
    /// absent without a value to stand for it.
    pub default: Option<&'static str>,
    /// Whether it must be there.
    pub required: bool,
    /// What it means.
    pub doc: &'static str,
}

/// The attributes of an operation.
///
/// Made by [`attributes!`](crate::attributes).
pub trait Attributes: Sized {
    /// Every attribute that the operation knows, in the order of the struct.
    const FIELDS: &'static [Field];

    /// The attributes of an operation, with the defaults of those that are absent. Constraints that need
    /// the operands' types are the shape rule's.
    ///
    /// # Errors
    /// One is missing (`attribute-missing`) or of the wrong kind (`attribute-kind`, or the code that the
    /// field states).
    fn read(op: &OpRef<'_>) -> Result<Self, OpError>;

    /// The dictionary that reads back as this: everything but optional attributes that are absent.
    fn write(&self) -> AttrDict;
}

/// A value that an attribute can be.
pub trait AttrValue: Sized {
    /// What it is, in a message: "an integer".
    const KIND: &'static str;
    /// The value, if the attribute is one.
    fn from_attr(attr: &Attr) -> Option<Self>;
    /// The attribute.
    fn to_attr(&self) -> Attr;
}

/// The value of a field, which may be optional.
pub trait FieldValue: Sized {
    /// What it is, in a message.
    const KIND: &'static str;
    /// Whether it may be absent without a default.
    const OPTIONAL: bool;
    /// The value of an attribute; `None` if it is of the wrong kind.
    fn load(attr: &Attr) -> Option<Self>;
    /// The value of an absent attribute without a default; `None` if it must be there.
    fn absent() -> Option<Self>;
    /// The attribute, if there is one to write.
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

/// Makes values fields that must be there unless they have a default.
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

/// A truth value; the integers 0 and 1, and `unit` for true, are read too.
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

/// Any attribute, as it is.
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

/// An attribute that is missing.
#[must_use]
pub fn missing(op: &OpRef<'_>, name: &str) -> OpError {
    let message = format!("{} needs the attribute `{name}`", op.name);
    OpError::new(codes::ATTRIBUTE_MISSING, message)
}

/// Reads one field; used by [`attributes!`](crate::attributes).
///
/// # Errors
/// It is missing and has no default, or is of the wrong kind.
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
/// A field with `= default` may be absent; one of type `Option` may be absent without a default; any
/// other must be there. `[CODE]` behind the type is the code of a word that is none of the wanted.
/// A field is stored under its own name.
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
            /// Every one.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word for it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $first,)+
                }
            }

            /// The one of this word.
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
