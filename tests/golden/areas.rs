//! The areas of the corpus: how each is run, and what it is about.

use plugins::catalogue;
use serde_json::Value;

use super::compare::Outcome;
use super::{config, hints, histories, queue_order, sampling, scheduling, small};

/// Runs one case.
pub(crate) type Runner = fn(&Value) -> Outcome;

/// An area: its name, how its cases are run, and the plugins (or whatever else) it was recorded
/// for.
type Row = (&'static str, Runner, &'static [&'static str]);

const AREAS: [Row; 19] = [
    ("config", config::run, &[]),
    ("dra", scheduling::run, &["DynamicResources"]),
    ("histories", histories::run, &[]),
    ("inter-pod-affinity", scheduling::run, &["InterPodAffinity"]),
    ("label-selectors", small::label_selectors, &[]),
    ("large", scheduling::run, &[]),
    ("mixed", scheduling::run, &[]),
    ("node-basics", scheduling::run, &[]),
    ("nominated", scheduling::run, &[]),
    ("pod-requests", small::pod_requests, &[]),
    ("preemption", scheduling::run, &["DefaultPreemption"]),
    ("quantity", small::quantity, &[]),
    ("queue-order", queue_order::run, &[]),
    ("queueing-hints", hints::run, &[]),
    ("resources", scheduling::run, &[]),
    ("sampling", sampling::run, &[]),
    ("sequences", histories::run, &[]),
    ("topology-spread", scheduling::run, &["PodTopologySpread"]),
    (
        "volumes",
        scheduling::run,
        &["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"],
    ),
];

fn row(area: &str) -> Option<&'static Row> {
    AREAS.iter().find(|(name, ..)| *name == area)
}

/// How cases of `area` are run; `None` if nothing here can run them.
pub(crate) fn runner(area: &str) -> Option<Runner> {
    row(area).map(|(_, runner, _)| *runner)
}

/// What `area` is about that is not built yet: plugins, and what is no plugin at all. As long as
/// there are any, what the built plugins decide in it is compared, but the area does not count as
/// passed.
pub(crate) fn unbuilt_subjects(area: &str) -> Vec<&'static str> {
    let subjects = row(area).map_or(&[][..], |(.., subjects)| subjects);
    let is_built = |name: &str| catalogue::get(name).is_some_and(|entry| entry.is_built());
    subjects.iter().copied().filter(|subject| !is_built(subject)).collect()
}
