//! The kinds of Kubernetes, to tell a misspelt kind from one that no plugin reads.

use framework::EventResource;
use kinds::Kind;

/// The kinds that only a simulation reads, beside those that a scheduler may watch.
const OF_SIMULATIONS: [&Kind; 9] = [
    kinds::LIMIT_RANGE,
    kinds::CUSTOM_RESOURCE_DEFINITION,
    kinds::DAEMON_SET,
    kinds::DEPLOYMENT,
    kinds::CRON_JOB,
    kinds::JOB,
    kinds::RUNTIME_CLASS,
    kinds::RESOURCE_CLAIM_TEMPLATE,
    kinds::PRIORITY_CLASS,
];

/// Returns the kinds of which a simulation reads one version alone.
fn read() -> impl Iterator<Item = &'static Kind> {
    let watched = EventResource::BUILT_IN.into_iter().filter_map(|resource| resource.kind());
    watched.chain(OF_SIMULATIONS)
}

/// Whether the fields of the kind are those of the table of known fields.
pub(super) fn is_read(version: &str, kind: &str) -> bool {
    read().any(|own| (own.api_version, own.name) == (version, kind))
}

/// Returns why a kind of this name cannot be what was meant; `None` for kinds of Kubernetes and for
/// custom kinds.
pub(super) fn doubt(version: &str, kind: &str) -> Option<String> {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let mut in_group = kinds::of_kubernetes().filter(|(own, _)| *own == group).peekable();
    if in_group.peek().is_none() {
        // The group of a custom kind is a domain.
        let is_custom = group.contains('.');
        return (!is_custom)
            .then(|| format!("{kind} of {version} is ignored: there is no API group {group:?}"));
    }
    if in_group.any(|(_, name)| name == kind) {
        let read = read().find(|own| (own.group, own.name) == (group, kind));
        let is_newer = |own: &Kind| own.newer().is_some_and(|newer| newer.api_version == version);
        let read = read.filter(|own| own.api_version != version && !is_newer(own))?.api_version;
        return Some(format!("{kind} of {version} is ignored: it is read as {read}"));
    }
    let near = kinds::of_kubernetes().filter(|(_, other)| distance(kind, other) <= 2);
    let near = near.min_by_key(|(own, other)| (distance(kind, other), *own != group));
    let hint = near.map_or_else(String::new, |(own, other)| match own == group {
        true => format!("; did you mean {other}?"),
        false => format!("; did you mean {other} of the group {own:?}?"),
    });
    Some(format!("{kind} of {version} is ignored: there is no such kind{hint}"))
}

/// Returns the number of letters to add, remove or replace, without regard to case.
fn distance(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|text| text.to_lowercase().into_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (place, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_kinds_and_other_versions_are_told_from_custom_kinds() {
        let rows = [
            ("apps/v1", "Deploymnt", Some("there is no such kind; did you mean Deployment?")),
            (
                "v1",
                "Deployment",
                Some("there is no such kind; did you mean Deployment of the group \"apps\"?"),
            ),
            ("v1", "pod", Some("there is no such kind; did you mean Pod?")),
            ("v1", "Widget", Some("there is no such kind")),
            ("policy/v1beta1", "PodDisruptionBudget", Some("it is read as policy/v1")),
            ("scheduling.k8s.io/v1beta1", "PodGroup", None),
            ("scheduling.x-k8s.io/v1alpha1", "PodGroup", None),
            ("resource.k8s.io/v1", "DeviceTaintRule", None),
            ("app/v1", "Deployment", Some("there is no API group \"app\"")),
            ("v1", "ConfigMap", None),
            ("autoscaling/v2", "HorizontalPodAutoscaler", None),
            ("example.com/v1", "Widget", None),
            ("apps/v1", "Deployment", None),
        ];
        for (version, kind, expected) in rows {
            let expected = expected.map(|why| format!("{kind} of {version} is ignored: {why}"));
            assert_eq!(doubt(version, kind), expected);
        }
    }

    #[test]
    fn kinds_that_are_read_are_kinds_of_kubernetes() {
        for kind in read() {
            assert_eq!(doubt(kind.api_version, kind.name), None);
        }
    }
}
