//! Which operations ONNX has a form of.

/// The operations that can be written as ONNX operators, sorted by name; some uses of these cannot all the same.
pub const FORMS: &[&str] = &[];
