//! An engine with the default profile and a plugin, for the tests and benchmarks of crates with
//! plugins.

pub mod bench;
mod world;

pub use world::{World, profiles};
