//! Random operations: the seeds with other extents, with names in place of extents, and with other attributes.

use super::{Random, infer, seeds, type_of};
use optc_ir::{Attr, AttrDict, Dim, OpRef, TensorType, Type};
use std::sync::Arc;

/// An operation with its types.
pub(crate) struct Drawn {
    pub(crate) name: String,
    pub(crate) props: AttrDict,
    pub(crate) operands: Vec<Type>,
    pub(crate) results: Vec<Type>,
}

impl Drawn {
    pub(crate) fn op(&self) -> OpRef<'_> {
        super::op_ref(&self.name, &self.operands, &self.results, &self.props)
    }
}

/// The seeds, and `rounds - 1` random variants of each; variants that the shape rule refuses are left out.
pub(crate) fn drawn(random: &mut Random, rounds: usize) -> Vec<Drawn> {
    let mut all = Vec::new();
    for seed in seeds() {
        let registry = optc_ops::registry();
        let fields = registry.get(&seed.name).unwrap().fields();
        for round in 0..rounds {
            let mut props = seed.props.clone();
            let names: Vec<&str> = fields.iter().map(|f| f.name).collect();
            if round % 2 == 1 && !names.is_empty() {
                let name = random.pick(&names);
                let other = changed(random, props.get(name));
                props.set(name, other);
            }
            let sizes = match round {
                0 => Sizes::KEPT,
                _ => Sizes::draw(random),
            };
            let mut types = |tensors: &[optc_ir::Tensor]| -> Vec<Type> {
                tensors
                    .iter()
                    .map(|t| sizes.apply(random, &type_of(t)))
                    .collect()
            };
            let (operands, stated) = (types(&seed.inputs), types(&seed.wanted));
            let Ok(found) = infer(&seed.name, &operands, &stated, &props) else {
                continue;
            };
            let results = found.into_iter();
            let results = results.map(|t| TensorType::new(t.dims, t.dtype).into());
            all.push(Drawn {
                name: seed.name.clone(),
                props,
                operands,
                results: results.collect(),
            });
        }
    }
    all
}

/// A random replacement of extents.
struct Sizes {
    /// The factor for all extents except 1.
    times: u64,
    /// An extent, and the dimension that replaces it.
    other: (u64, Dim),
    /// True if some dimensions become unknown.
    unknown: bool,
}

impl Sizes {
    const KEPT: Sizes = Sizes {
        times: 1,
        other: (1, Dim::Fixed(1)),
        unknown: false,
    };

    fn draw(random: &mut Random) -> Sizes {
        let to = match random.below(4) {
            0 => Dim::Fixed(1),
            1 => Dim::Fixed(random.pick(&[0, 2, 3, 4, 6, 8])),
            _ => Dim::Symbol(Arc::from("S")),
        };
        Sizes {
            times: random.pick(&[1, 1, 1, 2, 4]),
            other: (random.pick(&[1, 2, 3, 4, 5, 6, 8]), to),
            unknown: random.below(6) == 0,
        }
    }

    fn apply(&self, random: &mut Random, ty: &Type) -> Type {
        let tensor = ty.as_tensor().unwrap();
        let mut dim = |dim: &Dim| match dim.fixed() {
            _ if self.unknown && random.below(4) == 0 => Dim::Unknown,
            Some(n) if n == self.other.0 => self.other.1.clone(),
            Some(n) if n != 1 => Dim::Fixed(n * self.times),
            _ => dim.clone(),
        };
        let dims = tensor.dims.iter().map(&mut dim).collect();
        TensorType::new(dims, tensor.dtype).into()
    }
}

fn changed(random: &mut Random, attr: Option<&Attr>) -> Attr {
    match attr {
        Some(Attr::Bool(b)) => Attr::Bool(!b),
        Some(Attr::Array(all)) => {
            let mut all = all.clone();
            let at = random.below(all.len());
            match all.get_mut(at) {
                Some(entry) => *entry = Attr::int(random.below(5) as i64 - 1),
                None => all.push(Attr::int(1)),
            }
            Attr::Array(all)
        }
        Some(Attr::Str(_)) => Attr::str(random.pick(&["sum", "mean", "max", "reflect", "edge"])),
        Some(_) => Attr::int(random.below(6) as i64 - 2),
        None => match random.below(4) {
            0 => Attr::Bool(true),
            1 => Attr::int(random.below(6) as i64 - 2),
            _ => {
                let n = random.below(3) + 1;
                Attr::ints(&(0..n).map(|_| random.below(4) as i64).collect::<Vec<_>>())
            }
        },
    }
}
