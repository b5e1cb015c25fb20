//! Images by name, over all nodes.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::{NodeIx, Posting};
use api::NodeImage;

/// An image that at least one node has.
#[derive(Debug, Clone)]
pub struct ImageState {
    /// Size in bytes, as first reported by a node that has the image.
    pub size: i64,
    /// Nodes that have the image.
    pub nodes: Posting,
}

/// The dense id of an image name that at least one node has. Ids of unused names are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ImageId(u32);

impl ImageId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The ids of the images of a node, in its order. An id takes a byte for each seven of its bits: a
/// node has dozens of images, and a cluster has thousands.
#[derive(Debug, Clone, Default)]
pub(super) struct RowImages(Box<[u8]>);

/// The bit of a byte that says that more bytes of the id follow.
const MORE: u8 = 1 << 7;

impl FromIterator<ImageId> for RowImages {
    fn from_iter<I: IntoIterator<Item = ImageId>>(ids: I) -> Self {
        let mut bytes = Vec::new();
        for ImageId(mut id) in ids {
            while id >= u32::from(MORE) {
                bytes.push(MORE | id.to_le_bytes()[0]);
                id >>= 7;
            }
            bytes.push(id.to_le_bytes()[0]);
        }
        Self(bytes.into())
    }
}

impl RowImages {
    fn iter(&self) -> impl Iterator<Item = ImageId> {
        let ids = self.0.chunk_by(|byte, _| byte & MORE != 0);
        let id = |bytes: &[u8]| bytes.iter().rfold(0, |id, byte| id << 7 | u32::from(byte & !MORE));
        ids.map(move |bytes| ImageId(id(bytes)))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct ImageIndex {
    ids: HashMap<Arc<str>, ImageId>,
    images: Vec<(Arc<str>, ImageState)>,
    free: Vec<ImageId>,
}

impl ImageIndex {
    pub(super) fn get(&self, name: &str) -> Option<&ImageState> {
        self.ids.get(name).map(|id| &self.images[id.index()].1)
    }

    /// Returns the images of a node, each with one name.
    pub(super) fn of(&self, row: &RowImages) -> Box<[NodeImage]> {
        let image = |id: ImageId| {
            let (name, state) = &self.images[id.index()];
            NodeImage { names: [name.clone()].into(), size: state.size }
        };
        row.iter().map(image).collect()
    }

    /// Replaces the images of a node, which are in `row`, each once. Returns whether a value
    /// that decisions read has changed.
    ///
    /// The stored size is the first one reported. A node that reports another size changes it only
    /// if no other node has the image, as in kube-scheduler, where an update of a node removes its
    /// images and adds them again.
    pub(super) fn replace(
        &mut self,
        node: NodeIx,
        row: &mut RowImages,
        images: &[NodeImage],
    ) -> bool {
        if self.are(row, images) {
            return false;
        }
        let mut changed = false;
        let (mut ids, mut seen) = (Vec::new(), HashSet::default());
        for (name, size) in named(images) {
            let id = self.id(name, size);
            if !seen.insert(id) {
                continue;
            }
            ids.push(id);
            let state = &mut self.images[id.index()].1;
            if state.nodes.insert(node) {
                changed = true;
            } else if state.size != size && state.nodes.len() == 1 {
                state.size = size;
                changed = true;
            }
        }
        for id in row.iter().filter(|id| !seen.contains(id)) {
            self.remove(node, id);
            changed = true;
        }
        *row = ids.into_iter().collect();
        changed
    }

    /// Returns whether `images` are the images of `row`, in that order, with unchanged sizes.
    pub(super) fn are(&self, row: &RowImages, images: &[NodeImage]) -> bool {
        let mut ids = row.iter();
        let same = named(images).all(|(name, size)| {
            ids.next().is_some_and(|id| {
                let (known, state) = &self.images[id.index()];
                known == name && (state.size == size || state.nodes.len() > 1)
            })
        });
        same && ids.next().is_none()
    }

    fn id(&mut self, name: &Arc<str>, size: i64) -> ImageId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let image = (name.clone(), ImageState { size, nodes: Posting::default() });
        let id = match self.free.pop() {
            Some(id) => {
                self.images[id.index()] = image;
                id
            }
            None => {
                self.images.push(image);
                ImageId(u32::try_from(self.images.len() - 1).expect("fewer than 2^32 images"))
            }
        };
        self.ids.insert(name.clone(), id);
        id
    }

    fn remove(&mut self, node: NodeIx, id: ImageId) {
        let (name, state) = &mut self.images[id.index()];
        state.nodes.remove(node);
        if state.nodes.is_empty() {
            self.ids.remove(name);
            self.free.push(id);
        }
    }
}

/// Returns the names of images, each with its size.
fn named(images: &[NodeImage]) -> impl Iterator<Item = (&Arc<str>, i64)> {
    images.iter().flat_map(|image| image.names.iter().map(|name| (name, image.size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_row_keep_their_order_in_few_bytes() {
        let ids = [0, 127, 128, 3, 16_383, 16_384, 200_000, u32::MAX, 0];
        let row: RowImages = ids.into_iter().map(ImageId).collect();
        assert!(row.iter().eq(ids.map(ImageId)));
        assert_eq!(row.0.len(), 1 + 1 + 2 + 1 + 2 + 3 + 3 + 5 + 1);
        assert_eq!(RowImages::default().iter().count(), 0);
    }
}
