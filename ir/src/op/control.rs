//! Operations that run functions of the module.

use std::sync::Arc;

/// Which functions an operation runs, and when: what an interpreter needs to run an operation that computes nothing by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// While `condition` of the values gives true, `body` of the values gives the next ones. The operands are the first values, the
    /// results the last ones.
    Loop {
        /// The function that tells whether the loop goes on.
        condition: Arc<str>,
        /// The function that is run again and again.
        body: Arc<str>,
    },
    /// One of several functions gives the results. The operands are a scalar that tells which one, then those of each function in
    /// turn. A truth value takes the first function where it is true, else the second; a number counts from 0, and one that is no
    /// function's takes the last.
    Branch(Vec<Arc<str>>),
}

impl Control {
    /// The functions, in order.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<str>> {
        let (two, any) = match self {
            Control::Loop { condition, body } => ([Some(condition), Some(body)], &[][..]),
            Control::Branch(functions) => ([None, None], functions.as_slice()),
        };
        two.into_iter().flatten().chain(any)
    }
}
