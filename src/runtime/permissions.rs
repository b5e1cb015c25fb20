//! The check of the permissions for writes. Missing permissions for watches show when a watch fails.

use std::sync::Arc;
use std::time::Duration;

use client::Reply;
use engine::profile::Profiles;
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use crate::api_client::{ApiClient, ServerStatus};

/// Path of the reviews, which `system:basic-user` lets every account create.
const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Timeout of a review.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two checks while permissions are missing or the reviews fail.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// A permission, in the terms of a ClusterRole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Permission {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

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
    if in_use("DefaultPreemption") {
        needed.push(Permission::on("delete", "pods", ""));
    }
    if in_use("VolumeBinding") {
        needed.push(Permission::on("patch", "persistentvolumes", ""));
        needed.push(Permission::on("patch", "persistentvolumeclaims", ""));
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

    /// Checks until no permission is missing. Logs the missing ones whenever they change, and reports to
    /// the status of the server whether pods may be bound.
    pub(super) async fn run(self) {
        let mut logged = Vec::new();
        loop {
            match self.missing().await {
                Ok(missing) => {
                    if missing != logged {
                        log(&missing);
                    }
                    let cannot_bind = missing.contains(&BIND).then(|| explain(&[BIND]));
                    self.status.permitted(cannot_bind);
                    if missing.is_empty() {
                        return;
                    }
                    logged = missing;
                }
                Err(reason) => debug!(reason, "Cannot check permissions"),
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
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

fn log(missing: &[Permission]) {
    match missing.is_empty() {
        true => info!("All permissions are granted"),
        false => warn!(err = explain(missing), "Missing permissions"),
    }
}

/// Names the permissions and what to do.
fn explain(missing: &[Permission]) -> String {
    let missing: Vec<_> = missing.iter().map(|permission| permission.describe()).collect();
    let missing = missing.join(", ");
    format!(
        "cannot {missing}: grant it to this account; is its ClusterRole that of an older version?"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Gates};

    fn needed_by(plugins: &str) -> String {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             profiles: [{{plugins: {plugins}}}]\n"
        );
        let loaded = config::load(&text, &Gates::default()).unwrap();
        explain(&needed(&loaded.config.build_profiles(&plugins::registry()).unwrap()))
    }

    #[test]
    fn plugins_determine_the_permissions() {
        let all = needed_by("{}");
        let expected = "cannot create pods/binding, get pods, patch pods/status, \
                        create events.events.k8s.io, patch events.events.k8s.io, delete pods, \
                        patch persistentvolumes, patch persistentvolumeclaims: grant it";
        assert!(all.starts_with(expected), "{all}");
        let few = needed_by(
            "{multiPoint: {disabled: [{name: DefaultPreemption}, {name: VolumeBinding}]}}",
        );
        assert!(few.contains("patch events.events.k8s.io: grant it"), "{few}");
    }
}
