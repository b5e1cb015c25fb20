//! The pods of histories.

use fastrand::Rng;
use testkit::{PodBuilder, pod};

use super::plugins::SCHEDULERS;

/// The properties of a pod that histories change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    scheduler: usize,
    priority: i32,
    cpu: u32,
    app: u32,
    gated: bool,
    quota: Option<&'static str>,
    tolerates: bool,
    has_volume: bool,
    is_trap: bool,
    frees: bool,
}

impl Shape {
    /// Returns random properties.
    pub(super) fn random(random: &mut Rng) -> Self {
        let mut one_in = |chance: u32| random.u32(..chance) == 0;
        let (second, gated, wanted, trap) = (one_in(3), one_in(5), one_in(6), one_in(40));
        let (tolerates, has_volume, is_trap) = (one_in(4), one_in(4), one_in(40));
        Self {
            scheduler: usize::from(second),
            priority: random.i32(0..2),
            cpu: random.u32(1..3),
            app: random.u32(0..2),
            gated,
            quota: if trap { Some("trap") } else { wanted.then_some("wanted") },
            tolerates,
            has_volume,
            is_trap,
            frees: random.bool(),
        }
    }

    /// Returns the properties without those that gate a pod.
    pub(super) const fn ungated(self) -> Self {
        Self { gated: false, quota: None, ..self }
    }

    /// Changes one of the properties that an update may change.
    pub(super) fn change(&mut self, random: &mut Rng) {
        match random.u32(..6) {
            0 => self.app = 1 - self.app,
            1 => self.cpu = 3 - self.cpu,
            2 | 3 => self.gated = false,
            4 => self.tolerates = !self.tolerates,
            _ => {}
        }
    }

    /// Returns the pod of this name and UID with these properties.
    pub(super) fn of(self, name: &str, uid: u32) -> PodBuilder {
        let mut built = pod(name).uid(&uid.to_string()).scheduler(SCHEDULERS[self.scheduler]);
        built = built.priority(self.priority).cpu(&self.cpu.to_string());
        built = built.label("app", &self.app.to_string());
        if self.gated {
            built = built.gate("example.com/hold");
        }
        if let Some(quota) = self.quota {
            built = built.label("quota", quota);
        }
        if self.tolerates {
            built = built.toleration("k", "Exists", "", "");
        }
        if self.has_volume {
            built = built.claim("claim");
        }
        if self.is_trap {
            built = built.label("sort", "trap");
        }
        if self.frees {
            built = built.label("frees", "yes");
        }
        built
    }
}
