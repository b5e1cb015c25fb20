//! The counters that the engine declares.

use engine::counters::{self, EngineCounter};

use super::family::IntCounterVec;
use super::table::{ALPHA, Declaration, Table};

/// A family for each counter of the engine.
#[derive(Debug)]
pub(super) struct EngineCounters(Vec<(&'static str, IntCounterVec)>);

impl EngineCounters {
    pub(super) fn register(table: &mut Table) -> Self {
        let mut register = |counter: &EngineCounter| {
            let EngineCounter { name, labels, help, page } = *counter;
            let family = table.counters(Declaration { name, labels, help, page, ..ALPHA });
            if labels.is_empty() {
                family.with_label_values::<&str>(&[]);
            }
            (name, family)
        };
        Self(counters::ALL.iter().map(|counter| register(counter)).collect())
    }

    pub(super) fn increase(&self, counter: &EngineCounter, labels: &[&str]) {
        let family = self.0.iter().find(|(name, _)| *name == counter.name);
        if let Some((_, family)) = family {
            family.with_label_values(labels).inc();
        }
    }
}
