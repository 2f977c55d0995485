//! Why an array of a file of NumPy cannot be read.

use thiserror::Error;

/// The defect of an array.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ArrayError {
    /// The elements are of a type that is not read.
    #[error("elements of type '{0}' are not read")]
    Unread(String),
    /// The elements are big-endian.
    #[error("elements of type '{0}' are big-endian")]
    BigEndian(String),
    /// The elements are records of several fields.
    #[error("records are not read")]
    Records,
    /// The array has too many elements.
    #[error("{0}")]
    TooLarge(String),
    /// There are bytes behind the elements.
    #[error("there is more data than the {wanted} bytes of shape {shape}")]
    Long {
        /// The bytes of the elements.
        wanted: u64,
        /// The shape.
        shape: String,
    },
    /// Elements are missing.
    #[error("it has {found} bytes of data, shape {shape} needs {wanted}")]
    Short {
        /// The bytes that there are.
        found: u64,
        /// The bytes of the elements.
        wanted: u64,
        /// The shape.
        shape: String,
    },
    /// The magic number is another one.
    #[error("it is no .npy array")]
    NoArray,
    /// The file ends in the header.
    #[error("its header ends too early")]
    ShortHeader,
    /// The version of the format is unknown.
    #[error("version {0} of the format is not read")]
    Version(u8),
    /// The header is too long.
    #[error("its header has {0} bytes")]
    LongHeader(usize),
    /// The header is not UTF-8.
    #[error("its header is no text")]
    NoText,
    /// The header is not of the expected form.
    #[error("cannot read the header {0}")]
    Header(String),
    /// The elements cannot be read.
    #[error("{0}")]
    Body(String),
    /// The kind of the elements does not represent the element type.
    #[error("its elements are {found}, wanted {wanted}")]
    Kind {
        /// The kind in the file.
        found: String,
        /// The kinds that represent the element type.
        wanted: String,
    },
    /// An element does not fit its type.
    #[error("the element {element} is out of the range of {dtype}")]
    Range {
        /// The byte.
        element: u8,
        /// The element type.
        dtype: String,
    },
    /// An element has more bits than its type.
    #[error("the element {element} has more bits than {dtype}")]
    Bits {
        /// The byte.
        element: u8,
        /// The element type.
        dtype: String,
    },
    /// The function has no such argument.
    #[error("no argument has this name; they are {0}")]
    NoArgument(String),
    /// The argument is no tensor.
    #[error("the argument is of type {0}")]
    NoTensor(String),
    /// The archive has two arrays of this name.
    #[error("it is there twice")]
    Twice,
}
