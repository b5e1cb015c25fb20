//! Roles and bindings, compiled for decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Attributes, Target, service_account_user};
use crate::api::User;

const ADMINISTRATORS: &str = "system:masters";

/// A rule of a Role or ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs; `*` matches all.
    pub verbs: Vec<String>,
    /// API groups; `""` is the core group, `*` matches all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources: `pods`, `pods/status`, `*/scale` or `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names; empty matches all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths; a final `*` matches any suffix.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !names(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.target {
            Target::Resource { group, resource, subresource, name, .. } => {
                names(&self.api_groups, group)
                    && self.covers(resource, subresource)
                    && (self.resource_names.is_empty()
                        || self.resource_names.iter().any(|own| own == name))
            }
            Target::Path(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
        }
    }

    /// `*` covers subresources too, `pods` does not cover `pods/status`.
    fn covers(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|own| match own.split_once('/') {
            _ if own == "*" => true,
            None => own == resource && subresource.is_empty(),
            Some((own, sub)) => (own == "*" || own == resource) && sub == subresource,
        })
    }
}

fn names(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == "*" || own == wanted)
}

fn url_covers(url: &str, path: &str) -> bool {
    url.strip_suffix('*').map_or(url == path, |prefix| path.starts_with(prefix))
}

/// The rules of a role, or the error text if the role of a binding does not exist.
type Role = Result<Vec<PolicyRule>, String>;

/// A role that a binding grants.
#[derive(Debug)]
struct Grant {
    role: Arc<Role>,
    /// The binding, the role and the subject, as the reason of a permission names them.
    description: String,
}

/// The roles of one user or group.
#[derive(Debug, Default)]
struct Grants {
    everywhere: Vec<Grant>,
    in_namespaces: BTreeMap<String, Vec<Grant>>,
}

/// The compiled RBAC policy.
#[derive(Debug, Default)]
pub struct Policy {
    users: BTreeMap<String, Grants>,
    groups: BTreeMap<String, Grants>,
}

/// The RBAC objects of a cluster.
pub(super) struct RbacObjects<'a> {
    pub(super) cluster_roles: Vec<&'a Value>,
    pub(super) cluster_role_bindings: Vec<&'a Value>,
    pub(super) roles: Vec<&'a Value>,
    pub(super) role_bindings: Vec<&'a Value>,
}

/// The outcome of an authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed; the text names the binding, and is empty for administrators.
    Allowed(String),
    /// The request is denied; the text, often empty, describes faults of the user's bindings.
    Denied(String),
}

impl Policy {
    pub(super) fn compile(objects: &RbacObjects<'_>) -> Self {
        let roles = Roles::of(objects);
        let mut policy = Self::default();
        for binding in &objects.cluster_role_bindings {
            let role = roles.of_binding(binding, "");
            policy.bind("ClusterRoleBinding", binding, &role);
        }
        for binding in &objects.role_bindings {
            let namespace = text(binding, "/metadata/namespace");
            let role = roles.of_binding(binding, namespace);
            policy.bind("RoleBinding", binding, &role);
        }
        policy
    }

    fn bind(&mut self, kind: &str, binding: &Value, role: &Arc<Role>) {
        let (name, namespace) = key(binding);
        let own_name = if namespace.is_empty() { name } else { &format!("{name}/{namespace}") };
        let role_kind = text(binding, "/roleRef/kind");
        let role_name = text(binding, "/roleRef/name");
        let binding_of_role = format!("{kind} {own_name:?} of {role_kind} {role_name:?}");
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
            // A ServiceAccount without a namespace belongs to the namespace of the RoleBinding.
            let home = subject["namespace"].as_str().unwrap_or(namespace);
            let (grants, subject) = match kind {
                "User" => (self.users.entry(name.to_owned()), name.to_owned()),
                "Group" => (self.groups.entry(name.to_owned()), name.to_owned()),
                "ServiceAccount" => {
                    (self.users.entry(service_account_user(home, name)), format!("{name}/{home}"))
                }
                _ => continue,
            };
            let description = format!("{binding_of_role} to {kind} {subject:?}");
            grants.or_default().within(namespace).push(Grant { role: role.clone(), description });
        }
    }

    /// Decides whether `user` may do this.
    pub fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        if user.groups.iter().any(|group| group == ADMINISTRATORS) {
            return Decision::Allowed(String::new());
        }
        let mut missing = Vec::new();
        for Grant { role, description } in self.grants_of(user, attributes.target.namespace()) {
            match &**role {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::Allowed(format!("RBAC: allowed by {description}"));
                }
                Ok(_) => {}
                Err(fault) if missing.contains(&fault.as_str()) => {}
                Err(fault) => missing.push(fault),
            }
        }
        Decision::Denied(match missing[..] {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            _ => format!("RBAC: [{}]", missing.join(", ")),
        })
    }

    /// Returns the rules that apply to `user` in a namespace, repeated where several bindings grant
    /// them.
    pub fn rules_of(&self, user: &User, namespace: &str) -> impl Iterator<Item = &PolicyRule> {
        let roles = self.grants_of(user, namespace).map(|grant| &*grant.role);
        roles.filter_map(|role| role.as_ref().ok()).flatten()
    }

    fn grants_of(&self, user: &User, namespace: &str) -> impl Iterator<Item = &Grant> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group));
        let granted: Vec<&Grants> = self.users.get(&user.name).into_iter().chain(groups).collect();
        let everywhere = granted.clone().into_iter().flat_map(|grants| &grants.everywhere);
        let local = granted.into_iter().filter_map(move |own| own.in_namespaces.get(namespace));
        everywhere.chain(local.flatten())
    }
}

impl Grants {
    /// Returns the roles in a namespace; everywhere if it is empty.
    fn within(&mut self, namespace: &str) -> &mut Vec<Grant> {
        match namespace {
            "" => &mut self.everywhere,
            _ => self.in_namespaces.entry(namespace.to_owned()).or_default(),
        }
    }
}

/// Roles by name and namespace (empty for ClusterRoles).
struct Roles<'a>(BTreeMap<(&'a str, &'a str), Arc<Role>>);

impl<'a> Roles<'a> {
    fn of(objects: &RbacObjects<'a>) -> Self {
        let all = objects.cluster_roles.iter().chain(&objects.roles);
        Self(all.map(|role| (key(role), Arc::new(Ok(rules(role))))).collect())
    }

    fn of_binding(&self, binding: &Value, namespace: &str) -> Arc<Role> {
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let namespace = if kind == "ClusterRole" { "" } else { namespace };
        self.0.get(&(name, namespace)).cloned().unwrap_or_else(|| {
            let kind = kind.to_ascii_lowercase();
            Arc::new(Err(format!("{kind}.rbac.authorization.k8s.io {name:?} not found")))
        })
    }
}

/// Returns the name of a role or binding, and its namespace, empty if it has none.
fn key(object: &Value) -> (&str, &str) {
    (text(object, "/metadata/name"), text(object, "/metadata/namespace"))
}

/// Returns the rules of a role; a role that does not decode has none.
fn rules(role: &Value) -> Vec<PolicyRule> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.filter_map(|rule| PolicyRule::deserialize(rule).ok()).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NO_GROUPS: [&str; 0] = [];

    fn rule(rule: Value) -> PolicyRule {
        serde_json::from_value(rule).unwrap()
    }

    /// `verb group/resource[/subresource] [name]`, or `verb /path`.
    fn question(text: &str) -> Attributes<'_> {
        let mut words = text.split(' ');
        let (verb, target) = (words.next().unwrap(), words.next().unwrap());
        if target.starts_with('/') {
            return Attributes { verb, target: Target::Path(target) };
        }
        let mut parts = target.split(':');
        let (group, resource) = (parts.next().unwrap(), parts.next().unwrap());
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let name = words.next().unwrap_or("");
        let target = Target::Resource { group, resource, subresource, namespace: "", name };
        Attributes { verb, target }
    }

    #[test]
    fn rules_cover_what_rbac_defines() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
        let sub = json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]});
        let all = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"]});
        let named = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"],
            "resourceNames": ["n1"]});
        let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz/*"]});
        let table = [
            (&pods, "get :pods", true),
            (&pods, "get :pods p", true),
            (&pods, "delete :pods", false),
            (&pods, "get :pods/status", false),
            (&pods, "get apps:pods", false),
            (&pods, "get /api", false),
            (&sub, "patch apps:replicasets/scale", true),
            (&sub, "patch apps:replicasets", false),
            (&all, "get batch:jobs/status", true),
            (&all, "get /metrics", false),
            (&named, "get :nodes n1", true),
            (&named, "get :nodes n2", false),
            (&named, "get :nodes", false),
            (&paths, "get /healthz", true),
            (&paths, "get /healthz/etcd", false),
            (&paths, "get /readyz/etcd", true),
            (&paths, "post /healthz", false),
            (&paths, "get :pods", false),
        ];
        for (given, asked, allowed) in table {
            assert_eq!(rule(given.clone()).allows(&question(asked)), allowed, "{given} {asked}");
        }
    }

    fn binding(namespace: Option<&str>, kind: &str, role: &str, subject: Value) -> Value {
        json!({"metadata": {"name": "b", "namespace": namespace},
            "roleRef": {"kind": kind, "name": role}, "subjects": [subject]})
    }

    #[test]
    fn bindings_grant_roles_in_their_scope() {
        let get_pods = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        let cluster_role = json!({"metadata": {"name": "reader"}, "rules": get_pods});
        let role = json!({"metadata": {"name": "reader", "namespace": "a"}, "rules": get_pods});
        let everywhere =
            binding(None, "ClusterRole", "reader", json!({"kind": "User", "name": "bob"}));
        let in_a = binding(
            Some("a"),
            "Role",
            "reader",
            json!({"kind": "ServiceAccount", "name": "robot", "namespace": "tools"}),
        );
        let in_b =
            binding(Some("b"), "ClusterRole", "reader", json!({"kind": "Group", "name": "team"}));
        let policy = Policy::compile(&RbacObjects {
            cluster_roles: vec![&cluster_role],
            cluster_role_bindings: vec![&everywhere],
            roles: vec![&role],
            role_bindings: vec![&in_a, &in_b],
        });
        let [of_bob, of_robot, of_team] = [
            r#"ClusterRoleBinding "b" of ClusterRole "reader" to User "bob""#,
            r#"RoleBinding "b/a" of Role "reader" to ServiceAccount "robot/tools""#,
            r#"RoleBinding "b/b" of ClusterRole "reader" to Group "team""#,
        ]
        .map(|grant| Some(format!("RBAC: allowed by {grant}")));
        let (bob, eve) = (User::new("bob", NO_GROUPS), User::new("eve", ["team"]));
        let robot = User::new("system:serviceaccount:tools:robot", NO_GROUPS);
        let table = [
            (&bob, "a", of_bob.clone()),
            (&bob, "", of_bob),
            (&robot, "a", of_robot),
            (&robot, "b", None),
            (&robot, "", None),
            (&eve, "b", of_team),
            (&eve, "a", None),
            (&User::new("root", [ADMINISTRATORS]), "a", Some(String::new())),
        ];
        for (user, namespace, reason) in table {
            let target = Target::Resource {
                group: "",
                resource: "pods",
                subresource: "",
                namespace,
                name: "p",
            };
            let decision = policy.decide(user, &Attributes { verb: "get", target });
            let expected = reason.map_or(Decision::Denied(String::new()), Decision::Allowed);
            assert_eq!(decision, expected, "{user:?} {namespace}");
        }
    }

    #[test]
    fn binding_to_a_missing_role_is_named() {
        let ghost = binding(None, "ClusterRole", "ghost", json!({"kind": "User", "name": "bob"}));
        let policy = Policy::compile(&RbacObjects {
            cluster_roles: vec![],
            cluster_role_bindings: vec![&ghost],
            roles: vec![],
            role_bindings: vec![],
        });
        let decision = policy.decide(&User::new("bob", NO_GROUPS), &question("get :pods"));
        let text = "RBAC: clusterrole.rbac.authorization.k8s.io \"ghost\" not found";
        assert_eq!(decision, Decision::Denied(text.to_owned()));
    }
}
