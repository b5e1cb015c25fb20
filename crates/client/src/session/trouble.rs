//! What keeps a session from hearing the server.

use std::fmt;

use framework::Time;

use super::Refusal;

/// A failure that nothing but failures has followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong and, where that helps, what to do; for logs and `/readyz`.
    pub message: String,
    /// When the first failure since the last success happened.
    pub since: Time,
    /// The status that the server answered (401: credentials, 403: permissions, 404: unknown kind),
    /// if it did.
    pub code: Option<u16>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a refusal means to people.
pub(super) fn explain(path: &str, refusal: &Refusal) -> String {
    let Refusal { code, reason, message, .. } = refusal;
    match code {
        401 => format!("{path}: the API server does not accept the credentials: {message}"),
        403 => format!(
            "{path}: not allowed: {message}; grant the verbs list and watch to this account"
        ),
        404 => format!("{path}: the API server does not know this kind: {message}"),
        429 => format!("{path}: the API server asks to slow down: {message}"),
        _ => format!("{path}: the API server answered {code} {reason}: {message}"),
    }
}
