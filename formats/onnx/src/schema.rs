//! The operators of ONNX: their operator sets, ports and attributes.

use crate::element::code;
use optc_ir::DType;
use std::sync::LazyLock;

/// The table that `tests/interop/onnx_operators.py` writes; its first line names the package.
const TABLE: &str = include_str!("schemas.txt");

/// One version of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Its domain; empty for the standard.
    pub domain: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The first operator set with this version.
    pub since: i64,
    /// True if models of this version must no longer use it.
    pub deprecated: bool,
    /// The least and the greatest number of inputs; `None` as the greatest if there is no limit.
    pub inputs: (usize, Option<usize>),
    /// The least and the greatest number of outputs, as for inputs.
    pub outputs: (usize, Option<usize>),
    /// The names of its attributes, sorted.
    pub attributes: Vec<&'static str>,
    input_types: Vec<u32>,
    output_types: Vec<u32>,
}

impl Schema {
    /// Returns whether it has an attribute of this name.
    #[must_use]
    pub fn has_attribute(&self, name: &str) -> bool {
        self.attributes.contains(&name)
    }

    /// Returns whether a node may have this many inputs.
    #[must_use]
    pub fn has_inputs(&self, count: usize) -> bool {
        self.inputs.1.is_none_or(|most| count <= most)
    }

    /// Returns whether input `at` may be of this element type.
    #[must_use]
    pub fn takes(&self, at: usize, dtype: DType) -> bool {
        among(&self.input_types, at, dtype)
    }

    /// Returns whether output `at` may be of this element type.
    #[must_use]
    pub fn gives(&self, at: usize, dtype: DType) -> bool {
        among(&self.output_types, at, dtype)
    }
}

/// Returns whether port `at` may be of this element type; the last port stands for all that follow.
fn among(types: &[u32], at: usize, dtype: DType) -> bool {
    let mask = types.get(at).or(types.last());
    let bit = code(dtype).and_then(|code| 1u32.checked_shl(code.unsigned_abs()));
    mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
}

/// All versions of all operators, sorted by domain, name and version.
#[must_use]
pub fn schemas() -> &'static [Schema] {
    static ALL: LazyLock<Vec<Schema>> = LazyLock::new(|| {
        let mut all: Vec<Schema> = TABLE.lines().filter_map(read).collect();
        all.sort_by_key(|s| (s.domain, s.name, s.since));
        all
    });
    &ALL
}

/// The version of an operator in models of this operator set; `None` if it was added later or is deprecated.
#[must_use]
pub fn schema(domain: &str, name: &str, opset: i64) -> Option<&'static Schema> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    let all = schemas();
    let end = all.partition_point(|s| (s.domain, s.name, s.since) <= (domain, name, opset));
    let found = all.get(end.checked_sub(1)?)?;
    let is_it = found.domain == domain && found.name == name && !found.deprecated;
    is_it.then_some(found)
}

/// The package of the table, and its newest operator set.
#[must_use]
pub fn schema_source() -> &'static str {
    TABLE
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("# ")
}

/// A line of the table.
fn read(line: &'static str) -> Option<Schema> {
    let mut words = line.split(' ');
    let name = words.next().filter(|&word| word != "#")?;
    let (domain, name) = name.split_once(':').unwrap_or(("", name));
    let version = words.next()?;
    let mut count = || words.next().map(|word| word.parse::<usize>().ok());
    let (inputs, outputs) = ((count()??, count()?), (count()??, count()?));
    let mut types = || -> Option<Vec<u32>> {
        let masks = words.next()?.split(',').filter(|&mask| mask != ".");
        masks
            .map(|mask| u32::from_str_radix(mask, 16).ok())
            .collect()
    };
    Some(Schema {
        domain,
        name,
        since: version.trim_end_matches('!').parse().ok()?,
        deprecated: version.ends_with('!'),
        inputs,
        outputs,
        input_types: types()?,
        output_types: types()?,
        attributes: words.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = TABLE.lines().skip(1).count();
        assert_eq!(schemas().len(), lines);
        assert!(schema_source().starts_with("onnx "), "{}", schema_source());
    }

    #[test]
    fn the_version_in_force_is_found() {
        let since = |name, opset| schema("", name, opset).map(|s| s.since);
        assert_eq!(since("Resize", 9), None);
        assert_eq!(since("Resize", 12), Some(11));
        assert_eq!(since("Upsample", 9), Some(9));
        assert_eq!(since("Upsample", 10), None);
        assert_eq!(since("Abs", 1000), Some(13));
        let resize = schema("", "Resize", 17).expect("it came with 10");
        assert!(!resize.has_attribute("antialias") && resize.has_inputs(4));
        let topk = schema("ai.onnx", "TopK", 10).expect("it came with 1");
        assert!(topk.takes(0, DType::F32) && !topk.takes(0, DType::SI64));
        assert!(topk.gives(1, DType::SI64) && !topk.has_inputs(3));
        let max = schema("", "Max", 12).expect("it came with 1");
        assert!(max.has_inputs(9) && max.takes(8, DType::SI64));
    }
}
