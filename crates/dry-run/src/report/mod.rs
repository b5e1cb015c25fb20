//! Reports of dry runs: text tables.

pub mod cluster;
pub mod what_if;
