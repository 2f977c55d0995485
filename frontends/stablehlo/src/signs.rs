//! Division of integers that may be negative. StableHLO's division rounds toward zero, and programs correct it to one
//! that rounds down.
//!
//! The corrected quotient is the quotient less one if the signs differ and the remainder is not 0. The corrected
//! remainder is the remainder plus the divisor if the remainder is negative. Both are polynomials of sizes. The
//! intermediate results are not; they are tracked by their kind and division.

use crate::attrs::Attributes as _;
use optc_ir::Size;
use optc_mlir_syntax::{Op, Use};

/// The kind of an intermediate result, for a dividend and a divisor of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The quotient, rounded toward zero.
    Quotient,
    /// The remainder of that division.
    Rest,
    /// The quotient less one.
    QuotientBelow,
    /// The remainder plus the divisor.
    RestAbove,
    /// The sign of the dividend.
    Sign,
    /// True if the dividend is at most 0.
    NotAbove,
    /// True if the remainder is not 0.
    Left,
    /// True if the remainder is negative.
    Negative,
}

/// An intermediate result between the two kinds of division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    kind: Kind,
    dividend: Size,
    /// The divisor; `None` for a sign, for which it does not matter.
    divisor: Option<Size>,
}

impl Division {
    fn of(kind: Kind, dividend: &Size, divisor: &Size) -> Option<Division> {
        divisor.is_at_least(1).then(|| Division {
            kind,
            dividend: dividend.clone(),
            divisor: Some(divisor.clone()),
        })
    }

    fn as_kind(&self, kind: Kind) -> Option<Division> {
        Some(Division {
            kind,
            ..self.clone()
        })
    }

    /// Returns whether both belong to the same division.
    fn same(&self, other: &Division) -> bool {
        let divisors = [&self.divisor, &other.divisor];
        let both = divisors.iter().all(|divisor| divisor.is_some());
        self.dividend == other.dividend && (!both || self.divisor == other.divisor)
    }
}

/// Known facts about the operands of an operation.
pub(crate) struct Operands<'k, 'a> {
    /// The known number of a value.
    pub(crate) number: &'k dyn Fn(&Use<'a>) -> Option<&'k Size>,
    pub(crate) division: &'k dyn Fn(&Use<'a>) -> Option<&'k Division>,
}

impl<'a> Operands<'_, 'a> {
    /// The intermediate result that an operation computes; `None` if it has a polynomial of its own.
    pub(crate) fn divided(&self, op: &Op<'a>) -> Option<Division> {
        let &[a, ref rest @ ..] = &op.operands[..] else {
            return None;
        };
        let (made, number) = ((self.division)(&a), |at: usize| {
            (self.number)(rest.get(at)?)
        });
        let is = |kind: Kind| made.filter(|made| made.kind == kind);
        match op.name {
            "stablehlo.divide" => Division::of(Kind::Quotient, (self.number)(&a)?, number(0)?),
            "stablehlo.remainder" => Division::of(Kind::Rest, (self.number)(&a)?, number(0)?),
            "stablehlo.sign" => Some(Division {
                kind: Kind::Sign,
                dividend: (self.number)(&a)?.clone(),
                divisor: None,
            }),
            "stablehlo.compare" => {
                let with = number(0)?.as_constant()?;
                match (op.direction()?, with) {
                    ("NE", 1) => is(Kind::Sign)?.as_kind(Kind::NotAbove),
                    ("NE", 0) => match is(Kind::Rest) {
                        Some(made) => made.as_kind(Kind::Left),
                        None => is(Kind::Negative).cloned(),
                    },
                    ("LT", 0) => is(Kind::Rest)?.as_kind(Kind::Negative),
                    _ => None,
                }
            }
            "stablehlo.and" => {
                let (a, b) = (made?, (self.division)(rest.first()?)?);
                let left = [a, b].into_iter().find(|d| d.kind == Kind::Left)?;
                let sign = [a, b]
                    .into_iter()
                    .find(|d| matches!(d.kind, Kind::NotAbove | Kind::Negative))?;
                sign.same(left).then(|| left.as_kind(Kind::Negative))?
            }
            "stablehlo.subtract" => {
                let one = number(0)?.as_constant() == Some(1);
                is(Kind::Quotient)
                    .filter(|_| one)?
                    .as_kind(Kind::QuotientBelow)
            }
            "stablehlo.add" => {
                let sum = [(a, *rest.first()?), (*rest.first()?, a)];
                let above = |(made, number): (Use<'a>, Use<'a>)| {
                    let made = (self.division)(&made).filter(|made| made.kind == Kind::Rest)?;
                    let fits = made.divisor.as_ref() == Some((self.number)(&number)?);
                    made.as_kind(Kind::RestAbove).filter(|_| fits)
                };
                sum.into_iter().find_map(above)
            }
            _ => None,
        }
    }

    /// The number that a selection between both divisions is.
    pub(crate) fn chosen(&self, op: &Op<'a>) -> Option<Size> {
        let [condition, yes, no] = &op.operands[..] else {
            return None;
        };
        let [condition, yes, no] = [condition, yes, no].map(|used| (self.division)(used));
        let (condition, yes, no) = (condition?, yes?, no?);
        let (a, b) = (&no.dividend, no.divisor.as_ref()?);
        if condition.kind != Kind::Negative || !condition.same(no) || !yes.same(no) {
            return None;
        }
        match (yes.kind, no.kind) {
            (Kind::QuotientBelow, Kind::Quotient) => a.quotient(b),
            (Kind::RestAbove, Kind::Rest) => a.remainder(b),
            _ => None,
        }
    }
}
