//! The check of the permissions for writes. Missing permissions for watches show when a watch
//! fails.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use control::Reply;
use engine::profile::Profiles;
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use crate::api_client::{ApiClient, ServerStatus};

/// Path of the reviews, which `system:basic-user` lets every account create.
const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Timeout of a review.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two checks while no pod can be bound, or the reviews fail.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two checks while other permissions are missing.
const LACK_INTERVAL: Duration = Duration::from_mins(1);
/// Time between two checks while all permissions are granted. One may be withdrawn.
const INTERVAL: Duration = Duration::from_mins(5);

/// A permission, in the terms of a ClusterRole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Permission {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

/// kube-scheduler's own role lacks this permission, which few clusters need.
const RARE: Permission = Permission {
    verb: "arbitrary-node:patch",
    group: "resource.k8s.io",
    resource: "resourceclaims",
    subresource: "driver",
};

/// Without this permission no pod can be bound.
const BIND: Permission = Permission::on("create", "pods", "binding");

impl Permission {
    const fn on(verb: &'static str, resource: &'static str, subresource: &'static str) -> Self {
        Self { verb, group: "", resource, subresource }
    }

    const fn of_group(group: &'static str, verb: &'static str, resource: &'static str) -> Self {
        Self { verb, group, resource, subresource: "" }
    }

    /// Formats the permission: `create pods/binding`.
    fn describe(self) -> String {
        let Self { verb, group, resource, subresource } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        let dot = if group.is_empty() { "" } else { "." };
        format!("{verb} {resource}{slash}{subresource}{dot}{group}")
    }

    fn review(self) -> Value {
        let Self { verb, group, resource, subresource } = self;
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            }},
        })
    }
}

/// Returns the permissions for the writes of these profiles.
fn needed(profiles: &Profiles) -> Vec<Permission> {
    let in_use = |plugin: &str| profiles.iter().any(|profile| profile.plugins.contains_key(plugin));
    let mut needed = vec![
        BIND,
        Permission::on("get", "pods", ""),
        Permission::on("patch", "pods", "status"),
        Permission::of_group("events.k8s.io", "create", "events"),
        Permission::of_group("events.k8s.io", "patch", "events"),
    ];
    if in_use("DefaultPreemption") || in_use("CapacityScheduling") {
        needed.push(Permission::on("delete", "pods", ""));
    }
    if profiles.iter().any(|profile| profile.move_policy().is_some()) {
        needed.push(Permission::on("create", "pods", "eviction"));
    }
    if in_use("VolumeBinding") {
        needed.push(Permission::on("patch", "persistentvolumes", ""));
        needed.push(Permission::on("patch", "persistentvolumeclaims", ""));
    }
    if profiles.schedules_groups() {
        for group in ["scheduling.k8s.io", "scheduling.x-k8s.io"] {
            let status = Permission::of_group(group, "patch", "podgroups");
            needed.push(Permission { subresource: "status", ..status });
        }
    }
    if profiles.counts_quotas() {
        let status = Permission::of_group("scheduling.x-k8s.io", "patch", "elasticquotas");
        needed.push(Permission { subresource: "status", ..status });
    }
    if in_use("DynamicResources") {
        let claims = |verb, subresource| {
            let claims = Permission::of_group("resource.k8s.io", verb, "resourceclaims");
            Permission { subresource, ..claims }
        };
        needed.extend([
            claims("create", ""),
            claims("delete", ""),
            claims("patch", ""),
            claims("patch", "binding"),
            claims("patch", "status"),
            RARE,
        ]);
    }
    needed
}

/// The check of the permissions for writes.
pub(super) struct PermissionCheck {
    client: ApiClient,
    status: Arc<ServerStatus>,
    needed: Vec<Permission>,
}

impl PermissionCheck {
    pub(super) fn new(client: ApiClient, status: Arc<ServerStatus>, profiles: &Profiles) -> Self {
        Self { client, status, needed: needed(profiles) }
    }

    /// Checks again and again; never ends. Logs the missing permissions whenever they change, and
    /// reports to the status of the server whether pods may be bound.
    pub(super) async fn run(self) -> Infallible {
        let mut logged = Vec::new();
        loop {
            let missing = self.missing().await;
            let pause = pause_after(missing.as_deref());
            match missing {
                Ok(missing) => {
                    if missing != logged {
                        log(&missing);
                    }
                    let cannot_bind = missing.contains(&BIND).then(|| explain(&[BIND]));
                    self.status.permitted(cannot_bind);
                    logged = missing;
                }
                Err(reason) => debug!(reason, "Cannot check permissions"),
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn missing(&self) -> Result<Vec<Permission>, String> {
        let mut missing = Vec::new();
        for permission in &self.needed {
            if !self.is_allowed(*permission).await? {
                missing.push(*permission);
            }
        }
        Ok(missing)
    }

    async fn is_allowed(&self, permission: Permission) -> Result<bool, String> {
        let body = permission.review().to_string().into_bytes();
        match self.client.create(PATH, body, TIMEOUT).await {
            Reply::Answered(response) if response.status == 201 => {
                let review: Value =
                    serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
                review["status"]["allowed"].as_bool().ok_or_else(|| "no answer".to_owned())
            }
            Reply::Answered(response) => Err(format!("status {}", response.status)),
            Reply::Rejected(reason) | Reply::NotSent(reason) | Reply::Lost(reason) => Err(reason),
        }
    }
}

/// Returns the pause after a check that found these permissions missing.
fn pause_after<E>(missing: Result<&[Permission], E>) -> Duration {
    match missing {
        Ok([]) => INTERVAL,
        Ok(missing) if !missing.contains(&BIND) => LACK_INTERVAL,
        Ok(_) | Err(_) => RETRY_INTERVAL,
    }
}

fn log(missing: &[Permission]) {
    match missing.is_empty() {
        true => info!("All permissions are granted"),
        false => warn!(err = explain(missing), "Missing permissions"),
    }
}

/// Names the permissions and what to do.
fn explain(missing: &[Permission]) -> String {
    let needed = missing.iter().filter(|own| **own != RARE).map(|own| own.describe());
    let needed: Vec<_> = needed.collect();
    let mut parts = Vec::new();
    if !needed.is_empty() {
        parts.push(format!(
            "cannot {}: grant it to this account; is its ClusterRole that of an older version?",
            needed.join(", ")
        ));
    }
    if missing.contains(&RARE) {
        parts.push(format!(
            "cannot {}, and the role of kube-scheduler does not permit it either: it is needed only to deallocate claims \
             whose driver has reported that a device failed",
            RARE.describe()
        ));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::{self, Gates};
    use crate::wire;

    fn needed_by(plugins: &str) -> Vec<Permission> {
        needed_with(plugins, &Gates::default())
    }

    fn needed_with(plugins: &str, gates: &Gates) -> Vec<Permission> {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             profiles: [{{plugins: {plugins}}}]\n"
        );
        let loaded = config::load(&text, gates).unwrap();
        needed(&loaded.config.build_profiles(&plugins::registry()).unwrap())
    }

    #[test]
    fn permission_that_kube_scheduler_lacks_is_not_called_that_of_an_older_version() {
        let text = explain(&[RARE]);
        assert!(text.contains("the role of kube-scheduler does not permit it either"), "{text}");
        assert!(!text.contains("older version"), "{text}");
        let both = explain(&[BIND, RARE]);
        assert!(both.contains("cannot create pods/binding: grant it"), "{both}");
        assert!(both.ends_with(&text), "{both}");
    }

    #[test]
    fn plugins_determine_the_permissions() {
        let few = needed_by(
            "{multiPoint: {disabled: [{name: DefaultPreemption}, {name: VolumeBinding}, \
             {name: DynamicResources}]}}",
        );
        let expected = "cannot create pods/binding, get pods, patch pods/status, \
                        create events.events.k8s.io, patch events.events.k8s.io: grant it";
        assert!(explain(&few).starts_with(expected), "{}", explain(&few));
    }

    /// The writes, and the reads of single objects, that the role of the chart permits. Reviews of
    /// callers are not a part of scheduling.
    #[test]
    fn all_permissions_of_the_chart_are_checked() {
        let manifest = include_str!("../../deploy/loadmaster.yaml").to_owned();
        let mut documents = wire::objects_of("deploy/loadmaster.yaml", manifest).unwrap();
        let mut documents = documents.drain(..).map(|object| object.value);
        let is_own = |document: &Value| {
            document["kind"] == "ClusterRole" && document["metadata"]["name"] == "loadmaster"
        };
        let role = documents.find(is_own).unwrap();
        let texts = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
        let mut granted = BTreeSet::new();
        for rule in role["rules"].as_array().unwrap() {
            for group in texts(&rule["apiGroups"]) {
                let dot = if group.is_empty() { "" } else { "." };
                for resource in texts(&rule["resources"]) {
                    let verbs = texts(&rule["verbs"]).into_iter();
                    let verbs = verbs.filter(|verb| !["list", "watch"].contains(&verb.as_str()));
                    granted.extend(verbs.map(|verb| format!("{verb} {resource}{dot}{group}")));
                }
            }
        }
        granted.retain(|permission| !permission.contains("reviews."));
        let needed = needed_with("{}", &Gates::default().with_groups());
        let needed = needed.into_iter().map(Permission::describe);
        assert_eq!(needed.collect::<BTreeSet<_>>(), granted);
    }

    #[test]
    fn checks_go_on_although_all_permissions_are_granted() {
        let patch = Permission::on("patch", "pods", "status");
        for (missing, pause) in [
            (Ok(&[][..]), INTERVAL),
            (Ok(&[patch]), LACK_INTERVAL),
            (Ok(&[patch, BIND]), RETRY_INTERVAL),
            (Err("no response"), RETRY_INTERVAL),
        ] {
            assert_eq!(pause_after(missing), pause, "{missing:?}");
        }
    }
}
