//! Images by name, over all nodes.

use std::collections::HashMap;
use std::sync::Arc;

use super::{NodeIx, Posting};
use crate::NodeImage;

/// An image some node has.
#[derive(Debug, Clone)]
pub struct ImageState {
    /// Size in bytes, as the first node told that reported the name.
    pub size: i64,
    /// Nodes that have it.
    pub nodes: Posting,
}

/// An image that some node has; reused when no node has it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImageId(u32);

#[derive(Debug, Clone, Default)]
pub(super) struct ImageIndex {
    ids: HashMap<Arc<str>, ImageId>,
    images: Vec<(Arc<str>, ImageState)>,
    free: Vec<ImageId>,
}

impl ImageIndex {
    pub(super) fn get(&self, name: &str) -> Option<&ImageState> {
        self.ids.get(name).map(|id| &self.images[id.0 as usize].1)
    }

    /// Registers the images of a node; returns their ids, each once.
    pub(super) fn insert(&mut self, node: NodeIx, images: &[NodeImage]) -> Box<[ImageId]> {
        let mut ids = Vec::new();
        for image in images {
            for name in &image.names {
                let id = self.id(name, image.size);
                if self.images[id.0 as usize].1.nodes.insert(node) {
                    ids.push(id);
                }
            }
        }
        ids.into()
    }

    /// Whether these images are the ones behind `ids`, in that order and of the size on record.
    pub(super) fn are(&self, ids: &[ImageId], images: &[NodeImage]) -> bool {
        let named =
            images.iter().flat_map(|image| image.names.iter().map(|name| (name, image.size)));
        let known = ids.iter().map(|id| {
            let (name, state) = &self.images[id.0 as usize];
            (name, state.size)
        });
        known.eq(named)
    }

    fn id(&mut self, name: &Arc<str>, size: i64) -> ImageId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let image = (name.clone(), ImageState { size, nodes: Posting::default() });
        let id = match self.free.pop() {
            Some(id) => {
                self.images[id.0 as usize] = image;
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

    pub(super) fn remove(&mut self, node: NodeIx, ids: &[ImageId]) {
        for id in ids {
            let (name, state) = &mut self.images[id.0 as usize];
            state.nodes.remove(node);
            if state.nodes.is_empty() {
                self.ids.remove(name);
                self.free.push(*id);
            }
        }
    }
}
