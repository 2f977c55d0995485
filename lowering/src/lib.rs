//! Writes programs in other forms.

pub mod emit;
