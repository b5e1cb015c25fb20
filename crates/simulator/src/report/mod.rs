//! Reports of simulations beside the reports of dry runs: text tables, plots, and the numbers
//! behind them.

pub mod allocation;
pub mod arrivals;
pub mod comparison;
pub mod heat_map;
pub mod svg;
pub mod waiting;
