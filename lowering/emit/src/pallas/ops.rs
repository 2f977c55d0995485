//! The form of each operation in `jnp`, on whole values and on tiles.

use super::form::{Form, Site, Written};
use optc_ir::Operation;
use optc_ops::{
    ArgMax, ArgMin, AvgPool, BatchNorm, BitcastConvert, Broadcast, Concat, Conv, Cumprod, Cumsum,
    DepthToSpace, Dequantize, DotGeneral, DynamicUpdateSlice, Einsum, Flatten, Gather,
    GatherElements, GatherNd, GroupNorm, InstanceNorm, Iota, LayerNorm, Linear, LogSoftmax, Matmul,
    MaxPool, OneHot, Pad, Quantize, Reduce, Reshape, Resize, RmsNorm, RotaryEmbedding,
    ScatterElements, ScatterNd, Slice, Softmax, SpaceToDepth, Split, Squeeze, Subview, Tile, TopK,
    Transpose, Trilu, Unsqueeze,
};
use std::collections::BTreeSet;

/// The operation on `args`; `None` if it has no form here.
pub(super) fn write(site: &Site<'_>, args: &[String]) -> Option<Written> {
    let mut form = Form {
        site,
        args,
        helpers: BTreeSet::new(),
    };
    let results = form.results()?;
    Some(Written {
        results,
        helpers: form.helpers,
    })
}

impl Form<'_> {
    fn results(&mut self) -> Option<Vec<String>> {
        match self.op().name {
            Split::NAME => self.split(),
            TopK::NAME => self.top_k(),
            _ => self.one().map(|text| vec![text]),
        }
    }

    fn one(&mut self) -> Option<String> {
        let form = match self.op().name {
            BitcastConvert::NAME => self.bitcast_convert(),
            Quantize::NAME => self.quantize(),
            Dequantize::NAME => self.dequantize(),
            _ => self.elementwise(),
        };
        let form = form.or_else(|| self.combined());
        form.or_else(|| self.moved())
    }

    /// Operations that combine several elements into one.
    fn combined(&mut self) -> Option<String> {
        match self.op().name {
            Matmul::NAME => self.matmul(),
            Linear::NAME => self.linear(),
            DotGeneral::NAME => self.dot_general(),
            Einsum::NAME => self.einsum(),
            Conv::NAME => self.conv(),
            Resize::NAME if !self.site.tile => self.resize(),
            RotaryEmbedding::NAME if !self.site.tile => self.rotary(),
            MaxPool::NAME => self.max_pool(),
            AvgPool::NAME => self.avg_pool(),
            Reduce::NAME => self.reduce(),
            ArgMax::NAME => self.arg_max(),
            ArgMin::NAME => self.arg_min(),
            Cumprod::NAME => self.cumprod(),
            Cumsum::NAME => self.cumsum(),
            Softmax::NAME => self.softmax(),
            LogSoftmax::NAME => self.log_softmax(),
            LayerNorm::NAME => self.layer_norm(),
            RmsNorm::NAME => self.rms_norm(),
            BatchNorm::NAME => self.batch_norm(),
            InstanceNorm::NAME => self.instance_norm(),
            GroupNorm::NAME => self.group_norm(),
            _ => None,
        }
    }

    /// Operations that move elements, and those that create values without operands.
    fn moved(&mut self) -> Option<String> {
        match self.op().name {
            Reshape::NAME | Squeeze::NAME | Unsqueeze::NAME | Flatten::NAME => self.reshape(),
            Transpose::NAME => self.transpose(),
            Broadcast::NAME => self.broadcast(),
            Tile::NAME => self.tile(),
            Concat::NAME => self.concat(),
            Slice::NAME => self.slice(),
            Subview::NAME => self.subview(),
            Pad::NAME => self.pad(),
            Gather::NAME => self.gather(),
            GatherElements::NAME => self.gather_elements(),
            GatherNd::NAME => self.gather_nd(),
            DynamicUpdateSlice::NAME => self.dynamic_update_slice(),
            ScatterNd::NAME => self.scatter_nd(),
            ScatterElements::NAME => self.scatter_elements(),
            DepthToSpace::NAME if !self.site.tile => self.blocks(&self.typed::<DepthToSpace>()?),
            SpaceToDepth::NAME if !self.site.tile => self.blocks(&self.typed::<SpaceToDepth>()?),
            OneHot::NAME => self.one_hot(),
            Iota::NAME => self.iota(),
            Trilu::NAME => self.trilu(),
            _ => None,
        }
    }
}
