//! An extender: pods that request its resource need it, and it can fail or hang. It may also bind
//! these pods.

use std::time::Duration;

use control::{Request, Response};
use engine::cycle;
use engine::ports::{CallError, ExtenderCall, ExtenderClient, Filtered, Probing};
use fastrand::Rng;
use framework::{Time, Uid};
use serde_json::{Value, json};

use super::coverage::Fault;

/// The resource that the extender manages. No node has it, and NodeResourcesFit ignores it.
pub(crate) const RESOURCE: &str = "example.com/widget";
/// Time after which a call is given up.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time after which a call to bind is carried out: the scheduler takes one as dead after 90
/// seconds.
pub(crate) const LATEST_BIND: Duration = Duration::from_mins(1);

/// What the extender does beside filtering nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing.
    Filter,
    /// It binds pods in any version. It ends calls of a scheduler that does not lead.
    Bind,
    /// It binds pods in the version that the scheduler sent with the nodes, or in that of the
    /// nomination that came after, so that a late bind is refused (docs/reliability.md).
    BindInVersion,
}

impl Role {
    /// Returns the role of the extender in a run; `None` if there is no extender.
    pub(crate) fn any(rng: &mut Rng) -> Option<Self> {
        [None, None, Some(Self::Filter), Some(Self::Bind), Some(Self::BindInVersion)]
            [rng.usize(..5)]
    }

    /// Returns the configuration for the engine.
    pub(crate) fn config(self) -> cycle::Extender {
        cycle::Extender {
            name: "http://extender.example.com".into(),
            filter: true,
            bind: self != Self::Filter,
            managed_resources: [RESOURCE.to_owned()].into(),
            ..cycle::Extender::default()
        }
    }
}

/// The extender, with what happened in its calls.
#[derive(Debug, Default)]
pub(crate) struct Extender {
    /// The fault of every call, if there is one.
    pub(crate) fault: Option<Fault>,
    /// The time for which calls have blocked the process.
    pub(crate) blocked: Duration,
    /// Number of calls that failed.
    pub(crate) failures: u32,
    /// The extenders that are called without waiting, by index.
    pub(crate) probed: Vec<usize>,
    /// The pod that the extender has seen, and its version.
    pub(crate) seen: Option<(Uid, u64)>,
}

impl ExtenderClient for Extender {
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        self.seen = Some((call.pod.uid.clone(), call.pod.resource_version));
        let nodes = call.nodes.iter().map(|node| (*node).to_owned()).collect();
        match self.fault {
            None => (Ok(Filtered { nodes, ..Filtered::default() }), now),
            Some(Fault::ExtenderHangs) => {
                self.failures += 1;
                self.blocked += TIMEOUT;
                (Err(CallError::NoAnswer("timeout".to_owned())), now + TIMEOUT)
            }
            Some(_) => {
                self.failures += 1;
                (Err(CallError::Failed("the extender is out of order".to_owned())), now)
            }
        }
    }

    fn probe(&mut self, call: Probing<'_>) {
        self.probed.push(match call {
            Probing::Filter(call) | Probing::Prioritize(call) => call.extender,
            Probing::Preempt(call) => call.extender,
        });
    }
}

/// Returns the request that the extender sends to the API server for a call to bind. It names
/// `version`, if there is one.
pub(crate) fn binding(call: Request, version: impl FnOnce(&Uid) -> Option<u64>) -> Request {
    let args: Value = serde_json::from_slice(&call.body).expect("the scheduler sends JSON");
    let text = |field: &str| args[field].as_str().unwrap_or_default();
    let (namespace, name, uid) = (text("PodNamespace"), text("PodName"), text("PodUID"));
    let mut metadata = json!({"name": name, "namespace": namespace, "uid": uid});
    if let Some(version) = version(&uid.into()) {
        metadata["resourceVersion"] = json!(version.to_string());
    }
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata,
        "target": {"kind": "Node", "name": text("Node")}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    Request { path, body: body.to_string().into_bytes(), ..call }
}

/// Whether the scheduler nominates a node for a pod with this request.
pub(crate) fn is_nomination(request: &Request) -> bool {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    request.path.ends_with("/status") && body["status"]["nominatedNodeName"].is_string()
}

/// Returns the answer of the extender to a call to bind after this response of the API server.
pub(crate) fn binding_result(response: &Response) -> Response {
    let text = || {
        let status: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let message = status["message"].as_str().map(str::to_owned);
        let message =
            message.unwrap_or_else(|| String::from_utf8_lossy(&response.body).into_owned());
        // An empty text is no error.
        format!("{} {message}", response.status)
    };
    let error = if response.status < 300 { String::new() } else { text() };
    let body = json!({"Error": error}).to_string().into_bytes();
    Response { status: 200, retry_after: None, body }
}
