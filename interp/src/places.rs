//! Stores values in the bytes of others, where the program places them.

use crate::error::OpFailure;
use crate::frame::{Frame, Memory, Site};
use crate::sharing::{Placed, numbers};
use optc_ir::{Op, Tensor, Value};

impl<M: Memory> Frame<'_, M> {
    /// Returns whether a value lies in the bytes of another one, or another one in its bytes.
    pub(crate) fn has_a_place(&self, value: Value) -> bool {
        let sharing = &self.sharing;
        sharing.home(value).is_some()
            || !sharing.pieces(value).is_empty()
            || !sharing.written(value).is_empty()
    }

    /// The place of a value that has no buffer for itself alone.
    pub(crate) fn place(&mut self, value: Value) -> Result<Option<M::Held>, OpFailure> {
        match self.has_a_place(value) {
            true => self.reserve(value).map(Some),
            false => Ok(None),
        }
    }

    /// The bytes of a root, in its own buffer or elsewhere.
    fn reserve(&mut self, root: Value) -> Result<M::Held, OpFailure> {
        if let Some(held) = self.reserved.get(&root) {
            return Ok(held.clone());
        }
        let site = self.site(root)?;
        let held = if let Some(home) = self.sharing.home(root).cloned() {
            let whole = self.sharing.root(home.whole);
            let there = self.reserve(whole)?;
            self.part_of(&there, &home, &site.shape)?
        } else {
            let pieces = self.sharing.pieces(root).to_vec();
            let mut parts = Vec::with_capacity(pieces.len());
            for placed in pieces {
                let there = self.reserve(placed.value)?;
                let (part, whole) = (self.site(placed.value)?, self.site(placed.whole)?);
                let bindings = &self.scope.bindings;
                let numbers = numbers(&placed.part, &whole.shape, &part.shape, bindings)?;
                parts.push(((there, part), (whole, numbers)));
            }
            let memory = self.memory.sharing().ok_or_else(no_sharing)?;
            match parts.is_empty() {
                true => memory.reserve(&site)?,
                false => memory.in_pieces(&site, &parts)?,
            }
        };
        self.reserved.insert(root, held.clone());
        Ok(held)
    }

    /// The part of a held whole, as a value of this shape that reads it.
    fn part_of(
        &mut self,
        whole: &M::Held,
        placed: &Placed,
        shape: &[usize],
    ) -> Result<M::Held, OpFailure> {
        let (part, large) = (self.site(placed.value)?, self.site(placed.whole)?);
        let bindings = &self.scope.bindings;
        let numbers = numbers(&placed.part, &large.shape, &part.shape, bindings)?;
        let memory = self.memory.sharing().ok_or_else(no_sharing)?;
        memory.within((whole, &large), &part, &numbers, shape)
    }

    /// Writes a value that several operations write.
    pub(crate) fn write_in_place(
        &mut self,
        held: &M::Held,
        value: Value,
        tensor: &Tensor,
    ) -> Result<(), OpFailure> {
        let site = self.site(value)?;
        if self.sharing.is_updated(value) {
            let memory = self.memory.sharing().ok_or_else(no_sharing)?;
            return memory.overwrite(held, tensor, &site);
        }
        let mut written = Vec::new();
        for placed in self.sharing.written(value).iter() {
            let part = self.site(placed.value)?;
            let bindings = &self.scope.bindings;
            written.extend(numbers(&placed.part, &tensor.shape, &part.shape, bindings)?);
        }
        let memory = self.memory.sharing().ok_or_else(no_sharing)?;
        memory.write(held, tensor, &site, &written)
    }

    /// Stores the results of an operation that are parts of its operand, in place. Returns whether all results are such
    /// parts.
    pub(crate) fn parts_in_place(&mut self, op: Op) -> Result<bool, OpFailure> {
        let func = self.func;
        let parts = self.sharing.results(op);
        if parts.is_empty() {
            return Ok(false);
        }
        self.declaration(&func.op_ref(op))?;
        for placed in parts.iter() {
            let whole = self.held(0, placed.whole)?;
            let shape = self.site(placed.value)?.shape;
            let held = self.part_of(&whole, placed, &shape)?;
            self.set(placed.value, held);
        }
        Ok(parts.len() == func.ops[op].results.len())
    }

    fn site(&self, value: Value) -> Result<Site, OpFailure> {
        let ty = self.tensor_type(value)?;
        let shape = self.scope.shape(ty).ok_or_else(|| {
            OpFailure::View("the size of a value is not known that shares bytes".to_owned())
        })?;
        Ok(Site {
            ty: ty.clone(),
            shape,
        })
    }
}

fn no_sharing() -> OpFailure {
    OpFailure::View("this memory has a buffer for each value".to_owned())
}
