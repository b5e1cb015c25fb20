//! Impersonation, as with `kubectl --as`.

use super::{Attributes, Target, check};
use crate::api::{AUTHENTICATED, User};
use crate::authentication::service_account;
use crate::status::Status;
use crate::store::Store;

/// Returns the impersonated user: `name` with `groups`. A service account without groups gets those
/// of all service accounts.
///
/// # Errors
/// 403 unless `user` may `impersonate` that user and each of the groups.
pub fn impersonate(
    store: &Store,
    user: &User,
    name: &str,
    groups: Vec<String>,
) -> Result<User, Status> {
    let account = name.strip_prefix("system:serviceaccount:").and_then(|id| id.split_once(':'));
    match account {
        Some((namespace, name)) => check_one(store, user, "serviceaccounts", namespace, name)?,
        None => check_one(store, user, "users", "", name)?,
    }
    for group in &groups {
        check_one(store, user, "groups", "", group)?;
    }
    let mut acting = match account {
        Some((namespace, name)) if groups.is_empty() => service_account(namespace, name),
        _ => User::new(name, groups),
    };
    if !acting.groups.iter().any(|group| group == AUTHENTICATED) {
        acting.groups.push(AUTHENTICATED.to_owned());
    }
    Ok(acting)
}

fn check_one(
    store: &Store,
    user: &User,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    let target = Target::Resource { group: "", resource, subresource: "", namespace, name };
    check(store, user, &Attributes { verb: "impersonate", target })
}

#[cfg(test)]
mod tests {
    use framework::Time;

    use super::*;

    fn act(user: &User, name: &str, groups: &[&str]) -> Result<User, Status> {
        let store = Store::new(1, Time::ZERO);
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        impersonate(&store, user, name, groups)
    }

    #[test]
    fn impersonated_users_get_the_requested_groups_or_those_of_service_accounts() {
        let robots = ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED];
        for (name, asked, expected) in [
            ("jane", &[][..], &[AUTHENTICATED][..]),
            ("jane", &["dev"], &["dev", AUTHENTICATED]),
            ("system:serviceaccount:ns:robot", &[], &robots),
            ("system:serviceaccount:ns:robot", &["dev"], &["dev", AUTHENTICATED]),
        ] {
            let user = act(&User::admin(), name, asked).unwrap();
            assert_eq!(user.name, name);
            assert_eq!(user.groups, expected);
        }
    }

    #[test]
    fn impersonation_without_permission_is_refused() {
        let jane = User::new("jane", [AUTHENTICATED]);
        for (name, what) in [
            ("system:kube-scheduler", r#"cannot impersonate resource "users" in API group """#),
            ("system:serviceaccount:ns:robot", r#"cannot impersonate resource "serviceaccounts""#),
        ] {
            let refusal = act(&jane, name, &[]).unwrap_err();
            assert_eq!(refusal.code, 403);
            assert!(refusal.message.contains(what), "{}", refusal.message);
        }
    }
}
