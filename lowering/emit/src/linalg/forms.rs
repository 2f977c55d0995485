//! The operations that have a form here.

pub const FORMS: &[&str] = &[];
