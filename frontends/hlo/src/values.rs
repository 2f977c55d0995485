//! The grammar of attribute values: the texts that are allowed after each name and its `=`.
//!
//! The value of a name without a grammar here may be any balanced piece of text.

use crate::codes;
use crate::cursor::{Cursor, Parsed};
use crate::error::HloError;
use crate::shape::shape;
use crate::strictness::Strictness;

/// Attributes of the module's header.
pub(crate) const HEADER: &[&str] = &[
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_output",
    "allow_spmd_sharding_propagation_to_parameters",
    "buffer_donor",
    "entry_computation_layout",
    "frontend_attributes",
    "input_output_alias",
    "is_scheduled",
    "num_partitions",
    "origin_recovery_table",
    "replica_count",
];

/// The keys of `metadata={…}`, by version; the values of keys that end with `"` are strings.
const METADATA: &[&str] = &[
    "deduplicated_name\"",
    "metadata_payload",
    "op_name\"",
    "op_type\"",
    "preserve_layout",
    "profile_info",
    "profile_type",
    "scheduling_name\"",
    "size_of_generated_code_in_bytes#",
    "size_of_memory_working_set_in_bytes#",
    "source_column#",
    "source_end_column#",
    "source_end_line#",
    "source_file\"",
    "source_line#",
    "stack_frame_id#",
];

/// The parts of a table's line, by the table's heading.
pub(crate) const TABLES: &[(&str, &[&str])] = &[
    ("FileNames", &[]),
    ("FunctionNames", &[]),
    (
        "FileLocations",
        &[
            "file_name_id",
            "function_name_id",
            "line",
            "end_line",
            "column",
            "end_column",
        ],
    ),
    ("StackFrames", &["file_location_id", "parent_frame_id"]),
];

/// The keys whose values are lists of integers.
const LISTS: &[&str] = &[
    "dimensions",
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "slice_sizes",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
    "lhs_batch_dims",
    "rhs_batch_dims",
    "lhs_contracting_dims",
    "rhs_contracting_dims",
    "lhs_ragged_dims",
    "rhs_group_dims",
    "dynamic_slice_sizes",
    "fft_length",
];

/// The keys whose values are integers.
const NUMBERS: &[&str] = &[
    "index",
    "iota_dimension",
    "index_vector_dim",
    "feature_group_count",
    "batch_group_count",
    "exponent_bits",
    "mantissa_bits",
    "k",
    "feature_index",
    "inferred_dimension",
    "channel_id",
    "replica_count",
    "num_partitions",
    "cross_program_prefetch_index",
    "delta",
];

/// The keys whose values are strings.
const STRINGS: &[&str] = &[
    "custom_call_target",
    "async_execution_thread",
    "execution_thread",
    "infeed_config",
    "outfeed_config",
];

/// Reads the value of an attribute of an instruction or of a header.
pub(crate) fn value(cursor: &mut Cursor<'_>, key: &str, strictness: Strictness) -> Parsed<()> {
    cursor.skip()?;
    let start = cursor.position();
    if let Some(words) = words(key) {
        return word(cursor, key, start, words);
    }
    if LISTS.contains(&key) {
        return braces(cursor, |c| c.integer().map(drop)).map(drop);
    }
    if NUMBERS.contains(&key) {
        return cursor.integer().map(drop);
    }
    if STRINGS.contains(&key) {
        return string(cursor);
    }
    match key {
        "backend_config" if cursor.peek()? == Some(b'{') => cursor.piece().map(drop),
        "backend_config" => string(cursor),
        "parameter_replication" => braces(cursor, |c| truth(c, key)).map(drop),
        "allow_spmd_sharding_propagation_to_parameters"
        | "allow_spmd_sharding_propagation_to_output" => {
            if cursor.peek()? == Some(b'{') {
                braces(cursor, |c| truth(c, key)).map(drop)
            } else {
                truth(cursor, key)
            }
        }
        "operand_precision" => braces(cursor, |c| {
            let at = c.position();
            word(c, key, at, &["default", "high", "highest", "packed_nibble"])
        })
        .map(drop),
        "operand_layout_constraints" => braces(cursor, |c| shape(c).map(drop)).map(drop),
        "outfeed_shape" => shape(cursor).map(drop),
        "algorithm" => algorithm(cursor, key, start),
        "metadata" => metadata(cursor, strictness),
        "frontend_attributes" => braces(cursor, frontend).map(drop),
        "sharding" => sharding(cursor),
        "window" => window(cursor),
        "dim_labels" => dim_labels(cursor),
        "padding" => padding(cursor),
        "slice" => braces(cursor, range).map(drop),
        "replica_groups" => replica_groups(cursor),
        "source_target_pairs" => braces(cursor, |c| {
            let at = c.position();
            match braces(c, |c| c.integer().map(drop))? {
                2 => Ok(()),
                n => Err(wrong(c, at, &format!("{n} numbers"), "pairs of two")),
            }
        })
        .map(drop),
        "output_to_operand_aliasing" | "input_output_alias" => braces(cursor, |c| {
            index(c)?;
            c.expect(":")?;
            alias(c, key == "input_output_alias")
        })
        .map(drop),
        "buffer_donor" => braces(cursor, |c| alias(c, false)).map(drop),
        "statistics" => {
            if cursor.peek()? != Some(b'{') {
                return Err(cursor.wanted("`{`"));
            }
            cursor.piece().map(drop)
        }
        "literal" => {
            let shape = shape(cursor)?;
            crate::literal::literal(cursor, &shape, 0).map(drop)
        }
        _ => cursor.piece().map(drop),
    }
}

/// The algorithm of a product or of a generator of random bits.
fn algorithm(cursor: &mut Cursor<'_>, key: &str, start: usize) -> Parsed<()> {
    cursor.skip()?;
    let random = ["rng_default", "rng_three_fry", "rng_philox", "unset"];
    match cursor.word() {
        Some(found) if found.starts_with("dot_") || random.contains(&found) => Ok(()),
        Some(found) => {
            let found = format!("{key}={found}");
            let wanted = format!("{} or dot_…", random.join(", "));
            Err(wrong(cursor, start, &found, &wanted))
        }
        None => Err(cursor.wanted("an algorithm")),
    }
}

/// The words that are allowed after a name.
fn words(key: &str) -> Option<&'static [&'static str]> {
    Some(match key {
        "kind" => &["kLoop", "kInput", "kOutput", "kCustom"],
        "direction" => &["EQ", "NE", "GE", "GT", "LE", "LT"],
        "type" => &["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"],
        "distribution" => &["rng_uniform", "rng_normal"],
        "fft_type" => &["FFT", "IFFT", "RFFT", "IRFFT"],
        "transpose_a" => &["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"],
        "padding_type" => &["PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"],
        "schedule" => &["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"],
        "api_version" => &[
            "API_VERSION_UNSPECIFIED",
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        ],
        "is_stable"
        | "indices_are_sorted"
        | "unique_indices"
        | "use_global_device_ids"
        | "constrain_layout"
        | "custom_call_has_side_effect"
        | "lower"
        | "left_side"
        | "unit_diagonal"
        | "is_host_transfer"
        | "is_composite"
        | "is_reverse"
        | "largest"
        | "is_scheduled"
        | "alias_passthrough_params" => TRUTH,
        _ => return None,
    })
}

const TRUTH: &[&str] = &["true", "false"];

fn truth(cursor: &mut Cursor<'_>, key: &str) -> Parsed<()> {
    cursor.skip()?;
    let start = cursor.position();
    word(cursor, key, start, TRUTH)
}

fn word(cursor: &mut Cursor<'_>, key: &str, start: usize, words: &[&str]) -> Parsed<()> {
    cursor.skip()?;
    match cursor.word() {
        Some(found) if words.contains(&found) => Ok(()),
        Some(found) => {
            let found = format!("{key}={found}");
            Err(wrong(cursor, start, &found, &words.join(", ")))
        }
        None => Err(cursor.wanted(&words.join(", "))),
    }
}

/// An error about the text that was read from `start` on.
fn wrong(cursor: &Cursor<'_>, start: usize, found: &str, wanted: &str) -> HloError {
    let message = format!("found {found}, wanted {wanted}");
    HloError::new(codes::HLO_ATTRIBUTE_VALUE, message, cursor.span_from(start))
}

/// `{a, b}`: returns the number of entries.
fn braces<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(&mut Cursor<'a>) -> Parsed<()>,
) -> Parsed<usize> {
    list(cursor, "{", "}", &mut each)
}

fn list<'a>(
    cursor: &mut Cursor<'a>,
    open: &str,
    close: &str,
    each: &mut impl FnMut(&mut Cursor<'a>) -> Parsed<()>,
) -> Parsed<usize> {
    cursor.expect(open)?;
    let mut count = 0;
    if cursor.eat(close)? {
        return Ok(count);
    }
    loop {
        cursor.skip()?;
        each(cursor)?;
        count += 1;
        if cursor.eat(close)? {
            return Ok(count);
        }
        cursor.expect(",")?;
    }
}

fn numbers(cursor: &mut Cursor<'_>, open: &str, close: &str) -> Parsed<Vec<i64>> {
    let mut found = Vec::new();
    list(cursor, open, close, &mut |c| {
        found.push(c.integer()?);
        Ok(())
    })?;
    Ok(found)
}

fn string(cursor: &mut Cursor<'_>) -> Parsed<()> {
    match cursor.peek()? {
        Some(quote @ (b'"' | b'\'')) => cursor.string(quote),
        _ => Err(cursor.wanted("a string in quotes")),
    }
}

/// `{op_name="…" source_line=3}`; commas between entries are accepted.
fn metadata(cursor: &mut Cursor<'_>, strictness: Strictness) -> Parsed<()> {
    cursor.expect("{")?;
    let mut seen = 0_u32;
    while !cursor.eat("}")? {
        cursor.skip()?;
        let start = cursor.position();
        let Some(key) = cursor.word() else {
            return Err(cursor.wanted("the name of a part of the metadata"));
        };
        let at = cursor.span_from(start);
        cursor.expect("=")?;
        cursor.skip()?;
        let name = |entry: &str| entry.trim_end_matches(['"', '#']) == key;
        match METADATA.iter().position(|entry| name(entry)) {
            Some(i) if seen & (1 << i) != 0 => {
                let message = format!("`{key}` is given twice");
                return Err(HloError::new(codes::HLO_ATTRIBUTE_DUPLICATE, message, at));
            }
            Some(i) => {
                seen |= 1 << i;
                match METADATA[i].as_bytes().last() {
                    Some(b'"') => string(cursor)?,
                    Some(b'#') => drop(cursor.integer()?),
                    _ => drop(cursor.piece()?),
                }
            }
            None if strictness == Strictness::Exact => {
                let message = format!("the metadata has no part `{key}`");
                return Err(HloError::new(codes::HLO_ATTRIBUTE_UNKNOWN, message, at));
            }
            None => drop(cursor.piece()?),
        }
        cursor.eat(",")?;
    }
    Ok(())
}

/// `key="value"` or `key={…}`.
fn frontend(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.word().is_none() {
        return Err(cursor.wanted("a name"));
    }
    cursor.expect("=")?;
    if cursor.peek()? == Some(b'{') {
        cursor.piece().map(drop)
    } else {
        string(cursor)
    }
}

/// `{replicated}`, `{devices=[2,4]<=[8]}`, `{{…}, {…}}`.
fn sharding(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let mut look = cursor.clone();
    look.expect("{")?;
    if look.peek()? == Some(b'{') {
        return braces(cursor, one_sharding).map(drop);
    }
    one_sharding(cursor)
}

fn one_sharding(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let start = cursor.position();
    let mut look = cursor.clone();
    look.expect("{")?;
    if look.eat("mesh")? {
        return cursor.piece().map(drop);
    }
    cursor.expect("{")?;
    let (mut maximal, mut device, mut devices) = (false, false, None);
    while !cursor.eat("}")? {
        cursor.skip()?;
        let at = cursor.position();
        let Some(word) = cursor.word() else {
            return Err(cursor.wanted("a word of a sharding"));
        };
        match word {
            "maximal" => maximal = true,
            "replicated" | "manual" | "unknown" | "unreduced" | "last_tile_dim_replicate" => {}
            "shard_as" | "shard_like" => drop(cursor.integer()?),
            "device" => {
                cursor.expect("=")?;
                cursor.integer()?;
                device = true;
            }
            "devices" => {
                cursor.expect("=")?;
                devices = Some(assignment(cursor, true)?);
            }
            "last_tile_dims" => {
                cursor.expect("=")?;
                braces(cursor, |c| match c.word() {
                    Some(_) => Ok(()),
                    None => Err(c.wanted("a kind of sharding")),
                })?;
            }
            "metadata" => {
                cursor.expect("=")?;
                cursor.piece()?;
            }
            _ => {
                cursor.rewind(at);
                return Err(cursor.wanted("a word of a sharding"));
            }
        }
    }
    let message = match (maximal, device, devices) {
        (true, false, _) => "maximal without a device",
        (false, true, _) => "a device of a sharding that is not maximal",
        (_, _, Some(1)) => "devices of one tile",
        _ => return Ok(()),
    };
    let wanted = "`{maximal device=N}` or devices in two tiles or more";
    Err(wrong(cursor, start, message, wanted))
}

/// `[2,4]0,1,…`, `[2,4]<=[8]`, `[2,4]<=[4,2]T(1,0)`: returns the number of tiles.
fn assignment(cursor: &mut Cursor<'_>, listed: bool) -> Parsed<i64> {
    let start = cursor.position();
    let tiles = numbers(cursor, "[", "]")?;
    let count = |sizes: &[i64]| sizes.iter().fold(1_i64, |n, &s| n.saturating_mul(s));
    if cursor.eat("<=")? {
        let sizes = numbers(cursor, "[", "]")?;
        if cursor.eat("T")? {
            let order = numbers(cursor, "(", ")")?;
            let rank = i64::try_from(sizes.len()).unwrap_or(i64::MAX);
            let fits = order.len() == sizes.len() && order.iter().all(|o| (0..rank).contains(o));
            if !fits {
                let found = format!("the order {order:?}");
                let wanted = format!("the numbers 0 to {rank} (exclusive)");
                return Err(wrong(cursor, start, &found, &wanted));
            }
        }
        if listed && count(&sizes) < count(&tiles) {
            let found = format!("{} tiles", count(&tiles));
            let wanted = format!("no more than the {} devices", count(&sizes));
            return Err(wrong(cursor, start, &found, &wanted));
        }
    } else if listed {
        cursor.integer()?;
        loop {
            let mut look = cursor.clone();
            if !look.eat(",")? {
                break;
            }
            look.integer()?;
            *cursor = look;
        }
    } else {
        return Err(cursor.wanted("`<=`"));
    }
    Ok(count(&tiles))
}

/// `{{0,1},{2,3}}` or `[2,2]<=[4]`.
fn replica_groups(cursor: &mut Cursor<'_>) -> Parsed<()> {
    match cursor.peek()? {
        Some(b'{') => braces(cursor, |c| numbers(c, "{", "}").map(drop)).map(drop),
        Some(b'[') => {
            let start = cursor.position();
            let rank = numbers(&mut cursor.clone(), "[", "]")?.len();
            if rank != 2 {
                let found = format!("groups of rank {rank}");
                return Err(wrong(cursor, start, &found, "2: groups and their size"));
            }
            assignment(cursor, false).map(drop)
        }
        _ => cursor.piece().map(drop),
    }
}

/// `{size=3x3 stride=2x2 pad=0_1x0_1 rhs_reversal=0x1}`.
fn window(cursor: &mut Cursor<'_>) -> Parsed<()> {
    const PARTS: [&str; 6] = [
        "size",
        "stride",
        "pad",
        "lhs_dilate",
        "rhs_dilate",
        "rhs_reversal",
    ];
    let whole = cursor.position();
    cursor.expect("{")?;
    let mut ranks = [None; PARTS.len()];
    while !cursor.eat("}")? {
        cursor.skip()?;
        let start = cursor.position();
        let part = cursor.word();
        let Some(part) = PARTS.iter().position(|p| Some(*p) == part) else {
            cursor.rewind(start);
            return Err(cursor.wanted(&PARTS.join(", ")));
        };
        cursor.expect("=")?;
        let text = run(cursor)?;
        let fits = text.split('x').all(|piece| match PARTS[part] {
            "pad" => piece
                .split_once('_')
                .is_some_and(|(lo, hi)| is_number(lo) && is_number(hi)),
            _ => is_number(piece) && !piece.starts_with('-'),
        });
        if !fits {
            let wanted = match PARTS[part] {
                "pad" => "pairs as in `0_0x3_3`",
                _ => "numbers as in `2x3`",
            };
            return Err(wrong(cursor, start, text, wanted));
        }
        if ranks[part].replace(text.split('x').count()).is_some() {
            let message = format!("`{}` is given twice", PARTS[part]);
            let at = cursor.span_from(start);
            return Err(HloError::new(codes::HLO_ATTRIBUTE_DUPLICATE, message, at));
        }
    }
    let size = ranks[0].unwrap_or(0);
    for (name, rank) in PARTS.iter().zip(ranks) {
        if rank.is_some_and(|rank| rank != size) {
            let found = format!("`{name}` of {} dimensions", rank.unwrap_or(0));
            let wanted = format!("the {size} of `size`");
            return Err(wrong(cursor, whole, &found, &wanted));
        }
    }
    Ok(())
}

/// Digits, signs, `x` and `_` at this byte.
fn run<'a>(cursor: &mut Cursor<'a>) -> Parsed<&'a str> {
    cursor.skip()?;
    let found = cursor.take_while(|c| c.is_ascii_digit() || matches!(c, b'x' | b'_' | b'-'));
    if found.is_empty() {
        return Err(cursor.wanted("numbers"));
    }
    Ok(found)
}

fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok() && !text.starts_with('+')
}

/// `0_1x2_3_1`: low, high and interior of every dimension.
fn padding(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let start = cursor.position();
    let text = run(cursor)?;
    let fits = text.split('x').all(|piece| {
        let parts = piece.split('_').count();
        (parts == 2 || parts == 3) && piece.split('_').all(is_number)
    });
    if fits {
        return Ok(());
    }
    Err(wrong(cursor, start, text, "padding as in `0_0x3_3_1`"))
}

/// `[0:4]` or `[0:4:2]`.
fn range(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let start = cursor.position();
    cursor.expect("[")?;
    cursor.integer()?;
    let mut parts = 1;
    while cursor.eat(":")? {
        cursor.integer()?;
        parts += 1;
    }
    cursor.expect("]")?;
    if parts == 2 || parts == 3 {
        return Ok(());
    }
    let found = format!("{parts} numbers");
    Err(wrong(cursor, start, &found, "start, limit and a stride"))
}

/// `b01f_01io->b01f`.
fn dim_labels(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let start = cursor.position();
    let in_labels = |c: u8| c.is_ascii_alphanumeric() || c == b'?';
    let lhs = cursor.take_while(in_labels);
    let rhs = if cursor.eat("_")? {
        cursor.take_while(in_labels)
    } else {
        ""
    };
    let out = if cursor.eat("->")? {
        cursor.take_while(in_labels)
    } else {
        ""
    };
    let spatial = |labels: &str, letters: [char; 2]| -> Option<usize> {
        let once = |c: char| labels.chars().filter(|&l| l == c).count() == 1;
        let digits = labels.chars().filter(char::is_ascii_digit).count();
        let known = |c: char| letters.contains(&c) || c == '?' || c.is_ascii_digit();
        let fits = letters.into_iter().all(once)
            && labels.chars().all(known)
            && (0..digits).all(|d| {
                u32::try_from(d)
                    .ok()
                    .and_then(|d| char::from_digit(d, 10))
                    .is_some_and(once)
            });
        fits.then_some(digits)
    };
    let ranks = [
        spatial(lhs, ['b', 'f']),
        spatial(rhs, ['i', 'o']),
        spatial(out, ['b', 'f']),
    ];
    if ranks[0].is_some() && ranks.iter().all(|r| *r == ranks[0]) {
        return Ok(());
    }
    let found = cursor.since(start).to_owned();
    let wanted = "labels as in `b01f_01io->b01f`, of one number of spatial dimensions";
    Err(wrong(cursor, start, &found, wanted))
}

/// `{0,1}`: the index of a part of a tuple.
fn index(cursor: &mut Cursor<'_>) -> Parsed<()> {
    numbers(cursor, "{", "}").map(drop)
}

/// `(0, {1})`; with `kind` also `(0, {}, may-alias)` and a parameter alone.
fn alias(cursor: &mut Cursor<'_>, kind: bool) -> Parsed<()> {
    cursor.expect("(")?;
    cursor.integer()?;
    cursor.expect(",")?;
    index(cursor)?;
    if kind && cursor.eat(",")? {
        cursor.skip()?;
        let at = cursor.position();
        word(cursor, "kind", at, &["may-alias", "must-alias"])?;
    }
    cursor.expect(")")
}

/// The lines of a table of names or stack frames: `1 "path"` or `1 {line=7 column=1}`.
pub(crate) fn table(cursor: &mut Cursor<'_>, parts: &[&str]) -> Parsed<()> {
    while cursor.peek()?.is_some_and(|c| c.is_ascii_digit()) {
        cursor.integer()?;
        if parts.is_empty() {
            string(cursor)?;
            continue;
        }
        cursor.expect("{")?;
        let mut seen = 0_u32;
        while !cursor.eat("}")? {
            cursor.skip()?;
            let start = cursor.position();
            let word = cursor.word();
            let part = parts.iter().position(|p| Some(*p) == word);
            let Some(part) = part.filter(|part| seen & (1 << part) == 0) else {
                cursor.rewind(start);
                return Err(cursor.wanted(&parts.join(", ")));
            };
            seen |= 1 << part;
            cursor.expect("=")?;
            cursor.integer()?;
        }
    }
    Ok(())
}
