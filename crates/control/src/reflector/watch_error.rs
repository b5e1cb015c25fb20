//! The error state of a reflector.

use std::fmt;

use framework::Time;

use super::StatusError;

/// The last error of a reflector whose calls have failed since the last success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchError {
    /// The error and, where possible, the remedy; for the log and `/readyz`.
    pub message: String,
    /// The time of the first error since the last success.
    pub since: Time,
    /// The status of the response, if there was one (401: credentials, 403: permissions, 404:
    /// unknown kind).
    pub status: Option<u16>,
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns the message for an error status of a list or watch.
pub(super) fn message(path: &str, error: &StatusError) -> String {
    let StatusError { code, reason, message, .. } = error;
    match code {
        401 => format!("{path}: the API server does not accept the credentials: {message}"),
        403 => format!(
            "{path}: not allowed: {message}; grant the verbs list and watch to this account"
        ),
        404 => format!("{path}: the API server does not know this kind: {message}"),
        429 => format!("{path}: the API server asks to slow down: {message}"),
        _ => format!("{path}: the API server responded with status {code} {reason}: {message}"),
    }
}
