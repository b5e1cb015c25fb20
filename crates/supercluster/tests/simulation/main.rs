//! Schedulers and agents in virtual time: faults, and conflicts and regrets beside the formulas.

mod faults;
mod theory;
