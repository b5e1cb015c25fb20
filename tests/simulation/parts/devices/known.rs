//! What the scheduler knows beyond the watch.

use std::collections::{BTreeMap, BTreeSet};

use framework::{Time, Uid};
use serde_json::Value;

use super::super::server::Server;
use super::claims::{
    are_ready, choose, chosen_of, counts_of, devices_of, is_allocated, score_of, uid_of, version_of,
};
use super::{CLAIMS, DEVICES, NAMES};

/// What the scheduler knows beyond the watch, by the UIDs of claims.
#[derive(Default)]
pub(super) struct Known {
    /// The newest answer to a reservation.
    pub(super) answered: BTreeMap<String, Value>,
    /// The pods for which claims are being allocated, with the devices.
    pub(super) in_flight: BTreeMap<String, (Uid, Vec<String>)>,
    pub(super) in_doubt: BTreeMap<String, Doubt>,
    /// The nodes whose devices are published, and whether their class exists.
    pub(super) published: BTreeSet<&'static str>,
    pub(super) has_class: bool,
}

pub(super) struct Doubt {
    pub(super) claim: &'static str,
    pub(super) version: u64,
    pub(super) until: Time,
    pub(super) devices: Vec<String>,
}

/// Whether a pod can be placed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A claim cannot be used on any node.
    Unusable,
    Lacks,
    Unavailable,
    Fits,
}

impl Known {
    /// Returns the newest version of a claim that the scheduler knows.
    pub(super) fn latest<'a>(&'a self, server: &'a Server, name: &str) -> Option<&'a Value> {
        let shown = server.shown(CLAIMS, name)?;
        let answered = self.answered.get(&uid_of(shown));
        let newer = answered.filter(|own| version_of(own) > version_of(shown));
        Some(newer.unwrap_or(shown))
    }

    /// Drops the doubts that have ended.
    pub(super) fn end_doubts(&mut self, server: &Server, now: Time) {
        self.in_doubt.retain(|uid, doubt| {
            let shown = server.shown(CLAIMS, doubt.claim);
            let is_possible =
                shown.is_some_and(|own| uid_of(own) == *uid && version_of(own) <= doubt.version);
            doubt.until > now && is_possible
        });
    }

    pub(super) fn taken(&self, server: &Server) -> BTreeSet<String> {
        let claims = NAMES.iter().filter_map(|name| self.latest(server, name));
        let mut taken: BTreeSet<String> =
            claims.flat_map(|claim| devices_of(&claim["status"]["allocation"])).collect();
        taken.extend(self.in_flight.values().flat_map(|(_, devices)| devices.clone()));
        taken.extend(self.in_doubt.values().flat_map(|doubt| doubt.devices.clone()));
        taken
    }

    pub(super) fn verdict(
        &self,
        server: &Server,
        claims: &[&str],
        node: &str,
        now: Time,
    ) -> Verdict {
        let mut is_unavailable = false;
        for name in claims {
            let Some(claim) = self.latest(server, name) else { return Verdict::Unusable };
            if !claim["metadata"]["deletionTimestamp"].is_null() {
                return Verdict::Unusable;
            }
            if is_allocated(claim) {
                let devices = devices_of(&claim["status"]["allocation"]);
                let is_here = devices.iter().all(|device| device.split('/').next() == Some(node));
                is_unavailable |= !is_here || are_ready(claim, now).is_err();
                continue;
            }
            let uid = uid_of(claim);
            let is_busy = self.in_flight.contains_key(&uid) || self.in_doubt.contains_key(&uid);
            if is_busy || !self.has_class {
                return Verdict::Unusable;
            }
        }
        match self.choose(server, claims, node) {
            None => Verdict::Lacks,
            Some(_) if is_unavailable => Verdict::Unavailable,
            Some(_) => Verdict::Fits,
        }
    }

    /// Returns the place of the alternative that each claim gets on a node which is not allocated.
    pub(super) fn choose(
        &self,
        server: &Server,
        claims: &[&str],
        node: &str,
    ) -> Option<Vec<usize>> {
        let claims = claims.iter().filter_map(|name| self.latest(server, name));
        let wanted = claims.filter(|claim| !is_allocated(claim)).map(counts_of);
        let taken = self.taken(server);
        let is_published = self.published.contains(node);
        let devices = DEVICES.iter().filter(|_| is_published);
        let free = devices.filter(|device| !taken.contains(&format!("{node}/{device}")));
        choose(&wanted.collect::<Vec<_>>(), free.count())
    }

    /// Returns the score of a node on which the pod fits.
    pub(super) fn score(&self, server: &Server, claims: &[&str], node: &str) -> i64 {
        let mut chosen = self.choose(server, claims, node).unwrap_or_default().into_iter();
        let claims = claims.iter().filter_map(|name| self.latest(server, name));
        let scores = claims.map(|claim| match is_allocated(claim) {
            true => score_of(claim, chosen_of(claim)),
            false => score_of(claim, chosen.next().unwrap_or_default()),
        });
        scores.sum()
    }
}
