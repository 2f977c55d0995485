//! Vectors about grids and blocks: slices, cells written by programs, blocks that a TPU takes.

use super::error::{VectorError, expected};
use super::kernel::evaluate;
use super::{Outcome, field, items, list};
use optc::tile::block::{Backend, BlockDim, BlockError, BlockSpec, Grid, RankOne, Slice};
use serde_json::{Value as Json, json};

/// The most programs that are run for one vector.
const MAX_PROGRAMS: i64 = 1 << 22;

/// The most cells of a matrix that programs write.
const MAX_CELLS: i64 = 1 << 24;

/// The value in Pallas's interpret mode of a cell that no program writes.
const UNWRITTEN: i64 = i32::MIN as i64;

/// The signed numbers under this key.
fn signed(vector: &Json, key: &'static str) -> Result<Vec<i64>, VectorError> {
    let wanted = "list of numbers";
    numbers(&field(vector, key)?).ok_or(VectorError::Kind { key, wanted })
}

fn numbers(list: &Json) -> Option<Vec<i64>> {
    list.as_array()?.iter().map(Json::as_i64).collect()
}

/// The text that is the value of this key.
fn word<'a>(value: &'a Json, key: &'static str) -> Result<&'a str, VectorError> {
    let wanted = "text";
    value.as_str().ok_or(VectorError::Kind { key, wanted })
}

/// One dimension of a block: null, a number, or a mode with a size.
fn block_dim(entry: &Json) -> Result<BlockDim, VectorError> {
    if entry.is_null() {
        return Ok(BlockDim::Squeezed);
    }
    if let Some(n) = entry.as_i64() {
        return Ok(BlockDim::Blocked(n));
    }
    let mode = entry.get("mode").and_then(Json::as_str).unwrap_or("");
    let size = || {
        let size = entry.get("block_size").and_then(Json::as_i64);
        size.ok_or_else(|| expected("a `block_size`", entry))
    };
    match mode {
        "Squeezed" => Ok(BlockDim::Squeezed),
        "Blocked" => Ok(BlockDim::Blocked(size()?)),
        "BoundedSlice" => Ok(BlockDim::BoundedSlice(size()?)),
        "Indirect" => Ok(BlockDim::Indirect(size()?)),
        "Element" => {
            let padding = match entry.get("padding") {
                None | Some(Json::Null) => vec![0, 0],
                Some(pair) => numbers(pair).unwrap_or_default(),
            };
            let [lo, hi] = padding[..] else {
                return Err(expected("`padding` of two numbers", entry));
            };
            let size = size()?;
            Ok(BlockDim::Element { size, lo, hi })
        }
        _ => Err(expected("a mode of a block", entry)),
    }
}

/// One value of an index map, affine in the ids of the program.
struct Affine {
    constant: i64,
    coeffs: Vec<i64>,
}

impl Affine {
    fn read(entry: &Json, axes: usize) -> Result<Affine, VectorError> {
        let coeffs = entry.get("coeffs").and_then(numbers);
        let coeffs = coeffs.filter(|c| c.len() == axes);
        let coeffs = coeffs.ok_or_else(|| expected(format!("{axes} `coeffs`"), entry))?;
        let constant = entry.get("const").and_then(Json::as_i64).unwrap_or(0);
        Ok(Affine { constant, coeffs })
    }
    fn at(&self, program: &[i64]) -> i64 {
        let terms = self.coeffs.iter().zip(program);
        terms.fold(self.constant, |sum, (c, id)| {
            sum.saturating_add(c.saturating_mul(*id))
        })
    }
}

/// An array, its blocks, and the block that each program sees.
struct Blocks {
    array: Vec<i64>,
    grid: Grid,
    spec: BlockSpec,
    index_map: Vec<Affine>,
}

impl Blocks {
    /// Reads the blocks of a vector. The inner error is that of the spec itself.
    fn read(vector: &Json) -> Result<Result<Blocks, BlockError>, VectorError> {
        let array = signed(vector, "array_shape")?;
        let grid = Grid::new(signed(vector, "grid")?)?;
        if grid.count() > MAX_PROGRAMS {
            let most = format!("at most {MAX_PROGRAMS} programs");
            return Err(expected(most, grid.count()));
        }
        let dims: Vec<BlockDim> = match vector.get("block_shape") {
            None | Some(Json::Null) => array.iter().map(|&n| BlockDim::Blocked(n)).collect(),
            Some(entries) => {
                let entries = items(entries, "block_shape")?.iter();
                entries.map(block_dim).collect::<Result<_, _>>()?
            }
        };
        let axes = grid.extents().len();
        let index_map: Vec<Affine> = match vector.get("index_map") {
            None | Some(Json::Null) => {
                let zero = |_: &BlockDim| Affine {
                    constant: 0,
                    coeffs: vec![0; axes],
                };
                dims.iter().map(zero).collect()
            }
            Some(entries) => {
                let entries = items(entries, "index_map")?.iter();
                let read = entries.map(|e| Affine::read(e, axes));
                read.collect::<Result<_, _>>()?
            }
        };
        let spec = BlockSpec::for_array(dims, array.len(), index_map.len());
        Ok(spec.map(|spec| Blocks {
            array,
            grid,
            spec,
            index_map,
        }))
    }

    fn slices(&self, program: &[i64]) -> Result<Vec<Slice>, BlockError> {
        let index: Vec<i64> = self.index_map.iter().map(|a| a.at(program)).collect();
        self.spec.slices_at(&self.array, &index)
    }
}

/// The vectors' words for a refused spec.
fn config_error(error: &BlockError) -> Json {
    match error {
        BlockError::Rank { .. } => json!("block-rank-mismatch"),
        BlockError::Arity { .. } => json!("index-map-arity"),
        BlockError::Size { .. } => json!("block-size-not-positive"),
        other => json!(other.to_string()),
    }
}

/// The slices of every listed program, and the number of programs without any.
pub(super) fn blockspec(vector: &Json) -> Outcome {
    let mut expected = serde_json::Map::new();
    let mut take = |key: &str| {
        if let Some(value) = vector.get(key) {
            expected.insert(key.to_owned(), value.clone());
        }
    };
    take("config_error");
    let blocks = match Blocks::read(vector)? {
        Ok(blocks) => blocks,
        Err(e) => {
            let found = json!({ "config_error": config_error(&e) });
            return Ok((Json::Object(expected), found));
        }
    };
    take("ref_shape");
    take("num_error_programs");
    take("programs");
    let listed = match vector.get("programs") {
        Some(programs) => items(programs, "programs")?.clone(),
        None => Vec::new(),
    };
    let mut programs = Vec::with_capacity(listed.len());
    for listed in &listed {
        let ids = signed(listed, "program_ids")?;
        programs.push(program(&blocks, &ids)?);
    }
    let errors = || {
        let refused = |p: &Vec<i64>| blocks.slices(p).is_err();
        blocks.grid.programs().filter(refused).count()
    };
    let mut found = serde_json::Map::new();
    for key in expected.keys() {
        let value = match key.as_str() {
            "config_error" => Json::Null,
            "ref_shape" => json!(blocks.spec.ref_shape()),
            "num_error_programs" => json!(errors()),
            _ => Json::Array(std::mem::take(&mut programs)),
        };
        found.insert(key.clone(), value);
    }
    Ok((Json::Object(expected), Json::Object(found)))
}

fn program(blocks: &Blocks, ids: &[i64]) -> Result<Json, VectorError> {
    let extents = blocks.grid.extents();
    let in_grid = ids.len() == extents.len()
        && ids
            .iter()
            .zip(extents)
            .all(|(id, extent)| (0..*extent).contains(id));
    if !in_grid {
        let wanted = format!("a program of {extents:?}");
        return Err(expected(wanted, format!("{ids:?}")));
    }
    match blocks.slices(ids) {
        Ok(slices) => {
            let whole: Vec<[i64; 2]> = slices.iter().map(|s| [s.start, s.stop]).collect();
            let inside: Vec<[i64; 2]> = slices.iter().map(|s| [s.first, s.last]).collect();
            Ok(json!({ "program_ids": ids, "slices": whole, "in_bounds": inside }))
        }
        Err(BlockError::Outside { dim, why, .. }) => {
            let error = json!({ "axis": dim, "reason": why.word() });
            Ok(json!({ "program_ids": ids, "error": error }))
        }
        Err(other) => Err(other.into()),
    }
}

/// The contents of an array after every program has written a number over its block.
pub(super) fn program_ids(vector: &Json) -> Outcome {
    let blocks = Blocks::read(vector)??;
    let kernel = field(vector, "kernel")?;
    let kernel = word(&kernel, "kernel")?;
    let cells = blocks.array.iter().try_fold(1i64, |a, &n| {
        let cells = a.checked_mul(n)?;
        (0..=MAX_CELLS).contains(&cells).then_some(cells)
    });
    let cells = cells.and_then(|n| usize::try_from(n).ok());
    let mut memory = vec![UNWRITTEN; cells.ok_or(VectorError::Cells)?];
    for program in blocks.grid.programs() {
        let slices = match blocks.slices(&program) {
            Ok(slices) => slices,
            Err(source) => return Err(VectorError::Program { program, source }),
        };
        let value = evaluate(kernel, &blocks.grid, &program)?;
        fill(&mut memory, &blocks.array, &slices, value);
    }
    let wanted = field(vector, "expected")?;
    let mut cells = memory.into_iter();
    let found = matrix(&blocks.array, &mut cells, Some(&wanted));
    Ok((wanted, found))
}

/// Writes `value` into every cell of the slices.
fn fill(memory: &mut [i64], array: &[i64], slices: &[Slice], value: i64) {
    let extents: Vec<i64> = slices.iter().map(|s| s.last - s.first).collect();
    let Ok(part) = Grid::new(extents) else { return };
    for offset in part.programs() {
        let steps = offset.iter().zip(slices).zip(array);
        let at = steps.fold(0, |at, ((o, slice), extent)| at * extent + slice.first + o);
        if let Some(cell) = usize::try_from(at).ok().and_then(|at| memory.get_mut(at)) {
            *cell = value;
        }
    }
}

/// The cells as nested lists. A cell that `expected` marks as not written is replaced by that mark.
fn matrix(array: &[i64], cells: &mut impl Iterator<Item = i64>, expected: Option<&Json>) -> Json {
    let Some((&extent, rest)) = array.split_first() else {
        let unwritten = json!(UNWRITTEN);
        let cell = cells.next().map_or(Json::Null, |c| json!(c));
        return if expected == Some(&unwritten) {
            unwritten
        } else {
            cell
        };
    };
    let rows = usize::try_from(extent).unwrap_or(0);
    let row = |i: usize| matrix(rest, cells, expected.and_then(|e| e.get(i)));
    Json::Array((0..rows).map(row).collect())
}

/// Checks whether a TPU takes a block.
pub(super) fn tpu_block_legality(vector: &Json) -> Outcome {
    let array: Vec<i64> = list::<u32>(vector, "array_shape")?
        .ok_or(VectorError::NoKey("array_shape"))?
        .into_iter()
        .map(i64::from)
        .collect();
    let spec = match field(vector, "block_shape")? {
        Json::Null => BlockSpec::whole(&array),
        entries => {
            let entries = items(&entries, "block_shape")?.iter();
            let dims = entries.map(block_dim).collect::<Result<_, _>>()?;
            BlockSpec::for_array(dims, array.len(), array.len())
        }
    };
    let dtype = field(vector, "dtype")?;
    let dtype = word(&dtype, "dtype")?;
    let bits = width(dtype).ok_or_else(|| expected("an element type", format!("`{dtype}`")))?;
    let taken = spec.and_then(|s| Backend::Tpu(RankOne::Current).check(&array, &s, bits));
    Ok((field(vector, "expected_legal")?, taken.is_ok().into()))
}

/// The bits of an element: the first number in the name of its type; truth values are stored as
/// 32-bit words.
fn width(dtype: &str) -> Option<u32> {
    if matches!(dtype, "pred" | "bool") {
        return Some(32);
    }
    let digits = dtype.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let bits: u32 = digits[..end.unwrap_or(digits.len())].parse().ok()?;
    (1..=128).contains(&bits).then_some(bits)
}
