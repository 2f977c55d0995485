//! Vectors about XLA's layouts: positions, whole buffers, sizes, bitcasts, text.

use super::error::{VectorError, expected};
use super::{Outcome, compare_memory, field, list, text};
use optc::layout::{Layout, ViewMap, XlaShape, is_view};
use serde_json::{Value as Json, json};

/// The shape under this key.
fn shape(vector: &Json, key: &'static str) -> Result<XlaShape, VectorError> {
    let text = text(vector, key)?;
    XlaShape::parse(text).map_err(|e| expected("a shape", format!("`{text}`: {e}")))
}

/// The layout of the array under this key.
fn layout(vector: &Json, key: &'static str) -> Result<Layout, VectorError> {
    let shape = shape(vector, key)?;
    let array = shape
        .as_array()
        .ok_or_else(|| expected("an array", format!("`{shape}`")))?;
    array
        .layout()
        .map_err(|e| expected("a layout", format!("`{array}`: {e}")))
}

/// The position of an element, the physical extents and their product.
pub(super) fn linear_index(vector: &Json) -> Outcome {
    let shape = shape(vector, "layout_text")?;
    let array = shape.as_array().ok_or(VectorError::NoArray)?;
    let layout = layout(vector, "layout_text")?;
    let index: Vec<u64> = list(vector, "index")?.ok_or(VectorError::NoKey("index"))?;
    let mut found = vec![json!(layout.index(&index))];
    let mut expected = vec![field(vector, "linear_index")?];
    if let Some(extents) = vector.get("expanded_dims") {
        let notation = array.notation_or_default();
        let physical = notation.physical_shape(layout.shape())?;
        expected.push(extents.clone());
        found.push(json!(physical));
    }
    if let Some(positions) = vector.get("num_positions") {
        expected.push(positions.clone());
        found.push(json!(layout.positions()));
    }
    Ok((Json::Array(expected), Json::Array(found)))
}

/// The element at every position, and every element's position.
pub(super) fn linear_maps(vector: &Json) -> Outcome {
    compare_memory(&layout(vector, "layout_text")?, field(vector, "memory")?)
}

/// Bytes with padding; a vector may accept several values.
pub(super) fn byte_size(vector: &Json) -> Outcome {
    let shape = shape(vector, "text")?;
    let array = shape.as_array().ok_or(VectorError::NoArray)?;
    let found = array.bytes()?;
    let wanted = match vector.get("accepted_bytes") {
        Some(accepted) => accepted.clone(),
        None => json!([field(vector, "expected_bytes")?]),
    };
    let accepted = wanted
        .as_array()
        .is_some_and(|all| all.contains(&json!(found)));
    Ok(match accepted {
        true => (json!(found), json!(found)),
        false => (wanted, json!(found)),
    })
}

/// Decides whether a reshape or transpose between two layouts moves nothing.
pub(super) fn bitcast(vector: &Json) -> Outcome {
    let side = |key| layout(vector.get(key).unwrap_or(&Json::Null), "text");
    let (input, output) = (side("input")?, side("output")?);
    let map = ViewMap {
        shape: None,
        perm: list(vector, "perm")?,
        result: output.shape().to_vec(),
    };
    let found = is_view(&input, &map, &output).is_ok();
    Ok((field(vector, "expected")?, found.into()))
}

/// The parsed text, printed again; `null` if it is refused.
pub(super) fn layout_text(vector: &Json) -> Outcome {
    let text = field(vector, "text")?;
    let read = XlaShape::parse(text.as_str().unwrap_or_default());
    let found = match &read {
        Ok(shape) => json!(shape.to_string()),
        Err(_) => Json::Null,
    };
    match field(vector, "expected")?.as_str() {
        Some("ok") => match vector.get("canonical") {
            Some(canonical) => Ok((canonical.clone(), found)),
            None if read.is_ok() => Ok((found.clone(), found)),
            None => Ok((json!("a shape"), found)),
        },
        Some("error") => Ok((Json::Null, found)),
        _ => Ok((found.clone(), found)),
    }
}
