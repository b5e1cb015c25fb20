//! What people read at the end of a run: plain tables, figures, and the numbers behind them.

pub mod allocation;
pub mod arrivals;
pub mod cluster;
pub mod comparison;
pub mod svg;
