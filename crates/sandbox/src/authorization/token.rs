//! Tokens of ServiceAccounts.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use framework::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::service_account_user;
use crate::api::User;
use crate::resources::SERVICEACCOUNTS;
use crate::store::Store;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A token of a ServiceAccount.
///
/// It is a JSON Web Token, so that clients can read it. It is valid because of the UID of the
/// ServiceAccount, not because of a signature: a sandbox keeps no secrets from clients that may
/// read its ServiceAccounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccountToken {
    /// Namespace of the ServiceAccount.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Audiences of the token; empty means the API server.
    pub audiences: Vec<String>,
    /// The time of issue.
    pub issued: Time,
    /// The lifetime.
    pub lifetime: Duration,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    iat: i64,
    exp: i64,
    #[serde(rename = "kubernetes.io")]
    private: PrivateClaims,
}

#[derive(Serialize, Deserialize)]
struct PrivateClaims {
    namespace: String,
    serviceaccount: Reference,
}

#[derive(Serialize, Deserialize)]
struct Reference {
    name: String,
    uid: String,
}

impl ServiceAccountToken {
    /// Returns the text of the token.
    pub fn encode(&self) -> String {
        let issued = self.issued.as_nanos() / 1_000_000_000;
        let lifetime = i64::try_from(self.lifetime.as_secs()).unwrap_or(i64::MAX);
        let claims = json!(Claims {
            iss: ISSUER.to_owned(),
            sub: service_account_user(&self.namespace, &self.name),
            aud: self.audiences.clone(),
            iat: issued,
            exp: issued.saturating_add(lifetime),
            private: PrivateClaims {
                namespace: self.namespace.clone(),
                serviceaccount: Reference { name: self.name.clone(), uid: self.uid.clone() },
            },
        });
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), part(&claims))
    }
}

fn claims(token: &str) -> Option<Claims> {
    let [_, claims, ""] = token.split('.').collect::<Vec<_>>()[..] else { return None };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

/// Returns the ServiceAccount of a token; `None` if the text is not a token, the token has expired,
/// or its ServiceAccount was deleted.
pub fn user_of_token(store: &Store, token: &str, now: Time) -> Option<User> {
    let Claims { exp, private: PrivateClaims { namespace, serviceaccount }, .. } = claims(token)?;
    let account = store.get(SERVICEACCOUNTS, &namespace, &serviceaccount.name)?;
    let same = account["metadata"]["uid"] == serviceaccount.uid.as_str();
    (same && now < Time::from_secs(exp)).then(|| service_account(&namespace, &serviceaccount.name))
}

/// Returns a ServiceAccount as a user.
pub(super) fn service_account(namespace: &str, name: &str) -> User {
    User {
        name: service_account_user(namespace, name),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_000);

    #[test]
    fn token_is_valid_until_it_expires_or_its_account_is_deleted() {
        let mut store = Store::new(1, NOW);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "robot", "namespace": "default"}});
        let account = store.create(SERVICEACCOUNTS, account, NOW).unwrap();
        let token = ServiceAccountToken {
            namespace: "default".to_owned(),
            name: "robot".to_owned(),
            uid: account["metadata"]["uid"].as_str().unwrap().to_owned(),
            audiences: vec![],
            issued: NOW,
            lifetime: Duration::from_secs(600),
        };
        let user = user_of_token(&store, &token.encode(), NOW).unwrap();
        assert_eq!(user.name, "system:serviceaccount:default:robot");
        assert!(user.groups.contains(&"system:serviceaccounts:default".to_owned()));

        let later = Time::from_secs(1_600);
        assert_eq!(user_of_token(&store, &token.encode(), later), None);
        let other = ServiceAccountToken { uid: "of another".to_owned(), ..token };
        assert_eq!(user_of_token(&store, &other.encode(), NOW), None);
        for text in ["", "a", "a.b.", "..", "e30.e30."] {
            assert_eq!(user_of_token(&store, text, NOW), None, "{text}");
        }
    }
}
