//! The names that this process serves, and the warning about a kube-scheduler that serves one of
//! them.

use std::time::Duration;

use serde_json::Value;
use tracing::{info, warn};

use crate::api_client::{ApiClient, read_body};
use crate::config::Configuration;

/// The name of pods that name no scheduler, which kube-scheduler serves.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Namespace and name of the Lease of kube-scheduler.
const LEASE: (&str, &str) = ("kube-system", "kube-scheduler");
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
/// Time between two looks at the Lease. A live kube-scheduler renews it every two seconds.
const OBSERVED: Duration = Duration::from_secs(6);

/// The names that a process serves.
pub(super) struct ServedNames {
    names: Vec<String>,
    /// Whether the process competes for the Lease of kube-scheduler, so that only one of them
    /// schedules.
    shares_lease: bool,
}

impl ServedNames {
    pub(super) fn of(config: &Configuration) -> Self {
        let election = &config.leader_election;
        let lease = (&*election.resource_namespace, &*election.resource_name);
        let names = config.profiles.iter().map(|profile| profile.scheduler_name.clone());
        Self { names: names.collect(), shares_lease: election.leader_elect && lease == LEASE }
    }

    /// Logs the names. Warns if the Lease of kube-scheduler is renewed although this process serves
    /// its name.
    pub(super) async fn announce(self, client: ApiClient) {
        let names = self.names.join(", ");
        info!(names, "Serving pods with these values of spec.schedulerName");
        if !self.conflicts_with_kube_scheduler() {
            return;
        }
        let before = lease(&client).await;
        tokio::time::sleep(OBSERVED).await;
        match (before, lease(&client).await) {
            (Ok(before), Ok(after)) => {
                if let Some(holder) = live_holder(&before, &after) {
                    warn!(
                        holder,
                        "kube-scheduler is running and serves default-scheduler too: both bind the same \
                         pods. Stop kube-scheduler, use its Lease for leader election, or serve another \
                         name"
                    );
                }
            }
            (Err(err), _) | (_, Err(err)) => warn!(
                err,
                "Cannot read the Lease kube-system/kube-scheduler, which would show whether \
                 kube-scheduler is running; no other scheduler may serve default-scheduler"
            ),
        }
    }

    fn conflicts_with_kube_scheduler(&self) -> bool {
        !self.shares_lease && self.names.iter().any(|name| name == DEFAULT_SCHEDULER)
    }
}

/// Returns the Lease of kube-scheduler; null if there is none.
async fn lease(client: &ApiClient) -> Result<Value, String> {
    let response = client.get(PATH).await?;
    match response.status().as_u16() {
        200 => {
            let body = read_body(response.into_body()).await.map_err(|error| error.to_string())?;
            serde_json::from_slice(&body).map_err(|error| error.to_string())
        }
        404 => Ok(Value::Null),
        status => Err(format!("the server responded with status {status}")),
    }
}

/// Returns the holder of a Lease that was renewed in between. The times in a Lease are not compared
/// with the clock: clocks of hosts may differ.
fn live_holder<'a>(before: &Value, after: &'a Value) -> Option<&'a str> {
    let holder = after["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty())?;
    (before["spec"]["renewTime"] != after["spec"]["renewTime"]).then_some(holder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{Gates, defaults};

    #[test]
    fn holder_is_alive_if_it_renews_the_lease() {
        let lease = |holder: &str, time: &str| json!({"spec": {"holderIdentity": holder, "renewTime": time}});
        let old = lease("a", "2020-01-01T00:00:00.000000Z");
        assert_eq!(live_holder(&old, &lease("a", "2020-01-01T00:00:02.000000Z")), Some("a"));
        assert_eq!(live_holder(&old, &old), None, "a dead process");
        assert_eq!(live_holder(&old, &lease("", "2020-01-01T00:00:02.000000Z")), None, "released");
        assert_eq!(live_holder(&Value::Null, &Value::Null), None, "no kube-scheduler");
    }

    #[test]
    fn name_of_kube_scheduler_conflicts_unless_the_lease_is_shared() {
        let mut config = defaults(&Gates::default());
        assert!(!ServedNames::of(&config).conflicts_with_kube_scheduler(), "one Lease");
        config.leader_election.resource_name = "loadmaster".to_owned();
        assert!(ServedNames::of(&config).conflicts_with_kube_scheduler(), "another Lease");
        config.leader_election.leader_elect = false;
        assert!(ServedNames::of(&config).conflicts_with_kube_scheduler(), "no Lease");
        config.profiles[0].scheduler_name = "loadmaster".to_owned();
        assert!(!ServedNames::of(&config).conflicts_with_kube_scheduler(), "another name");
        let mut second = config.profiles[0].clone();
        second.scheduler_name = DEFAULT_SCHEDULER.to_owned();
        config.profiles.push(second);
        assert!(ServedNames::of(&config).conflicts_with_kube_scheduler(), "one of two names");
    }
}
