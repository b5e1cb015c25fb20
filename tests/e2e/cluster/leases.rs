//! The Lease of a test, which has the name of the release.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{Cluster, create, named};
use crate::e2e::wait::eventually;

impl Cluster {
    /// Takes the permissions for the Lease from the scheduler under test, and waits until the API
    /// server applies that; it watches roles asynchronously. Returns their Role, which permits it
    /// again.
    pub(in crate::e2e) async fn forbid_lease(&self) -> Role {
        let roles: Api<Role> = Api::namespaced(self.client.clone(), &self.name);
        let name = format!("{}-leader-election", self.name);
        let rules = roles.get(&name).await.unwrap().rules;
        roles.delete(&name, &DeleteParams::default()).await.unwrap();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let question: SubjectAccessReview = serde_json::from_value(json!({"spec": {
            "user": self.scheduler_user(),
            "resourceAttributes": {
                "verb": "get", "group": "coordination.k8s.io", "resource": "leases",
                "namespace": self.name, "name": self.name,
            },
        }}))
        .unwrap();
        eventually("the lease is forbidden", async || {
            let answer = create(&reviews, &question).await;
            (!answer.status?.allowed).then_some(())
        })
        .await;
        Role { rules, ..named(&name) }
    }

    /// Waits until a replica holds the Lease, and returns the Lease.
    pub(in crate::e2e) async fn held_lease(&self) -> Lease {
        eventually("the lease is held", async || {
            let lease = self.leases().get_opt(&self.name).await.unwrap()?;
            let holder = lease.spec.as_ref()?.holder_identity.as_deref();
            holder.is_some_and(|holder| !holder.is_empty()).then_some(lease)
        })
        .await
    }

    /// Returns the Lease, if there is one.
    pub(in crate::e2e) async fn lease(&self) -> Option<Lease> {
        self.leases().get_opt(&self.name).await.unwrap()
    }

    pub(in crate::e2e) async fn delete_lease(&self) {
        self.leases().delete(&self.name, &DeleteParams::default()).await.unwrap();
    }

    /// Makes another identity the holder of the Lease.
    pub(in crate::e2e) async fn give_lease_to(&self, identity: &str) {
        let patch = Patch::Merge(json!({ "spec": { "holderIdentity": identity } }));
        self.leases().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.name)
    }
}

/// Returns the identity of the holder of a Lease.
pub(in crate::e2e) fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().unwrap().holder_identity.as_deref().unwrap()
}
