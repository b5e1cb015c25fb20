//! Images by name, over all nodes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{NodeIx, Posting};
use crate::NodeImage;

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

    /// Returns the images with these ids, each with one name.
    pub(super) fn of(&self, ids: &[ImageId]) -> Box<[NodeImage]> {
        let image = |id: &ImageId| {
            let (name, state) = &self.images[id.index()];
            NodeImage { names: [name.clone()].into(), size: state.size }
        };
        ids.iter().map(image).collect()
    }

    /// Replaces the images of a node, whose ids are in `row`, each once. Returns whether a value
    /// that decisions read has changed.
    ///
    /// The stored size is the first one reported. A node that reports another size changes it only
    /// if no other node has the image, as in kube-scheduler, where an update of a node removes its
    /// images and adds them again.
    pub(super) fn replace(
        &mut self,
        node: NodeIx,
        row: &mut Box<[ImageId]>,
        images: &[NodeImage],
    ) -> bool {
        if self.are(row, images) {
            return false;
        }
        let mut changed = false;
        let (mut ids, mut seen) = (Vec::with_capacity(row.len()), HashSet::new());
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
            self.remove(node, *id);
            changed = true;
        }
        *row = ids.into();
        changed
    }

    /// Returns whether `images` are the images with these `ids`, in that order, with unchanged
    /// sizes.
    pub(super) fn are(&self, ids: &[ImageId], images: &[NodeImage]) -> bool {
        let mut ids = ids.iter();
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
