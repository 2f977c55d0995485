//! Splits of values over a mesh of devices, as attributes of modules, arguments, results and operations.
//!
//! ```mlir
//! module attributes {hbir.mesh = ["data:4", "model:2"]} {
//!   func.func @main(%x: tensor<8x128xf32> {hbir.shard = ["data@d0"]}, %w: tensor<128x64xf32> {hbir.shard = ["model@d1/32"]})
//!       -> (tensor<8x64xf32> {hbir.shard = ["data@d0/2", "model@d1/32"]}) {
//!     %0 = "hbir.matmul"(%x, %w) {shard = ["data@d0/2", "model@d1/32"]} : (tensor<8x128xf32>, tensor<128x64xf32>) -> tensor<8x64xf32>
//! ```
//!
//! - The mesh has named axes ([`Mesh`]). A device has one coordinate along each axis.
//! - A [`Sharding`] says which digits of the index are coordinates: `model@d1/32` means that the device at coordinate
//!   `c` of `model` has the elements with `(d1 / 32) % 2 = c`. A value without a split over an axis is the same on all
//!   devices of that axis.
//! - `shard` of an operation is the sharding of its result as it is stored; with several results it is a list of lists.
//! - `take` of an operation has the sharding of each operand as the operation reads it. An operation without it reads
//!   its operands as they are stored. A difference is a collective before the operation.
//! - The program of one device is a function of its own, which names the whole one in `hbir.part_of`.

mod attrs;
mod error;
mod mesh;
mod sharding;
mod split;

pub use attrs::{
    MESH, NO_PART, PART_OF, PORT_SHARD, SHARD, TAKE, argument, attr, check, mesh, part, read,
    result, set_argument, set_result, set_take, set_value, stored, take,
};
pub use error::ShardError;
pub use mesh::{Mesh, MeshAxis};
pub use sharding::Sharding;
pub use split::{Held, Piece, Split};
