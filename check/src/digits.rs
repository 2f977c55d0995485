//! The digits of a layout without those that have no effect on positions.

use optc_layout::{Layout, Mode};

/// The modes of a layout that have more than one position. Modes with a single value, which are padding, are left out unless
/// their dimension has extent 1.
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
