//! Callers of the endpoints of the daemon, and the permissions to review them.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::Api;
use kube::api::DeleteParams;

use super::{Cluster, LABEL, chart_rules, create, named};

impl Cluster {
    pub(super) fn service_accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Takes the permissions to review callers, and to read the authorities of the cluster, from
    /// the scheduler.
    pub(in crate::e2e) async fn forbid_reviews(&self) {
        let mut rules = chart_rules();
        let reviews = ["tokenreviews", "subjectaccessreviews"];
        rules.retain(|rule| {
            let mut resources = rule.resources.iter().flatten();
            !resources.any(|resource| reviews.contains(&resource.as_str()))
        });
        self.permit(&rules).await;
        let bindings = self.system_bindings();
        bindings.delete_collection(&DeleteParams::default(), &self.labelled()).await.unwrap();
        assert!(bindings.list(&self.labelled()).await.unwrap().items.is_empty());
    }

    /// Creates a service account that may read these paths.
    pub(in crate::e2e) async fn add_caller(&self, account: &str, paths: &[&str]) {
        self.add_caller_with(account, paths, Vec::new()).await;
    }

    /// Creates a service account that may read these paths, and has these permissions in the
    /// cluster.
    pub(in crate::e2e) async fn add_caller_with(
        &self,
        account: &str,
        paths: &[&str],
        mut rules: Vec<PolicyRule>,
    ) {
        create(&self.service_accounts(), &named::<ServiceAccount>(account)).await;
        let name = format!("{}-{account}", self.name);
        rules.push(PolicyRule {
            verbs: vec!["get".to_owned()],
            non_resource_urls: Some(paths.iter().map(|path| (*path).to_owned()).collect()),
            ..PolicyRule::default()
        });
        let mut role = ClusterRole { rules: Some(rules), ..named(&name) };
        role.metadata.labels = Some([(LABEL.to_owned(), self.name.clone())].into());
        create(&self.roles(), &role).await;
        let binding = ClusterRoleBinding {
            metadata: role.metadata,
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name,
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: account.to_owned(),
                namespace: Some(self.name.clone()),
                api_group: None,
            }]),
        };
        create(&self.role_bindings(), &binding).await;
    }

    /// Deletes a service account.
    pub(in crate::e2e) async fn remove_caller(&self, name: &str) {
        self.service_accounts().delete(name, &DeleteParams::default()).await.unwrap();
    }
}
