//! Unknown sizes as instructions that compute them. MLIR text needs these as operands of operations whose results have
//! such sizes.

use super::func::{Outcome, Writer};
use super::shape::dtype_name;
use crate::codes;
use optc_ir::size::Factor;
use optc_ir::{DType, Diagnostic, Dim, Size, TensorType, Type, Value};
use std::sync::Arc;

/// The attribute of a port that names the size which the argument passes as a number.
const HANDED: &str = "hlo.size";

/// The shape of a size.
const SCALAR: &str = "s32[]";

impl Writer<'_> {
    /// The extents of a type as one value; `None` if all are known, or if the output is HLO text, which has no use for
    /// it.
    pub(super) fn extents(&mut self, ty: &TensorType) -> Outcome<Option<String>> {
        if !self.shared.mlir || ty.shape().is_some() {
            return Ok(None);
        }
        let mut sizes = Vec::with_capacity(ty.rank());
        for dim in &ty.dims {
            sizes.push(dim.size().ok_or_else(|| unknown("?"))?);
        }
        self.size_list(&sizes).map(Some)
    }

    /// A list of sizes as one value.
    pub(super) fn size_list(&mut self, sizes: &[Size]) -> Outcome<String> {
        let known: Option<Vec<String>> = sizes
            .iter()
            .map(|size| Some(size.as_constant()?.to_string()))
            .collect();
        let shape = format!("s32[{}]{{0}}", sizes.len());
        if let Some(known) = known {
            let text = format!("{{{}}}", known.join(", "));
            return Ok(self.payload(&shape, "constant", &text, ""));
        }
        let mut parts = Vec::with_capacity(sizes.len());
        for size in sizes {
            let one = self.size(size)?;
            parts.push(self.raw("s32[1]{0}", "reshape", &[one], ""));
        }
        if let [one] = &parts[..] {
            return Ok(one.clone());
        }
        Ok(self.raw(&shape, "concatenate", &parts, ", dimensions={0}"))
    }

    /// A tensor of an integer type in which every element is the size.
    pub(super) fn filled_with(&mut self, size: &Size, ty: &TensorType) -> Outcome<String> {
        if let Some(number) = size.as_constant() {
            return self.filled(&number.to_string(), ty);
        }
        let mut one = self.size(size)?;
        if ty.dtype != DType::SI32 {
            let shape = format!("{}[]", dtype_name(ty.dtype));
            one = self.raw(&shape, "convert", &[one], "");
        }
        self.put(ty, "broadcast", &[one], ", dimensions={}")
    }

    /// The run-time value of a size.
    fn size(&mut self, size: &Size) -> Outcome<String> {
        if let Some(known) = self.sizes.get(size) {
            return Ok(known.clone());
        }
        let mut sum = None;
        for (number, factors) in size.terms() {
            let mut product = None;
            for factor in factors {
                let factor = self.factor(factor)?;
                product = Some(match product {
                    None => factor,
                    Some(before) => self.number("multiply", &[before, factor]),
                });
            }
            let term = match product {
                Some(product) if number == 1 => product,
                Some(product) => {
                    let number = self.integer(number);
                    self.number("multiply", &[product, number])
                }
                None => self.integer(number),
            };
            sum = Some(match sum {
                None => term,
                Some(before) => self.number("add", &[before, term]),
            });
        }
        let made = match sum {
            Some(sum) => sum,
            None => self.integer(0),
        };
        self.sizes.insert(size.clone(), made.clone());
        Ok(made)
    }

    fn factor(&mut self, factor: Factor<'_>) -> Outcome<String> {
        Ok(match factor {
            Factor::Name(name) => self.named_size(name)?,
            Factor::Min(a, b) => {
                let both = [self.size(a)?, self.size(b)?];
                self.number("minimum", &both)
            }
            Factor::Max(a, b) => {
                let both = [self.size(a)?, self.size(b)?];
                self.number("maximum", &both)
            }
            Factor::Quotient(a, b) => {
                let both = [self.size(a)?, self.size(b)?];
                let towards_zero = self.number("divide", &both);
                if a.is_at_least(0) {
                    return Ok(towards_zero);
                }
                // Rounds down: subtracts 1 if the remainder is negative.
                let rest = self.number("remainder", &both);
                let zero = self.integer(0);
                let below = self.raw("pred[]", "compare", &[rest, zero], ", direction=LT");
                let below = self.raw(SCALAR, "convert", &[below], "");
                self.number("subtract", &[towards_zero, below])
            }
        })
    }

    /// The value of a named size, read from a dimension that contains it: of an argument, else of a value written
    /// before.
    fn named_size(&mut self, name: &Arc<str>) -> Outcome<String> {
        let func = self.func;
        let has = |value: Value| {
            let Type::Tensor(ty) = func.ty(value) else {
                return None;
            };
            let meant = |(at, dim): (usize, &Dim)| {
                let size = dim.size()?;
                let (own, factor, rest) = size.as_linear()?;
                (own == name && 0 < factor).then_some((value, at, factor, rest))
            };
            let all = ty.dims.iter().enumerate().filter_map(meant);
            all.min_by_key(|&(_, at, factor, rest)| (factor, rest, at))
        };
        if let Some(made) = self.handed(name)? {
            self.sizes.insert(Size::name(name), made.clone());
            return Ok(made);
        }
        let args = func.args.iter().copied().filter_map(has);
        let found = args.min_by_key(|&(_, _, factor, rest)| (factor, rest));
        let found = found.or_else(|| {
            let mut written = func.values.ids().filter(|&value| self.is_written(value));
            written.find_map(has)
        });
        let Some((value, at, factor, rest)) = found else {
            return Err(unknown(name));
        };
        let operand = self.name(value)?;
        let attrs = format!(", dimensions={{{at}}}");
        let made = self.raw(SCALAR, "get-dimension-size", &[operand], &attrs);
        let made = self.solved(made, factor, rest);
        self.sizes.insert(Size::name(name), made.clone());
        Ok(made)
    }

    /// Solves `made = x * factor + rest` for `x`.
    fn solved(&mut self, mut made: String, factor: i128, rest: i128) -> String {
        if rest != 0 {
            let rest = self.integer(rest);
            made = self.number("subtract", &[made, rest]);
        }
        if factor != 1 {
            let factor = self.integer(factor);
            made = self.number("divide", &[made, factor]);
        }
        made
    }

    /// The value of a named size, from an argument whose port says that it is passed as a number.
    fn handed(&mut self, name: &Arc<str>) -> Outcome<Option<String>> {
        let func = self.func;
        for (&value, port) in func.args.iter().zip(&func.arg_ports) {
            let size = port.attrs.str(HANDED).and_then(Size::parse);
            let solves = size.as_ref().and_then(Size::as_linear);
            let Some((own, factor, rest)) = solves else {
                continue;
            };
            let scalar = func
                .ty(value)
                .as_tensor()
                .filter(|ty| ty.dims.is_empty() && ty.dtype.is_int());
            if let (Some(ty), true) = (scalar, own == name && 0 < factor) {
                let mut made = self.name(value)?;
                if ty.dtype != DType::SI32 {
                    made = self.raw(SCALAR, "convert", &[made], "");
                }
                return Ok(Some(self.solved(made, factor, rest)));
            }
        }
        Ok(None)
    }

    fn number(&mut self, opcode: &str, operands: &[String]) -> String {
        self.raw(SCALAR, opcode, operands, "")
    }

    fn integer(&mut self, number: i128) -> String {
        self.payload(SCALAR, "constant", &number.to_string(), "")
    }
}

fn unknown(name: &str) -> Box<Diagnostic> {
    let message = format!(
        "StableHLO cannot write a shape with the size `{name}`: no argument and no value before has it"
    );
    let diag = Diagnostic::error(codes::STABLEHLO_OP, message);
    Box::new(diag.hint("hand over an argument with a dimension of that size"))
}
