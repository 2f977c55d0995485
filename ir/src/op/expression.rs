//! Expressions of element-wise operations: one element of each operand gives one element of the result.
//!
//! An operation states its expression once, beside its attributes. The reference semantics, the writers of formats and
//! the executors each are an [`ExprBuilder`]: they evaluate, write or compile it.
//!
//! ```
//! use optc_ir::op::Expr;
//!
//! // x * sigmoid(g)
//! let gate = Expr::A * Expr::B.sigmoid();
//! assert_eq!(gate.operands(), 2);
//! ```

use crate::types::DType;
use std::ops;

crate::words! {
    /// A comparison of two numbers.
    pub enum Direction {
        /// The numbers are equal.
        Eq = "eq",
        /// The numbers differ, or one is NaN.
        Ne = "ne",
        /// The first number is less.
        Lt = "lt",
        /// The first number is less or equal.
        Le = "le",
        /// The first number is greater.
        Gt = "gt",
        /// The first number is greater or equal.
        Ge = "ge",
    }
}

/// A number computed from one element of each operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The element of an operand.
    Operand(usize),
    /// A number; its type is that of the numbers that it is combined with.
    Number(f64),
    /// A function of one number.
    Unary(Unary, Box<Expr>),
    /// A function of two numbers of one type.
    Binary(Binary, Box<[Expr; 2]>),
    /// The comparison of two numbers of one type, a truth value.
    Compare(Direction, Box<[Expr; 2]>),
    /// The second number if the first, a truth value, is true; else the third.
    Select(Box<[Expr; 3]>),
    /// The number in another type: floats are truncated and saturate, NaN is 0.
    Cast(DType, Box<Expr>),
}

/// Functions: the variant, the method of [`Expr`] that makes it, and its documentation.
macro_rules! functions {
    ($($variant:ident $method:ident $doc:literal;)*) => {
        /// A function of one number. Floats have all of them; integers have `Neg`, `Abs`, `Sign` and `Not`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Unary {
            $(#[doc = $doc] $variant,)*
        }

        impl Unary {
            /// The name; that of the ONNX operator if there is one.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Unary::$variant => stringify!($variant),)*
                }
            }
        }

        impl Expr {
            $(
                #[doc = $doc]
                #[must_use]
                pub fn $method(self) -> Expr {
                    Expr::Unary(Unary::$variant, Box::new(self))
                }
            )*
        }
    };
}

functions! {
    Abs abs "The absolute value.";
    Acos acos "The inverse cosine.";
    Acosh acosh "The inverse hyperbolic cosine.";
    Asin asin "The inverse sine.";
    Asinh asinh "The inverse hyperbolic sine.";
    Atan atan "The inverse tangent.";
    Atanh atanh "The inverse hyperbolic tangent.";
    Cbrt cbrt "The cube root.";
    Ceil ceil "The least integer not below the number.";
    Cos cos "The cosine.";
    Cosh cosh "The hyperbolic cosine.";
    Erf erf "The error function.";
    Erfc erfc "1 less the error function, exact where that is near 0.";
    Exp exp "The exponential.";
    Expm1 expm1 "The exponential less 1, exact near 0.";
    Floor floor "The greatest integer not above the number.";
    Log log "The natural logarithm.";
    Log1p log1p "The logarithm of 1 and the number, exact near 0.";
    Neg negated "The number with the other sign.";
    Not inverted "Not a truth value; every bit of an integer.";
    Reciprocal reciprocal "1 over the number.";
    Round rounded "The nearest integer, ties to even.";
    Rsqrt rsqrt "1 over the square root.";
    Sigmoid sigmoid "1 / (1 + e^-x).";
    Sign sign "-1, 0 or 1; NaN and both zeros stay.";
    Sin sin "The sine.";
    Sinh sinh "The hyperbolic sine.";
    Softplus softplus "log(1 + e^x).";
    Sqrt sqrt "The square root.";
    Tan tan "The tangent.";
    Tanh tanh "The hyperbolic tangent.";
}

/// A function of two numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// The sum; for truth values, "or".
    Add,
    /// The difference.
    Sub,
    /// The product; for truth values, "and".
    Mul,
    /// The quotient. For integers it is truncated, and 0 if the divisor is 0.
    Div,
    /// The remainder with the sign of the dividend. For integers it is 0 if the divisor is 0.
    Rem,
    /// The remainder with the sign of the divisor. For integers it is 0 if the divisor is 0.
    Mod,
    /// The power. For integers it is truncated if the exponent is below 0.
    Pow,
    /// The angle of the point whose coordinates are the second and the first number.
    Atan2,
    /// The greater; NaN wins.
    Max,
    /// The lesser; NaN wins.
    Min,
    /// The bitwise "and".
    And,
    /// The bitwise "or".
    Or,
    /// The bitwise "exclusive or".
    Xor,
    /// The first number times two to the power of the second; 0 if the second is below 0 or not below the width.
    ShiftLeft,
    /// The first number divided by two to the power of the second, rounded down. If the second is below 0 or not below
    /// the width, only the sign is left: 0 or -1.
    ShiftRight,
}

impl Unary {
    /// The function of operand 0 in terms of other functions, for builders that lack it. Some definitions are less
    /// exact near the ends of the range.
    #[must_use]
    pub fn definition(self) -> Option<Expr> {
        let x = Expr::A;
        Some(match self {
            Unary::Atan => Binary::Atan2.of(x, 1.0),
            Unary::Cbrt => Expr::A.sign() * Binary::Pow.of(x.abs(), 1.0 / 3.0),
            Unary::Erfc => 1.0 - x.erf(),
            Unary::Expm1 => x.exp() - 1.0,
            Unary::Log1p => (x + 1.0).log(),
            Unary::Reciprocal => 1.0 / x,
            Unary::Rsqrt => x.sqrt().reciprocal(),
            Unary::Sigmoid => 1.0 / (1.0 + x.negated().exp()),
            Unary::Sign => {
                let above = Direction::Gt.of(Expr::A, 0.0).select(1.0, Expr::A);
                Direction::Lt.of(x, 0.0).select(-1.0, above)
            }
            Unary::Softplus => x.max(0.0) + Expr::A.abs().negated().exp().log1p(),
            _ => return None,
        })
    }
}

impl Binary {
    /// The function of two numbers.
    #[must_use]
    pub fn of(self, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        Expr::Binary(self, Box::new([a.into(), b.into()]))
    }

    /// The function of operands 0 and 1 in terms of other functions, for builders that lack it.
    #[must_use]
    pub fn definition(self) -> Option<Expr> {
        let Binary::Mod = self else { return None };
        let rest = || Binary::Rem.of(Expr::A, Expr::B);
        let below = |x: Expr| Direction::Lt.of(x, 0.0);
        let differ = Binary::Xor.of(below(rest()), below(Expr::B));
        let differ = Binary::And.of(differ, Direction::Ne.of(rest(), 0.0));
        Some(differ.select(rest() + Expr::B, rest()))
    }
}

impl Direction {
    /// The comparison of two numbers.
    #[must_use]
    pub fn of(self, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        Expr::Compare(self, Box::new([a.into(), b.into()]))
    }
}

impl From<f64> for Expr {
    fn from(x: f64) -> Expr {
        Expr::Number(x)
    }
}

/// Implements operators of Rust on expressions and numbers.
macro_rules! signs {
    ($($sign:ident $method:ident;)*) => {$(
        impl<T: Into<Expr>> ops::$sign<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                Binary::$sign.of(self, other)
            }
        }
        impl ops::$sign<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                Binary::$sign.of(self, other)
            }
        }
    )*};
}

signs! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Expr {
    /// The element of operand 0.
    pub const A: Expr = Expr::Operand(0);
    /// The element of operand 1.
    pub const B: Expr = Expr::Operand(1);
    /// The element of operand 2.
    pub const C: Expr = Expr::Operand(2);

    /// The greater of two; NaN wins.
    #[must_use]
    pub fn max(self, other: impl Into<Expr>) -> Expr {
        Binary::Max.of(self, other)
    }

    /// The lesser of two; NaN wins.
    #[must_use]
    pub fn min(self, other: impl Into<Expr>) -> Expr {
        Binary::Min.of(self, other)
    }

    /// `yes` if the truth value holds, else `no`.
    #[must_use]
    pub fn select(self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        Expr::Select(Box::new([self, yes.into(), no.into()]))
    }

    /// `low` if the number is below 0; else the number itself, also if it is NaN.
    #[must_use]
    pub fn where_below_zero(self, low: impl Into<Expr>) -> Expr {
        Direction::Lt.of(self.clone(), 0.0).select(low, self)
    }

    /// The number in another type.
    #[must_use]
    pub fn cast(self, to: DType) -> Expr {
        Expr::Cast(to, Box::new(self))
    }

    /// The operands of the outermost function.
    fn parts(&self) -> &[Expr] {
        match self {
            Expr::Operand(_) | Expr::Number(_) => &[],
            Expr::Unary(_, x) | Expr::Cast(_, x) => std::slice::from_ref(x),
            Expr::Binary(_, parts) | Expr::Compare(_, parts) => &parts[..],
            Expr::Select(parts) => &parts[..],
        }
    }

    /// The number of operands that the expression needs: one more than the last one that it reads.
    #[must_use]
    pub fn operands(&self) -> usize {
        match self {
            Expr::Operand(i) => i + 1,
            _ => self.parts().iter().map(Expr::operands).max().unwrap_or(0),
        }
    }

    /// The expression with other expressions in place of its operands.
    #[must_use]
    pub fn with_operands(&self, of: &mut dyn FnMut(usize) -> Expr) -> Expr {
        match self {
            Expr::Operand(i) => of(*i),
            Expr::Number(x) => Expr::Number(*x),
            Expr::Unary(function, x) => Expr::Unary(*function, Box::new(x.with_operands(of))),
            Expr::Cast(to, x) => x.with_operands(of).cast(*to),
            Expr::Binary(function, parts) => {
                let [a, b] = parts.each_ref().map(|x| x.with_operands(of));
                function.of(a, b)
            }
            Expr::Compare(direction, parts) => {
                let [a, b] = parts.each_ref().map(|x| x.with_operands(of));
                direction.of(a, b)
            }
            Expr::Select(parts) => {
                let [cond, yes, no] = parts.each_ref().map(|x| x.with_operands(of));
                cond.select(yes, no)
            }
        }
    }

    /// Returns whether the expression reads an operand.
    #[must_use]
    pub fn reads(&self, operand: usize) -> bool {
        match self {
            Expr::Operand(i) => *i == operand,
            _ => self.parts().iter().any(|part| part.reads(operand)),
        }
    }

    /// Returns whether the number is proportional to an operand: a factor of the operand is a factor of the number.
    ///
    /// ```
    /// use optc_ir::op::Expr;
    ///
    /// let shifted = Expr::A / (Expr::B + 1.0);
    /// assert!(shifted.is_proportional_to(0) && !shifted.is_proportional_to(1));
    /// ```
    #[must_use]
    pub fn is_proportional_to(&self, operand: usize) -> bool {
        let of = |part: &Expr| part.is_proportional_to(operand);
        match self {
            Expr::Operand(i) => *i == operand,
            Expr::Number(x) => *x == 0.0,
            Expr::Unary(function, x) => *function == Unary::Neg && of(x),
            Expr::Cast(to, x) => to.is_float() && of(x),
            Expr::Compare(..) => false,
            Expr::Select(parts) => {
                let [cond, yes, no] = &**parts;
                !cond.reads(operand) && of(yes) && of(no)
            }
            Expr::Binary(function, parts) => {
                let [a, b] = &**parts;
                match function {
                    Binary::Add | Binary::Sub => of(a) && of(b),
                    Binary::Mul => (of(a) && !b.reads(operand)) || (of(b) && !a.reads(operand)),
                    Binary::Div => of(a) && !b.reads(operand),
                    _ => false,
                }
            }
        }
    }

    /// The element type of the result, for operands of these types. `None` if it is undetermined: a constant may have
    /// any type, and an operand may be missing.
    #[must_use]
    pub fn dtype(&self, operands: &[DType]) -> Option<DType> {
        match self {
            Expr::Operand(i) => operands.get(*i).copied(),
            Expr::Number(_) => None,
            Expr::Unary(_, x) => x.dtype(operands),
            Expr::Compare(..) => Some(DType::BOOL),
            Expr::Cast(to, _) => Some(*to),
            Expr::Binary(_, parts) => parts.iter().find_map(|x| x.dtype(operands)),
            Expr::Select(parts) => parts[1..].iter().find_map(|x| x.dtype(operands)),
        }
    }

    /// Builds the expression from operands, each with its element type. Each part is built once, from the left. `None`
    /// if the builder has no form of a part.
    ///
    /// # Errors
    /// Those of the builder.
    pub fn build<B: ExprBuilder>(
        &self,
        operands: &[(B::Value, DType)],
        builder: &mut B,
    ) -> Result<Option<B::Value>, B::Error> {
        let (values, types) = operands.iter().cloned().unzip();
        let mut build = Build {
            builder,
            values,
            types,
            made: Vec::new(),
        };
        match self.dtype(&build.types) {
            Some(dtype) => build.part(self, dtype),
            None => Ok(None),
        }
    }
}

/// A builder of numbers, instructions or text from expressions. A method returns `None` if the builder has no form of
/// the part.
///
/// The argument `dtype` is the element type of the operands.
pub trait ExprBuilder {
    /// The representation of a number.
    type Value: Clone;
    /// The error of the builder.
    type Error;

    /// A number of an element type.
    ///
    /// # Errors
    /// Those of the builder.
    fn number(&mut self, x: f64, dtype: DType) -> Result<Option<Self::Value>, Self::Error>;

    /// A function of one number. If the builder has no form of it, the [definition](Unary::definition) is built.
    ///
    /// # Errors
    /// Those of the builder.
    fn unary(
        &mut self,
        function: Unary,
        x: &Self::Value,
        dtype: DType,
    ) -> Result<Option<Self::Value>, Self::Error>;

    /// A function of two numbers. If the builder has no form of it, the [definition](Binary::definition) is built.
    ///
    /// # Errors
    /// Those of the builder.
    fn binary(
        &mut self,
        function: Binary,
        operands: [&Self::Value; 2],
        dtype: DType,
    ) -> Result<Option<Self::Value>, Self::Error>;

    /// A comparison of two numbers, a truth value.
    ///
    /// # Errors
    /// Those of the builder.
    fn compare(
        &mut self,
        direction: Direction,
        operands: [&Self::Value; 2],
        dtype: DType,
    ) -> Result<Option<Self::Value>, Self::Error>;

    /// The second number if the first, a truth value, is true; else the third.
    ///
    /// # Errors
    /// Those of the builder.
    fn select(
        &mut self,
        operands: [&Self::Value; 3],
        dtype: DType,
    ) -> Result<Option<Self::Value>, Self::Error>;

    /// A number in another element type.
    ///
    /// # Errors
    /// Those of the builder.
    fn cast(
        &mut self,
        x: &Self::Value,
        dtype: DType,
        to: DType,
    ) -> Result<Option<Self::Value>, Self::Error>;
}

/// The state while an expression is built.
struct Build<'e, 'b, B: ExprBuilder> {
    builder: &'b mut B,
    values: Vec<B::Value>,
    types: Vec<DType>,
    /// The parts built so far, with their element types.
    made: Vec<(&'e Expr, DType, B::Value)>,
}

impl<'e, B: ExprBuilder> Build<'e, '_, B> {
    /// Builds a part; `dtype` is the type of constants in it that have no other type.
    fn part(&mut self, expr: &'e Expr, dtype: DType) -> Result<Option<B::Value>, B::Error> {
        if let Expr::Operand(i) = expr {
            return Ok(self.values.get(*i).cloned());
        }
        let known = |(part, of, _): &&(&Expr, DType, B::Value)| *part == expr && *of == dtype;
        if let Some((.., value)) = self.made.iter().find(known) {
            return Ok(Some(value.clone()));
        }
        let made = self.built(expr, dtype)?;
        if let Some(value) = &made {
            self.made.push((expr, dtype, value.clone()));
        }
        Ok(made)
    }

    fn built(&mut self, expr: &'e Expr, dtype: DType) -> Result<Option<B::Value>, B::Error> {
        // The operands of comparisons and casts have another type than the result.
        let own = |parts: &[Expr]| parts.iter().find_map(|x| x.dtype(&self.types));
        let inner = match expr {
            Expr::Compare(_, parts) => own(&parts[..]),
            Expr::Cast(_, x) => x.dtype(&self.types),
            _ => expr.dtype(&self.types),
        };
        let inner = inner.unwrap_or(dtype);
        let mut parts = Vec::with_capacity(3);
        for (i, part) in expr.parts().iter().enumerate() {
            let truth = i == 0 && matches!(expr, Expr::Select(_));
            let Some(value) = self.part(part, if truth { DType::BOOL } else { inner })? else {
                return Ok(None);
            };
            parts.push(value);
        }
        let builder = &mut *self.builder;
        match (expr, parts.as_slice()) {
            (Expr::Number(x), _) => builder.number(*x, dtype),
            (Expr::Unary(function, _), [x]) => match builder.unary(*function, x, inner)? {
                Some(made) => Ok(Some(made)),
                None => defined(function.definition(), &parts, inner, builder),
            },
            (Expr::Binary(function, _), [a, b]) => {
                match builder.binary(*function, [a, b], inner)? {
                    Some(made) => Ok(Some(made)),
                    None => defined(function.definition(), &parts, inner, builder),
                }
            }
            (Expr::Compare(direction, _), [a, b]) => builder.compare(*direction, [a, b], inner),
            (Expr::Select(_), [cond, a, b]) => builder.select([cond, a, b], inner),
            (Expr::Cast(to, _), [x]) => builder.cast(x, inner, *to),
            _ => Ok(None),
        }
    }
}

/// Builds the definition of a function from the function's operands.
fn defined<B: ExprBuilder>(
    definition: Option<Expr>,
    operands: &[B::Value],
    dtype: DType,
    builder: &mut B,
) -> Result<Option<B::Value>, B::Error> {
    let operands: Vec<_> = operands.iter().map(|x| (x.clone(), dtype)).collect();
    match definition {
        Some(definition) => definition.build(&operands, builder),
        None => Ok(None),
    }
}
