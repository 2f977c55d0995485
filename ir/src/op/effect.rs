//! Effects of operations, besides their results.

/// The effect of running an operation besides its results, in rising order.
///
/// An operation without a declaration has [`Effect::Write`]: nothing is known about it, so it is neither removed, nor
/// repeated, nor moved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Effect {
    /// None: the results are a function of the operands. A dead operation is removed, and equal operations are merged
    /// (CSE).
    Pure,
    /// The operation draws random numbers: each run gives other results. It is removed if dead.
    Random,
    /// The operation reads state outside of the program. It is removed if dead.
    Read,
    /// The operation writes outside of the program, or may do so. It stays, and runs in program order.
    Write,
    /// The operation is ordered by its tokens. It stays, and runs in program order.
    Token,
}

impl Effect {
    /// All effects, in rising order.
    pub const ALL: [Effect; 5] = [
        Effect::Pure,
        Effect::Random,
        Effect::Read,
        Effect::Write,
        Effect::Token,
    ];

    /// The word for the effect in the text form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Effect::Pure => "pure",
            Effect::Random => "random",
            Effect::Read => "read",
            Effect::Write => "write",
            Effect::Token => "token",
        }
    }

    /// The effect of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Effect> {
        Effect::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Returns whether the operation may be removed if its results are unused.
    #[must_use]
    pub fn may_go(self) -> bool {
        match self {
            Effect::Pure | Effect::Random | Effect::Read => true,
            Effect::Write | Effect::Token => false,
        }
    }

    /// Returns whether two equal operations with equal operands may be merged, and one with constant operands may be
    /// folded.
    #[must_use]
    pub fn is_pure(self) -> bool {
        self == Effect::Pure
    }
}
