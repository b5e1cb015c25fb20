//! Reports of dry runs: text tables.

pub mod cluster;
pub mod make_room;
pub mod what_if;
