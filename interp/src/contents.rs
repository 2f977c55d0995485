//! Attributes that refer to bytes of a file, such as an unparsed graph, by their contents.

use crate::data::DataSource;
use indexmap::IndexMap;
use optc_ir::{Attr, AttrDict, DType, Registry};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};

/// For some attributes of an opaque operation, the bytes that stand for their contents. The function reads the bytes to
/// which an attribute refers. `None` if the operation is of another format.
pub type Contents =
    fn(&AttrDict, &dyn Fn(&Attr) -> Option<Vec<u8>>) -> Option<IndexMap<String, Vec<u8>>>;

/// The contents of messages that formats know. It is an extension of the registry; without one, messages are equal if
/// their bytes are.
#[derive(Clone, Default)]
pub struct Messages(pub Vec<Contents>);

/// The attributes with references to bytes of a file replaced by the contents, so that the place of the bytes does not
/// matter.
pub(crate) fn contents<'p>(
    props: &'p AttrDict,
    registry: &Registry,
    data: &dyn DataSource,
) -> Cow<'p, AttrDict> {
    let read = |attr: &Attr| match attr {
        Attr::External {
            file,
            offset,
            length,
        } => data.read(file, *offset, *length, DType::UI8).ok(),
        _ => None,
    };
    let formats = registry.extension::<Messages>().into_iter();
    let known = formats
        .flat_map(|all| &all.0)
        .find_map(|of| of(props, &read));
    let known = known.unwrap_or_default();
    let mut out = Cow::Borrowed(props);
    for (name, attr) in props.iter() {
        let own = known.get(name).map(|bytes| Cow::Borrowed(&bytes[..]));
        if let Some(bytes) = own.or_else(|| read(attr).map(Cow::Owned)) {
            let mut hasher = DefaultHasher::new();
            hasher.write(&bytes);
            let text = format!("{} {}", bytes.len(), hasher.finish());
            out.to_mut().set(name, Attr::str(&text));
        }
    }
    out
}
