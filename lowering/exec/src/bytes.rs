//! Turns products of `si32` values, or of floats, that were converted from bytes into products of the bytes. Conversions
//! that nothing else uses are removed.
//!
//! The bytes are read in place if they still have their values when the product is computed: no step in between may write
//! to them, and the result must not overlap them. Otherwise, or if a zero point is not constant, the bytes are copied to
//! the place of the converted integers, if all users of these are products of bytes.

use crate::job::Job;
use crate::ops::{ByteOperand, Bytes, Contract, Convolution, Copied, Family, Kernel, Side, Site};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Op, Structure, Value};

/// The steps of a function and their products of bytes.
struct Steps<'a> {
    site: Site<'a>,
    ops: Vec<Op>,
    number: IndexMap<Op, usize>,
    /// Products of bytes, while the bytes can be read.
    products: IndexMap<Op, Bytes>,
}

/// The products of floats among some jobs that become products of bytes; the order of their sums differs.
pub(crate) fn of_floats(jobs: &[&Job], site: Site<'_>) -> Vec<Op> {
    let (steps, found, _) = Steps::found(jobs, site, true);
    let floats = |op: &Op| {
        steps
            .products
            .get(op)
            .is_some_and(|bytes| bytes.scale.is_some())
    };
    found.into_keys().filter(floats).collect()
}

/// The jobs with products of bytes, and the operands of these. `floats` says whether products of floats are included.
pub(crate) fn in_bytes(
    mut jobs: Vec<Job>,
    site: Site<'_>,
    floats: bool,
) -> (Vec<Job>, IndexMap<Op, Bytes>) {
    let all: Vec<&Job> = jobs.iter().collect();
    let (steps, found, copies) = Steps::found(&all, site, floats);
    let mut before: IndexSet<Op> = IndexSet::new();
    let mut products = IndexMap::new();
    for (op, (bytes, kernel)) in found {
        for side in &bytes.sides {
            if let Side::Value(made) = side {
                before.extend(made.path.iter().copied());
            }
        }
        steps.replace(&mut jobs, op, |read| bytes.read(read), kernel);
        products.insert(op, bytes);
    }
    for (op, (copied, values)) in copies {
        before.shift_remove(&op);
        steps.replace(&mut jobs, op, |read| *read = values, Box::new(copied));
    }
    let gone = unread(&jobs, &before, site);
    jobs.retain(|job| !gone.contains(&job.op));
    (jobs, products)
}

fn is_product(job: &Job) -> bool {
    matches!(
        job.family(),
        Some(Family::Contraction | Family::Convolution)
    )
}

fn kernel(site: &Site<'_>, bytes: &Bytes, family: Option<Family>) -> Option<Box<dyn Kernel>> {
    if family == Some(Family::Contraction) {
        let contract = Contract::in_bytes(site, bytes)?;
        return Some(Box::new(contract));
    }
    let convolution = Convolution::in_bytes(site, bytes)?;
    Some(Box::new(convolution))
}

/// Steps that copy bytes in place of their own work.
type Copies = IndexMap<Op, (Copied, Vec<Value>)>;

/// Products of bytes, with their operands.
type Found = IndexMap<Op, (Bytes, Box<dyn Kernel>)>;

impl<'a> Steps<'a> {
    /// The steps of some jobs, the products that become products of bytes, and the copies that these need.
    fn found(jobs: &[&Job], site: Site<'a>, floats: bool) -> (Steps<'a>, Found, Copies) {
        let mut steps = Steps {
            site,
            ops: jobs.iter().map(|job| job.op).collect(),
            number: jobs
                .iter()
                .enumerate()
                .map(|(i, job)| (job.op, i))
                .collect(),
            products: IndexMap::new(),
        };
        for job in jobs {
            let bytes = is_product(job)
                .then(|| Bytes::of(&steps.at(job.op)))
                .flatten();
            if let Some(bytes) = bytes.filter(|bytes| floats || bytes.scale.is_none()) {
                steps.products.insert(job.op, bytes);
            }
        }
        loop {
            let all: Vec<Op> = steps.products.keys().copied().collect();
            let (mut found, mut copies) = (Found::new(), Copies::new());
            for &op in &all {
                let mut own = Copies::new();
                let kernel = steps.placed(op, &mut own).and_then(|bytes| {
                    let family = jobs[*steps.number.get(&op)?].family();
                    let kernel = kernel(&steps.at(op), &bytes, family)?;
                    Some((bytes, kernel))
                });
                if let Some(made) = kernel {
                    found.insert(op, made);
                    copies.extend(own);
                }
            }
            // Products that turn out to need converted values may read what others would have copied bytes to.
            let refused = all.into_iter().filter(|op| !found.contains_key(op));
            let refused: Vec<Op> = refused.collect();
            if refused.is_empty() {
                return (steps, found, copies);
            }
            refused
                .iter()
                .for_each(|op| drop(steps.products.shift_remove(op)));
        }
    }

    fn at(&self, op: Op) -> Site<'a> {
        self.site.at(op)
    }

    /// Replaces the kernel of an operation's job, and its operands.
    fn replace(
        &self,
        jobs: &mut [Job],
        op: Op,
        read: impl FnOnce(&mut Vec<Value>),
        kernel: Box<dyn Kernel>,
    ) {
        if let Some(job) = self.number.get(&op).and_then(|&at| jobs.get_mut(at)) {
            let mut operands = job.operands.clone();
            read(&mut operands);
            job.set(kernel, operands, self.site);
        }
    }

    /// A product of bytes whose operands are available where it is computed; adds the copies that it needs.
    fn placed(&self, op: Op, copies: &mut Copies) -> Option<Bytes> {
        let mut bytes = self.products.get(&op)?.clone();
        let at = *self.number.get(&op)?;
        let operands = self.site.func.ops[op].operands.iter();
        for (side, &operand) in bytes.sides.iter_mut().zip(operands) {
            let Side::Value(made) = side else { continue };
            let (&last, &first) = (made.path.first()?, made.path.last()?);
            let known = !made.has_computed_zero_point();
            if known && self.stays_valid(made.value, first, at) && !self.overwrites(made.value, op)
            {
                continue;
            }
            let to = *self.number.get(&last)?;
            let all = self.site.func.ops[last].results.iter();
            let alone = all.copied().all(|value| self.multiplied_alone(value, made));
            let own = self.site.slot(operand)?;
            let whole = self.site.slot(*self.site.func.ops[last].results.first()?)?;
            let same = own.storage == whole.storage && own.range() == whole.range();
            if !alone || !same {
                return None;
            }
            made.copied = true;
            if self.stays_valid(made.value, first, to) {
                copies.insert(last, Copied::of(&self.at(last), made, true, true)?);
                continue;
            }
            // A step in between overwrites the bytes: they are copied earlier, to the place of the cast, if it is the same
            // place.
            let cast = *self.site.func.ops[first].results.first()?;
            let place = self.site.slot(cast)?;
            let exact = place.storage == whole.storage && place.range() == whole.range();
            let mut others = self.site.func.body.iter().filter(|op| **op != last);
            let reads = |op: &Op| self.site.func.ops[*op].operands.contains(&cast);
            let read = self.site.func.results.contains(&cast) || others.any(reads);
            if !exact || read || first == last || !self.stays_valid(cast, first, to) {
                return None;
            }
            copies.insert(first, Copied::of(&self.at(first), made, true, false)?);
            copies.insert(last, Copied::of(&self.at(last), made, false, true)?);
        }
        Some(bytes)
    }

    /// Returns whether no step between `from` and `to` writes bytes of a value.
    fn stays_valid(&self, value: Value, from: Op, to: usize) -> bool {
        let (slot, from) = (self.site.slot(value), self.number.get(&from));
        let (Some(slot), Some(&from)) = (slot, from) else {
            return false;
        };
        let between = self.ops.get(from + 1..to).unwrap_or_default();
        from <= to && !between.iter().any(|&op| self.site.writes(op, slot))
    }

    /// Returns whether an operation writes bytes of a value.
    fn overwrites(&self, value: Value, op: Op) -> bool {
        self.site
            .slot(value)
            .is_none_or(|slot| self.site.writes(op, slot))
    }

    /// Returns whether all users of a value are products of bytes that read it as these bytes.
    fn multiplied_alone(&self, value: Value, made: &ByteOperand) -> bool {
        let func = self.site.func;
        let reads = |op: &&Op| func.ops[**op].operands.contains(&value);
        let alone = |&op: &Op| {
            let data = &func.ops[op];
            if let Some(bytes) = self.products.get(&op) {
                let mut sides = data.operands.iter().enumerate();
                return sides.all(|(i, &operand)| match bytes.sides.get(i) {
                    Some(Side::Value(own)) => operand != value || own.value == made.value,
                    _ => operand != value,
                });
            }
            let view = self.site.registry.structure(&data.name) == Structure::View;
            let mut results = data.results.iter();
            view && results.all(|&result| self.multiplied_alone(result, made))
        };
        !func.results.contains(&value) && func.body.iter().filter(reads).all(alone)
    }
}

/// The operations among `of` whose results are not used.
fn unread(jobs: &[Job], of: &IndexSet<Op>, site: Site<'_>) -> IndexSet<Op> {
    let func = site.func;
    let jobs: IndexMap<Op, &Job> = jobs.iter().map(|job| (job.op, job)).collect();
    let mut read: IndexSet<Value> = func.results.iter().copied().collect();
    let mut gone = IndexSet::new();
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        let needed = data.results.is_empty() || data.results.iter().any(|v| read.contains(v));
        match jobs.get(&op) {
            Some(_) if !needed && of.contains(&op) => {
                gone.insert(op);
            }
            Some(job) => read.extend(job.operands.iter().copied()),
            None if needed => read.extend(data.operands.iter().copied()),
            None => {}
        }
    }
    gone
}
