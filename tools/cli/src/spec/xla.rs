//! Vectors about XLA's layouts: positions, whole buffers, sizes, bitcasts, text.

use super::{compare_memory, field, list};
use optc::layout::{Layout, ViewMap, XlaShape, is_view};
use serde_json::{Value as Json, json};

/// The shape under this key.
fn shape(vector: &Json, key: &str) -> Result<XlaShape, String> {
    let text = vector.get(key).and_then(Json::as_str);
    let text = text.ok_or_else(|| format!("the vector has no text `{key}`"))?;
    XlaShape::parse(text).map_err(|e| format!("expected a shape, found `{text}`: {e}"))
}

/// The layout of the array under this key.
fn layout(vector: &Json, key: &str) -> Result<Layout, String> {
    let shape = shape(vector, key)?;
    let array = shape
        .as_array()
        .ok_or_else(|| format!("expected an array, found `{shape}`"))?;
    array
        .layout()
        .map_err(|e| format!("expected a layout, found `{array}`: {e}"))
}

/// The position of an element, the physical extents and their product.
pub(super) fn linear_index(vector: &Json) -> Result<(Json, Json), String> {
    let shape = shape(vector, "layout_text")?;
    let array = shape.as_array().ok_or("expected an array")?;
    let layout = layout(vector, "layout_text")?;
    let index: Vec<u64> = list(vector, "index")?.ok_or("the vector has no `index`")?;
    let mut found = vec![json!(layout.index(&index))];
    let mut expected = vec![field(vector, "linear_index")?];
    if let Some(extents) = vector.get("expanded_dims") {
        let notation = array.notation_or_default();
        let physical = notation
            .physical_shape(layout.shape())
            .map_err(|e| e.to_string())?;
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
pub(super) fn linear_maps(vector: &Json) -> Result<(Json, Json), String> {
    compare_memory(&layout(vector, "layout_text")?, field(vector, "memory")?)
}

/// Bytes with padding; a vector may accept several values.
pub(super) fn byte_size(vector: &Json) -> Result<(Json, Json), String> {
    let shape = shape(vector, "text")?;
    let array = shape.as_array().ok_or("expected an array")?;
    let found = array.bytes().map_err(|e| e.to_string())?;
    let expected = match vector.get("accepted_bytes") {
        Some(accepted) => accepted.clone(),
        None => json!([field(vector, "expected_bytes")?]),
    };
    let accepted = expected
        .as_array()
        .is_some_and(|all| all.contains(&json!(found)));
    Ok(match accepted {
        true => (json!(found), json!(found)),
        false => (expected, json!(found)),
    })
}

/// Decides whether a reshape or transpose between two layouts moves nothing.
pub(super) fn bitcast(vector: &Json) -> Result<(Json, Json), String> {
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
pub(super) fn layout_text(vector: &Json) -> Result<(Json, Json), String> {
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
