//! The links of the axes of a mesh.

use crate::codes;
use optc_ir::shard::{Mesh, ShardError};
use optc_target::Target;

/// The link along one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisLink {
    /// The number of devices along the axis.
    pub extent: u64,
    /// Bytes a second in one direction.
    pub bandwidth: f64,
    /// Seconds for one step.
    pub latency: f64,
}

/// The links of all axes of a mesh.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Links(pub Vec<AxisLink>);

impl Links {
    /// The links that the axes name; an axis without a name has the first link of the target.
    ///
    /// # Errors
    /// The target has no such link (`mesh-link`).
    pub fn of(mesh: &Mesh, target: &Target) -> Result<Links, ShardError> {
        let link = |axis: &optc_ir::shard::MeshAxis| {
            let found = match &axis.link {
                Some(name) => target.links.iter().find(|link| link.name == **name),
                None => target.links.first(),
            };
            let found = found.ok_or_else(|| {
                let known: Vec<&str> = target.links.iter().map(|l| l.name.as_str()).collect();
                let wanted = match known.is_empty() {
                    true => "none is in its file".to_owned(),
                    false => format!("wanted one of {}", known.join(", ")),
                };
                let message = format!(
                    "found the axis `{axis}`, which is over no link of target `{}`: {wanted}",
                    target.name
                );
                ShardError::new(codes::MESH_LINK, message).hint(
                    "add `[[links]]` with a name, a bandwidth and a latency to the target's file",
                )
            })?;
            Ok(AxisLink {
                extent: axis.extent,
                bandwidth: found.bandwidth,
                latency: found.latency,
            })
        };
        mesh.axes
            .iter()
            .map(link)
            .collect::<Result<_, _>>()
            .map(Links)
    }
}
