//! The effects of a change of a cluster on its pods, for the command line, the endpoint and the
//! page.
//!
//! [`Change`] is read from files or from a request. It is applied to a dump (`Change::of_dump`), or
//! to what a scheduler knows ([`Trial`]). [`dry_run`] has the dry run.

mod change;
mod input;
mod live;

use dry_run::cluster::Dump;
use dry_run::what_if::{Applied, Limits};
use dry_run::workloads::Made;

pub use self::change::Change;
pub(crate) use self::input::{dump_of, make, read_dump, settings};
use self::input::{give_back, inventory_of};
pub use self::live::{Options, Refusal, Trial};
use crate::wire::{Faults, Input, InputChange};

/// A cluster without and with a change.
pub(crate) struct Changed {
    pub(crate) before: Dump,
    pub(crate) after: Dump,
    pub(crate) applied: Applied,
}

/// The effects of a change on its input, while the input was read.
struct Application<'c> {
    change: &'c Change,
    limits: Limits,
    applied: Applied,
    /// The index of the first workload of the change.
    first_changed: usize,
    /// The objects that controllers made, for each input in the order of reading.
    made: Vec<Made>,
}

impl<'c> Application<'c> {
    fn new(change: &'c Change, limits: Limits) -> Self {
        let (applied, made) = (Applied::default(), Vec::new());
        Self { change, limits, applied, first_changed: usize::MAX, made }
    }
}

impl InputChange for Application<'_> {
    fn apply(&mut self, input: &mut Input, first_changed: usize) -> Result<(), Faults> {
        self.first_changed = first_changed;
        let mut inventory = inventory_of(input, first_changed);
        let outcome = dry_run::what_if::apply(&mut inventory, &self.change.documents, self.limits);
        give_back(inventory, input);
        self.applied = outcome.map_err(|objections| self.change.faults(objections))?;
        Ok(())
    }

    fn control(&mut self, input: &Input) -> Vec<serde_json::Value> {
        let mut made = make(input, self.first_changed, self.limits.pods);
        let objects = std::mem::take(&mut made.objects);
        self.made.push(made);
        objects
    }
}
