//! The builders of the test kit, which depends on this crate.

#[path = "../../testkit/src/builders/node.rs"]
mod node;
#[path = "../../testkit/src/builders/object.rs"]
mod object;
#[path = "../../testkit/src/builders/pod.rs"]
mod pod;
#[path = "../../testkit/src/builders/storage.rs"]
mod storage;

pub use node::{NodeBuilder, node};
pub use object::{SetJson, object};
pub use pod::{PodBuilder, pod};
pub use storage::{
    StorageObject, bound_claim, claim, csi_node, storage_class, volume, volume_attachment,
};
