//! Validation of plugin arguments.

use framework::{NodeSelector, PreferredSchedulingTerms, SelectorError, api, label_key_faults};
use serde::Serialize;

use super::FieldErrors;
use super::field::Path;
use crate::config::args::{
    Arguments, DefaultPreemptionArgs, DynamicResourcesArgs, PodTopologySpreadArgs, ResourceSpec,
    ShapePoint, VolumeBindingArgs,
};
use crate::config::duration::Duration;
use crate::config::gates::Gates;

/// Validates the arguments of a plugin.
pub(super) fn check(at: &Path, args: &Arguments, gates: &Gates, errors: &mut FieldErrors) {
    match args {
        Arguments::DefaultPreemption(args) => check_default_preemption(at, args, errors),
        Arguments::DynamicResources(args) => check_dynamic_resources(at, args, gates, errors),
        Arguments::InterPodAffinity(args) => {
            let path = at.field("hardPodAffinityWeight");
            check_range(&path, args.hard_pod_affinity_weight.unwrap_or(0), 0..=100, errors);
        }
        Arguments::NodeAffinity(args) => {
            if let Some(added) = &args.added_affinity {
                check_affinity(&at.field("addedAffinity"), added, errors);
            }
        }
        Arguments::NodeResourcesBalancedAllocation(args) => {
            check_balanced(&at.field("resources"), &args.resources, errors);
        }
        Arguments::PodTopologySpread(args) => check_spread(at, args, errors),
        Arguments::VolumeBinding(args) => check_volume_binding(at, args, gates, errors),
        Arguments::NodeResourcesFit(_) | Arguments::Other(_) => {}
    }
}

fn check_range(
    path: &Path,
    value: i32,
    range: std::ops::RangeInclusive<i32>,
    errors: &mut FieldErrors,
) {
    if !range.contains(&value) {
        let (start, end) = range.into_inner();
        errors.invalid(path, &value, &format!("not in valid range [{start}, {end}]"));
    }
}

fn check_default_preemption(at: &Path, args: &DefaultPreemptionArgs, errors: &mut FieldErrors) {
    let percentage = args.min_candidate_nodes_percentage.unwrap_or(0);
    let absolute = args.min_candidate_nodes_absolute.unwrap_or(0);
    let (percentage_name, absolute_name) =
        ("minCandidateNodesPercentage", "minCandidateNodesAbsolute");
    check_range(&at.field(percentage_name), percentage, 0..=100, errors);
    if absolute < 0 {
        errors.invalid(at.field(absolute_name), &absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        let rule = |other: &str| format!("cannot be zero at the same time as {other}");
        errors.invalid(at.field(percentage_name), &percentage, &rule(absolute_name));
        errors.invalid(at.field(absolute_name), &absolute, &rule(percentage_name));
    }
}

fn check_dynamic_resources(
    at: &Path,
    args: &DynamicResourcesArgs,
    gates: &Gates,
    errors: &mut FieldErrors,
) {
    if let Some(timeout) = args.filter_timeout {
        let path = at.field("filterTimeout");
        if !gates.filter_timeout() {
            errors.forbidden(path, "DRASchedulingFilterTimeout feature gate is disabled");
        } else if timeout < Duration::default() {
            errors.invalid(path, &timeout, "must be zero or positive");
        }
    }
    if let Some(timeout) = args.binding_timeout {
        let path = at.field("bindingTimeout");
        if !gates.binding_timeout() {
            let gates = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus";
            errors.forbidden(path, &format!("{gates} feature gate is disabled"));
        } else if timeout < Duration::from_secs(1) {
            errors.invalid(path, &timeout, "must be at least 1 second");
        }
    }
}

fn check_affinity(at: &Path, added: &api::NodeAffinity, errors: &mut FieldErrors) {
    let path = |which: &str| {
        at.field(&format!("{which}DuringSchedulingIgnoredDuringExecution")).to_string()
    };
    let required = added.required.as_ref();
    let required =
        required.map(|selector| NodeSelector::compile_strict(selector, &path("required")).err());
    let preferred = added.preferred.as_deref();
    let preferred =
        preferred.map(|terms| PreferredSchedulingTerms::compile(terms, &path("preferred")).err());
    let faults = [required, preferred].into_iter().flatten().flatten();
    for message in faults.flat_map(|fault: SelectorError| fault.messages().to_vec()) {
        errors.selector(&message);
    }
}

fn check_balanced(at: &Path, resources: &[ResourceSpec], errors: &mut FieldErrors) {
    for (index, resource) in resources.iter().enumerate() {
        if resources[..index].iter().any(|earlier| earlier.name == resource.name) {
            errors.duplicate(at.item(index).field("name"), &resource.name);
        }
        if resource.weight != 1 {
            errors.invalid(at.item(index).field("weight"), &resource.weight, "must be 1");
        }
    }
}

/// The values of `defaultingType`.
const DEFAULTING_TYPES: &[&str] = &["System", "List"];
/// The values of `whenUnsatisfiable`.
const UNSATISFIABLE_ACTIONS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];

fn check_spread(at: &Path, args: &PodTopologySpreadArgs, errors: &mut FieldErrors) {
    let path = at.field("defaultingType");
    let constraints = &args.default_constraints;
    if !DEFAULTING_TYPES.contains(&args.defaulting_type.as_str()) {
        errors.unsupported(path, &args.defaulting_type, DEFAULTING_TYPES);
    } else if args.defaulting_type == "System" && !constraints.is_empty() {
        errors.invalid(path, &args.defaulting_type, "when .defaultConstraints are not empty");
    }
    for (index, constraint) in constraints.iter().enumerate() {
        let at = at.field("defaultConstraints").item(index);
        check_constraint(&at, constraint, errors);
        let repeats = |earlier: &api::TopologySpreadConstraint| {
            earlier.topology_key == constraint.topology_key
                && earlier.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if constraints[..index].iter().any(repeats) {
            let (key, action) = (&constraint.topology_key, &constraint.when_unsatisfiable);
            errors.duplicate(at, &format!("{{{key}, {action}}}"));
        }
    }
}

fn check_constraint(
    at: &Path,
    constraint: &api::TopologySpreadConstraint,
    errors: &mut FieldErrors,
) {
    if constraint.max_skew <= 0 {
        errors.invalid(at.field("maxSkew"), &constraint.max_skew, "not in valid range (0, inf)");
    }
    let (path, key) = (at.field("topologyKey"), &constraint.topology_key);
    if key.is_empty() {
        errors.required(path, "can not be empty");
    } else {
        label_key_faults(key).iter().for_each(|fault| errors.invalid(&path, key, fault));
    }
    let (path, action) = (at.field("whenUnsatisfiable"), &constraint.when_unsatisfiable);
    if action.is_empty() {
        errors.required(path, "can not be empty");
    } else if !UNSATISFIABLE_ACTIONS.contains(&action.as_str()) {
        errors.unsupported(path, action, UNSATISFIABLE_ACTIONS);
    }
    if constraint.label_selector.is_some() {
        let rule = "constraint must not define a selector, as they deduced for each pod";
        errors.forbidden(at.field("labelSelector"), rule);
    }
}

/// A point of a shape as kube-scheduler prints it: with the names of Go's fields.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownPoint {
    utilization: i32,
    score: i32,
}

fn check_volume_binding(
    at: &Path,
    args: &VolumeBindingArgs,
    gates: &Gates,
    errors: &mut FieldErrors,
) {
    let timeout = args.bind_timeout_seconds.unwrap_or(0);
    if timeout < 0 {
        let rule = "invalid BindTimeoutSeconds, should not be a negative value";
        errors.invalid(at.field("bindTimeoutSeconds"), &timeout, rule);
    }
    let path = at.field("shape");
    if gates.storage_capacity_scoring() {
        check_shape(&path, args.shape.as_deref().unwrap_or_default(), errors);
    } else if let Some(shape) = &args.shape {
        let shown = shape.iter();
        let shown: Vec<_> = shown
            .map(|point| ShownPoint { utilization: point.utilization, score: point.score })
            .collect();
        let rule = "unexpected field `shape`, remove it or turn on the feature gate \
                    StorageCapacityScoring";
        errors.invalid(path, &shown, rule);
    }
}

fn check_shape(at: &Path, shape: &[ShapePoint], errors: &mut FieldErrors) {
    if shape.is_empty() {
        return errors.required(at, "at least one point must be specified");
    }
    let unsorted = shape.array_windows().position(|[a, b]| a.utilization >= b.utilization);
    if let Some(index) = unsorted.map(|before| before + 1) {
        let path = at.item(index).field("utilization");
        let rule = "values must be sorted in increasing order";
        errors.invalid(path, &shape[index].utilization, rule);
    }
    for (index, point) in shape.iter().enumerate() {
        let at = at.item(index);
        check_range(&at.field("utilization"), point.utilization, 0..=100, errors);
        check_range(&at.field("score"), point.score, 0..=10, errors);
    }
}
