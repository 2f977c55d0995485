//! Part of optc.
