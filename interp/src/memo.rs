//! Memoized results of costly operations, for another program with the same operations on the same operands.

use indexmap::IndexMap;
use optc_ir::text::print_attr;
use optc_ir::{Data, OpDecl, OpRef, Tensor};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Results by what they were computed from. The reference semantics of an operation are a function of its attributes
/// and of its operands' elements, so the same key always has the same results.
#[derive(Debug)]
pub struct Memo {
    found: RefCell<IndexMap<[u64; 2], Vec<Arc<Tensor>>>>,
    /// The number of elements that may still be kept.
    room: Cell<usize>,
}

impl Default for Memo {
    fn default() -> Memo {
        Memo {
            found: RefCell::default(),
            room: Cell::new(ROOM),
        }
    }
}

/// The most elements of results that are kept.
const ROOM: usize = 1 << 26;

/// The fewest steps per element read for which an operation is memoized. Hashing the operands is then cheap in
/// comparison.
const STEPS: u64 = 64;

impl Memo {
    /// The key of an operation; `None` if the operation is too cheap to be memoized.
    pub(crate) fn key(
        op: &OpRef<'_>,
        decl: &dyn OpDecl,
        inputs: &[Arc<Tensor>],
    ) -> Option<[u64; 2]> {
        let loops = decl.iteration_domain(op).loops;
        let steps = loops.iter().fold(1, |n: u64, l| n.saturating_mul(l.extent));
        let read: usize = inputs.iter().map(|t| t.len()).sum();
        if steps / STEPS < read.max(1) as u64 {
            return None;
        }
        let mut key = Key([1, 2]);
        key.text(op.name);
        for (name, attr) in op.props.iter() {
            key.text(name);
            key.text(&print_attr(attr));
        }
        for tensor in inputs {
            key.text(&format!("{} {:?}", tensor.dtype, tensor.shape));
            match &tensor.data {
                Data::F32(v) => v.iter().for_each(|x| key.add(x.to_bits().into())),
                Data::F64(v) => v.iter().for_each(|x| key.add(x.to_bits())),
                Data::I64(v) => v.iter().for_each(|x| key.add(x.cast_unsigned())),
                Data::Bits(_) => return None,
            }
        }
        Some(key.0)
    }

    pub(crate) fn get(&self, key: [u64; 2]) -> Option<Vec<Arc<Tensor>>> {
        self.found.borrow().get(&key).cloned()
    }

    /// Keeps results, if there is room.
    pub(crate) fn keep(&self, key: [u64; 2], results: &[Arc<Tensor>]) {
        let size: usize = results.iter().map(|t| t.len()).sum();
        if let Some(room) = self.room.get().checked_sub(size) {
            self.room.set(room);
            self.found.borrow_mut().insert(key, results.to_vec());
        }
    }
}

/// A hash of 128 bits over a sequence of numbers.
struct Key([u64; 2]);

impl Key {
    fn add(&mut self, x: u64) {
        let [a, b] = self.0;
        self.0 = [
            (a ^ x).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29),
            b.rotate_left(23)
                .wrapping_add(x)
                .wrapping_mul(0xBF58_476D_1CE4_E5B9),
        ];
    }

    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.add(byte.into()));
        self.add(u64::MAX);
    }
}
