//! The areas of the corpus, and the functions that run their cases.

use plugins::catalogue;
use serde_json::Value;

use super::compare::Outcome;
use super::{config, hints, histories, queue_order, sampling, scheduling, small};

/// Runs one case.
pub(crate) type Runner = fn(&Value) -> Outcome;

/// An area: its name, the function that runs its cases, and the plugins (or other parts) it was
/// recorded for.
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

/// Returns the function that runs the cases of `area`; `None` if there is none.
pub(crate) fn runner(area: &str) -> Option<Runner> {
    row(area).map(|(_, runner, _)| *runner)
}

/// Returns the parts of `area` that are not built: plugins and others. If there are any, the
/// decisions of the built plugins are compared, but the area does not count as passed.
pub(crate) fn unbuilt_subjects(area: &str) -> Vec<&'static str> {
    let subjects = row(area).map_or(&[][..], |(.., subjects)| subjects);
    let is_built = |name: &str| catalogue::get(name).is_some_and(|entry| entry.is_built());
    subjects.iter().copied().filter(|subject| !is_built(subject)).collect()
}
