//! Effects: what running an operation does besides giving its results.

/// What running an operation does besides giving its results, from the least to the most.
///
/// An operation that nobody declared has [`Effect::Write`]: nothing is known of it, so it stays, once,
/// where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Effect {
    /// Nothing: the results are a function of the operands. It goes when nothing uses it, and equal
    /// ones are one.
    Pure,
    /// It draws at random: each run gives other results. It goes when nothing uses it.
    Random,
    /// It reads what lies outside of the program. It goes when nothing uses it.
    Read,
    /// It writes outside of the program, or may. It stays, and runs in the order of the program.
    Write,
    /// It is ordered by its tokens. It stays, and runs in the order of the program.
    Token,
}

impl Effect {
    /// All of them, from the least to the most.
    pub const ALL: [Effect; 5] = [
        Effect::Pure,
        Effect::Random,
        Effect::Read,
        Effect::Write,
        Effect::Token,
    ];

    /// The word for it in the text form.
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

    /// Whether the operation goes when nothing uses its results.
    #[must_use]
    pub fn may_go(self) -> bool {
        match self {
            Effect::Pure | Effect::Random | Effect::Read => true,
            Effect::Write | Effect::Token => false,
        }
    }

    /// Whether two equal operations on equal operands are one, and one on constants is a constant.
    #[must_use]
    pub fn is_pure(self) -> bool {
        self == Effect::Pure
    }
}
