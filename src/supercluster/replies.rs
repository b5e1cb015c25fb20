//! The meaning of replies of an API server to writes of pods.

use control::{Reply, Response};

/// The result of a write.
#[derive(Debug)]
pub(super) enum Written {
    /// It was carried out; the body of the response.
    Done(Vec<u8>),
    /// The object does not exist.
    NotFound(String),
    /// A precondition failed, or the name is taken.
    Conflict(String),
    /// It was refused.
    Refused(String),
    /// It was carried out or not, or may be repeated.
    Unknown(String),
}

impl From<Reply> for Written {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Answered(response) if response.is_success() => Self::Done(response.body),
            Reply::Answered(response) => of_failure(&response),
            Reply::Rejected(text) => Self::Refused(text),
            Reply::NotSent(text) | Reply::Lost(text) => Self::Unknown(text),
        }
    }
}

fn of_failure(response: &Response) -> Written {
    let text = response.error_message();
    match response.status {
        // A namespace that is missing is a refusal: the error names another kind.
        404 if is_of_pod(&text) => Written::NotFound(text),
        409 => Written::Conflict(text),
        429 | 500.. => Written::Unknown(text),
        _ => Written::Refused(text),
    }
}

fn is_of_pod(message: &str) -> bool {
    message.starts_with("pods ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_the_server_decides() {
        let of = |status, message: &str| {
            let body = format!("{{\"kind\": \"Status\", \"message\": {message:?}}}").into_bytes();
            Written::from(Reply::Answered(Response { status, retry_after: None, body }))
        };
        assert!(matches!(of(201, ""), Written::Done(_)));
        assert!(matches!(of(404, "pods \"a\" not found"), Written::NotFound(_)));
        assert!(matches!(of(404, "namespaces \"a\" not found"), Written::Refused(_)));
        assert!(matches!(of(409, "pods \"a\" already exists"), Written::Conflict(_)));
        assert!(matches!(of(403, "forbidden"), Written::Refused(_)));
        assert!(matches!(of(429, "slow down"), Written::Unknown(_)));
        assert!(matches!(of(500, "etcd"), Written::Unknown(_)));
        assert!(matches!(Written::from(Reply::Lost("cut".to_owned())), Written::Unknown(_)));
    }
}
