//! Hides the secrets of a configuration that is shown.

use serde_json::Value;

/// The text in place of a secret.
const REDACTED: &str = "REDACTED";

/// Parts of the names of fields whose values are secrets, in lower case.
const SECRET_NAMES: [&str; 11] = [
    "keydata",
    "certdata",
    "privatekey",
    "apikey",
    "accesskey",
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "credential",
];

/// Ends of the names of fields that only say where a secret is, in lower case.
const REFERENCES: [&str; 6] = ["file", "path", "name", "namespace", "ref", "seconds"];

/// The start of a PEM block, as text and in base64.
const PEM: [&str; 2] = ["-----BEGIN", "LS0tLS1CRUdJTi"];

/// Replaces secrets: the values of fields that are named like secrets, key material in PEM, and
/// user and password in URLs.
pub fn redacted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| match is_secret(&name) && is_given(&value)
            {
                true => (name, REDACTED.into()),
                false => (name, redacted(value)),
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => items.into_iter().map(redacted).collect(),
        Value::String(text) if PEM.iter().any(|start| text.contains(start)) => REDACTED.into(),
        Value::String(text) => without_user(text).into(),
        other => other,
    }
}

fn is_secret(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
        && !REFERENCES.iter().any(|end| name.ends_with(end))
}

/// Whether the value can hold a secret.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Replaces user and password in a URL.
pub fn without_user(text: String) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    match authority.rfind('@') {
        Some(end) => format!("{scheme}://{REDACTED}@{}", &rest[end + 1..]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_replaced_and_settings_stay() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n";
        let config = json!({
            "extenders": [{
                "urlPrefix": "https://me:pass@word@extender:8080/v1?x=a@b",
                "tlsConfig": {"keyData": "c2VjcmV0", "certData": "Y2VydA==", "keyFile": "/tls/key"},
            }],
            "profiles": [{"pluginConfig": [{"name": "Mine", "args": {
                "apiToken": "abc", "tokenFile": "/token", "secretName": "s", "secretRef": {"name": "s"},
                "client_password": 1234, "inline": pem, "encoded": "LS0tLS1CRUdJTiBQUklW",
                "credentials": {"user": "u"}, "tokenSeconds": 5, "useToken": true, "token": "",
                "topologyKey": "zone", "endpoint": "https://host/path@v2", "weights": [1, 2],
            }}]}],
        });
        let expected = json!({
            "extenders": [{
                "urlPrefix": "https://REDACTED@extender:8080/v1?x=a@b",
                "tlsConfig": {"keyData": "REDACTED", "certData": "REDACTED", "keyFile": "/tls/key"},
            }],
            "profiles": [{"pluginConfig": [{"name": "Mine", "args": {
                "apiToken": "REDACTED", "tokenFile": "/token", "secretName": "s",
                "secretRef": {"name": "s"},
                "client_password": "REDACTED", "inline": "REDACTED", "encoded": "REDACTED",
                "credentials": "REDACTED", "tokenSeconds": 5, "useToken": true, "token": "",
                "topologyKey": "zone", "endpoint": "https://host/path@v2", "weights": [1, 2],
            }}]}],
        });
        assert_eq!(redacted(config), expected);
    }
}
