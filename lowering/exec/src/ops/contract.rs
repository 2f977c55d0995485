//! Contractions (einsum of two operands): products summed over the labels that both operands have and the result does not
//! have, with an optional bias.
//!
//! `matmul` of `[8, 2, 3]` and `[3, 4]` has the labels b, m, k and k, n, and the result b, m, n. It becomes a product with
//! rows b and m, columns n and terms k.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::ops::bytes::{Bytes, multiplied};
use crate::ops::kernel::{Call, Family, Kernel, Site};
use optc_ir::{Freedom, FreedomClass, Op, Operation, Value};
use optc_kernels::element::Kind;
use optc_kernels::epilogue::Epilogue;
use optc_kernels::gemm::Scratch;
use optc_kernels::gemm::{Along, InitialBytes, Multiply, Products};
use optc_ops::Linear;

/// For each operand, the value that is read in its place and the number that this value is scaled by when it is packed.
pub(crate) type Scaled = [Option<(Value, f32)>; 2];

/// A contraction, with an optional bias.
#[derive(Debug)]
pub(crate) struct Contract {
    products: Box<dyn Multiply>,
    /// True if sums have an initial value; true if that value is read as an operand at run time.
    starts: bool,
    biased: bool,
    /// The operation that it computes.
    op: Op,
    scales: Scaled,
    /// Bytes that are multiplied in place of its operands.
    bytes: Option<Bytes>,
}

impl Contract {
    pub(crate) fn of(site: &Site<'_>) -> Option<Contract> {
        let data = site.data();
        let result = site.slot(*data.results.first()?)?;
        let biased = data.operands.len() == 3 && &*data.name == Linear::NAME;
        if !biased && data.operands.len() != 2 {
            return None;
        }
        let start = data.operands.get(2).map(|&v| site.slot(v));
        match start {
            Some(start) => Contract::to(site, result, Some(start?), None, [None; 2], None),
            None => Contract::to(site, result, None, None, [None; 2], None),
        }
    }

    /// The contraction at a site with bytes in place of its operands.
    pub(crate) fn in_bytes(site: &Site<'_>, bytes: &Bytes) -> Option<Contract> {
        let data = site.data();
        let result = site.slot(*data.results.first()?)?;
        let start = match data.operands[..] {
            [_, _] => None,
            [_, _, start] if &*data.name == Linear::NAME => Some(site.slot(start)?),
            _ => return None,
        };
        Contract::to(site, result, start, None, [None; 2], Some(bytes))
    }

    /// The contraction at a site whose sums are stored in `result`, with an initial value that broadcasts to them, an
    /// epilogue, scaled operands or bytes, if they are given.
    pub(crate) fn to(
        site: &Site<'_>,
        result: &Slot,
        start: Option<&Slot>,
        epilogue: Option<Epilogue>,
        scales: Scaled,
        bytes: Option<&Bytes>,
    ) -> Option<Contract> {
        let mut all = site.all()?;
        for (slot, scale) in all.iter_mut().zip(scales) {
            if let Some((value, _)) = scale {
                *slot = site.slot(value)?;
            }
        }
        let own = match bytes {
            Some(_) => Kind::I8,
            None => all[0].kind()?,
        };
        let kinds = [own, result.kind()?];
        let same = bytes.is_some() || all[1].kind() == Some(own);
        let sums = epilogue.as_ref().map_or(kinds[1], Epilogue::sums);
        if !same || start.is_some_and(|start| start.kind() != Some(sums)) {
            return None;
        }
        let by = scales.map(|scale| scale.map(|(_, by)| by));
        if own != Kind::F32 && by.iter().any(Option::is_some) {
            return None;
        }
        let begins = start.and_then(|start| site.constant_of(start));
        let scaled = bytes.is_some_and(|bytes| bytes.scale.is_some());
        if scaled && start.is_some() && begins.is_none() {
            return None;
        }
        let constant = |k: usize| site.constant_bytes(k).filter(|_| scales[k].is_none());
        let floats = [0, 1].map(constant);
        let constants = match bytes {
            Some(bytes) if !scaled => bytes.constants(),
            _ => floats,
        };
        let decl = site.registry.get(&site.data().name)?;
        let ports = Ports {
            result: &result.access,
            operands: [0, 1].map(|side| {
                let other = bytes.and_then(|bytes| bytes.access(side));
                other.unwrap_or(&all[side].access)
            }),
            freedom: decl.freedom(&site.func.op_ref(site.op)),
            known: constants.map(|c| c.is_some()),
            kind: own,
        };
        let shape = result.access.shape();
        let bias = match start {
            Some(start) => start.access.broadcast(&shape),
            None => Access::constant_zero(&shape),
        };
        let mut products = ports.products(&bias)?;
        products.scales = by;
        let (constants, along) = ((floats, begins), |along: &Access| ports.products(along));
        let (products, bytes) = multiplied(products, kinds, bytes, constants, epilogue, along)?;
        Some(Contract {
            products,
            starts: start.is_some(),
            biased: start.is_some() && !scaled,
            op: site.op,
            scales,
            bytes,
        })
    }
}

/// The result and the operands of a contraction.
struct Ports<'a> {
    result: &'a Access,
    operands: [&'a Access; 2],
    /// The labels of their dimensions.
    freedom: Freedom,
    /// True for each operand that is a constant.
    known: [bool; 2],
    kind: Kind,
}

impl Ports<'_> {
    /// The products, with initial values at the offsets `begins`.
    fn products(&self, begins: &Access) -> Option<Products> {
        if self.freedom.class != FreedomClass::Contract {
            return None;
        }
        let (labels, operands) = (self.freedom.results.first()?, &self.freedom.operands);
        let ports = [
            (self.result, labels),
            (self.operands[0], &operands[0]),
            (self.operands[1], &operands[1]),
            (begins, labels),
        ];
        let count = self.freedom.labels.len();
        let mut base = [0; 4];
        let mut along: Vec<Along> = vec![Default::default(); count + 1];
        let joint = joint(&ports)?;
        for (k, (access, labels)) in ports.into_iter().enumerate() {
            let own = is_joint(ports[0].1, labels, joint);
            let shared =
                |label: &Option<usize>| label.is_some() && ports[0].1[..joint].contains(label);
            let from = if own { joint } else { 0 };
            let extents = access.shape();
            let repeated = |(label, n): (&Option<usize>, &usize)| shared(label) && *n != 1;
            if !own && labels.iter().zip(&extents).any(repeated) {
                return None;
            }
            let (heads, tables) = access.split(from)?;
            base[k] = *heads.first()?;
            if 0 < from {
                let heads = heads.iter().map(|at| at - base[k]);
                along[count][k] = heads.collect();
            }
            for (table, label) in tables.iter().zip(&labels[from..]) {
                match label {
                    None if table.len() == 1 => {}
                    None => return None,
                    Some(_) if !own && shared(label) => {}
                    Some(label) => {
                        let known = &mut along.get_mut(*label)?[k];
                        if !known.is_empty() {
                            return None;
                        }
                        known.clone_from(table);
                    }
                }
            }
        }
        for along in &mut along {
            let n = along.iter().map(Vec::len).max().unwrap_or(0);
            for table in along.iter_mut().filter(|t| t.len() != n) {
                // A dimension of extent 1 broadcasts.
                if 1 < table.len() {
                    return None;
                }
                *table = vec![0; n];
            }
        }
        along.retain(|a| !a[0].is_empty());
        Products::of(base, &along, self.known, self.kind)
    }
}

/// Number of leading dimensions of the result that are merged into one loop, because the offsets of a port are no sum by
/// these dimensions.
fn joint(ports: &[(&Access, &Vec<Option<usize>>); 4]) -> Option<usize> {
    if ports.iter().all(|(access, _)| access.is_sum()) {
        return Some(0);
    }
    let result = ports[0].1;
    let mut dims = 1..result.len();
    dims.find(|&from| {
        ports.iter().all(|(access, labels)| {
            let own = is_joint(result, labels, from);
            access.split(if own { from } else { 0 }).is_some()
        })
    })
}

/// Returns whether a port's leading dimensions are the merged dimensions of the result.
fn is_joint(result: &[Option<usize>], labels: &[Option<usize>], joint: usize) -> bool {
    labels.get(..joint) == result.get(..joint)
}

impl Kernel for Contract {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn family(&self) -> Family {
        Family::Contraction
    }

    fn order(&self) -> Vec<u32> {
        self.products.order()
    }

    fn with_epilogue(
        &self,
        site: &Site<'_>,
        operands: &[Value],
        result: &Slot,
        epilogue: Epilogue,
    ) -> Option<Box<dyn Kernel>> {
        let start = match (self.starts, operands.get(2)) {
            (true, start) => Some(site.slot(*start?)?),
            (false, _) => None,
        };
        let own = site.at(self.op);
        let bytes = self.bytes.as_ref();
        let contract = Contract::to(&own, result, start, Some(epilogue), self.scales, bytes)?;
        Some(Box::new(contract))
    }

    fn packed_bytes(&self) -> usize {
        let bytes = self.bytes.as_ref().map_or(0, Bytes::packed_bytes);
        self.products.packed_bytes() + bytes
    }

    fn scratch(&self) -> Scratch {
        self.products.scratch()
    }

    fn run(&self, Call { ins, out, cx, .. }: Call<'_>) -> Result<(), StepError> {
        let [In::Bytes(left), In::Bytes(right), rest @ ..] = ins else {
            return Err(StepError::OperandWrittenOver);
        };
        let (operands, zeros) = match &self.bytes {
            Some(bytes) => bytes.given([left, right])?,
            None => ([*left, *right], [0; 2]),
        };
        let start = match (self.biased, rest) {
            (true, [In::Bytes(values)]) => InitialBytes::Values(values),
            // A residual in the place of the result.
            (true, [In::Inplace]) => InitialBytes::Result,
            (true, _) => return Err(StepError::BiasWrittenOver),
            (false, _) => InitialBytes::Zero,
        };
        Ok(self.products.run(out, operands, zeros, start, cx.team)?)
    }
}
