//! Reports of simulations: text tables, plots, and the numbers behind them.

pub mod allocation;
pub mod arrivals;
pub mod cluster;
pub mod comparison;
pub mod heat_map;
pub mod svg;
pub mod waiting;
pub mod what_if;
