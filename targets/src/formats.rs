//! The tiles that a target's values lie in, by element width and extents.

use serde::Deserialize;
use std::fmt::Write;

/// One format: the values to which it applies, and their tiles.
///
/// Exactly one of `rows`, `length`, `scalar` and `plain` is given; the first three determine the rank.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// The generations that have it; the default is all of the target's.
    #[serde(default)]
    pub generations: Option<Vec<String>>,
    /// Widths of an element in bits.
    pub bits: Vec<u32>,
    /// The least second most minor extent.
    #[serde(default)]
    pub from_rows: u64,
    /// Rank 2 and more: the least and the greatest number of rows of a tile, in elements. The number of rows is the
    /// second most minor extent, rounded up to a power of two and clamped to these bounds.
    #[serde(default)]
    pub rows: Option<[u64; 2]>,
    /// With `rows`: elements of a row.
    #[serde(default)]
    pub lanes: u64,
    /// Rank 1: the least and the greatest length of a tile, in elements, as `rows`.
    #[serde(default)]
    pub length: Option<[u64; 2]>,
    /// Rank 0: the length of the tile, in elements.
    #[serde(default)]
    pub scalar: Option<u64>,
    /// Values may also lie without tiles, in any order. By default, an innermost run with fewer elements than this is
    /// padded up to this number.
    #[serde(default)]
    pub plain: Option<u64>,
    /// The tiles inside the tile, in the order of application.
    #[serde(default)]
    pub then: Vec<Vec<u64>>,
}

impl Format {
    /// The values to which it applies and the tiles, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let bits: Vec<String> = self.bits.iter().map(u32::to_string).collect();
        let inside: String = tiles_text(&self.then).replacen('T', "", 1);
        if let Some(run) = self.plain {
            let bits = bits.join(", ");
            return format!(
                "{bits} bit: without tiles too, fewer than {run} elements innermost padded up to these"
            );
        }
        let shape = |[least, most]: [u64; 2], letter: &str| {
            if least == most {
                least.to_string()
            } else {
                format!("{letter} from {least} to {most}")
            }
        };
        let (rank, tile) = match (self.rows, self.length) {
            (Some(rows), _) => {
                let rank = match self.from_rows {
                    0 => "rank 2 and more".to_owned(),
                    n => format!("rank 2 and more, {n} rows or more"),
                };
                let tile = format!("T({},{}){inside}", shape(rows, "rows"), self.lanes);
                (rank, tile)
            }
            (None, Some(length)) => {
                let tile = format!("T({}){inside}", shape(length, "length"));
                ("rank 1".to_owned(), tile)
            }
            (None, None) => {
                let tile = format!("T({}){inside}", self.scalar.unwrap_or(1));
                ("rank 0".to_owned(), tile)
            }
        };
        let only = self.generations.as_ref();
        let only = only.map_or_else(String::new, |list| format!(", {} only", list.join(", ")));
        format!("{} bit, {rank}{only}: {tile}", bits.join(", "))
    }

    /// The defect of the format, in words.
    pub(crate) fn fault(&self, known: &[String]) -> Option<String> {
        let kinds = [
            self.rows.is_some(),
            self.length.is_some(),
            self.scalar.is_some(),
            self.plain.is_some(),
        ];
        if kinds.iter().filter(|k| **k).count() != 1 {
            return Some("wants one of `rows`, `length`, `scalar` and `plain`".to_owned());
        }
        if self.plain.is_some() && !self.then.is_empty() {
            return Some("says `then` of what lies in no tile".to_owned());
        }
        let named = self.generations.iter().flatten();
        if let Some(unknown) = named.into_iter().find(|g| !known.contains(g)) {
            return Some(format!(
                "names the generation `{unknown}`, which is not declared"
            ));
        }
        let bounds = self.rows.or(self.length).unwrap_or([1, 1]);
        let lanes = self.rows.is_none() || 0 < self.lanes;
        let powers = bounds.iter().all(|n| n.is_power_of_two()) && bounds[0] <= bounds[1];
        let inside = self
            .then
            .iter()
            .all(|tile| !tile.is_empty() && !tile.contains(&0));
        let good = lanes && powers && inside && self.scalar != Some(0) && self.plain != Some(0);
        (!good).then(|| "wants sizes of at least 1, bounds that are powers of two".to_owned())
    }

    /// Returns whether it applies to values of this width and these extents, major to minor in memory.
    fn fits(&self, generation: &str, bits: u32, physical: &[u64]) -> bool {
        let rank = match physical.len() {
            0 => self.scalar.is_some(),
            1 => self.length.is_some(),
            n => self.rows.is_some() && self.from_rows <= physical[n - 2],
        };
        rank && self.is_for(generation, bits)
    }

    /// Returns whether it applies to values of this width, whatever their extents.
    fn is_for(&self, generation: &str, bits: u32) -> bool {
        let listed = self.generations.as_ref();
        self.bits.contains(&bits) && listed.is_none_or(|list| list.iter().any(|g| g == generation))
    }

    /// The tiles of a value to which it applies.
    fn tiles(&self, physical: &[u64]) -> Vec<Vec<u64>> {
        let within = |n: u64, [least, most]: [u64; 2]| {
            let up = n.max(1).checked_next_power_of_two().unwrap_or(most);
            up.clamp(least, most)
        };
        let first = match (physical, self.rows, self.length) {
            ([.., rows, _], Some(bounds), _) => vec![within(*rows, bounds), self.lanes],
            ([length], _, Some(bounds)) => vec![within(*length, bounds)],
            _ => vec![self.scalar.unwrap_or(1)],
        };
        [vec![first], self.then.clone()].concat()
    }
}

/// The tiles of a value by the first format that applies; empty if no format applies and the value lies untiled.
pub(crate) fn tiles(
    formats: &[Format],
    generation: &str,
    bits: u32,
    physical: &[u64],
) -> Vec<Vec<u64>> {
    let found = formats.iter().find(|f| f.fits(generation, bits, physical));
    found.map_or_else(Vec::new, |f| f.tiles(physical))
}

/// The number of elements up to which an innermost run is padded; `None` if values of this width must lie in tiles.
pub(crate) fn plain(formats: &[Format], generation: &str, bits: u32) -> Option<u64> {
    let mut found = formats.iter().filter(|f| f.is_for(generation, bits));
    found.find_map(|f| f.plain)
}

/// Tiles in XLA's text, `T(8,128)(2,1)`.
#[must_use]
pub fn tiles_text(tiles: &[Vec<u64>]) -> String {
    let mut out = String::new();
    for (i, tile) in tiles.iter().enumerate() {
        let sizes: Vec<String> = tile.iter().map(u64::to_string).collect();
        let _ = write!(
            out,
            "{}({})",
            if i == 0 { "T" } else { "" },
            sizes.join(",")
        );
    }
    out
}
