//! Contractions as products of matrices. Dimensions before the rows and columns of the result are a batch, whichever
//! operand has them.
//!
//! Example: a result with the memory order `b m n` is written as a batched matmul. With the memory order `b n m` the
//! operands are exchanged.

use super::digits::{dims, is_row_major};
use super::memory::Memory;
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, Freedom, LaidPort, OpError, OpRef, Value};
use optc_layout::{Cuts, Digit};
use optc_ops::{Add, DotGeneral, Einsum, Linear, Matmul, ints};

/// The operands and result that have a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Batch,
    M,
    N,
    K,
}

/// A contraction whose digits are cut alike at all ports.
struct Product {
    left: Vec<Digit>,
    right: Vec<Digit>,
    result: Vec<Digit>,
    roles: Vec<Option<Role>>,
}

/// The order of digits of a product of matrices: in the result, `batch` stands before `rows` and `columns`.
struct Split {
    batch: Vec<Digit>,
    rows: Vec<Digit>,
    columns: Vec<Digit>,
    k: Vec<Digit>,
}

/// Writes a contraction. Returns the memory of its result; `None` where it is no product of two operands.
pub(super) fn write(
    memory: &mut Memory<'_>,
    op: &OpRef<'_>,
    freedom: &Freedom,
    operands: &[Value],
) -> Result<Option<Value>, OpError> {
    let to = match op.name {
        Matmul::NAME => Matmul::of(op)?.to,
        Linear::NAME => Linear::of(op)?.to,
        DotGeneral::NAME => DotGeneral::of(op)?.to,
        Einsum::NAME => Einsum::of(op)?.to,
        _ => return Ok(None),
    };
    let Some(ports) = super::ordered::ports(memory, op, freedom) else {
        return Ok(None);
    };
    let (Some(&x), Some(&w)) = (operands.first(), operands.get(1)) else {
        return Ok(None);
    };
    let (left, right) = (&ports[0], &ports[1]);
    let Some(result) = ports.get(operands.len()) else {
        return Ok(None);
    };
    let Some(product) = Product::of(left, right, result, freedom.labels.len()) else {
        return Ok(None);
    };
    let constants = [x, w].map(|v| memory.is_constant(v));
    let (split, exchanged) = product.split(constants, memory.dimension_numbers);
    let order = [&split.batch[..], &split.rows, &split.columns].concat();
    let mut sides = [(x, left, &product.left[..]), (w, right, &product.right)];
    if op.name == Linear::NAME
        && !exchanged
        && let Some(made) = linear(memory, &split, sides, operands, to)?
    {
        return memory.arrange(made, &order, &result.digits);
    }
    if exchanged {
        sides.swap(0, 1);
    }
    let Some(mut made) = matrices(memory, &split, sides, to)? else {
        return Ok(None);
    };
    if let (Some(&bias), Some(port), 3) = (operands.get(2), ports.get(2), operands.len()) {
        let ports = sides.map(|(_, port, _)| port);
        let Some(bias) = spread(memory, bias, port, &split, ports)? else {
            return Ok(None);
        };
        made = memory.b.one(&Add {}, &[made, bias])?;
    }
    memory.arrange(made, &order, &result.digits)
}

/// Writes a linear layer as a linear layer, if weights and columns are in their declared order; else returns `None`.
fn linear(
    memory: &mut Memory<'_>,
    split: &Split,
    sides: [(Value, &LaidPort, &[Digit]); 2],
    operands: &[Value],
    to: Option<DType>,
) -> Result<Option<Value>, OpError> {
    let [(x, port, digits), (_, weights, _)] = sides;
    let alone = split
        .batches(sides.map(|(_, port, _)| port))
        .iter()
        .all(|b| b.left && !b.right);
    let declared = is_row_major(&split.columns) && is_row_major(&split.k);
    if !alone || !declared || !weights.is_natural() {
        return Ok(None);
    }
    let wanted = [&split.batch[..], &split.rows, &split.k].concat();
    let Some(x) = memory.arrange(x, digits, &wanted)? else {
        return Ok(None);
    };
    let volume = |digits: &[Digit]| digits.iter().fold(1u64, |n, d| n.saturating_mul(d.extent));
    let k = volume(&split.k);
    let matrix = [volume(&wanted) / k.max(1), k];
    let x = rows(memory, x, declared_shape(port, digits, &wanted), matrix)?;
    let mut given = operands.to_vec();
    given[0] = x;
    // Weights and bias keep their own shapes.
    let shapes = [volume(&split.columns), volume(&split.k)];
    let shape = dims(shapes, &memory.numbers);
    given[1] = memory.reshape(given[1], &shape)?;
    if let Some(bias) = given.get_mut(2) {
        *bias = memory.reshape(*bias, &shape[..1])?;
    }
    memory.b.one(&Linear { to }, &given).map(Some)
}

/// A bias broadcast over the axes of a product.
fn spread(
    memory: &mut Memory<'_>,
    bias: Value,
    port: &LaidPort,
    split: &Split,
    sides: [&LaidPort; 2],
) -> Result<Option<Value>, OpError> {
    let has = |d: &Digit| port.size(d.of).is_some();
    let all = [&split.batch[..], &split.rows, &split.columns].concat();
    let own: Vec<Digit> = all.into_iter().filter(has).collect();
    let Some(bias) = memory.arrange(bias, &port.digits, &own)? else {
        return Ok(None);
    };
    let mut extents: Vec<u64> = (split.batches(sides).iter())
        .map(|b| if has(&b.first) { b.extent } else { 1 })
        .collect();
    for digits in [&split.rows, &split.columns] {
        let own = digits.iter().filter(|d| has(d));
        extents.push(own.fold(1, |n, d| n.saturating_mul(d.extent)));
    }
    let short = extents.into_iter().skip_while(|n| *n == 1);
    let wanted = dims(short, &memory.numbers);
    memory.reshape(bias, &wanted).map(Some)
}

/// Digits of a batch that form one dimension.
struct Batch {
    first: Digit,
    /// The divisor of the last of them.
    low: u64,
    extent: u64,
    left: bool,
    right: bool,
}

impl Split {
    /// The batch, with adjacent digits of one label joined.
    fn batches(&self, sides: [&LaidPort; 2]) -> Vec<Batch> {
        let mut out: Vec<Batch> = Vec::new();
        for digit in &self.batch {
            let [left, right] = sides.map(|p| p.size(digit.of).is_some());
            let end = digit.div.checked_mul(digit.extent);
            match out.last_mut() {
                Some(last) if last.first.of == digit.of && Some(last.low) == end => {
                    last.low = digit.div;
                    last.extent = last.extent.saturating_mul(digit.extent);
                }
                _ => out.push(Batch {
                    first: *digit,
                    low: digit.div,
                    extent: digit.extent,
                    left,
                    right,
                }),
            }
        }
        out
    }
}

/// The product of matrices of a left and a right operand. The result is over batch, rows and columns.
fn matrices(
    memory: &mut Memory<'_>,
    split: &Split,
    sides: [(Value, &LaidPort, &[Digit]); 2],
    to: Option<DType>,
) -> Result<Option<Value>, OpError> {
    let volume = |digits: &[Digit]| digits.iter().fold(1u64, |n, d| n.saturating_mul(d.extent));
    let (m, n, k) = (
        volume(&split.rows),
        volume(&split.columns),
        volume(&split.k),
    );
    let batches = split.batches(sides.map(|(_, port, _)| port));
    if memory.dimension_numbers
        && let Some(shared) = shared(&batches)
    {
        return numbered(memory, split, sides, (shared, &batches), to);
    }
    let mut given = Vec::with_capacity(2);
    let mut declared = None;
    for (i, (value, port, digits)) in sides.into_iter().enumerate() {
        let batch = split.batch.iter().filter(|d| port.size(d.of).is_some());
        let matrix = match i {
            0 => [&split.rows[..], &split.k].concat(),
            _ => [&split.k[..], &split.columns].concat(),
        };
        let wanted: Vec<Digit> = batch.copied().chain(matrix).collect();
        if i == 0 {
            declared = declared_shape(port, digits, &wanted);
        }
        match memory.arrange(value, digits, &wanted)? {
            Some(value) => given.push(value),
            None => return Ok(None),
        }
    }
    // A batch of the left operand alone counts as rows.
    if batches.iter().all(|b| b.left && !b.right) {
        let matrix = [volume(&split.batch).saturating_mul(m), k];
        given[0] = rows(memory, given[0], declared, matrix)?;
        let wanted = dims([k, n], &memory.numbers);
        given[1] = memory.reshape(given[1], &wanted)?;
        return memory.b.one(&Matmul { to }, &given).map(Some);
    }
    let extents = |has: fn(&Batch) -> bool| {
        let of = |b: &Batch| if has(b) { b.extent } else { 1 };
        batches.iter().map(of).collect::<Vec<u64>>()
    };
    let mut sizes = [extents(|b| b.left), extents(|b| b.right)];
    sizes[0].extend([m, k]);
    sizes[1].extend([k, n]);
    for (value, sizes) in given.iter_mut().zip(sizes) {
        let wanted: Vec<Dim> = dims(sizes, &memory.numbers);
        // Leading ones are dropped.
        let lead = wanted.iter().take(batches.len());
        let ones = lead.take_while(|d| d.is_one()).count();
        *value = memory.reshape(*value, &wanted[ones..])?;
    }
    memory.b.one(&Matmul { to }, &given).map(Some)
}

/// Returns `true` if both operands have the whole batch, `false` if the left one alone has it, `None` otherwise.
fn shared(batches: &[Batch]) -> Option<bool> {
    let both = batches.iter().all(|b| b.left && b.right);
    let left = batches.iter().all(|b| b.left && !b.right);
    (both || left).then_some(both)
}

/// The product with dimension numbers: each operand keeps its order, with its rows before or behind K.
fn numbered(
    memory: &mut Memory<'_>,
    split: &Split,
    sides: [(Value, &LaidPort, &[Digit]); 2],
    (shared, batches): (bool, &[Batch]),
    to: Option<DType>,
) -> Result<Option<Value>, OpError> {
    let volume = |digits: &[Digit]| digits.iter().fold(1u64, |n, d| n.saturating_mul(d.extent));
    let lead: &[Digit] = if shared { &split.batch } else { &[] };
    let sizes: Vec<u64> = batches
        .iter()
        .map(|b| b.extent)
        .filter(|_| shared)
        .collect();
    let rows = match shared {
        true => split.rows.clone(),
        false => [&split.batch[..], &split.rows].concat(),
    };
    let (mut given, mut contract) = (Vec::with_capacity(2), Vec::with_capacity(2));
    for ((value, _, digits), own) in sides.into_iter().zip([&rows, &split.columns]) {
        let first = [lead, &split.k, own].concat();
        let k_first = first == digits;
        let wanted = if k_first {
            first
        } else {
            [lead, own, &split.k].concat()
        };
        let Some(value) = memory.arrange(value, digits, &wanted)? else {
            return Ok(None);
        };
        let matrix = [volume(own), volume(&split.k)];
        let matrix = if k_first {
            [matrix[1], matrix[0]]
        } else {
            matrix
        };
        let extents = sizes.iter().copied().chain(matrix);
        let shape = dims(extents, &memory.numbers);
        given.push(memory.reshape(value, &shape)?);
        contract.push(vec![sizes.len() + usize::from(!k_first)]);
    }
    let batch: Vec<i64> = ints(&(0..sizes.len()).collect::<Vec<_>>());
    let product = DotGeneral {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contract: ints(&contract[0]),
        rhs_contract: ints(&contract[1]),
        to,
    };
    memory.b.one(&product, &given).map(Some)
}

/// A left operand as rows of K. It gets the declared shape, or keeps its own shape if that ends in K.
///
/// The rank stays, because fusions of runtimes depend on the rank of a product.
fn rows(
    memory: &mut Memory<'_>,
    value: Value,
    declared: Option<&[u64]>,
    [rows, k]: [u64; 2],
) -> Result<Value, OpError> {
    let is_matrix = |n: usize| 1 < n && 1 < k;
    if let Some(shape) = declared.filter(|s| is_matrix(s.len()) && s.last() == Some(&k)) {
        let wanted = dims(shape.iter().copied(), &memory.numbers);
        return memory.reshape(value, &wanted);
    }
    let has = memory.dims(value);
    if is_matrix(has.len()) && has.last() == Some(&memory.numbers.dim(k)) {
        return Ok(value);
    }
    let wanted = dims([rows, k], &memory.numbers);
    memory.reshape(value, &wanted)
}

/// The declared shape of an operand, if the operand has its declared order and is needed in it.
fn declared_shape<'p>(port: &'p LaidPort, digits: &[Digit], wanted: &[Digit]) -> Option<&'p [u64]> {
    (port.is_natural() && digits == wanted).then_some(&port.shape)
}

impl Product {
    fn of(left: &LaidPort, right: &LaidPort, result: &LaidPort, labels: usize) -> Option<Product> {
        let mut cuts = Cuts::default();
        let mut roles = vec![None; labels];
        for (label, role) in roles.iter_mut().enumerate() {
            let of = [left, right, result].map(|p| p.size(label));
            *role = match of {
                [Some(a), Some(b), Some(y)] if a == b && b == y => Some(Role::Batch),
                [Some(a), None, Some(y)] if a == y => Some(Role::M),
                [None, Some(b), Some(y)] if b == y => Some(Role::N),
                [Some(a), Some(b), None] if a == b => Some(Role::K),
                [None, None, None] => None,
                _ => return None,
            };
        }
        [left, right, result]
            .iter()
            .for_each(|p| cuts.add(&p.digits));
        Some(Product {
            left: cuts.refine(&left.digits)?,
            right: cuts.refine(&right.digits)?,
            result: cuts.refine(&result.digits)?,
            roles,
        })
    }

    fn is(&self, digit: &Digit, role: Role) -> bool {
        self.roles.get(digit.of).copied().flatten() == Some(role)
    }

    /// Splits the digits into batch, rows, columns and K. Also returns whether the operands are exchanged.
    ///
    /// The order is that of the result if the result ends in rows and columns, else that of the operands. K has the
    /// order of the left operand. It has the order of the right one if the left one is a constant, or has K elsewhere
    /// than last. With `numbers` one operand is never repeated as a batch of the other: the dimensions in front of rows
    /// and columns in the result belong to both operands, or to the one with the rows.
    fn split(&self, constants: [bool; 2], numbers: bool) -> (Split, bool) {
        let has = |role: Role| self.result.iter().any(|d| self.is(d, role));
        let exchanged = self.result.last().is_some_and(|d| self.is(d, Role::M)) && has(Role::N);
        let (rows, columns) = match exchanged {
            false => (Role::M, Role::N),
            true => (Role::N, Role::M),
        };
        let run = |digits: &[Digit], role: Role| {
            let run = digits.iter().rev().take_while(|d| self.is(d, role)).count();
            digits.len() - run
        };
        let columns_at = run(&self.result, columns);
        let rows_at = run(&self.result[..columns_at], rows);
        let ordered = match constants {
            [false, true] => &self.left,
            [true, false] => &self.right,
            _ if self.k_is_last(&self.left) => &self.left,
            _ => &self.right,
        };
        let of = |digits: &[Digit], role: Role| -> Vec<Digit> {
            let of = digits.iter().filter(|d| self.is(d, role));
            of.copied().collect()
        };
        let k = of(ordered, Role::K);
        let lead = &self.result[..rows_at];
        let of_role = |role: Role| lead.iter().all(|d| self.is(d, role));
        let whole = !numbers || of_role(Role::Batch) || of_role(rows);
        let has_rows = rows_at < columns_at || !has(rows);
        if whole && has_rows && (columns_at < self.result.len() || !has(columns)) {
            let split = Split {
                batch: self.result[..rows_at].to_vec(),
                rows: self.result[rows_at..columns_at].to_vec(),
                columns: self.result[columns_at..].to_vec(),
                k,
            };
            return (split, exchanged);
        }
        let split = Split {
            batch: of(&self.left, Role::Batch),
            rows: of(&self.left, Role::M),
            columns: of(&self.right, Role::N),
            k,
        };
        (split, false)
    }

    fn k_is_last(&self, digits: &[Digit]) -> bool {
        digits
            .iter()
            .skip_while(|d| !self.is(d, Role::K))
            .all(|d| self.is(d, Role::K))
    }
}
