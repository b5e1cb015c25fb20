//! Validation: every check of kube-scheduler, in its order and with its texts.
//!
//! Arguments of NodeResourcesFit are checked when the plugin is created, as in kube-scheduler,
//! whose table of checks misspells their name.

mod args;
mod field;

use std::collections::{BTreeMap, BTreeSet};

use engine::profile::{PluginRef, PluginSet};
use framework::{ExtensionPoint, is_extended_resource_name, label_key_faults};
use serde::Serialize;

use super::configuration::{Configuration, LeaderElection, Profile};
use super::gates::Gates;
use super::scheme::API_VERSION;
use super::v1::Extender;
use field::Path;

pub use field::{Fault, FieldError, FieldErrors};

/// Plugins that former versions had.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Validates a configuration.
///
/// # Errors
/// All errors.
pub(super) fn validate(config: &Configuration, gates: &Gates) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    if config.client_connection.burst < 0 {
        let burst = config.client_connection.burst;
        errors.invalid("clientConnection.burst", &burst, "must be non-negative");
    }
    check_leader_election(&config.leader_election, &mut errors);
    if config.parallelism <= 0 {
        let rule = "should be an integer value greater than zero";
        errors.invalid("parallelism", &config.parallelism, rule);
    }
    check_profiles(&config.profiles, gates, &mut errors);
    let percentage = Some(config.percentage_of_nodes_to_score);
    check_percentage(&Path::root("percentageOfNodesToScore"), percentage, &mut errors);
    check_backoffs(config, &mut errors);
    check_extenders(&config.extenders, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn check_leader_election(election: &LeaderElection, errors: &mut FieldErrors) {
    if !election.leader_elect {
        return;
    }
    let at = Path::root("leaderElection");
    let durations = [
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ];
    for (name, duration) in durations {
        if duration <= Default::default() {
            errors.invalid(at.field(name), &duration, "must be greater than zero");
        }
    }
    if election.lease_duration <= election.renew_deadline {
        // The reported value is not the value of the field: a quirk of kube-scheduler.
        let rule = "must be greater than `RenewDeadline`";
        errors.invalid(at.field("leaseDuration"), &election.renew_deadline, rule);
    }
    let names = [
        ("resourceLock", &election.resource_lock),
        ("resourceNamespace", &election.resource_namespace),
        ("resourceName", &election.resource_name),
    ];
    for (field, _) in names.into_iter().filter(|(_, name)| name.is_empty()) {
        errors.required(at.field(field), "");
    }
    if election.resource_lock != "leases" {
        let rule = "resourceLock value must be \"leases\"";
        errors.invalid(at.field("resourceLock"), &election.resource_lock, rule);
    }
}

fn check_percentage(path: &Path, percentage: Option<i32>, errors: &mut FieldErrors) {
    if let Some(percentage) = percentage.filter(|percentage| !(0..=100).contains(percentage)) {
        errors.invalid(path, &percentage, "not in valid range [0-100]");
    }
}

fn check_backoffs(config: &Configuration, errors: &mut FieldErrors) {
    let (initial, max) = (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds);
    if initial <= 0 {
        errors.invalid("podInitialBackoffSeconds", &initial, "must be greater than 0");
    }
    if max < initial {
        let rule = "must be greater than or equal to PodInitialBackoffSeconds";
        errors.invalid("podMaxBackoffSeconds", &max, rule);
    }
}

fn check_profiles(profiles: &[Profile], gates: &Gates, errors: &mut FieldErrors) {
    let at = Path::root("profiles");
    let mut names = BTreeSet::new();
    for (index, profile) in profiles.iter().enumerate() {
        let at = at.item(index);
        check_profile(&at, profile, gates, errors);
        if !names.insert(&profile.scheduler_name) {
            // kube-scheduler reports the path of the other one, which prints as an empty object.
            errors.duplicate(at.field("schedulerName"), &BTreeMap::<&str, &str>::new());
        }
    }
    check_queue_sort(&at, profiles, errors);
}

fn check_profile(at: &Path, profile: &Profile, gates: &Gates, errors: &mut FieldErrors) {
    if profile.scheduler_name.is_empty() {
        errors.required(at.field("schedulerName"), "");
    }
    let path = at.field("percentageOfNodesToScore");
    check_percentage(&path, profile.percentage_of_nodes_to_score, errors);
    for point in ExtensionPoint::OF_ATTEMPT {
        let at = at.field("plugins").field(point.config_name()).field("enabled");
        for (index, plugin) in profile.plugins.at(*point).enabled.iter().enumerate() {
            check_removed(&at.item(index), &plugin.name, errors);
        }
    }
    let mut configured = BTreeSet::new();
    for (index, entry) in profile.plugin_config.iter().enumerate() {
        let at = at.field("pluginConfig").item(index);
        if !configured.insert(&entry.name) {
            errors.duplicate(&at, &entry.name);
        }
        check_removed(&at, &entry.name, errors);
        if let Some(args) = &entry.args {
            args::check(&at.field("args"), args, gates, errors);
        }
    }
}

fn check_removed(path: &Path, plugin: &str, errors: &mut FieldErrors) {
    if REMOVED.contains(&plugin) {
        let rule = format!(
            "was invalid in version \"v1\" (KubeSchedulerConfiguration is version {API_VERSION:?})"
        );
        errors.invalid(path, &plugin, &rule);
    }
}

/// All profiles must use the same QueueSort plugin with the same arguments.
fn check_queue_sort(at: &Path, profiles: &[Profile], errors: &mut FieldErrors) {
    let Some((first, others)) = profiles.split_first() else { return };
    let canon = &first.plugins.queue_sort;
    if canon.enabled.len() > 1 {
        let path = at.item(0).field("plugins").field("queueSort").field("Enabled");
        errors.invalid(path, &canon.enabled.len(), "only one queue sort plugin can be enabled");
    }
    let sort = canon.enabled.first().map(|plugin| plugin.name.as_str());
    let args = sort.and_then(|sort| first.args_of(sort));
    for (index, profile) in others.iter().enumerate() {
        let at = at.item(index + 1);
        let own = &profile.plugins.queue_sort;
        if own != canon {
            let path = at.field("plugins").field("queueSort");
            errors.invalid(path, &ShownSet::of(own), "must be the same for all profiles");
        }
        let configured = profile.plugin_config.iter().filter(|entry| Some(&*entry.name) == sort);
        for entry in configured.filter(|entry| entry.args.as_ref() != args) {
            let path = at.field("pluginConfig").field("args");
            errors.invalid(path, &entry.args, "queueSort must be the same for all profiles");
        }
    }
}

/// A set as kube-scheduler prints it: with the names of Go's fields, and null for empty lists.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownSet<'a> {
    enabled: Option<Vec<ShownPlugin<'a>>>,
    disabled: Option<Vec<ShownPlugin<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownPlugin<'a> {
    name: &'a str,
    weight: i32,
}

impl<'a> ShownSet<'a> {
    fn of(set: &'a PluginSet) -> Self {
        let shown = |plugins: &'a [PluginRef]| {
            let plugins = plugins.iter();
            let shown: Vec<_> =
                plugins.map(|own| ShownPlugin { name: &own.name, weight: own.weight }).collect();
            (!shown.is_empty()).then_some(shown)
        };
        Self { enabled: shown(&set.enabled), disabled: shown(&set.disabled) }
    }
}

fn check_extenders(extenders: &[Extender], errors: &mut FieldErrors) {
    let at = Path::root("extenders");
    let mut managed = BTreeSet::new();
    for (index, extender) in extenders.iter().enumerate() {
        let at = at.item(index);
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let rule = "must have a positive weight applied to it";
            errors.invalid(at.field("weight"), &extender.weight, rule);
        }
        for (index, resource) in extender.managed_resources.iter().enumerate() {
            let path = at.field("managedResources").item(index).field("name");
            check_extended_resource(&path, &resource.name, errors);
            if !managed.insert(&resource.name) {
                let rule = "duplicate extender managed resource name";
                errors.invalid(path, &resource.name, rule);
            }
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if binders > 1 {
        let found = format!("found {binders} extenders implementing bind");
        errors.invalid(at, &found, "only one extender can implement bind");
    }
}

fn check_extended_resource(path: &Path, name: &str, errors: &mut FieldErrors) {
    let faults = label_key_faults(name);
    for fault in &faults {
        errors.invalid(path, &name, fault);
    }
    if faults.is_empty() && !is_extended_resource_name(name) {
        errors.invalid(path, &name, "is an invalid extended resource name");
    }
}

#[cfg(test)]
mod tests;
