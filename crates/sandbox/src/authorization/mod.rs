//! Authorization: RBAC over the roles and bindings in the store, and impersonation.

mod bootstrap;
mod impersonation;
mod policy;

pub use bootstrap::bootstrap_policy;
pub use impersonation::impersonate;
pub use policy::{Decision, Policy, PolicyRule};

use crate::api::User;
use crate::resources::{CLUSTERROLEBINDINGS, CLUSTERROLES, ROLEBINDINGS, ROLES, Resource};
use crate::status::{Details, Status};
use crate::store::Store;

/// A verb and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; for
    /// paths the HTTP method in lower case.
    pub verb: &'a str,
    /// The target of the verb.
    pub target: Target<'a>,
}

/// The target of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// Objects of a resource. Absent parts are empty.
    Resource {
        /// API group.
        group: &'a str,
        /// Plural name.
        resource: &'a str,
        /// Subresource.
        subresource: &'a str,
        /// Namespace; for a Namespace itself its own name.
        namespace: &'a str,
        /// Name of the object.
        name: &'a str,
    },
    /// A path that is not a resource, such as `/healthz` or `/apis`.
    Path(&'a str),
}

impl<'a> Target<'a> {
    fn namespace(&self) -> &'a str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path(_) => "",
        }
    }
}

impl Policy {
    /// Returns the policy of the RBAC objects in `store`.
    pub fn of(store: &Store) -> Self {
        let objects = |resource: &'static Resource| {
            store.objects(resource).map(|object| &**object).collect::<Vec<_>>()
        };
        Self::compile(&policy::RbacObjects {
            cluster_roles: objects(CLUSTERROLES),
            cluster_role_bindings: objects(CLUSTERROLEBINDINGS),
            roles: objects(ROLES),
            role_bindings: objects(ROLEBINDINGS),
        })
    }
}

/// Checks a request against RBAC.
///
/// # Errors
/// 403 with the text of the API server.
pub fn check(store: &Store, user: &User, attributes: &Attributes<'_>) -> Result<(), Status> {
    match store.policy().decide(user, attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) => Err(forbidden(user, attributes, &reason)),
    }
}

fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> Status {
    let (user, verb) = (&user.name, attributes.verb);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match attributes.target {
        Target::Path(path) => Status::forbidden_path(format!(
            "forbidden: User {user:?} cannot {verb} path {path:?}{reason}"
        )),
        Target::Resource { group, resource, subresource, namespace, name } => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let scope = match namespace {
                "" => "at the cluster scope".to_owned(),
                _ => format!("in the namespace {namespace:?}"),
            };
            let subject = subject(group, resource, name);
            Status {
                code: 403,
                reason: "Forbidden",
                message: format!(
                    "{subject} is forbidden: User {user:?} cannot {verb} resource \
                     \"{resource}{slash}{subresource}\" in API group {group:?} {scope}{reason}"
                ),
                details: Some(Box::new(Details {
                    name: name.to_owned(),
                    group: group.to_owned(),
                    kind: resource.to_owned(),
                    ..Details::default()
                })),
                continue_token: None,
            }
        }
    }
}

/// Returns the target as messages write it, served or not: `pods "p0"`, `deployments.apps`.
fn subject(group: &str, resource: &str, name: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
    format!("{resource}{dot}{group}{name}")
}

/// Returns the user name of a ServiceAccount.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_user_verb_and_target() {
        let bob = User::new("bob", [""; 0]);
        let resource = |group, resource, subresource, namespace, name| Target::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        };
        let table = [
            (
                "list",
                resource("", "pods", "", "", ""),
                "pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" \
                 at the cluster scope",
            ),
            (
                "patch",
                resource("apps", "deployments", "scale", "web", "shop"),
                "deployments.apps \"shop\" is forbidden: User \"bob\" cannot patch resource \
                 \"deployments/scale\" in API group \"apps\" in the namespace \"web\"",
            ),
            (
                "get",
                Target::Path("/metrics"),
                "forbidden: User \"bob\" cannot get path \"/metrics\"",
            ),
        ];
        for (verb, target, message) in table {
            let status = forbidden(&bob, &Attributes { verb, target }, "");
            assert_eq!((status.code, status.message.as_str()), (403, message));
        }
    }
}
