//! Conversion plans: made once for two layouts, run often.
//!
//! A plan for a row-major source `[2, 3]` of bytes and a column-major target has one box, the whole tensor, and one kernel,
//! which transposes a matrix of 2x3 bytes.

use super::bits;
use super::gaps::{Places, gaps};
use super::nest::Nest;
use super::task::Task;
use crate::moved::Moved;
use optc_kernels::cache::Level;
use optc_kernels::isa::{Isa, IsaError};
use optc_kernels::moves::{self, How};
use optc_kernels::team::Team;
use optc_layout::{Placement, affine_boxes};
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// Most affine boxes of a plan; with more, elements are moved one by one.
const MAX_BOXES: usize = 1 << 10;

/// Bytes, read and written, for each thread to be worth starting.
const THREAD_BYTES: u64 = 1 << 16;

/// Reasons why a plan cannot be made or run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The layouts are of tensors of different shapes.
    #[error("found a target of shape {found:?}, wanted {wanted:?}")]
    Shape {
        /// Shape of the target.
        found: Vec<u64>,
        /// Shape of the source.
        wanted: Vec<u64>,
    },
    /// The layouts store elements in different numbers of bits.
    #[error("found a target of {found} bits an element, wanted {wanted}")]
    Width {
        /// Bits of the target's elements.
        found: u32,
        /// Bits of the source's elements.
        wanted: u32,
    },
    /// A buffer has more bits than can be addressed.
    #[error("found a buffer of {bytes} bytes, more than can be addressed")]
    TooLarge {
        /// Bytes of the larger buffer.
        bytes: u64,
    },
    /// The machine lacks the instruction set, or there is none of this name.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// The source's size is not that of its layout.
    #[error("found a source of {found} bytes, wanted {wanted}")]
    SourceBytes {
        /// Bytes of the slice.
        found: u64,
        /// Bytes of the layout.
        wanted: u64,
    },
    /// The target's size is not that of its layout.
    #[error("found a target of {found} bytes, wanted {wanted}")]
    TargetBytes {
        /// Bytes of the slice.
        found: u64,
        /// Bytes of the layout.
        wanted: u64,
    },
}

/// Treatment of places of the target that no element takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// They are left as they are: padding has no particular value.
    #[default]
    Leave,
    /// They are set to zero, and so are the bits behind the last place of the last byte.
    Zero,
}

/// Options of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversionOptions {
    /// Treatment of the target's padding.
    pub padding: Padding,
    /// The instruction set; `None` for that of the running executor, of the variable `OPTC_ISA`, or the greatest of the
    /// machine, in this order.
    pub isa: Option<Isa>,
    /// The size of both buffers in bytes from which the target is written by non-temporal stores; `None` for three quarters
    /// of the largest cache.
    pub streamed_from: Option<u64>,
}

/// A conversion between two layouts.
///
/// The bytes that it writes depend neither on the instruction set nor on the number of threads. If the target's layout maps
/// several elements to one place, the last one in row-major order stays.
#[derive(Clone, Debug)]
pub struct ConversionPlan {
    source_bytes: u64,
    target_bytes: u64,
    moved: Moved,
    how: How,
    /// True if the target is zeroed first.
    clear: bool,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    /// Boxes that are inside of the buffers and write no place twice.
    Boxes { tasks: Vec<Task>, bits: Vec<Nest> },
    /// Element by element: there are too many boxes, or they are not known to be disjoint.
    OneByOne(Box<[Placement; 2]>),
}

impl ConversionPlan {
    /// A plan for tensors of the layouts' common shape and element width.
    ///
    /// Its cost depends on the ranks and on the splits that do not divide their dimensions, not on the number of elements.
    ///
    /// # Errors
    /// The layouts have different shapes or element widths, a buffer is too large to be addressed, or the machine lacks the
    /// instruction set.
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
        let both = from.bytes().saturating_add(to.bytes());
        let how = How {
            isa: Isa::choose(options.isa)?,
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

    /// Chooses the tasks that move elements and, if padding is zeroed, those that zero it. Returns false if the whole
    /// target must be zeroed first.
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

    /// Bytes of the source.
    #[must_use]
    pub fn source_bytes(&self) -> u64 {
        self.source_bytes
    }

    /// Bytes of the target.
    #[must_use]
    pub fn target_bytes(&self) -> u64 {
        self.target_bytes
    }

    /// Bytes that one execution moves.
    #[must_use]
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// Converts `source` into `target` on this thread, and counts what is moved.
    ///
    /// # Errors
    /// A buffer's size is not that of its layout; nothing is written then.
    pub fn execute(
        &self,
        source: &[u8],
        target: &mut [u8],
        moved: &mut Moved,
    ) -> Result<(), ConversionError> {
        self.execute_on(1, source, target, moved)
    }

    /// Converts on up to `threads` threads; fewer if there is little to move.
    ///
    /// # Errors
    /// A buffer's size is not that of its layout; nothing is written then.
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

    /// Converts on the threads of a team.
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

    /// Runs all units of all tasks; each thread runs a contiguous range of each task's units.
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
                // SAFETY: both buffers have the sizes that the plan was made for, so that all places of all tasks are
                // inside of them; `gaps` has shown that no place of the target belongs to two units.
                unsafe { task.run(self.how, units, from, to) };
            }
            moves::fence(self.how);
        };
        each(threads, &work);
    }
}

/// The units of one thread.
fn share(units: usize, threads: usize, thread: usize) -> Range<usize> {
    if threads == 1 {
        return 0..units;
    }
    let (each, more) = (units / threads, units % threads);
    let start = |i: usize| each * i + more.min(i);
    start(thread)..start(thread + 1)
}

/// Runs work for each number below a count, each on a thread of its own.
type Each<'a> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + 'a;

/// Runs work for each number below `count`, each on a thread started for it.
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

/// Both buffers, for threads that access different places.
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

/// Bits of a buffer.
fn limit(layout: &Placement) -> Result<usize, ConversionError> {
    let bytes = layout.bytes();
    let bits = bytes
        .checked_mul(8)
        .and_then(|bits| isize::try_from(bits).ok());
    let bits = bits.ok_or(ConversionError::TooLarge { bytes })?;
    Ok(bits.unsigned_abs())
}

/// Tasks that zero places, and the number of bytes; `None` if a place is no whole number of bytes.
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
    /// One line for each kernel, with the loops around it.
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
