//! A conversion, planned once and run often.

use super::bits;
use super::gaps::{Places, gaps};
use super::nest::Nest;
use super::task::Task;
use crate::cache::Level;
use crate::isa::Isa;
use crate::kernels::{self, How};
use crate::moved::Moved;
use crate::team::Team;
use optc_layout::{Placement, affine_boxes};
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// Boxes of affine offsets that a plan has at most; beyond, elements move one by one.
const MAX_BOXES: usize = 1 << 10;

/// Bytes, read and written, for which a thread is started at least.
const THREAD_BYTES: u64 = 1 << 16;

/// Why there is no plan, or why it is not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The layouts are of tensors of different shapes.
    #[error("found a target of shape {found:?}, wanted {wanted:?}")]
    Shape {
        /// Of the target.
        found: Vec<u64>,
        /// Of the source.
        wanted: Vec<u64>,
    },
    /// The layouts store elements in different numbers of bits.
    #[error("found a target of {found} bits an element, wanted {wanted}")]
    Width {
        /// Of the target.
        found: u32,
        /// Of the source.
        wanted: u32,
    },
    /// A buffer has more bits than can be addressed.
    #[error("found a buffer of {bytes} bytes, more than can be addressed")]
    TooLarge {
        /// Of the larger buffer.
        bytes: u64,
    },
    /// The source has another size than its layout.
    #[error("found a source of {found} bytes, wanted {wanted}")]
    SourceBytes {
        /// Of the slice.
        found: u64,
        /// Of the layout.
        wanted: u64,
    },
    /// The target has another size than its layout.
    #[error("found a target of {found} bytes, wanted {wanted}")]
    TargetBytes {
        /// Of the slice.
        found: u64,
        /// Of the layout.
        wanted: u64,
    },
}

/// What becomes of places of the target that no element takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// They keep what they hold: padding has no particular value.
    #[default]
    Leave,
    /// They become zero, bits behind the last place of the last byte too.
    Zero,
}

/// How a plan is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversionOptions {
    /// What becomes of the target's padding.
    pub padding: Padding,
    /// The vector instructions to use, at most; `None` for all that the machine has.
    pub isa: Option<Isa>,
    /// The size of both buffers, in bytes, from which a target is written past the cache; `None` for three quarters of the largest
    /// cache.
    pub streamed_from: Option<u64>,
}

/// A conversion between two layouts.
///
/// The same buffers give the same bytes whatever the instructions and the number of threads. Where the target's
/// layout gives several elements one place, the last one in logical order stays.
#[derive(Clone, Debug)]
pub struct ConversionPlan {
    source_bytes: u64,
    target_bytes: u64,
    moved: Moved,
    how: How,
    /// Whether the target is zeroed before anything else.
    clear: bool,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    /// Boxes that lie inside of the buffers and write no place twice.
    Boxes { tasks: Vec<Task>, bits: Vec<Nest> },
    /// No boxes are known, or not that they are disjoint.
    OneByOne(Box<[Placement; 2]>),
}

impl ConversionPlan {
    /// A plan for tensors of the layouts' common shape and element width.
    ///
    /// Its cost depends on the ranks and on the cuts that do not divide their dimensions, not on the elements.
    ///
    /// # Errors
    /// Layouts of different shapes or element widths, buffers beyond what can be addressed.
    pub fn new(
        from: &Placement,
        to: &Placement,
        options: ConversionOptions,
    ) -> Result<ConversionPlan, ConversionError> {
        if from.shape() != to.shape() {
            return Err(ConversionError::Shape {
                found: to.shape().to_vec(),
                wanted: from.shape().to_vec(),
            });
        }
        let bits = from.elem_bits();
        if to.elem_bits() != bits {
            return Err(ConversionError::Width {
                found: to.elem_bits(),
                wanted: bits,
            });
        }
        let limits = [limit(from)?, limit(to)?];
        let most = Isa::detect();
        let both = from.bytes().saturating_add(to.bytes());
        let how = How {
            isa: options.isa.map_or(most, |isa| isa.min(most)),
            level: Level::of(both, options.streamed_from),
        };
        let elements = from.elements().saturating_mul(u64::from(bits));
        let mut moved = Moved::default();
        moved.add_bits(elements, elements);
        let mut plan = ConversionPlan {
            source_bytes: from.bytes(),
            target_bytes: to.bytes(),
            moved,
            how,
            clear: false,
            body: Body::Boxes {
                tasks: Vec::new(),
                bits: Vec::new(),
            },
        };
        let zero = options.padding == Padding::Zero;
        plan.clear = !plan.fill(from, to, limits, zero);
        if plan.clear {
            plan.moved.add(0, to.bytes());
        }
        Ok(plan)
    }

    /// Chooses what moves elements and, if padding is zeroed, what writes it; false if the whole target must be
    /// zeroed first.
    fn fill(&mut self, from: &Placement, to: &Placement, limits: [usize; 2], zero: bool) -> bool {
        let bits = from.elem_bits();
        let boxes = affine_boxes(from, to, MAX_BOXES).unwrap_or_default();
        let nests = boxes.iter().map(|b| Nest::new(b, bits, limits));
        let nests = nests.collect::<Option<Vec<Nest>>>();
        let nests = nests.filter(|n| !n.is_empty() || from.elements() == 0);
        let found = nests.and_then(|nests| {
            let places: Vec<Places> = nests.iter().map(Places::of).collect();
            let free = gaps(&places, limits[1])?;
            Some((nests, free))
        });
        let Some((nests, free)) = found else {
            self.body = Body::OneByOne(Box::new([from.clone(), to.clone()]));
            return !zero;
        };
        let (mut tasks, mut in_bits) = (Vec::new(), Vec::new());
        for nest in nests {
            match nest.in_bytes() {
                Some(nest) => tasks.extend(Task::of(nest, self.how.level)),
                None => in_bits.push(nest),
            }
        }
        let mut is_done = true;
        if zero {
            match zeros(&free) {
                Some((zeros, bytes)) => {
                    tasks.extend(zeros);
                    self.moved.add(0, bytes);
                }
                None => is_done = false,
            }
        }
        self.body = Body::Boxes {
            tasks,
            bits: in_bits,
        };
        is_done
    }

    /// Bytes of the buffer that is read.
    #[must_use]
    pub fn source_bytes(&self) -> u64 {
        self.source_bytes
    }

    /// Bytes of the buffer that is written.
    #[must_use]
    pub fn target_bytes(&self) -> u64 {
        self.target_bytes
    }

    /// What one execution moves.
    #[must_use]
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// Converts `source` into `target` on this thread, and counts what is moved.
    ///
    /// # Errors
    /// A buffer has not the size of its layout; nothing is written then.
    pub fn execute(
        &self,
        source: &[u8],
        target: &mut [u8],
        moved: &mut Moved,
    ) -> Result<(), ConversionError> {
        self.execute_on(1, source, target, moved)
    }

    /// The same on up to `threads` threads; fewer where there is little to move.
    ///
    /// # Errors
    /// A buffer has not the size of its layout; nothing is written then.
    pub fn execute_on(
        &self,
        threads: usize,
        source: &[u8],
        target: &mut [u8],
        moved: &mut Moved,
    ) -> Result<(), ConversionError> {
        let worth = usize::try_from(self.moved.bytes() / THREAD_BYTES).unwrap_or(usize::MAX);
        self.execute_by(threads.min(worth).max(1), &scoped, source, target, moved)
    }

    /// The same on the threads of a team.
    pub(crate) fn execute_with(
        &self,
        team: &Team,
        source: &[u8],
        target: &mut [u8],
        moved: &mut Moved,
    ) -> Result<(), ConversionError> {
        let threads = team.worth(self.moved.bytes(), THREAD_BYTES);
        let each = |count: usize, work: &(dyn Fn(usize) + Sync)| team.each(count, work);
        self.execute_by(threads, &each, source, target, moved)
    }

    fn execute_by(
        &self,
        threads: usize,
        each: &Each<'_>,
        source: &[u8],
        target: &mut [u8],
        moved: &mut Moved,
    ) -> Result<(), ConversionError> {
        if source.len() as u64 != self.source_bytes {
            return Err(ConversionError::SourceBytes {
                found: source.len() as u64,
                wanted: self.source_bytes,
            });
        }
        if target.len() as u64 != self.target_bytes {
            return Err(ConversionError::TargetBytes {
                found: target.len() as u64,
                wanted: self.target_bytes,
            });
        }
        moved.merge(self.moved);
        if self.clear {
            target.fill(0);
        }
        match &self.body {
            Body::OneByOne(both) => bits::one_by_one(&both[0], &both[1], source, target),
            Body::Boxes { tasks, bits } => {
                self.run(tasks, threads, each, source, target);
                bits.iter().for_each(|nest| bits::run(nest, source, target));
            }
        }
        Ok(())
    }

    /// Runs all units of all tasks, each thread a contiguous range of each task's.
    #[expect(unsafe_code, reason = "threads write disjoint places of one target")]
    fn run(
        &self,
        tasks: &[Task],
        threads: usize,
        each: &Each<'_>,
        source: &[u8],
        target: &mut [u8],
    ) {
        let shared = Shared {
            from: source.as_ptr(),
            to: target.as_mut_ptr(),
        };
        let work = |thread: usize| {
            let Shared { from, to } = *shared.get();
            for task in tasks {
                let units = share(task.units(), threads, thread);
                // SAFETY: both buffers have the sizes that the plan was made for, so that all places of all tasks
                // are inside of them; `gaps` has shown that no place of the target belongs to two units.
                unsafe { task.run(self.how, units, from, to) };
            }
            kernels::finish(self.how);
        };
        each(threads, &work);
    }
}

/// What a thread does of so many units.
fn share(units: usize, threads: usize, thread: usize) -> Range<usize> {
    if threads == 1 {
        return 0..units;
    }
    let (each, more) = (units / threads, units % threads);
    let start = |i: usize| each * i + more.min(i);
    start(thread)..start(thread + 1)
}

/// Does numbered work, each number on a thread of its own.
type Each<'a> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + 'a;

/// Does numbered work on threads that are started for it.
fn scoped(count: usize, work: &(dyn Fn(usize) + Sync)) {
    if count == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        for number in 1..count {
            scope.spawn(move || work(number));
        }
        work(0);
    });
}

/// Both buffers, for threads that touch different places of them.
#[derive(Clone, Copy)]
struct Shared {
    from: *const u8,
    to: *mut u8,
}

impl Shared {
    fn get(&self) -> &Self {
        self
    }
}

// SAFETY: threads read one buffer and write disjoint places of the other one, while both are borrowed.
#[expect(unsafe_code, reason = "threads write disjoint places of one target")]
unsafe impl Sync for Shared {}

/// The bits of a buffer.
fn limit(layout: &Placement) -> Result<usize, ConversionError> {
    let bytes = layout.bytes();
    let bits = bytes
        .checked_mul(8)
        .and_then(|bits| isize::try_from(bits).ok());
    let bits = bits.ok_or(ConversionError::TooLarge { bytes })?;
    Ok(bits.unsigned_abs())
}

/// What writes zeros to places that are whole bytes, and how many bytes these are.
fn zeros(places: &[Places]) -> Option<(Vec<Task>, u64)> {
    let mut bytes = 0;
    let mut tasks = Vec::with_capacity(places.len());
    let part = |n: usize| n.is_multiple_of(8).then_some(n / 8);
    for free in places {
        let loops = free
            .loops
            .iter()
            .map(|&(count, stride)| Some((count, part(stride)?)));
        let loops = loops.collect::<Option<Vec<_>>>()?;
        let (base, len) = (part(free.base)?, part(free.unit)?);
        let count: usize = loops.iter().map(|l| l.0).product();
        bytes += (count * len) as u64;
        tasks.push(Task::zero(base, len, &loops));
    }
    Some((tasks, bytes))
}

impl fmt::Display for ConversionPlan {
    /// A line for each kernel with the loops around it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clear {
            writeln!(f, "{} zeros", self.target_bytes)?;
        }
        match &self.body {
            Body::OneByOne(both) => writeln!(f, "{} x 1 element", both[0].elements()),
            Body::Boxes { tasks, bits } => {
                tasks.iter().try_for_each(|task| writeln!(f, "{task}"))?;
                let nest = |nest: &Nest| (nest.units(), nest.unit);
                let mut nests = bits.iter().map(nest);
                nests.try_for_each(|(units, bits)| writeln!(f, "{units} x {bits} bits"))
            }
        }
    }
}
