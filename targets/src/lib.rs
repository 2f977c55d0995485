//! Targets: for each operation the unit that runs it, and the layouts of its operands and results.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! A target is a TOML file. It names operations by their family (see `OpDecl::family`). A family without a row is a
//! barrier: row-major in, row-major out.
//!
//! ```toml
//! name = "cpu"
//! summary = "one line"
//! spelling = "order"            # or "block": how chosen layouts are written
//! [[memory]]
//! name = "dram"
//! bandwidth = 20.0e9            # bytes a second
//! [units.core]
//! summary = "what it is"
//! rates = { f32 = 96.0e9, i8 = 384.0e9 }  # operations a second; optional
//! [[rows]]
//! families = ["elementwise"]
//! unit = "core"
//! take = [{ share = "all" }]    # alternatives, each over all ports at once
//! ```

mod formats;
mod precision;
mod price;
mod rates;
mod roles;
mod rows;
mod runs;
mod slower;

pub use formats::{Format, tiles_text};
pub use precision::{Precision, Precisions};
pub use price::{Factor, FactorError, Price, PricedPort};
pub use rates::Rates;
pub use roles::{PortRole, When};
pub use rows::{Alternative, AnyWord, Parts, PortRule, Row, Share};
pub use slower::Slower;

use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;
use thiserror::Error;
use toml::Spanned;

/// One level of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryLevel {
    /// Its name.
    pub name: String,
    /// Its size in bytes; absent for main memory.
    pub bytes: Option<u64>,
    /// Bytes a second, above 0.
    pub bandwidth: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    name: String,
    #[serde(default)]
    bytes: Option<u64>,
    bandwidth: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    name: String,
    bandwidth: Spanned<f64>,
    #[serde(default)]
    latency: Option<Figure<0>>,
}

/// A connection between devices, over which collectives run along an axis of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Bytes a second in one direction, above 0.
    pub bandwidth: f64,
    /// Seconds for one step from a device to the next.
    pub latency: f64,
}

/// One functional unit.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Its task.
    pub summary: String,
    /// Its rates; estimates ignore the work of a unit without rates.
    #[serde(default)]
    pub rates: Rates,
    /// Rates of products and convolutions of f32 at other precisions than IEEE's.
    #[serde(default)]
    pub f32: Precisions,
    /// The blocks of a product: its rows, columns and summed elements are rounded up to multiples of these.
    #[serde(default)]
    pub block: Option<[NonZeroU64; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    families: Vec<Spanned<String>>,
    unit: String,
    take: Vec<Alternative>,
    #[serde(default)]
    evidence: String,
    #[serde(default)]
    kernel: bool,
    #[serde(default)]
    outside: String,
    #[serde(default)]
    parts: Option<Parts>,
    #[serde(default)]
    pieces: Vec<PortRole>,
    #[serde(default)]
    slower: Vec<Slower>,
}

/// The style in which the target's chosen layouts are written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Only `order = […]` if possible; row-major is written without an encoding.
    Order,
    /// `block = "128C", order = […]` if the last dimension allows it.
    Block,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    summary: String,
    spelling: Style,
    #[serde(default)]
    dimension_numbers: bool,
    #[serde(default)]
    row_major: bool,
    #[serde(default)]
    block: Option<u64>,
    #[serde(default)]
    blocks: Option<Blocks>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    programs: Programs,
    #[serde(default)]
    cores: Option<u64>,
    #[serde(default)]
    max_work: Option<Figure<1>>,
    #[serde(default)]
    alone: Option<u64>,
    #[serde(default)]
    launch: Option<Figure<0>>,
    #[serde(default)]
    step: Option<Figure<0>>,
    #[serde(default)]
    generations: Vec<String>,
    #[serde(default)]
    generation: Option<Spanned<String>>,
    #[serde(default)]
    formats: Vec<Spanned<Format>>,
    #[serde(default)]
    memory: Vec<Memory>,
    #[serde(default)]
    device_bytes: Option<u64>,
    #[serde(default)]
    links: Vec<LinkFile>,
    units: BTreeMap<String, Unit>,
    #[serde(default)]
    rows: Vec<Spanned<RowFile>>,
}

/// The rules that the blocks of a tiled program keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocks {
    /// `pallas_call` on a TPU.
    Tpu,
    /// Mosaic GPU.
    MosaicGpu,
    /// Triton.
    Triton,
}

/// The order in which the programs of a grid run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Programs {
    /// One after the other; values on chip stay there for the next program.
    #[default]
    Sequential,
    /// Many at the same time, each with on-chip memory of its own.
    Concurrent,
}

/// The most work of a group, as a multiple of the work of its operations apart, for a target that states none.
const MAX_WORK: f64 = 1.25;

/// A finite number that is at least `LEAST`.
#[derive(Clone, Copy)]
struct Figure<const LEAST: u32>(f64);

impl<'de, const LEAST: u32> Deserialize<'de> for Figure<LEAST> {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let found = f64::deserialize(reader)?;
        if found.is_finite() && f64::from(LEAST) <= found {
            return Ok(Figure(found));
        }
        let message = format!("found {found}, wanted a number of at least {LEAST}");
        Err(serde::de::Error::custom(message))
    }
}

/// A target. Every unit that a family names exists, and every parameter that a rule needs is positive.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name, as in `--target` and `hbir.target`.
    pub name: String,
    /// One line.
    pub summary: String,
    /// The precision of products of f32, if a user asked for one; without it they are products of IEEE numbers.
    pub precision: Option<Precision>,
    /// The style in which chosen layouts are written.
    pub style: Style,
    /// The block of [`Style::Block`], in elements.
    pub block: u64,
    /// The rules that the blocks of a tiled program keep, if there are any.
    pub blocks: Option<Blocks>,
    /// The element types that no kernel has, such as `f64`: operations on them are outside of groups of tiles.
    pub without: Vec<String>,
    /// The order in which the programs of a grid run.
    pub programs: Programs,
    /// The most programs of a grid that run at the same time; more programs bring nothing. `None` if the file does not
    /// state it.
    pub cores: Option<u64>,
    /// The most work of a group of operations, as a multiple of the work of its operations apart; at least 1.
    pub max_work: f64,
    /// The most bytes that a kernel of a single program moves: with one program no transfer overlaps with arithmetic.
    /// `None` if the file does not limit them.
    pub alone: Option<u64>,
    /// Seconds to start a kernel.
    pub launch: f64,
    /// Seconds to start a program of a grid after another one.
    pub step: f64,
    /// The generations of the hardware, if formats or rows differ between them.
    pub generations: Vec<String>,
    /// The generation for which programs are compiled; empty if the target has none.
    pub generation: String,
    /// The tiles of values, first match first.
    pub formats: Vec<Format>,
    /// Memory levels, outermost first.
    pub memory: Vec<MemoryLevel>,
    /// The bytes of the outermost memory of one device of a mesh; `None` if the file does not state it.
    pub device_bytes: Option<u64>,
    /// The connections between devices; the first one is that of an axis that names none.
    pub links: Vec<Link>,
    /// Units by name.
    pub units: BTreeMap<String, Unit>,
    /// Rows by family, with the alternatives of this generation.
    pub families: BTreeMap<String, Row>,
    /// Rows by family with the alternatives of all generations.
    rows: BTreeMap<String, Row>,
    /// True if products name the dimensions of row-major operands by number (as `dot_general` does). If false, they
    /// multiply matrices.
    pub dimension_numbers: bool,
    /// True if programs are written in a format without layouts. A value in another order of digits is then a tensor
    /// with other dimensions, and a row takes an order only if the operation itself can be over these dimensions.
    pub row_major: bool,
}

/// The reason why a target file is refused.
#[derive(Debug, Error)]
pub enum TargetError {
    /// No built-in target has this name.
    #[error("unknown target `{name}`, wanted one of {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The target has no such generation.
    #[error("target `{name}` has no generation `{generation}`, wanted {known}")]
    Generation {
        /// The target.
        name: String,
        /// The generation asked for.
        generation: String,
        /// The generations that it has.
        known: String,
    },
    /// No precision has this name.
    #[error("unknown precision `{name}`, wanted one of {known}")]
    UnknownPrecision {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The target has no products of f32 at this precision.
    #[error("target `{name}` has no products of f32 at `{precision}`, wanted {known}")]
    Precision {
        /// The target.
        name: String,
        /// The precision asked for.
        precision: Precision,
        /// The precisions that it has.
        known: String,
    },
    /// A format with a defect.
    #[error("format {index} {fault}")]
    Format {
        /// Its number, from 1.
        index: usize,
        /// The defect.
        fault: String,
    },
    /// The file is not TOML of the right form.
    #[error("{}", .0.message())]
    Syntax(#[from] toml::de::Error),
    /// The error at this place of the file, in bytes.
    #[error("{error}")]
    At {
        /// The place.
        span: Range<usize>,
        /// The error.
        error: Box<TargetError>,
    },
    /// No operation is of the family.
    #[error("no operation is of the family `{family}`")]
    UnknownFamily {
        /// The family.
        family: String,
    },
    /// A bandwidth that is not a number above 0.
    #[error("memory `{memory}` has a bandwidth of {found}, wanted a number above 0")]
    Bandwidth {
        /// The level of memory.
        memory: String,
        /// The value in the file.
        found: f64,
    },
    /// A link whose bandwidth is not a number above 0.
    #[error("link `{link}` has a bandwidth of {found}, wanted a number above 0")]
    LinkBandwidth {
        /// The link.
        link: String,
        /// The value in the file.
        found: f64,
    },
    /// A row names a unit that does not exist.
    #[error("family `{family}` runs on unit `{unit}`, which is not declared under [units]")]
    MissingUnit {
        /// The family.
        family: String,
        /// The unit.
        unit: String,
    },
    /// A row contradicts itself.
    #[error("the row of {families} {fault}")]
    Row {
        /// The families that it is for.
        families: String,
        /// The defect.
        fault: String,
    },
    /// A family has two rows.
    #[error("family `{family}` has two rows")]
    TwoRows {
        /// The family.
        family: String,
    },
}

impl TargetError {
    fn at(self, span: Range<usize>) -> TargetError {
        let error = Box::new(self);
        TargetError::At { span, error }
    }

    /// The place in the file, in bytes, if it is known.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        match self {
            TargetError::At { span, .. } => Some(span.clone()),
            TargetError::Syntax(error) => error.span(),
            _ => None,
        }
    }

    /// The unknown family, if the error is one.
    #[must_use]
    pub fn unknown_family(&self) -> Option<&str> {
        match self {
            TargetError::At { error, .. } => error.unknown_family(),
            TargetError::UnknownFamily { family } => Some(family),
            _ => None,
        }
    }
}

const BUILTIN: &[(&str, &str)] = &[
    ("cpu", include_str!("../builtin/cpu.toml")),
    ("journey6", include_str!("../builtin/journey6.toml")),
    ("mosaic_gpu", include_str!("../builtin/mosaic_gpu.toml")),
    ("onnx", include_str!("../builtin/onnx.toml")),
    ("onnxruntime", include_str!("../builtin/onnxruntime.toml")),
    ("tpu", include_str!("../builtin/tpu.toml")),
    ("triton", include_str!("../builtin/triton.toml")),
    ("xla", include_str!("../builtin/xla.toml")),
];

impl Target {
    /// The names of the built-in targets.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        BUILTIN.iter().map(|(name, _)| *name).collect()
    }

    /// The built-in target of this name; a generation follows a colon, `tpu:v6e`.
    ///
    /// # Errors
    /// There is no such target, or it has no such generation.
    pub fn builtin(name: &str) -> Result<Target, TargetError> {
        let (base, generation) = match name.split_once(':') {
            Some((base, generation)) => (base, Some(generation)),
            None => (name, None),
        };
        let text = Self::source(base).ok_or_else(|| TargetError::Unknown {
            name: name.to_owned(),
            known: Self::names().join(", "),
        })?;
        let target = Self::parse(text)?;
        match generation {
            Some(generation) => target.with_generation(generation),
            None => Ok(target),
        }
    }

    /// The target at another generation, with this generation in its name.
    ///
    /// # Errors
    /// It has no such generation.
    pub fn with_generation(mut self, generation: &str) -> Result<Target, TargetError> {
        if !self.generations.iter().any(|g| g == generation) {
            let known = match self.generations.len() {
                0 => "none".to_owned(),
                _ => format!("one of {}", self.generations.join(", ")),
            };
            return Err(TargetError::Generation {
                name: self.name,
                generation: generation.to_owned(),
                known,
            });
        }
        if generation != self.generation {
            self.name = format!("{}:{generation}", self.name);
            generation.clone_into(&mut self.generation);
            self.families = of_generation(&self.rows, generation);
        }
        Ok(self)
    }

    /// The default tiles of a value with `bits` wide elements and extents major to minor in memory; empty for an
    /// untiled value.
    #[must_use]
    pub fn tiles(&self, bits: u32, physical: &[u64]) -> Vec<Vec<u64>> {
        formats::tiles(&self.formats, &self.generation, bits, physical)
    }

    /// The tiles of a value with `bits` wide elements that fills them, which are the largest of the machine.
    #[must_use]
    pub fn full_tiles(&self, bits: u32) -> Vec<Vec<u64>> {
        self.tiles(bits, &[1 << 20, 1 << 20])
    }

    /// The least length of the default innermost run, in elements; `None` if values of this width must lie in tiles.
    #[must_use]
    pub fn plain(&self, bits: u32) -> Option<u64> {
        formats::plain(&self.formats, &self.generation, bits)
    }

    /// The TOML text of the built-in target of this name.
    #[must_use]
    pub fn source(name: &str) -> Option<&'static str> {
        BUILTIN
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, text)| *text)
    }

    /// The file of a built-in target, which reads back as that target. If the generation is not the first one, its name
    /// and the generation are written into the file.
    #[must_use]
    pub fn file(name: &str) -> Option<String> {
        let target = Self::builtin(name).ok()?;
        let base = name.split_once(':').map_or(name, |(base, _)| base);
        Some(target.file_from(Self::source(base)?))
    }

    /// The file from which this target was read, with its name and generation.
    #[must_use]
    pub fn file_from(&self, text: &str) -> String {
        let mut head = true;
        let line = |line: &str| {
            head &= !line.starts_with('[');
            match line.split_once(" = ").map(|(key, _)| key) {
                Some("name") if head => format!("name = \"{}\"\n", self.name),
                Some("generation") if head => format!("generation = \"{}\"\n", self.generation),
                _ => format!("{line}\n"),
            }
        };
        text.lines().map(line).collect()
    }

    /// Reads a target file.
    ///
    /// # Errors
    /// A syntax error, a missing unit, a rule without its parameter, or a bandwidth that is not above 0.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        Self::read(text, None)
    }

    /// Reads a target file whose rows may only name these families.
    ///
    /// # Errors
    /// As for [`Target::parse`], or an unknown family.
    pub fn parse_with(text: &str, families: &[&str]) -> Result<Target, TargetError> {
        Self::read(text, Some(families))
    }

    fn read(text: &str, known: Option<&[&str]>) -> Result<Target, TargetError> {
        let file: File = toml::from_str(text)?;
        let tiled = !file.formats.is_empty();
        let rows = rows_of(file.rows, &file.units, known, (tiled, &file.generations))?;
        let memory: Result<_, _> = file.memory.into_iter().map(memory_level).collect();
        let links: Result<_, _> = file.links.into_iter().map(link).collect();
        let mut formats = Vec::with_capacity(file.formats.len());
        for (i, format) in file.formats.into_iter().enumerate() {
            if let Some(fault) = format.get_ref().fault(&file.generations) {
                let index = i + 1;
                return Err(TargetError::Format { index, fault }.at(format.span()));
            }
            formats.push(format.into_inner());
        }
        let (generation, place) = match file.generation {
            Some(stated) => (Some(stated.get_ref().clone()), stated.span()),
            None => (file.generations.first().cloned(), 0..0),
        };
        let generation = generation.unwrap_or_default();
        if !generation.is_empty() && !file.generations.contains(&generation) {
            let error = TargetError::Generation {
                name: file.name,
                generation,
                known: file.generations.join(", "),
            };
            return Err(error.at(place));
        }
        Ok(Target {
            name: file.name,
            summary: file.summary,
            precision: None,
            style: file.spelling,
            dimension_numbers: file.dimension_numbers,
            row_major: file.row_major,
            block: file.block.unwrap_or(128).max(1),
            blocks: file.blocks,
            without: file.without,
            programs: file.programs,
            cores: file.cores.map(|n| n.max(1)),
            max_work: file.max_work.map_or(MAX_WORK, |figure| figure.0),
            alone: file.alone,
            launch: file.launch.map_or(0.0, |figure| figure.0),
            step: file.step.map_or(0.0, |figure| figure.0),
            generations: file.generations,
            families: of_generation(&rows, &generation),
            rows,
            generation,
            formats,
            memory: memory?,
            device_bytes: file.device_bytes,
            links: links?,
            units: file.units,
        })
    }

    /// Returns whether values lie in tiles.
    #[must_use]
    pub fn is_tiled(&self) -> bool {
        !self.formats.is_empty()
    }

    /// The memory that all programs share and that keeps what they read and write: the level below the outermost one,
    /// if programs run at the same time and each has a level of its own below it.
    #[must_use]
    pub fn cache(&self) -> Option<&MemoryLevel> {
        let shared = self.programs == Programs::Concurrent && 2 < self.memory.len();
        self.memory.get(1).filter(|_| shared)
    }

    /// Returns whether an alternative of some row has a price, or an order of a port does.
    #[must_use]
    pub fn has_prices(&self) -> bool {
        self.families.values().any(Row::has_prices)
    }

    /// The row of a family, if it has one.
    #[must_use]
    pub fn row(&self, family: &str) -> Option<&Row> {
        self.families.get(family)
    }
}

/// The rows by family. Checks that every unit is declared, that no row contradicts itself, and that no family has two
/// rows.
fn rows_of(
    rows: Vec<Spanned<RowFile>>,
    units: &BTreeMap<String, Unit>,
    known: Option<&[&str]>,
    (tiled, generations): (bool, &[String]),
) -> Result<BTreeMap<String, Row>, TargetError> {
    let mut families = BTreeMap::new();
    for row in rows {
        let place = row.span();
        let file = row.into_inner();
        let row = Row {
            unit: file.unit,
            take: file.take,
            evidence: file.evidence,
            kernel: file.kernel,
            outside: file.outside,
            parts: file.parts,
            pieces: file.pieces,
            slower: file.slower,
        };
        let fault = row.fault_of_generations(generations);
        let all = generations.iter().map(String::as_str);
        let mut one = all.chain(generations.is_empty().then_some(""));
        let fault = fault.or_else(|| one.find_map(|g| row.of_generation(g).fault(tiled)));
        if let Some(fault) = fault {
            let names = file.families.iter().map(|f| format!("`{}`", f.get_ref()));
            let families = names.collect::<Vec<_>>().join(", ");
            return Err(TargetError::Row { families, fault }.at(place));
        }
        for family in file.families {
            let span = family.span();
            let family = family.into_inner();
            if known.is_some_and(|known| !known.contains(&family.as_str())) {
                return Err(TargetError::UnknownFamily { family }.at(span));
            }
            if !units.contains_key(&row.unit) {
                let unit = row.unit.clone();
                return Err(TargetError::MissingUnit { family, unit }.at(span));
            }
            if families.contains_key(&family) {
                return Err(TargetError::TwoRows { family }.at(span));
            }
            families.insert(family, row.clone());
        }
    }
    Ok(families)
}

/// Rows with the alternatives of one generation.
fn of_generation(rows: &BTreeMap<String, Row>, generation: &str) -> BTreeMap<String, Row> {
    let one = |(family, row): (&String, &Row)| (family.clone(), row.of_generation(generation));
    rows.iter().map(one).collect()
}

fn memory_level(memory: Memory) -> Result<MemoryLevel, TargetError> {
    let (found, span) = (*memory.bandwidth.get_ref(), memory.bandwidth.span());
    if !(found.is_finite() && 0.0 < found) {
        let memory = memory.name;
        return Err(TargetError::Bandwidth { memory, found }.at(span));
    }
    Ok(MemoryLevel {
        name: memory.name,
        bytes: memory.bytes,
        bandwidth: found,
    })
}

fn link(link: LinkFile) -> Result<Link, TargetError> {
    let (found, span) = (*link.bandwidth.get_ref(), link.bandwidth.span());
    if !(found.is_finite() && 0.0 < found) {
        let link = link.name;
        return Err(TargetError::LinkBandwidth { link, found }.at(span));
    }
    Ok(Link {
        name: link.name,
        bandwidth: found,
        latency: link.latency.map_or(0.0, |figure| figure.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_and_refused() {
        let head = "name='t'\nsummary=''\nspelling='order'\n[units]\n";
        let with = |line: &str| Target::parse(&format!("{head}[[links]]\nname = 'a'\n{line}"));
        let target = with("bandwidth = 2e9\nlatency = 1e-6").unwrap();
        let link = Link {
            name: "a".to_owned(),
            bandwidth: 2e9,
            latency: 1e-6,
        };
        assert_eq!(target.links, [link]);
        for line in ["bandwidth = 0.0", "bandwidth = nan"] {
            let error = with(line).unwrap_err().to_string();
            assert!(error.contains("wanted a number above 0"), "{error}");
        }
    }

    #[test]
    fn built_in_targets_parse() {
        for name in Target::names() {
            let target = Target::builtin(name).unwrap();
            assert_eq!(target.name, name);
            assert!(!target.families.is_empty());
        }
    }

    #[test]
    fn figures_of_time_and_work_are_read_and_refused() {
        let head = "name='t'\nsummary=''\nspelling='order'\n[units]\n";
        let with = |line: &str| Target::parse(&format!("{line}\n{head}"));
        let figures = |line: &str| {
            let target = with(line).unwrap();
            (target.max_work, target.launch, target.step, target.alone)
        };
        assert_eq!(
            figures("max_work = 1.5\nlaunch = 1e-6\nstep = 2e-7\nalone = 4096"),
            (1.5, 1e-6, 2e-7, Some(4096))
        );
        assert_eq!(figures(""), (1.25, 0.0, 0.0, None));
        for line in [
            "max_work = 0.9",
            "launch = -1.0",
            "step = inf",
            "max_work = nan",
        ] {
            let error = with(line).unwrap_err().to_string();
            assert!(error.contains("wanted a number of at least"), "{error}");
        }
    }

    #[test]
    fn a_cache_is_a_level_that_concurrent_programs_share() {
        let cache = |name| {
            Target::builtin(name)
                .unwrap()
                .cache()
                .map(|l| l.name.clone())
        };
        assert_eq!(cache("triton"), Some("l2".to_owned()));
        assert_eq!(cache("mosaic_gpu"), Some("l2".to_owned()));
        assert_eq!(cache("tpu"), None);
        assert_eq!(cache("cpu"), None);
    }

    #[test]
    fn tpu_formats_follow_width_extents_and_generation() {
        let tiles = |name: &str, bits, physical: &[u64]| {
            tiles_text(&Target::builtin(name).unwrap().tiles(bits, physical))
        };
        let cases: &[(&str, u32, &[u64], &str)] = &[
            ("tpu", 32, &[3, 197, 64], "T(8,128)"),
            ("tpu", 32, &[1, 1000], "T(1,128)"),
            ("tpu:v3", 32, &[1, 1000], "T(2,128)"),
            ("tpu", 32, &[2, 7], "T(2,128)"),
            ("tpu", 32, &[3, 7], "T(4,128)"),
            ("tpu", 32, &[5, 7], "T(8,128)"),
            ("tpu", 16, &[1, 7], "T(2,128)(2,1)"),
            ("tpu", 16, &[3, 7], "T(4,128)(2,1)"),
            ("tpu", 16, &[300, 7], "T(8,128)(2,1)"),
            ("tpu", 8, &[1, 7], "T(4,128)(4,1)"),
            ("tpu", 8, &[300, 7], "T(8,128)(4,1)"),
            ("tpu:v6e", 8, &[300, 7], "T(32,128)(4,1)"),
            ("tpu:v6e", 8, &[16, 7], "T(8,128)(4,1)"),
            ("tpu", 1, &[64, 128], "T(32,128)(32,1)"),
            ("tpu", 4, &[64, 128], "T(64,128)(8,1)"),
            ("tpu", 32, &[7], "T(128)"),
            ("tpu", 32, &[129], "T(256)"),
            ("tpu", 32, &[5000], "T(1024)"),
            ("tpu", 16, &[7], "T(256)(128)(2,1)"),
            ("tpu", 16, &[288], "T(512)(128)(2,1)"),
            ("tpu", 8, &[4257], "T(1024)(128)(4,1)"),
            ("tpu", 32, &[], "T(128)"),
            ("tpu", 16, &[], "T(256)"),
            ("tpu", 64, &[8, 128], ""),
            ("tpu", 32, &[u64::MAX, u64::MAX], "T(8,128)"),
            ("cpu", 32, &[8, 128], ""),
        ];
        for &(name, bits, physical, wanted) in cases {
            assert_eq!(
                tiles(name, bits, physical),
                wanted,
                "{name} {bits} {physical:?}"
            );
        }
        assert_eq!(Target::builtin("tpu").unwrap().name, "tpu");
        assert_eq!(Target::builtin("tpu:v5e").unwrap().name, "tpu");
        assert_eq!(Target::builtin("tpu:v6e").unwrap().name, "tpu:v6e");
        let error = Target::builtin("tpu:v9").unwrap_err().to_string();
        let wanted = "target `tpu` has no generation `v9`, wanted one of v3, v4, v5e, v6e";
        assert_eq!(error, wanted);
        let error = Target::builtin("onnx:v3").unwrap_err().to_string();
        assert_eq!(error, "target `onnx` has no generation `v3`, wanted none");
    }

    #[test]
    fn alternatives_are_of_generations() {
        let priced = |name: &str| {
            let target = Target::builtin(name).unwrap();
            let take = &target.row("norm").unwrap().take;
            (target.has_prices(), take.len())
        };
        assert_eq!(priced("cpu"), (true, 1));
        assert_eq!(priced("cpu:bytes"), (false, 1));
        let bytes = Target::builtin("cpu").unwrap();
        let bytes = bytes.with_generation("bytes").unwrap();
        assert_eq!(bytes, Target::builtin("cpu:bytes").unwrap());
        let file = Target::file("cpu:bytes").unwrap();
        assert_eq!(Target::parse(&file).unwrap(), bytes);
        let text = Target::source("cpu")
            .unwrap()
            .replace("[\"bytes\"] }", "[\"byte\"] }");
        let error = Target::parse(&text).unwrap_err().to_string();
        let wanted = "the row of `softmax` names the generation `byte`, which is not declared";
        assert_eq!(error, wanted);
    }

    #[test]
    fn formats_must_be_definite() {
        let head = "name='t'\nsummary=''\nspelling='order'\ngenerations=['a']\n";
        let check = |format: &str, wanted: &str| {
            let text = format!("{head}[[formats]]\nbits=[8]\n{format}\n[units]\n");
            let error = Target::parse(&text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        };
        check("", "wants one of `rows`, `length`, `scalar` and `plain`");
        check("scalar=1\nlength=[1,2]", "wants one of");
        check("rows=[1,8]", "at least 1");
        check("length=[3,8]", "powers of two");
        check("length=[8,1]", "powers of two");
        check("scalar=1\nthen=[[]]", "at least 1");
        check("scalar=1\ngenerations=['b']", "the generation `b`");
        let text = format!("{head}generation='c'\n[units]\n");
        assert!(
            Target::parse(&text)
                .unwrap_err()
                .to_string()
                .contains("no generation `c`")
        );
    }

    #[test]
    fn what_nothing_has_is_refused_at_its_place() {
        let at = |text: &str, families: &[&str]| {
            let error = Target::parse_with(text, families).unwrap_err();
            let span = error.span().unwrap();
            (text[span].to_owned(), error.to_string())
        };
        let head = "name='t'\nsummary=''\nspelling='order'\n";
        for bandwidth in ["-1.0", "0.0", "nan", "inf"] {
            let text = format!("{head}[[memory]]\nname='m'\nbandwidth={bandwidth}\n[units]\n");
            let (place, message) = at(&text, &[]);
            assert_eq!(place, bandwidth);
            assert!(message.contains("wanted a number above 0"), "{message}");
        }
        let text = format!(
            "{head}[units.x]\nsummary=''\n[[rows]]\nfamilies=['conf']\nunit='x'\ntake=[{{}}]\n"
        );
        let (place, message) = at(&text, &["conv"]);
        assert_eq!(
            (place.as_str(), message.as_str()),
            ("'conf'", "no operation is of the family `conf`")
        );
        assert!(Target::parse_with(&text, &["conf"]).is_ok());
    }

    #[test]
    fn the_file_of_a_target_reads_back() {
        let names = Target::names().into_iter().chain(["tpu:v3", "tpu:v6e"]);
        for name in names {
            let text = Target::file(name).unwrap();
            assert_eq!(
                Target::parse(&text).unwrap(),
                Target::builtin(name).unwrap()
            );
        }
        assert_eq!(Target::file("cpu").as_deref(), Target::source("cpu"));
        assert_eq!(Target::file("gpu"), None);
    }

    #[test]
    fn faults_are_named() {
        let head = "name='t'\nsummary=''\nspelling='order'\n[units.x]\nsummary=''\n";
        let refused = |rows: &str| {
            let error = Target::parse(&format!("{head}{rows}")).unwrap_err();
            assert!(error.span().is_some(), "{error}");
            error.to_string()
        };
        let row = |families: &str, unit: &str, take: &str| {
            format!("[[rows]]\nfamilies=[{families}]\nunit='{unit}'\ntake=[{take}]\n")
        };
        assert_eq!(
            refused(&row("'conv'", "y", "{}")),
            "family `conv` runs on unit `y`, which is not declared under [units]"
        );
        let two = format!("{}{}", row("'conv'", "x", "{}"), row("'conv'", "x", "{}"));
        assert_eq!(refused(&two), "family `conv` has two rows");
        let pieces = format!("{}pieces=['input']\n", row("'conv'", "x", "{}"));
        let fault = "has `pieces`, and no `parts`, which pieces are too";
        assert!(refused(&pieces).contains(fault));
        assert!(Target::parse(&format!("{head}{pieces}parts='any'\n")).is_ok());
        let contradictions = [
            ("", "takes nothing: `take` lists no alternative"),
            (
                "{refused='slow'}",
                "takes nothing: `take` lists no alternative",
            ),
            (
                "{order='logical',share='all'}",
                "alternative 1: has `order = \"logical\"`, which says the whole order, and more of it",
            ),
            (
                "{},{sequence=['batch','channel','batch']}",
                "alternative 2: has `batch` twice in its `sequence`",
            ),
            (
                "{sequence=['channel','batch'],not_innermost=['batch']}",
                "alternative 1: has `batch` last in its `sequence` and `not_innermost`",
            ),
            (
                "{share='all',ends=[[]]}",
                "alternative 1: has `ends` without a role, or with one twice",
            ),
            (
                "{share='all',alone=true}",
                "alternative 1: has `alone`, `least` or `whole`, and no `ends` that they are about",
            ),
            (
                "{share='all',left={ends=[['m','k']]}}",
                "alternative 1: has `ends` of ports, which say what ports share, and `share`",
            ),
            (
                "{ends=[['axis']]}",
                "alternative 1: has `ends` of all ports, which want `share = \"all\"`",
            ),
            (
                "{share='all',left={align=16}}",
                "alternative 1: asks for runs of ports or for widths, which are read of contractions: wants `share = [\"k\"]`",
            ),
            (
                "{bits=[16]}",
                "alternative 1: asks for runs of ports or for widths, which are read of contractions: wants `share = [\"k\"]`",
            ),
            (
                "{share=['k'],lanes=['m'],left={align=16}}",
                "alternative 1: speaks of lanes and rows where nothing lies in tiles",
            ),
            (
                "{share=['k'],left={align=24}}",
                "alternative 1: wants an `align` of a power of two of bytes, a `min_run` of at least one",
            ),
            (
                "{share=['k'],left={min_run=0}}",
                "alternative 1: wants an `align` of a power of two of bytes, a `min_run` of at least one",
            ),
            (
                "{share=['k'],right={innermost=[]}}",
                "alternative 1: has `innermost` without a role",
            ),
            (
                "{share=['k'],right={innermost=['m']}}",
                "alternative 1: has `m` innermost in a port that has none",
            ),
            (
                "{share=['k'],left={innermost=['batch']},not_innermost=['batch']}",
                "alternative 1: has `batch` innermost and `not_innermost`",
            ),
            (
                "{share=['k']},{bits=[16],share=['k'],left={align=16}}",
                "alternative 2: is for elements that alternative 1 takes already",
            ),
            (
                "{bits=[8,16],share=['k']},{bits=[16],share=['k'],left={align=16}},{share=['k']}",
                "alternative 2: is for elements that alternative 1 takes already",
            ),
            (
                "{bits=[16],share=['k']}",
                "has alternatives for some widths of elements, and none for the others",
            ),
            (
                "{run=0}",
                "alternative 1: wants a `run` or `block` of at least 1",
            ),
            (
                "{block=128,run=32}",
                "alternative 1: has `block` with `run` or `sequence`, which it leaves no room for",
            ),
            (
                "{lanes=['k']}",
                "alternative 1: speaks of lanes and rows where nothing lies in tiles",
            ),
            (
                "{when='untiled'}",
                "alternative 1: is for `untiled`, and the target has no formats",
            ),
            (
                "{price={port='right',factor=1.0}}",
                "alternative 1: has a price without tiles, which is read of one order at all ports: say `share = \"all\"`",
            ),
            (
                "{share='all',writes='any'}",
                "alternative 1: has `writes`, which is read where values lie in tiles, or of `patches`",
            ),
            (
                "{share='all'},{when='patches'}",
                "alternative 2: is for `patches`, which says `writes = \"any\"` alone, without tiles",
            ),
            (
                "{share='all'},{when='patches',share='all',writes='any'}",
                "alternative 2: is for `patches`, which says `writes = \"any\"` alone, without tiles",
            ),
            (
                "{share='all',price={port='left',factor=1.0}}",
                "has a price for every order: list an alternative with `ends` that costs less",
            ),
            (
                "{share='all',ends=[['axis']]},{share='all',ends=[['axis']],price={port='left',factor=1.0}}",
                "alternative 2: takes the layouts of alternative 1 again",
            ),
            (
                "{share=['k'],several_runs=32}",
                "alternative 1: has `several_runs`, and no `one_run` that may be several",
            ),
            (
                "{share=['k'],one_run=['k'],several_runs=0}",
                "alternative 1: wants `several_runs` of at least 1 byte",
            ),
            (
                "{sequence=['batch','axis']},{share='all',price={port='left',factor=1.0}}",
                "has a price without tiles, and an alternative without one order at all ports",
            ),
        ];
        for (take, wanted) in contradictions {
            let wanted = format!("the row of `conv` {wanted}");
            assert_eq!(refused(&row("'conv'", "x", take)), wanted);
        }
        let format = "[[formats]]\nbits=[32]\nrows=[8,8]\nlanes=128\n";
        let of_tiles = [
            (
                "{one_run=['k']}",
                "alternative 1: speaks of orders, which are read where there are no tiles: say `when = \"untiled\"`",
            ),
            (
                "{left={align=16}}",
                "alternative 1: speaks of orders, which are read where there are no tiles: say `when = \"untiled\"`",
            ),
            (
                "{lanes=[]}",
                "alternative 1: lists no role for lanes or rows, which then nothing fills",
            ),
            (
                "{share='all',distinct=true}",
                "alternative 1: has one order at all ports, and `distinct` or `independent`, which are of roles",
            ),
            (
                "{when='untiled',rows=['m']}",
                "alternative 1: speaks of lanes and rows where nothing lies in tiles",
            ),
            (
                "{lanes=['k']},{lanes=['m'],refused='no',price={port='left',factor=1}}",
                "alternative 2: is refused, and has a price",
            ),
            (
                "{order='logical',price={port='left',factor=1}}",
                "alternative 1: has a price and `order = \"logical\"`, which is taken where nothing else is",
            ),
            (
                "{price={port='left',factor=1}}",
                "alternative 1: has a price, and says nothing of the layouts that it is the price of",
            ),
            (
                "{share='all',lanes=['parallel']}",
                "has one order at all ports for some roles in lanes and rows, and no alternative for the others: list one with a price",
            ),
            (
                "{lanes=['k'],result={lanes=['m']},writes='any'}",
                "alternative 1: writes any layout, and says which the result has",
            ),
            (
                "{writes='any'}",
                "alternative 1: writes any layout, and says nothing of what it reads",
            ),
            (
                "{lanes=['k']},{refused='no'}",
                "alternative 2: is refused, and lists more or less than roles for lanes and rows",
            ),
            (
                "{lanes=['k']},{lanes=['k'],price={port='left',factor=0.5}}",
                "alternative 2: takes the layouts of alternative 1 again",
            ),
        ];
        for (take, wanted) in of_tiles {
            let wanted = format!("the row of `conv` {wanted}");
            let text = format!("{format}{}", row("'conv'", "x", take));
            assert_eq!(refused(&text), wanted);
        }
        let slower = [
            (
                "{port='left',innermost=[],factor=1}",
                "with `innermost` without a role",
            ),
            (
                "{port='left',innermost=['m'],several_runs=['k'],factor=1}",
                "with `innermost` and `several_runs`, of which it has one",
            ),
            (
                "{port='right',several_runs=['m'],factor=1}",
                "with `m` in a port that has none",
            ),
            (
                "{port='left',several_runs=['k','k'],factor=1}",
                "with `k` twice",
            ),
            (
                "{port='left',innermost=['m','k','m'],factor=1}",
                "with `m` twice",
            ),
            (
                "{port='left',innermost=['n'],factor=1}",
                "with `n` in a port that has none",
            ),
            (
                "{port='right',innermost=['m'],factor=1}",
                "with `m` in a port that has none",
            ),
            (
                "{port='result',innermost=['k'],factor=1}",
                "with `k` in a port that has none",
            ),
            (
                "{when='untiled',port='left',innermost=['m'],factor=1}",
                "which is read on machines without tiles",
            ),
        ];
        for (slower, wanted) in slower {
            let found = refused(&format!("{}slower=[{slower}]\n", row("'conv'", "x", "{}")));
            assert!(found.contains("the row of `conv` has `slower`"), "{found}");
            assert!(found.contains(wanted), "{found}");
        }
        let of_m = "slower=[{port='left',innermost=['m'],factor=1}]\n";
        let text = format!("{format}{}{of_m}", row("'conv'", "x", "{}"));
        assert!(refused(&text).contains("which is read on machines without tiles"));
        let of_none = of_m.replace("{", "{generations=['b'],");
        let text = format!("{}{of_none}", row("'conv'", "x", "{}"));
        assert!(refused(&text).contains("names the generation `b`"));
        for factor in [
            "0", "0.00", "-0.001", "-1.0", "0.0001", "1001", "nan", "inf",
        ] {
            let take = format!("{{lanes=['k'],price={{port='left',factor={factor}}}}}");
            let text = format!("{format}{}", row("'conv'", "x", &take));
            assert!(
                refused(&text).contains("wanted one from 0.001 to 1000"),
                "{factor}"
            );
        }
        assert!(refused(&row("'conv'", "x", "{lane=['k']}")).contains("unknown field `lane`"));
        assert!(refused(&row("'conv'", "x", "{lanes=['q']}")).contains("unknown variant `q`"));
        let error = Target::parse("name = 3").unwrap_err();
        assert_eq!(error.span(), Some(7..8));
        assert_eq!(
            error.to_string(),
            "invalid type: integer `3`, expected a string"
        );
        let error = Target::builtin("gpu").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown target `gpu`, wanted one of cpu, journey6, mosaic_gpu, onnx, onnxruntime, tpu, triton, xla"
        );
    }
}
