//! The Lease of a test.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{Cluster, create, named};
use crate::e2e::wait::eventually;
use crate::manifests::{DEFAULT, find};

/// Name of the Lease; it is in the namespace of the test.
pub(in crate::e2e) const LEASE: &str = "scheduler";

impl Cluster {
    /// Permits the scheduler under test to use its Lease, with the Role of the chart.
    pub(in crate::e2e) async fn permit_lease(&self) {
        let mut rules = find::<Role>(DEFAULT).unwrap().rules.unwrap();
        let names = rules.iter_mut().filter_map(|rule| rule.resource_names.as_mut());
        names.for_each(|names| *names = vec![LEASE.to_owned()]);
        self.create(&Role { rules: Some(rules), ..named(LEASE) }).await;
        let binding = json!({
            "metadata": { "name": LEASE },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": LEASE },
            "subjects": [
                { "kind": "ServiceAccount", "name": self.name, "namespace": self.name },
            ],
        });
        let binding: RoleBinding = serde_json::from_value(binding).unwrap();
        create(&Api::namespaced(self.client.clone(), &self.name), &binding).await;
    }

    /// Waits until a replica holds the Lease, and returns the Lease.
    pub(in crate::e2e) async fn held_lease(&self) -> Lease {
        eventually("the lease is held", async || {
            let lease = self.leases().get_opt(LEASE).await.unwrap()?;
            let holder = lease.spec.as_ref()?.holder_identity.as_deref();
            holder.is_some_and(|holder| !holder.is_empty()).then_some(lease)
        })
        .await
    }

    /// Returns the Lease, if there is one.
    pub(in crate::e2e) async fn lease(&self) -> Option<Lease> {
        self.leases().get_opt(LEASE).await.unwrap()
    }

    pub(in crate::e2e) async fn delete_lease(&self) {
        self.leases().delete(LEASE, &DeleteParams::default()).await.unwrap();
    }

    /// Makes another identity the holder of the Lease.
    pub(in crate::e2e) async fn give_lease_to(&self, identity: &str) {
        let patch = Patch::Merge(json!({ "spec": { "holderIdentity": identity } }));
        self.leases().patch(LEASE, &PatchParams::default(), &patch).await.unwrap();
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.name)
    }
}

/// Returns the identity of the holder of a Lease.
pub(in crate::e2e) fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().unwrap().holder_identity.as_deref().unwrap()
}
