//! Tokens of ServiceAccounts, and static tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use framework::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::CREDENTIAL_ID;
use crate::api::{AUTHENTICATED, User};
use crate::authorization::service_account_user;
use crate::metadata::uid;
use crate::resources::SERVICEACCOUNTS;
use crate::store::Store;

/// The issuer of tokens, and the only audience of the API server.
pub const AUDIENCE: &str = "https://kubernetes.default.svc";

const INVALID: &str = "invalid bearer token";

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
    /// Identifier of the token.
    pub id: String,
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
    jti: String,
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
            iss: AUDIENCE.to_owned(),
            sub: service_account_user(&self.namespace, &self.name),
            aud: self.audiences.clone(),
            iat: issued,
            exp: issued.saturating_add(lifetime),
            jti: self.id.clone(),
            private: PrivateClaims {
                namespace: self.namespace.clone(),
                serviceaccount: Reference { name: self.name.clone(), uid: self.uid.clone() },
            },
        });
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), part(&claims))
    }
}

/// The user of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenUser {
    /// The user.
    pub user: User,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

/// Returns the user of a token for one of these audiences; without audiences, for the API server.
///
/// # Errors
/// The text of a TokenReview: the token is unknown, is for other audiences or has expired, or its
/// ServiceAccount was deleted.
pub fn authenticate_token(
    store: &Store,
    token: &str,
    audiences: &[String],
    now: Time,
) -> Result<TokenUser, String> {
    let own = [AUDIENCE.to_owned()];
    let requested = if audiences.is_empty() { &own } else { audiences };
    if let Some(user) = store.static_tokens().get(token) {
        let audiences = common(&own, requested);
        let valid = !audiences.is_empty();
        return valid
            .then(|| TokenUser { user: user.clone(), audiences })
            .ok_or(INVALID.to_owned());
    }
    let claims = claims(token).ok_or(INVALID)?;
    let of_token = if claims.aud.is_empty() { &own } else { claims.aud.as_slice() };
    let audiences = common(of_token, requested);
    if audiences.is_empty() {
        let (of_token, requested) = (quoted(of_token), quoted(requested));
        return Err(invalid(&format!(
            "token audiences {of_token} is invalid for the target audiences {requested}"
        )));
    }
    let user = claims.user(store, now).map_err(|fault| invalid(&fault))?;
    Ok(TokenUser { user, audiences })
}

fn claims(token: &str) -> Option<Claims> {
    let [_, claims, ""] = token.split('.').collect::<Vec<_>>()[..] else { return None };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

impl Claims {
    /// Returns the ServiceAccount, unless the token has expired or the ServiceAccount is another
    /// one.
    fn user(&self, store: &Store, now: Time) -> Result<User, String> {
        let PrivateClaims { namespace, serviceaccount: Reference { name, uid: claimed } } =
            &self.private;
        if now >= Time::from_secs(self.exp) {
            return Err("service account token has expired".to_owned());
        }
        let account = store.get(SERVICEACCOUNTS, namespace, name);
        let account = account.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
        if uid(account) != claimed {
            let actual = uid(account);
            return Err(format!("service account UID ({actual}) does not match claim ({claimed})"));
        }
        let id = vec![format!("JTI={}", self.jti)];
        Ok(User {
            uid: claimed.clone(),
            extra: [(CREDENTIAL_ID.to_owned(), id)].into(),
            ..service_account(namespace, name)
        })
    }
}

fn common(one: &[String], other: &[String]) -> Vec<String> {
    one.iter().filter(|audience| other.contains(audience)).cloned().collect()
}

/// Formats a list like Go: `["a" "b"]`.
fn quoted(list: &[String]) -> String {
    let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(" "))
}

fn invalid(fault: &str) -> String {
    format!("[{INVALID}, {fault}]")
}

/// Returns a ServiceAccount as a user, without its UID.
pub(crate) fn service_account(namespace: &str, name: &str) -> User {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        AUTHENTICATED.to_owned(),
    ];
    User::new(service_account_user(namespace, name), groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::DeleteOptions;

    const NOW: Time = Time::from_secs(1_000);

    /// Returns a store with a ServiceAccount, and a token of it that is valid for ten minutes.
    fn robot() -> (Store, ServiceAccountToken) {
        let mut store = Store::new(1, NOW);
        let account = json!({"metadata": {"name": "robot", "namespace": "default"}});
        let account = store.create(SERVICEACCOUNTS, account, NOW).unwrap();
        let token = ServiceAccountToken {
            namespace: "default".to_owned(),
            name: "robot".to_owned(),
            uid: uid(&account).to_owned(),
            id: "j".to_owned(),
            audiences: vec![],
            issued: NOW,
            lifetime: Duration::from_secs(600),
        };
        (store, token)
    }

    #[test]
    fn token_is_valid_until_it_expires_or_its_account_is_deleted() {
        let (mut store, token) = robot();
        let user = authenticate_token(&store, &token.encode(), &[], NOW).unwrap().user;
        assert_eq!(user.name, "system:serviceaccount:default:robot");
        assert_eq!(
            (&user.uid, &user.extra[CREDENTIAL_ID]),
            (&token.uid, &vec!["JTI=j".to_owned()])
        );
        assert!(user.groups.contains(&"system:serviceaccounts:default".to_owned()));

        let fault = |store: &Store, token: &str, now| {
            authenticate_token(store, token, &[], now).unwrap_err()
        };
        assert_eq!(
            fault(&store, &token.encode(), Time::from_secs(1_600)),
            "[invalid bearer token, service account token has expired]"
        );
        let other = ServiceAccountToken { uid: "of another".to_owned(), ..token.clone() };
        assert!(fault(&store, &other.encode(), NOW).contains("does not match claim (of another)"));
        for text in ["", "a", "a.b.", "..", "e30.e30."] {
            assert_eq!(fault(&store, text, NOW), "invalid bearer token", "{text}");
        }
        let options = DeleteOptions::default();
        store.delete(SERVICEACCOUNTS, "default", "robot", &options, NOW).unwrap();
        assert_eq!(
            fault(&store, &token.encode(), NOW),
            "[invalid bearer token, serviceaccounts \"robot\" not found]"
        );
    }

    #[test]
    fn token_is_valid_for_its_audiences() {
        let (mut store, mut token) = robot();
        store.add_static_token("static".to_owned(), User::admin());
        token.audiences = vec!["vault".to_owned(), "metrics".to_owned()];
        let of_account = token.encode();
        let table = [
            (of_account.as_str(), &["vault", "other"][..], Some(&["vault"][..])),
            (&of_account, &["other"], None),
            (&of_account, &[], None),
            ("static", &[], Some(&[AUDIENCE])),
            ("static", &["vault", AUDIENCE], Some(&[AUDIENCE])),
            ("static", &["vault"], None),
        ];
        for (token, requested, expected) in table {
            let requested: Vec<String> = requested.iter().map(|&name| name.to_owned()).collect();
            let found = authenticate_token(&store, token, &requested, NOW).ok();
            let expected =
                expected.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            assert_eq!(found.map(|found| found.audiences), expected, "{token} {requested:?}");
        }
    }
}
