//! Groups that run tile by tile: the programs of a group's grid one after another, or several at once on threads.
//!
//! A program reads its parts of whole buffers in place, keeps what it computes in scratch memory that is small enough to
//! stay in the cache, and writes live-out values to its parts of whole buffers. Kernels are those of whole values, on
//! accesses to parts. They are made once for all programs whose tiles have the same extents and offsets (a *form*), not
//! once a program.
//!
//! A relu of `[100, 8]` in tiles of 32 rows has four programs: three of 32 rows, which are one form, and one of 4 rows,
//! which is another.
//!
//! - A group that accumulates along its grid, or that is computed online, runs untiled.
//! - So does a group whose results overlap what it reads, or that has an operation without a kernel for its tiles.
//! - Results are bitwise those of the untiled program: no sum is cut, and initial values are fused into a product in both
//!   or in neither.
//!
//! With several threads, a program keeps all of its tiles in scratch memory and copies results to their places one thread
//! at a time, because parts of one buffer may be interleaved.

mod error;
mod form;
mod group;
mod run;
mod sketch;
mod window;

use crate::job::Job;
use crate::join::{joined, products};
use crate::memory::Slot;
use crate::ops::{Order, Orders, Site};
use crate::tiles::error::TileError;
use form::{Form, form};
use group::{Group, Wholes};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Op, Value};
use optc_kernels::gemm::Scratch;
use optc_tile::Schedule;
use sketch::{Sketch, sketch};

/// Most programs of a group; each of them is sketched.
const MOST_PROGRAMS: u64 = 1 << 14;
/// Most forms of a group; each has kernels of its own.
const MOST_FORMS: usize = 64;

/// A group that runs tile by tile.
#[derive(Debug)]
pub(crate) struct Tiled {
    sources: Vec<Slot>,
    targets: Vec<Slot>,
    forms: Vec<Form>,
    programs: Vec<Program>,
    /// Bytes of scratch memory of a program.
    pub(crate) scratch: usize,
}

/// One program.
#[derive(Debug)]
struct Program {
    form: usize,
    /// The first byte of each read and of each write in its whole buffer.
    reads: Vec<usize>,
    writes: Vec<usize>,
}

/// A group that does not run tile by tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untiled {
    /// Its number in the plan.
    pub group: usize,
    /// The reason.
    pub why: String,
}

/// Inputs from which the groups of a function are compiled.
#[derive(Clone, Copy)]
struct Making<'a> {
    /// A site at any operation of the function.
    site: Site<'a>,
    schedule: &'a Schedule,
    /// The jobs of the function without tiles, one for each operation.
    jobs: &'a [Job],
    /// The kernels and summation orders of products without tiles.
    products: &'a Orders,
    threads: usize,
}

/// One entry of the compiled function: a job or a group.
#[derive(Debug)]
pub(crate) enum Run {
    Job(Job),
    /// The programs of a group, with the group's last operation.
    Tiles(Op, Box<Tiled>),
}

/// The jobs of a function, in which each group that can run tile by tile is one entry, and the groups that cannot.
pub(crate) fn planned(
    jobs: Vec<Job>,
    schedule: &Schedule,
    site: Site<'_>,
    threads: usize,
) -> (Vec<Run>, Vec<Untiled>) {
    let all: Vec<&Job> = jobs.iter().collect();
    let whole = products(&all, site, true);
    let making = Making {
        site,
        schedule,
        jobs: &jobs,
        products: &whole,
        threads,
    };
    let (mut groups, mut untiled) = (Vec::new(), Vec::new());
    for group in 0..schedule.groups.len() {
        match making.group(group) {
            Ok((tiled, members)) => groups.push((group, tiled, members)),
            Err(error) => untiled.push(Untiled {
                group,
                why: error.to_string(),
            }),
        }
    }
    // Operations are fused between groups, not across them. If that changes the initial values of a product outside,
    // nothing is tiled.
    let members: IndexSet<usize> = groups.iter().flat_map(|g| g.2.iter().copied()).collect();
    let ends: IndexSet<usize> = groups.iter().filter_map(|g| g.2.last().copied()).collect();
    let (mut between, mut found) = (Vec::new(), Orders::new());
    for (at, job) in jobs.iter().enumerate() {
        if !members.contains(&at) {
            between.push(job);
        }
        if ends.contains(&at) {
            found.extend(products(&std::mem::take(&mut between), site, true));
        }
    }
    found.extend(products(&between, site, true));
    let inside: IndexSet<Op> = members.iter().map(|&at| jobs[at].op).collect();
    let mut others = whole.iter().filter(|(op, _)| !inside.contains(*op));
    if others.any(|(op, order)| found.get(op) != Some(order)) {
        let why = TileError::ProductOutside;
        untiled.extend(groups.drain(..).map(|(group, ..)| Untiled {
            group,
            why: why.to_string(),
        }));
        untiled.sort_by_key(|untiled| untiled.group);
    }
    let members: IndexSet<usize> = groups.iter().flat_map(|g| g.2.iter().copied()).collect();
    let last = |(_, tiled, members): (usize, Tiled, Vec<usize>)| Some((*members.last()?, tiled));
    let mut at_end: IndexMap<usize, Tiled> = groups.into_iter().filter_map(last).collect();
    let (mut between, mut made) = (Vec::new(), Vec::with_capacity(jobs.len()));
    for (at, job) in jobs.into_iter().enumerate() {
        let op = job.op;
        if !members.contains(&at) {
            between.push(job);
        }
        if let Some(tiled) = at_end.shift_remove(&at) {
            made.extend(
                joined(std::mem::take(&mut between), site, true)
                    .into_iter()
                    .map(Run::Job),
            );
            made.push(Run::Tiles(op, Box::new(tiled)));
        }
    }
    made.extend(joined(between, site, true).into_iter().map(Run::Job));
    (made, untiled)
}

impl<'a> Making<'a> {
    /// The group of this number, and the jobs that it replaces.
    ///
    /// # Errors
    /// The reason why it runs untiled.
    fn group(&self, number: usize) -> Result<(Tiled, Vec<usize>), TileError> {
        let group = self.described(number)?;
        let members: Vec<usize> = (0..self.jobs.len())
            .filter(|&at| group.ops.contains(&self.jobs[at].op))
            .collect();
        if members.is_empty() {
            return Err(TileError::Empty);
        }
        let mut wholes = Wholes::default();
        let mut sketches: Vec<Sketch> = Vec::new();
        let mut programs = Vec::new();
        let grid = group.schedule.grid();
        let mut index = vec![0i64; grid.len()];
        for _ in 0..group.schedule.programs() {
            let (found, begins) = sketch(&group, &mut wholes, &index)?;
            let form = sketches.iter().position(|known| *known == found);
            let form = form.unwrap_or_else(|| {
                sketches.push(found);
                sketches.len() - 1
            });
            if MOST_FORMS < sketches.len() {
                return Err(TileError::Forms(MOST_FORMS));
            }
            programs.push(Program {
                form,
                reads: begins.reads,
                writes: begins.writes,
            });
            for (i, &n) in index.iter_mut().zip(&grid).rev() {
                *i += 1;
                if *i < n as i64 {
                    break;
                }
                *i = 0;
            }
        }
        self.apart(&group, &wholes, &members)?;
        let mut forms = Vec::with_capacity(sketches.len());
        for sketch in &sketches {
            forms.push(form(sketch, &group)?);
        }
        let scratch = forms.iter().map(|form| form.scratch).max().unwrap_or(0);
        let tiled = Tiled {
            sources: wholes.sources,
            targets: wholes.targets,
            forms,
            programs,
            scratch,
        };
        Ok((tiled, members))
    }

    fn described(&self, number: usize) -> Result<Group<'a>, TileError> {
        let group = &self.schedule.groups[number];
        for op in &group.ops {
            let name = &self.site.func.ops[op.op].name;
            let what = match () {
                () if !op.sequential.is_empty() => "adds up along the grid",
                () if op.online.is_some() => "is computed online",
                () if op.parts.is_empty() => "has no tile yet",
                () => continue,
            };
            return Err(TileError::member(name, what));
        }
        if MOST_PROGRAMS < group.programs() {
            let found = group.programs();
            return Err(TileError::Programs {
                found,
                most: MOST_PROGRAMS,
            });
        }
        let (mut moves, mut orders) = (IndexSet::new(), Orders::new());
        let jobs: IndexMap<Op, &Job> = self.jobs.iter().map(|job| (job.op, job)).collect();
        for op in &group.ops {
            match jobs.get(&op.op).map(|job| &job.kernel) {
                Some(Some(kernel)) if kernel.only_moves() => {}
                Some(Some(kernel)) => {
                    orders.insert(op.op, Order::of(&**kernel));
                    continue;
                }
                // Without a job, all elements are in their places already.
                None => {}
                Some(None) => {
                    let name = &self.site.func.ops[op.op].name;
                    return Err(TileError::member(name, "has no kernel"));
                }
            }
            moves.insert(op.op);
        }
        let direct = self.threads == 1;
        let known = (moves, orders);
        Ok(Group::of(
            self.site,
            self.schedule,
            number,
            known,
            self.products,
            direct,
        ))
    }

    /// Checks that the group's results overlap neither its operands nor one another, and that no other step between its
    /// operations conflicts with them.
    fn apart(
        &self,
        group: &Group<'_>,
        wholes: &Wholes,
        members: &[usize],
    ) -> Result<(), TileError> {
        let (sources, targets) = (&wholes.sources, &wholes.targets);
        for (number, target) in targets.iter().enumerate() {
            if sources.iter().any(|source| source.overlaps(target)) {
                return Err(TileError::ResultInOperand);
            }
            if targets[..number].iter().any(|other| other.overlaps(target)) {
                return Err(TileError::ResultsOverlap);
            }
        }
        let (Some(&first), Some(&last)) = (members.first(), members.last()) else {
            return Ok(());
        };
        let func = group.func();
        let slots = |values: &[Value]| -> Vec<&Slot> {
            values.iter().filter_map(|&v| self.site.slot(v)).collect()
        };
        for step in &self.jobs[first..=last] {
            if group.ops.contains(&step.op) {
                continue;
            }
            let (reads, writes) = (slots(&step.operands), slots(&func.ops[step.op].results));
            let clash = |own: &[&Slot], others: &[Slot]| {
                own.iter().any(|a| others.iter().any(|b| a.overlaps(b)))
            };
            if clash(&reads, targets) || clash(&writes, targets) || clash(&writes, sources) {
                let name = &func.ops[step.op].name;
                return Err(TileError::member(name, "runs between its operations"));
            }
        }
        Ok(())
    }
}

impl Tiled {
    /// Bytes that its kernels keep.
    pub(crate) fn packed_bytes(&self) -> usize {
        let forms = self.forms.iter().map(Form::packed_bytes);
        forms.fold(0, usize::saturating_add)
    }

    /// Bytes of scratch memory of its kernels, on each thread.
    pub(crate) fn kernel_scratch(&self) -> Scratch {
        self.forms.iter().fold(Scratch::default(), |most, form| {
            let own = form.kernel_scratch();
            std::array::from_fn(|i| most[i].max(own[i]))
        })
    }

    /// Bytes of the parts of whole buffers that its programs read and write.
    pub(crate) fn bytes(&self) -> u64 {
        let all = self.forms.iter().enumerate().map(|(number, form)| {
            let bytes = |list: &[(usize, usize)]| list.iter().map(|(_, n)| *n as u64).sum::<u64>();
            let count = self.programs.iter().filter(|p| p.form == number).count() as u64;
            count * (bytes(&form.reads) + bytes(&form.writes))
        });
        all.sum()
    }
}
