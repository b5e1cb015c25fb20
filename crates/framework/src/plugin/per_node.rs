//! A number for each of some nodes.

use crate::NodeIx;

/// A number for each of some nodes, which a plugin writes: `values[i]` belongs to `nodes[i]`.
#[derive(Debug)]
#[non_exhaustive]
pub struct PerNode<'a> {
    /// The nodes.
    pub nodes: &'a [NodeIx],
    /// The numbers, as many as there are nodes.
    pub values: &'a mut [i64],
}

impl<'a> PerNode<'a> {
    /// Creates the numbers of `nodes`.
    pub const fn new(nodes: &'a [NodeIx], values: &'a mut [i64]) -> Self {
        Self { nodes, values }
    }
}
