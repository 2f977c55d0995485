//! Operations of the dialect `tensor`.

use crate::func::{FuncCx, Parts, Splat, Val};
use crate::types::Ty;
use optc_ir::{DType, Value};
use optc_mlir_syntax::{Op, Parsed, Use, int};
use optc_ops::{Bounds, Concat, Pad, PadMode, PadValue, Slice};

/// The number in a static list that stands for an operand.
const DYNAMIC: i64 = i64::MIN;

/// A box in a tensor: the first index, the extents and the steps, one for each dimension.
struct Part {
    start: Vec<u64>,
    extents: Vec<u64>,
    strides: Vec<i64>,
}

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    /// The result of an operation of the dialect `tensor`; `None` if it is not known.
    pub(crate) fn tensor_op(&mut self, op: &'m Op<'a>) -> Parsed<Option<Vec<Val<'a>>>> {
        let [result] = op.result_types[..] else {
            return Ok(None);
        };
        let Ty::Tensor(shape, dtype) = self.ty(result) else {
            return Ok(None);
        };
        let made = match op.name {
            "tensor.empty" => Some(Val::Empty(shape, dtype)),
            "tensor.cast" | "tensor.collapse_shape" | "tensor.expand_shape" | "tensor.reshape" => {
                self.reshape(op, shape)?
            }
            "tensor.extract_slice" => self.extract(op, &shape)?,
            "tensor.insert_slice" => self.insert(op)?,
            "tensor.pad" => self.pad(op)?,
            "tensor.concat" => self.concat(op)?,
            "tensor.pack" => self.pack(op)?,
            "tensor.unpack" => self.unpack(op)?,
            "tensor.splat" => match op.operands.first().map(|used| self.val(used)).transpose()? {
                Some(Val::Number(number, _)) => Some(Val::Splat(Splat {
                    shape,
                    ..number.clone()
                })),
                _ => None,
            },
            _ => None,
        };
        Ok(made.map(|val| vec![val]))
    }

    /// The same elements, row-major, in another shape.
    fn reshape(&mut self, op: &Op<'a>, shape: Vec<u64>) -> Parsed<Option<Val<'a>>> {
        let Some(x) = op.operands.first() else {
            return Ok(None);
        };
        Ok(match self.val(x)? {
            Val::Splat(splat) => Some(Val::Splat(Splat {
                shape,
                ..splat.clone()
            })),
            Val::Empty(_, dtype) => Some(Val::Empty(shape, *dtype)),
            _ => {
                let value = self.tensor(x)?;
                let value = value.and_then(|value| self.reshaped(value, &shape));
                value.map(Val::Tensor)
            }
        })
    }

    /// The numbers of a list, of which some are operands.
    fn mixed(
        &self,
        op: &Op<'a>,
        name: &str,
        operands: &mut &[Use<'a>],
    ) -> Parsed<Option<Vec<i64>>> {
        let Some(mut list) = self.ints(op, name) else {
            return Ok(None);
        };
        for n in list.iter_mut().filter(|n| **n == DYNAMIC) {
            let Some((first, rest)) = operands.split_first() else {
                return Ok(None);
            };
            *operands = rest;
            match self.val(first)? {
                Val::Number(splat, _) if splat.dtype.is_int() => *n = splat.int().unwrap_or(0),
                _ => return Ok(None),
            }
        }
        Ok(Some(list))
    }

    /// The box of a slice whose operands follow the first `skip` ones.
    fn part(&self, op: &Op<'a>, skip: usize, of: &[u64]) -> Parsed<Option<Part>> {
        let mut operands = op.operands.get(skip..).unwrap_or_default();
        let mut lists = Vec::with_capacity(3);
        for name in ["static_offsets", "static_sizes", "static_strides"] {
            match self.mixed(op, name, &mut operands)? {
                Some(list) if list.len() == of.len() => lists.push(list),
                _ => return Ok(None),
            }
        }
        let [start, extents, strides] = lists.try_into().unwrap_or_default();
        let own = |list: Vec<i64>| {
            list.into_iter()
                .map(|n| u64::try_from(n).ok())
                .collect::<Option<Vec<u64>>>()
        };
        let (Some(start), Some(extents)) = (own(start), own(extents)) else {
            return Ok(None);
        };
        let inside = |d: usize| {
            let steps = extents[d]
                .checked_sub(1)
                .map_or(Some(0), |n| n.checked_mul(u64::try_from(strides[d]).ok()?));
            let last = steps.and_then(|steps| start[d].checked_add(steps));
            strides[d] >= 1
                && last.is_some_and(|last| last < of[d] || extents[d] == 0 && last <= of[d])
        };
        let fits = (0..of.len()).all(inside);
        Ok(fits.then_some(Part {
            start,
            extents,
            strides,
        }))
    }

    fn extract(&mut self, op: &Op<'a>, shape: &[u64]) -> Parsed<Option<Val<'a>>> {
        let Some(x) = op.operands.first() else {
            return Ok(None);
        };
        match self.val(x)? {
            Val::Splat(splat) => {
                return Ok(Some(Val::Splat(Splat {
                    shape: shape.to_vec(),
                    ..splat.clone()
                })));
            }
            Val::Empty(_, dtype) => return Ok(Some(Val::Empty(shape.to_vec(), *dtype))),
            _ => {}
        }
        let Some(value) = self.tensor(x)? else {
            return Ok(None);
        };
        let of = self.shape(value);
        let Some(part) = self.part(op, 1, &of)? else {
            return Ok(None);
        };
        Ok(self
            .sliced(value, &part)
            .and_then(|value| self.reshaped(value, shape))
            .map(Val::Tensor))
    }

    fn sliced(&mut self, value: Value, part: &Part) -> Option<Value> {
        let of = self.shape(value);
        if part.extents == of {
            return Some(value);
        }
        let ends = |d: usize| {
            let steps = part.extents[d]
                .checked_sub(1)
                .map(|n| n * part.strides[d].unsigned_abs() + 1);
            part.start[d] + steps.unwrap_or(0)
        };
        let limits: Vec<u64> = (0..of.len()).map(ends).collect();
        let slice = Slice {
            starts: Bounds::of_ints(&optc_ops::ints(&part.start)),
            limits: Bounds::of_ints(&optc_ops::ints(&limits)),
            strides: part
                .strides
                .iter()
                .any(|&n| n != 1)
                .then(|| part.strides.clone()),
        };
        self.one(&slice, &[value])
    }

    /// A part written into a tensor.
    fn insert(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let [source, into, ..] = &op.operands[..] else {
            return Ok(None);
        };
        let into = self.val(into)?.clone();
        let (shape, dtype) = match &into {
            Val::Empty(shape, dtype) => (shape.clone(), *dtype),
            Val::Parts(parts) => (parts.shape.clone(), parts.dtype),
            other => match self.settled(other) {
                Some(value) => (self.shape(value), self.dtype(value)),
                None => return Ok(None),
            },
        };
        let Some(part) = self
            .part(op, 2, &shape)?
            .filter(|part| part.strides.iter().all(|&n| n == 1))
        else {
            return Ok(None);
        };
        let Some(value) = self.tensor(source)? else {
            return Ok(None);
        };
        let Some(value) = self.reshaped(value, &part.extents) else {
            return Ok(None);
        };
        let mut parts = match into {
            Val::Parts(parts) => parts,
            Val::Empty(..) => Parts {
                shape,
                dtype,
                parts: Vec::new(),
            },
            other => return Ok(self.inserted(&other, value, &part).map(Val::Tensor)),
        };
        parts.parts.push((value, part.start, part.extents));
        Ok(Some(Val::Parts(parts)))
    }

    /// A tensor with a part written into it. A part in a tensor of one number is padded by the number.
    fn inserted(&mut self, into: &Val<'a>, value: Value, part: &Part) -> Option<Value> {
        if let Val::Splat(splat) = into {
            let end = |d: usize| splat.shape[d] - part.start[d] - part.extents[d];
            let high: Vec<u64> = (0..splat.shape.len()).map(end).collect();
            return self.padded(
                value,
                &optc_ops::ints(&part.start),
                &optc_ops::ints(&high),
                splat,
            );
        }
        let into = self.settled(into)?;
        if self.shape(into) == part.extents {
            return Some(value);
        }
        self.written(into, value, &part.start)
    }

    /// A tensor with elements of one number around it.
    pub(crate) fn padded(
        &mut self,
        x: Value,
        low: &[i64],
        high: &[i64],
        number: &Splat,
    ) -> Option<Value> {
        if low.iter().chain(high).all(|&n| n == 0) {
            return Some(x);
        }
        let element = number.element();
        let value = match number.dtype.is_int() {
            true => PadValue::Int(element.i64_at(0)),
            false => PadValue::Float(element.f64_at(0)),
        };
        // A number that an attribute cannot hold exactly.
        if value.element(number.dtype).to_bytes() != number.bytes {
            return None;
        }
        let pad = Pad {
            low: Some(low.to_vec()),
            high: Some(high.to_vec()),
            mode: PadMode::Constant,
            value,
        };
        self.one(&pad, &[x])
    }

    fn pad(&mut self, op: &'m Op<'a>) -> Parsed<Option<Val<'a>>> {
        let mut operands = op.operands.get(1..).unwrap_or_default();
        let low = self.mixed(op, "static_low", &mut operands)?;
        let high = self.mixed(op, "static_high", &mut operands)?;
        let (Some(low), Some(high), [body], Some(x)) =
            (low, high, &op.regions[..], op.operands.first())
        else {
            return Ok(None);
        };
        let Some(value) = self.tensor(x)? else {
            return Ok(None);
        };
        let Some(used) = body.ops.last().and_then(|end| end.operands.first()) else {
            return Ok(None);
        };
        let inner = body
            .ops
            .iter()
            .find(|op| op.results.iter().any(|(name, _)| *name == used.name));
        let number = match inner {
            Some(op) if op.name == "arith.constant" => self.constant(op)?.into_iter().next(),
            Some(_) => None,
            None => self.val(used).ok().cloned(),
        };
        let Some(Val::Number(number, _)) = number else {
            return Ok(None);
        };
        Ok(self.padded(value, &low, &high, &number).map(Val::Tensor))
    }

    fn concat(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let Some(axis) = op.attr("dim").and_then(int) else {
            return Ok(None);
        };
        let mut values = Vec::with_capacity(op.operands.len());
        for used in &op.operands {
            match self.tensor(used)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(self.one(&Concat { axis }, &values).map(Val::Tensor))
    }

    /// The number with which a pack fills up, 0 if it states none.
    pub(crate) fn filler(&self, used: Option<&Use<'a>>, dtype: DType) -> Parsed<Option<Splat>> {
        let Some(used) = used else {
            let bytes = vec![0; optc_mlir_syntax::width(dtype)];
            return Ok(Some(Splat {
                shape: Vec::new(),
                dtype,
                bytes,
            }));
        };
        Ok(match self.val(used)? {
            Val::Number(number, _) => Some(number.clone()),
            _ => None,
        })
    }
}
