//! The requests for a Lease, and the reasons for which they fail.

use std::time::Duration;

use super::config::LeaderElectionConfig;
use super::lease::{API_VERSION, LeaderElectionRecord, Lease, new_lease};
use crate::request::{
    Destination, Method, Reply, Request, RequestId, collection_path, push_segment,
};

/// A request for the Lease, without the record that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Create,
    Update,
}

impl Verb {
    /// Returns the verb of RBAC.
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
        }
    }
}

/// The failure of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// HTTP status; `None` if the server did not answer.
    pub(super) status: Option<u16>,
    pub(super) message: String,
}

impl Failure {
    pub(super) const fn is_conflict(&self) -> bool {
        matches!(self.status, Some(409))
    }

    pub(super) const fn is_not_found(&self) -> bool {
        matches!(self.status, Some(404))
    }
}

/// The Lease as a lock, like `LeaseLock` of client-go.
#[derive(Debug)]
pub(super) struct LeaseLock {
    namespace: String,
    name: String,
    timeout: Duration,
    level: Option<String>,
}

impl LeaseLock {
    pub(super) fn new(config: &LeaderElectionConfig) -> Self {
        Self {
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            timeout: config.request_timeout(),
            level: config.level.clone(),
        }
    }

    pub(super) fn get(&self, id: RequestId) -> Request {
        self.request(id, Verb::Get, Vec::new())
    }

    pub(super) fn create(
        &self,
        id: RequestId,
        config: &LeaderElectionConfig,
        record: &LeaderElectionRecord,
    ) -> Request {
        self.request(id, Verb::Create, new_lease(config, record))
    }

    /// The resource version in the Lease is a precondition.
    pub(super) fn update(
        &self,
        id: RequestId,
        lease: &Lease,
        record: &LeaderElectionRecord,
    ) -> Request {
        self.request(id, Verb::Update, lease.with_record(record, self.level.as_deref()))
    }

    /// Returns the path of a watch of the Lease. It begins with the present Lease.
    pub(super) fn watch_path(&self) -> String {
        let collection = self.collection();
        let mut selector = String::new();
        push_segment(&mut selector, &self.name);
        let name = selector.trim_start_matches('/');
        format!("{collection}?fieldSelector=metadata.name%3D{name}")
    }

    /// Returns what is wrong with the permissions or the server, for people.
    pub(super) fn explain(&self, verb: Verb, failure: &Failure) -> String {
        let (namespace, name, message) = (&self.namespace, &self.name, &failure.message);
        let verb_name = verb.name();
        match failure.status {
            Some(403) => format!(
                "cannot {verb_name} resource leases in API group coordination.k8s.io, lease \
                 {namespace}/{name} ({message}): grant the verbs get, watch and update on leases named \
                 {name:?}, and create on leases, with a Role in namespace {namespace:?} and a \
                 RoleBinding to the account of the scheduler"
            ),
            Some(401) => format!(
                "cannot {verb_name} lease {namespace}/{name} ({message}): check the credentials of the \
                 scheduler"
            ),
            Some(404) if verb == Verb::Create => format!(
                "cannot create lease {namespace}/{name} ({message}): create the namespace, or set \
                 leaderElection.resourceNamespace to one that exists"
            ),
            _ => format!("cannot {verb_name} lease {namespace}/{name}: {message}"),
        }
    }

    fn request(&self, id: RequestId, verb: Verb, body: Vec<u8>) -> Request {
        let mut path = self.collection();
        if verb != Verb::Create {
            push_segment(&mut path, &self.name);
        }
        // The server gives up when this replica does.
        path.push_str(&format!("?timeout={}ms", self.timeout.as_millis()));
        Request {
            id,
            destination: Destination::ApiServer,
            method: match verb {
                Verb::Get => Method::Get,
                Verb::Create => Method::Post,
                Verb::Update => Method::Put,
            },
            path,
            content_type: "application/json",
            body,
            timeout: self.timeout,
            waited: Duration::ZERO,
            retry_of: None,
            // Its precondition makes a late write harmless.
            not_after: None,
        }
    }

    fn collection(&self) -> String {
        collection_path(API_VERSION, &self.namespace, "leases")
    }
}

/// Returns the Lease in the reply to a request.
///
/// # Errors
/// The request failed, or its outcome is unknown.
pub(super) fn lease_in(reply: Reply) -> Result<Lease, Failure> {
    let failure = |message| Failure { status: None, message };
    match reply {
        Reply::Answered(response) if response.is_success() => {
            Lease::from_json(&response.body).map_err(failure)
        }
        Reply::Answered(response) => {
            Err(Failure { status: Some(response.status), message: response.error_message() })
        }
        Reply::NotSent(message) | Reply::Lost(message) | Reply::Rejected(message) => {
            Err(failure(message))
        }
    }
}
