//! The digits of a layout by which positions are computed.

use optc_layout::{Layout, Mode};

/// The digits of a layout as modes: for each, the distance in memory of adjacent indices.
pub(crate) fn digits(layout: &Layout) -> Result<Vec<Mode>, String> {
    let shape = layout.shape().to_vec();
    let all = layout
        .modes()
        .ok_or("a layout cuts across merged dimensions")?;
    Ok(all
        .into_iter()
        .filter(|p| 1 < p.extent && (1 < p.count || shape[p.dim] == 1))
        .collect())
}
