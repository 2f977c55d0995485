//! The mesh of devices: named axes with extents.

use super::error::ShardError;
use crate::codes;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most devices of a mesh.
const MOST_DEVICES: u64 = 1 << 20;

/// An axis of a mesh.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MeshAxis {
    /// Its name.
    pub name: Arc<str>,
    /// The number of devices along it, at least 1.
    pub extent: u64,
    /// The name of the link of the target that connects these devices; `None` is the first one of the target.
    pub link: Option<Arc<str>>,
}

/// A mesh of devices, written `data:4,model:2`. A device has a coordinate along each axis; the last axis is the most
/// minor one. A link of the target follows the extent: `data:16@dcn`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mesh {
    /// The axes, most major first; their names differ.
    pub axes: Vec<MeshAxis>,
}

impl Mesh {
    /// The number of devices.
    #[must_use]
    pub fn devices(&self) -> u64 {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    /// The number of the axis of this name.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| &*axis.name == name)
    }

    /// The names of the axes, in a message.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.axes.iter().map(|axis| &*axis.name).collect();
        names.join(", ")
    }

    /// The error of a name that no axis has.
    #[must_use]
    pub fn unknown_axis(&self, name: &str) -> ShardError {
        let message = format!("found the axis `{name}`, wanted one of {}", self.names());
        let error = ShardError::new(codes::SHARD_AXIS, message);
        let names = self.axes.iter().map(|axis| &*axis.name);
        match crate::diag::nearest(name, names) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("name an axis of the mesh"),
        }
    }

    /// The mesh of these texts, one an axis.
    ///
    /// # Errors
    /// A text is no axis, a name occurs twice, or there are no axes or too many devices (`shard-mesh`).
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Mesh, ShardError> {
        let mut mesh = Mesh::default();
        for text in texts {
            let axis: MeshAxis = text.trim().parse()?;
            if mesh.axis(&axis.name).is_some() {
                let message = format!("found the axis `{}` twice in the mesh", axis.name);
                return Err(ShardError::new(codes::SHARD_MESH, message)
                    .hint("give each axis a name of its own"));
            }
            mesh.axes.push(axis);
        }
        let extents = mesh.axes.iter().map(|axis| axis.extent);
        let devices = extents.fold(1u64, u64::saturating_mul);
        match mesh.axes.is_empty() || MOST_DEVICES < devices {
            true => {
                let message = format!(
                    "found a mesh of {} axes and {devices} devices, wanted an axis and at most {MOST_DEVICES} devices",
                    mesh.axes.len()
                );
                Err(ShardError::new(codes::SHARD_MESH, message))
            }
            false => Ok(mesh),
        }
    }
}

impl FromStr for Mesh {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Mesh, ShardError> {
        Mesh::of(text.split(','))
    }
}

impl FromStr for MeshAxis {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<MeshAxis, ShardError> {
        let error = || {
            let message = format!("found `{text}`, wanted an axis of a mesh");
            ShardError::new(codes::SHARD_MESH, message)
                .hint("write a name and a number of devices, `data:4`, and the link of the target after an @, `data:4@dcn`")
        };
        let word = |s: &str| {
            let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
            s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && s.chars().all(letter)
        };
        let (name, rest) = text.split_once(':').ok_or_else(error)?;
        let (extent, link) = match rest.split_once('@') {
            Some((extent, link)) => (extent, Some(link)),
            None => (rest, None),
        };
        let extent = extent.parse().ok().filter(|&n: &u64| 0 < n);
        let extent = extent.ok_or_else(error)?;
        match word(name) && link.is_none_or(word) {
            true => Ok(MeshAxis {
                name: Arc::from(name),
                extent,
                link: link.map(Arc::from),
            }),
            false => Err(error()),
        }
    }
}

impl fmt::Display for MeshAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.extent)?;
        match &self.link {
            Some(link) => write!(f, "@{link}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, axis) in self.axes.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{axis}")?;
        }
        Ok(())
    }
}
