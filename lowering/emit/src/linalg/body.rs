//! The block of scalar operations that a loop nest runs for each element.
//!
//! For example, `Body::add` of the f32 numbers `%a` and `%b` appends the line `%s_1 = arith.addf %a, %b : f32` and
//! returns `%s_1`.

use super::mem::Mem;
use super::sizes::Sizes;
use super::types::{dtype_name, is_unsigned, number_text, wide};
use optc_ir::DType;
use optc_ir::op::Direction;
use optc_layout::Digit;
use std::fmt::Write;

/// A number in the block: its SSA name and its type.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) name: String,
    pub(super) ty: DType,
}

/// An index in the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Idx {
    /// A constant.
    Const(i64),
    /// The SSA name of an index.
    Name(String),
}

/// The lines of a block.
#[derive(Default)]
pub(super) struct Body {
    pub(super) text: String,
    next: usize,
    /// The indentation of lines.
    pub(super) indent: usize,
    /// The sizes of the function.
    pub(super) sizes: Sizes,
}

/// One of two opcodes.
fn opcode(test: bool, yes: &'static str, no: &'static str) -> &'static str {
    if test { yes } else { no }
}

impl Body {
    /// An empty block, indented by `indent` spaces.
    pub(super) fn new(indent: usize, sizes: &Sizes) -> Body {
        Body {
            indent,
            sizes: sizes.clone(),
            ..Body::default()
        }
    }

    /// Appends a line without a result.
    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:1$}{text}", "", self.indent);
    }

    /// A name that is unused in the block.
    pub(super) fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%s_{}", self.next)
    }

    /// Appends a line with a result, and returns the name of the result.
    pub(super) fn put(&mut self, text: &str) -> String {
        let name = self.fresh();
        self.line(&format!("{name} = {text}"));
        name
    }

    fn made(&mut self, text: &str, ty: DType) -> Scalar {
        let name = self.put(text);
        Scalar { name, ty }
    }

    /// A constant of a type.
    pub(super) fn number(&mut self, x: f64, ty: DType) -> Scalar {
        self.literal(&number_text(x, ty), ty)
    }

    /// A constant of a type, written as `text`.
    pub(super) fn literal(&mut self, text: &str, ty: DType) -> Scalar {
        let name = type_text(ty);
        let typed = match ty.is_bool() {
            true => format!("arith.constant {text}"),
            false => format!("arith.constant {text} : {name}"),
        };
        self.made(&typed, ty)
    }

    /// An operation whose operands and result have the same type.
    pub(super) fn op(&mut self, opcode: &str, args: &[&Scalar]) -> Scalar {
        let names: Vec<&str> = args.iter().map(|a| &*a.name).collect();
        let ty = args.first().map_or(DType::F32, |a| a.ty);
        let text = format!("{opcode} {} : {}", names.join(", "), type_text(ty));
        self.made(&text, ty)
    }

    /// An operation with one opcode for floats and another one for integers.
    pub(super) fn either(&mut self, float: &str, int: &str, args: &[&Scalar]) -> Scalar {
        let is_float = args.first().is_some_and(|a| a.ty.is_float());
        self.op(if is_float { float } else { int }, args)
    }

    pub(super) fn add(&mut self, a: &Scalar, b: &Scalar) -> Scalar {
        let int = opcode(a.ty.is_bool(), "arith.ori", "arith.addi");
        self.either("arith.addf", int, &[a, b])
    }

    pub(super) fn sub(&mut self, a: &Scalar, b: &Scalar) -> Scalar {
        self.either("arith.subf", "arith.subi", &[a, b])
    }

    pub(super) fn mul(&mut self, a: &Scalar, b: &Scalar) -> Scalar {
        let int = opcode(a.ty.is_bool(), "arith.andi", "arith.muli");
        self.either("arith.mulf", int, &[a, b])
    }

    /// The quotient. For integers it is 0 if the divisor is 0.
    pub(super) fn div(&mut self, a: &Scalar, b: &Scalar) -> Scalar {
        if a.ty.is_float() {
            return self.op("arith.divf", &[a, b]);
        }
        self.divided(
            opcode(is_unsigned(a.ty), "arith.divui", "arith.divsi"),
            a,
            b,
        )
    }

    /// The remainder with the sign of the dividend. For integers it is 0 if the divisor is 0.
    pub(super) fn rem(&mut self, a: &Scalar, b: &Scalar) -> Scalar {
        if a.ty.is_float() {
            return self.op("arith.remf", &[a, b]);
        }
        self.divided(
            opcode(is_unsigned(a.ty), "arith.remui", "arith.remsi"),
            a,
            b,
        )
    }

    /// A division or remainder of integers without undefined behaviour: division by 0, and of the least number by -1.
    fn divided(&mut self, opcode: &str, a: &Scalar, b: &Scalar) -> Scalar {
        let (zero, one) = (self.number(0.0, a.ty), self.number(1.0, a.ty));
        let none = self.compare(Direction::Eq, b, &zero);
        let mut by = self.select(&none, &one, b);
        let signed = !is_unsigned(a.ty);
        let turned = signed.then(|| {
            let minus = self.number(-1.0, a.ty);
            self.compare(Direction::Eq, &by, &minus)
        });
        // A divisor of -1 is replaced by 1. The quotient then is a negation, written as a subtraction; the remainder is
        // 0 with both divisors.
        if let Some(turned) = &turned {
            by = self.select(turned, &one, &by);
        }
        let mut made = self.op(opcode, &[a, &by]);
        if let Some(turned) = &turned
            && opcode == "arith.divsi"
        {
            let negative = self.sub(&zero, a);
            made = self.select(turned, &negative, &made);
        }
        self.select(&none, &zero, &made)
    }

    pub(super) fn neg(&mut self, x: &Scalar) -> Scalar {
        if x.ty.is_float() {
            return self.op("arith.negf", &[x]);
        }
        let zero = self.number(0.0, x.ty);
        self.sub(&zero, x)
    }

    /// The maximum; NaN if one of the numbers is NaN.
    pub(super) fn max(&mut self, a: &Scalar, b: &Scalar) -> Scalar {
        let int = opcode(is_unsigned(a.ty), "arith.maxui", "arith.maxsi");
        self.either("arith.maximumf", int, &[a, b])
    }

    /// The minimum; NaN if one of the numbers is NaN.
    pub(super) fn min(&mut self, a: &Scalar, b: &Scalar) -> Scalar {
        let int = opcode(is_unsigned(a.ty), "arith.minui", "arith.minsi");
        self.either("arith.minimumf", int, &[a, b])
    }

    pub(super) fn abs(&mut self, x: &Scalar) -> Scalar {
        if is_unsigned(x.ty) {
            return x.clone();
        }
        self.either("math.absf", "math.absi", &[x])
    }

    /// The square root; NaN for a negative number.
    pub(super) fn sqrt(&mut self, x: &Scalar) -> Scalar {
        self.op("math.sqrt", &[x])
    }

    pub(super) fn compare(&mut self, direction: Direction, a: &Scalar, b: &Scalar) -> Scalar {
        let (opcode, word) = match (a.ty.is_float(), is_unsigned(a.ty)) {
            (true, _) => (
                "arith.cmpf",
                ["oeq", "une", "olt", "ole", "ogt", "oge"][direction as usize],
            ),
            (false, true) => (
                "arith.cmpi",
                ["eq", "ne", "ult", "ule", "ugt", "uge"][direction as usize],
            ),
            (false, false) => (
                "arith.cmpi",
                ["eq", "ne", "slt", "sle", "sgt", "sge"][direction as usize],
            ),
        };
        let ty = type_text(a.ty);
        let text = format!("{opcode} {word}, {}, {} : {ty}", a.name, b.name);
        self.made(&text, DType::BOOL)
    }

    /// A truth value: whether the number is NaN.
    pub(super) fn is_nan(&mut self, x: &Scalar) -> Scalar {
        let ty = type_text(x.ty);
        let text = format!("arith.cmpf uno, {0}, {0} : {ty}", x.name);
        self.made(&text, DType::BOOL)
    }

    pub(super) fn select(&mut self, cond: &Scalar, a: &Scalar, b: &Scalar) -> Scalar {
        let ty = type_text(a.ty);
        let text = format!("arith.select {}, {}, {} : {ty}", cond.name, a.name, b.name);
        self.made(&text, a.ty)
    }

    fn convert(&mut self, opcode: &str, x: &Scalar, to: DType) -> Scalar {
        let text = format!(
            "{opcode} {} : {} to {}",
            x.name,
            type_text(x.ty),
            type_text(to)
        );
        self.made(&text, to)
    }

    /// The same bits in another type of the same width.
    pub(super) fn bitcast(&mut self, x: &Scalar, to: DType) -> Scalar {
        match type_text(x.ty) == type_text(to) {
            true => Scalar {
                name: x.name.clone(),
                ty: to,
            },
            false => self.convert("arith.bitcast", x, to),
        }
    }

    /// The same number in another type. Floats become integers by truncation and saturation.
    pub(super) fn cast(&mut self, x: &Scalar, to: DType) -> Scalar {
        let (from, same) = (x.ty, type_text(x.ty) == type_text(to));
        if to.is_bool() && !from.is_bool() {
            let zero = self.number(0.0, from);
            return self.compare(Direction::Ne, x, &zero);
        }
        if same {
            return Scalar {
                name: x.name.clone(),
                ty: to,
            };
        }
        match (from.is_int(), to.is_int()) {
            (true, true) if from.bits_of() < to.bits_of() => {
                let opcode = opcode(is_unsigned(from), "arith.extui", "arith.extsi");
                self.convert(opcode, x, to)
            }
            (true, true) => self.convert("arith.trunci", x, to),
            (true, false) if is_unsigned(from) => self.convert("arith.uitofp", x, to),
            (true, false) => self.convert("arith.sitofp", x, to),
            (false, true) => self.saturated(x, to),
            (false, false) if from.bits() < to.bits() => self.convert("arith.extf", x, to),
            (false, false) if from.bits() == to.bits() => {
                let wide = self.convert("arith.extf", x, DType::F32);
                self.convert("arith.truncf", &wide, to)
            }
            (false, false) => self.convert("arith.truncf", x, to),
        }
    }

    /// A float as an integer: truncated and saturated, with 0 for NaN.
    fn saturated(&mut self, x: &Scalar, to: DType) -> Scalar {
        let x = self.cast(x, DType::F64);
        let unsigned = is_unsigned(to);
        let bits = i32::from(to.bits_of());
        let (low, high) = match unsigned {
            true => (0.0, 2f64.powi(bits)),
            false => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)),
        };
        let (least, most) = (self.number(low, x.ty), self.number(high, x.ty));
        let zero = self.number(0.0, x.ty);
        let nan = self.is_nan(&x);
        let x = self.select(&nan, &zero, &x);
        let above = self.compare(Direction::Ge, &x, &most);
        let below = self.compare(Direction::Le, &x, &least);
        let inside = self.select(&above, &zero, &x);
        let inside = self.select(&below, &zero, &inside);
        let opcode = opcode(unsigned, "arith.fptoui", "arith.fptosi");
        let made = self.convert(opcode, &inside, to);
        let greatest = self.literal(&super::types::limit_text(to, true), to);
        let lowest = self.literal(&super::types::limit_text(to, false), to);
        let made = self.select(&above, &greatest, &made);
        self.select(&below, &lowest, &made)
    }

    /// An element in the type in which numbers are computed (see `wide`).
    pub(super) fn widened(&mut self, name: &str, ty: DType) -> Scalar {
        let name = name.to_owned();
        let x = Scalar { name, ty };
        match wide(ty) == ty {
            true => x,
            false => self.cast(&x, wide(ty)),
        }
    }

    /// A number in the type in which elements are stored.
    pub(super) fn stored(&mut self, x: &Scalar, ty: DType) -> Scalar {
        match x.ty == ty {
            true => x.clone(),
            false => self.cast(x, ty),
        }
    }
}

/// The width of a type in bits; that of its storage may be larger.
trait Bits {
    fn bits_of(self) -> u8;
}

impl Bits for DType {
    fn bits_of(self) -> u8 {
        match self {
            DType::Int { bits, .. } => bits,
            other => u8::try_from(other.bits()).unwrap_or(u8::MAX),
        }
    }
}

fn type_text(ty: DType) -> String {
    dtype_name(ty).unwrap_or_default()
}

/// Indices.
impl Body {
    /// The SSA name of an index; a constant gets a line.
    pub(super) fn index(&mut self, i: &Idx) -> String {
        match i {
            Idx::Const(n) => self.put(&format!("arith.constant {n} : index")),
            Idx::Name(name) => name.clone(),
        }
    }

    /// An extent: a constant, or the index that holds an unknown size.
    pub(super) fn extent(&mut self, n: u64) -> Idx {
        match self.sizes.index(n) {
            Some(name) => Idx::Name(name),
            None => Idx::Const(i64::try_from(n).unwrap_or(i64::MAX)),
        }
    }

    /// An extent as a number of a type.
    pub(super) fn count(&mut self, n: u64, ty: DType) -> Scalar {
        match self.extent(n) {
            Idx::Const(_) => self.number(n as f64, ty),
            open @ Idx::Name(_) => self.of_index(&open, ty),
        }
    }

    /// The current step of a loop.
    pub(super) fn step(&mut self, id: usize) -> Idx {
        Idx::Name(self.put(&format!("linalg.index {id} : index")))
    }

    fn indices(&mut self, opcode: &str, a: &Idx, b: &Idx) -> Idx {
        let (a, b) = (self.index(a), self.index(b));
        Idx::Name(self.put(&format!("{opcode} {a}, {b} : index")))
    }

    pub(super) fn plus(&mut self, a: &Idx, b: &Idx) -> Idx {
        match (a, b) {
            (Idx::Const(x), Idx::Const(y)) => Idx::Const(x.saturating_add(*y)),
            (Idx::Const(0), other) | (other, Idx::Const(0)) => other.clone(),
            _ => self.indices("arith.addi", a, b),
        }
    }

    pub(super) fn minus(&mut self, a: &Idx, b: &Idx) -> Idx {
        match (a, b) {
            (Idx::Const(x), Idx::Const(y)) => Idx::Const(x.saturating_sub(*y)),
            (other, Idx::Const(0)) => other.clone(),
            _ => self.indices("arith.subi", a, b),
        }
    }

    pub(super) fn times(&mut self, a: &Idx, by: i64) -> Idx {
        match (a, by) {
            (Idx::Const(x), _) => Idx::Const(x.saturating_mul(by)),
            (_, 0) => Idx::Const(0),
            (_, 1) => a.clone(),
            _ => self.indices("arith.muli", a, &Idx::Const(by)),
        }
    }

    /// The product of an index and an extent.
    pub(super) fn scaled(&mut self, a: &Idx, by: u64) -> Idx {
        match (a, self.extent(by)) {
            (_, Idx::Const(by)) => self.times(a, by),
            (Idx::Const(0), _) => Idx::Const(0),
            (_, by) => self.indices("arith.muli", a, &by),
        }
    }

    /// The quotient of a non-negative index and an extent.
    pub(super) fn over(&mut self, a: &Idx, by: u64) -> Idx {
        match (a, self.extent(by.max(1))) {
            (Idx::Const(x), Idx::Const(by)) => Idx::Const(x / by),
            (Idx::Const(0), _) | (_, Idx::Const(1)) => a.clone(),
            (_, by) => self.indices("arith.divui", a, &by),
        }
    }

    /// The remainder of a non-negative index by an extent.
    pub(super) fn modulo(&mut self, a: &Idx, by: u64) -> Idx {
        match (a, self.extent(by.max(1))) {
            (Idx::Const(x), Idx::Const(by)) => Idx::Const(x % by),
            (Idx::Const(0), _) | (_, Idx::Const(1)) => Idx::Const(0),
            (_, by) => self.indices("arith.remui", a, &by),
        }
    }

    /// The index, clamped to the range from `low` to `high`.
    pub(super) fn clamped(&mut self, a: &Idx, low: i64, high: &Idx) -> Idx {
        let low = self.indices("arith.maxsi", a, &Idx::Const(low));
        self.indices("arith.minsi", &low, high)
    }

    /// A comparison of two indices.
    pub(super) fn index_compare(&mut self, word: &str, a: &Idx, b: &Idx) -> Scalar {
        let (a, b) = (self.index(a), self.index(b));
        let text = format!("arith.cmpi {word}, {a}, {b} : index");
        self.made(&text, DType::BOOL)
    }

    pub(super) fn index_select(&mut self, cond: &Scalar, a: &Idx, b: &Idx) -> Idx {
        let (a, b) = (self.index(a), self.index(b));
        Idx::Name(self.put(&format!("arith.select {}, {a}, {b} : index", cond.name)))
    }

    /// An integer as an index.
    pub(super) fn as_index(&mut self, x: &Scalar) -> Idx {
        let ty = type_text(x.ty);
        let opcode = opcode(is_unsigned(x.ty), "arith.index_castui", "arith.index_cast");
        Idx::Name(self.put(&format!("{opcode} {} : {ty} to index", x.name)))
    }

    /// An index as a number of a type.
    pub(super) fn of_index(&mut self, i: &Idx, ty: DType) -> Scalar {
        let name = self.index(i);
        let whole = self.made(
            &format!("arith.index_cast {name} : index to i64"),
            DType::SI64,
        );
        self.cast(&whole, ty)
    }

    /// The position that an index means in a dimension of `size` elements: an index below 0 counts from the end.
    pub(super) fn counted_back(&mut self, at: &Idx, size: u64) -> Idx {
        let size = self.extent(size);
        let below = self.index_compare("slt", at, &Idx::Const(0));
        let moved = self.plus(at, &size);
        self.index_select(&below, &moved, at)
    }

    /// The values of the digits for an element with this index.
    pub(super) fn places(&mut self, digits: &[Digit], index: &[Idx]) -> Vec<Idx> {
        let mut out = Vec::with_capacity(digits.len());
        for digit in digits {
            let at = self.over(&index[digit.of], digit.div);
            let first = !digits.iter().any(|d| d.of == digit.of && digit.div < d.div);
            out.push(match first {
                true => at,
                false => self.modulo(&at, digit.extent),
            });
        }
        out
    }

    /// Reads an element of a tensor whose dimensions are digits. `index` has the element's index along each logical
    /// dimension.
    pub(super) fn read(&mut self, mem: &Mem, digits: &[Digit], index: &[Idx]) -> Scalar {
        let places = self.places(digits, index);
        let names: Vec<String> = places.iter().map(|i| self.index(i)).collect();
        let text = format!(
            "tensor.extract {}[{}] : {}",
            mem.name,
            names.join(", "),
            self.sizes.ty(mem)
        );
        let raw = self.put(&text);
        self.widened(&raw, mem.dtype)
    }
}
