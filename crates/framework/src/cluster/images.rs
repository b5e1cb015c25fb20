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

#[derive(Debug, Clone, Default)]
pub(super) struct ImageIndex {
    images: HashMap<Arc<str>, ImageState>,
}

impl ImageIndex {
    pub(super) fn get(&self, name: &str) -> Option<&ImageState> {
        self.images.get(name)
    }

    /// Registers the images of a node; returns their names, each once.
    pub(super) fn insert(&mut self, node: NodeIx, images: &[NodeImage]) -> Box<[Arc<str>]> {
        let mut names = Vec::new();
        for image in images {
            for name in &image.names {
                if let Some(name) = self.insert_name(node, name, image.size) {
                    names.push(name);
                }
            }
        }
        names.into()
    }

    fn insert_name(&mut self, node: NodeIx, name: &Arc<str>, size: i64) -> Option<Arc<str>> {
        if let Some((name, state)) = self.images.get_key_value(name) {
            let name = name.clone();
            if state.nodes.contains(node) {
                return None;
            }
            self.images.get_mut(&name)?.nodes.insert(node);
            return Some(name);
        }
        let mut nodes = Posting::default();
        nodes.insert(node);
        self.images.insert(name.clone(), ImageState { size, nodes });
        Some(name.clone())
    }

    pub(super) fn remove(&mut self, node: NodeIx, names: &[Arc<str>]) {
        for name in names {
            if let Some(state) = self.images.get_mut(name) {
                state.nodes.remove(node);
                if state.nodes.is_empty() {
                    self.images.remove(name);
                }
            }
        }
    }
}
