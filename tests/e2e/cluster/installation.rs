//! The permissions of the chart, as a release with the name of the test in its namespace.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;

use super::{Cluster, LABEL, create};
use crate::manifests::{DEFAULT, find_all};

/// The name of the release in the rendered chart.
const RELEASE: &str = "loadmaster";

/// The namespace with the roles of a new cluster.
const SYSTEM: &str = "kube-system";

impl Cluster {
    /// Installs the roles and bindings of the chart.
    pub(super) async fn install_permissions(&self) {
        for mut role in find_all::<ClusterRole>(DEFAULT) {
            self.adopt(&mut role.metadata);
            create(&self.roles(), &role).await;
        }
        for mut binding in find_all::<ClusterRoleBinding>(DEFAULT) {
            self.adopt(&mut binding.metadata);
            self.rename(&mut binding.role_ref.name);
            self.adopt_subjects(binding.subjects.as_mut());
            create(&self.role_bindings(), &binding).await;
        }
        for mut role in find_all::<Role>(DEFAULT) {
            self.adopt(&mut role.metadata);
            role.metadata.namespace = Some(self.name.clone());
            let names =
                role.rules.iter_mut().flatten().filter_map(|rule| rule.resource_names.as_mut());
            names.flatten().for_each(|name| self.rename(name));
            create(&self.namespaced(&self.name), &role).await;
        }
        for mut binding in find_all::<RoleBinding>(DEFAULT) {
            self.adopt(&mut binding.metadata);
            // A role of the cluster stays where it is.
            let own = binding.role_ref.name.starts_with(RELEASE);
            let namespace = if own { self.name.as_str() } else { SYSTEM };
            self.rename(&mut binding.role_ref.name);
            binding.metadata.namespace = Some(namespace.to_owned());
            self.adopt_subjects(binding.subjects.as_mut());
            create(&self.namespaced(namespace), &binding).await;
        }
    }

    /// Bindings of the chart to roles of the cluster.
    pub(super) fn system_bindings(&self) -> Api<RoleBinding> {
        self.namespaced(SYSTEM)
    }

    fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Gives an object the name of this release, and the label of the test.
    fn adopt(&self, metadata: &mut ObjectMeta) {
        metadata.name.iter_mut().for_each(|name| self.rename(name));
        metadata.labels.get_or_insert_default().insert(LABEL.to_owned(), self.name.clone());
    }

    fn adopt_subjects(&self, subjects: Option<&mut Vec<Subject>>) {
        for subject in subjects.into_iter().flatten() {
            self.rename(&mut subject.name);
            subject.namespace = Some(self.name.clone());
        }
    }

    /// Replaces the name of the release, with which the names of the chart's objects start.
    fn rename(&self, name: &mut String) {
        if let Some(suffix) = name.strip_prefix(RELEASE) {
            *name = format!("{}{suffix}", self.name);
        }
    }
}
