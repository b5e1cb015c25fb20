//! Faults that last and stay in one place: a namespace, a node, a permission, an extender, a
//! driver.

use std::time::Duration;

use control::{Method, Request};
use fastrand::Rng;
use framework::{Pod, Time};
use serde_json::{Value, json};

use super::coverage::Fault;
use super::extender;
use super::server::{Bound, Server};

/// A fault that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Trouble {
    /// A fail-closed webhook on a subresource of the pods of one namespace cannot be called, or
    /// hangs.
    Webhook { subresource: &'static str, namespace: &'static str, hangs: bool },
    /// A webhook on a subresource of the pods of one namespace denies all requests with this
    /// status.
    Denial { subresource: &'static str, namespace: &'static str, status: u16 },
    /// The quota of a namespace is used up.
    Quota { namespace: &'static str },
    /// We may not send these requests.
    Permission(Permission),
    /// We may not list and watch the kind at this path.
    Watch(&'static str),
    /// The extender fails or hangs.
    Extender(Fault),
    /// The volume controller, the drivers and all other controllers are idle.
    Driver,
    /// Every bind to this node fails. With `unknown` the answer does not tell so.
    Node { name: String, unknown: bool },
}

/// The permission for a method on a resource, with its subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Permission(Method, &'static str);

const CREATE_BINDING: Permission = Permission(Method::Post, "pods/binding");
const PATCH_STATUS: Permission = Permission(Method::Patch, "pods/status");
const PATCH_POD: Permission = Permission(Method::Patch, "pods");
const UPDATE_LEASE: Permission = Permission(Method::Put, "leases");

const DELETE_POD: Permission = Permission(Method::Delete, "pods");
const GET_POD: Permission = Permission(Method::Get, "pods");

const PERMISSIONS: [Permission; 9] = [
    CREATE_BINDING,
    PATCH_STATUS,
    PATCH_POD,
    UPDATE_LEASE,
    GET_POD,
    DELETE_POD,
    Permission(Method::Post, "events"),
    Permission(Method::Patch, "persistentvolumes"),
    Permission(Method::Patch, "persistentvolumeclaims"),
];

const PODS: &str = "/api/v1/pods?";
const NODES: &str = "/api/v1/nodes?";
const SERVICES: &str = "/api/v1/services?";
const CLAIMS: &str = "/api/v1/persistentvolumeclaims?";
const WATCHED: [&str; 5] = [PODS, NODES, SERVICES, CLAIMS, "/apis/storage.k8s.io/v1/csinodes?"];

/// Namespaces with a webhook or a quota. Others are left alone.
const NAMESPACES: [&str; 2] = ["default", "shop"];

/// The answer of the API server to a request that a fault concerns.
pub(crate) struct Refusal {
    /// The fault.
    pub(crate) fault: Fault,
    /// The status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// The text of the `Status`, if the answer is certain.
    pub(crate) message: Option<String>,
    /// Time until the answer.
    pub(crate) after: Duration,
}

/// The present faults, with their ends.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Vec<(Trouble, Time)>);

impl Troubles {
    /// Begins a fault of this length. Returns what it is.
    pub(crate) fn begin(
        &mut self,
        length: Duration,
        rng: &mut Rng,
        server: &mut Server,
        now: Time,
    ) -> String {
        let trouble = any(rng, server);
        if trouble == Trouble::Driver {
            server.stop_controllers(now + length);
        }
        let companion = companion_of(&trouble, rng);
        let text = format!("{trouble:?} with {companion:?} for {length:?}");
        for trouble in [Some(trouble), companion].into_iter().flatten() {
            if self.0.iter().all(|(other, _)| *other != trouble) {
                self.0.push((trouble, now + length));
            }
        }
        text
    }

    /// Ends the faults whose time is over.
    pub(crate) fn end(&mut self, now: Time) {
        self.0.retain(|(_, end)| *end > now);
    }

    /// Ends all faults.
    pub(crate) fn end_all(&mut self, server: &mut Server, now: Time) {
        if self.0.iter().any(|(trouble, _)| *trouble == Trouble::Driver) {
            server.stop_controllers(now);
        }
        self.0.clear();
    }

    /// Returns the number of faults.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    fn iter(&self) -> impl Iterator<Item = &Trouble> {
        self.0.iter().map(|(trouble, _)| trouble)
    }

    /// Returns the fault of the extender.
    pub(crate) fn of_extender(&self) -> Option<Fault> {
        self.iter().find_map(|trouble| match trouble {
            Trouble::Extender(fault) => Some(*fault),
            _ => None,
        })
    }

    /// Whether a list or watch is forbidden.
    pub(crate) fn forbid_call(&self, path: &str) -> bool {
        self.iter().any(|trouble| matches!(trouble, Trouble::Watch(kind) if path.starts_with(kind)))
    }

    /// Returns the refusal of a request, if a fault concerns it. The request is not carried out.
    pub(crate) fn refuse(&self, request: &Request) -> Option<Refusal> {
        self.iter().find_map(|trouble| trouble.refuse(request))
    }

    /// Whether some fault stops everything.
    pub(crate) fn stop_all(&self) -> bool {
        self.iter().any(|trouble| {
            matches!(
                trouble,
                Trouble::Permission(CREATE_BINDING | UPDATE_LEASE) | Trouble::Watch(PODS | NODES)
            )
        })
    }

    /// Whether a process that starts cannot fill its caches.
    pub(crate) fn stop_starts(&self) -> bool {
        self.iter().any(|trouble| matches!(trouble, Trouble::Watch(_)))
    }

    /// Whether no fault concerns the path of this pod to one of these nodes.
    pub(crate) fn spare<'a>(
        &self,
        pod: &Pod,
        nodes: impl Iterator<Item = &'a str> + Clone,
    ) -> bool {
        let namespace = &*pod.key.namespace;
        self.iter().all(|trouble| match trouble {
            Trouble::Webhook { namespace: other, .. }
            | Trouble::Denial { namespace: other, .. }
            | Trouble::Quota { namespace: other } => namespace != *other,
            Trouble::Permission(PATCH_POD) => pod.labels.get(super::patience::LABEL).is_none(),
            Trouble::Permission(Permission(_, resource)) => {
                !resource.starts_with("persistent") || pod.spec.volumes.is_empty()
            }
            Trouble::Watch(SERVICES) => true,
            Trouble::Watch(_) | Trouble::Driver => pod.spec.volumes.is_empty(),
            Trouble::Extender(_) => !needs_extender(pod),
            Trouble::Node { name, .. } => nodes.clone().all(|node| node != name),
        })
    }

    /// Whether pods can be read, as a bind of unknown outcome needs.
    pub(crate) fn let_read(&self) -> bool {
        self.iter().all(|trouble| !matches!(trouble, Trouble::Permission(GET_POD)))
    }

    /// Whether the status of pods in this namespace can be written.
    pub(crate) fn let_explain(&self, namespace: &str) -> bool {
        self.iter().all(|trouble| match trouble {
            Trouble::Webhook { subresource: "status", namespace: other, .. }
            | Trouble::Denial { subresource: "status", namespace: other, .. } => {
                namespace != *other
            }
            Trouble::Permission(permission) => *permission != PATCH_STATUS,
            _ => true,
        })
    }
}

/// Whether the extender filters the nodes of the pod.
pub(crate) fn needs_extender(pod: &Pod) -> bool {
    pod.requests.fit.scalars.iter().any(|(name, _)| **name == *extender::RESOURCE)
}

/// Returns a random fault.
fn any(rng: &mut Rng, server: &Server) -> Trouble {
    let namespace = NAMESPACES[rng.usize(..NAMESPACES.len())];
    match rng.u32(..26) {
        0..3 => Trouble::Webhook { subresource: "binding", namespace, hangs: rng.bool() },
        3..5 => Trouble::Webhook { subresource: "status", namespace, hangs: rng.bool() },
        5..7 => Trouble::Quota { namespace },
        7..9 => Trouble::Permission(PERMISSIONS[rng.usize(..PERMISSIONS.len())]),
        9 => Trouble::Watch(WATCHED[rng.usize(..WATCHED.len())]),
        10..13 => Trouble::Extender(Fault::ExtenderFails),
        13..16 => Trouble::Extender(Fault::ExtenderHangs),
        16 => Trouble::Driver,
        17..20 => {
            let (subresource, status) = (
                ["binding", "status"][rng.usize(..2)],
                [400, 403, 404, 409, 422, 500][rng.usize(..6)],
            );
            Trouble::Denial { subresource, namespace, status }
        }
        // Evictions fail.
        20..23 => Trouble::Permission(DELETE_POD),
        _ => {
            let names = server.nodes().filter_map(|node| node["metadata"]["name"].as_str());
            let name = rng.choice(names.collect::<Vec<_>>()).unwrap_or("n0").to_owned();
            Trouble::Node { name, unknown: rng.bool() }
        }
    }
}

/// Returns another fault that begins with this one: half of the binds of unknown outcome cannot be
/// stopped by a patch.
fn companion_of(trouble: &Trouble, rng: &mut Rng) -> Option<Trouble> {
    let is_unknown = matches!(trouble, Trouble::Node { unknown: true, .. });
    (is_unknown && rng.bool()).then(|| Trouble::Webhook {
        subresource: "status",
        namespace: NAMESPACES[rng.usize(..NAMESPACES.len())],
        hangs: false,
    })
}

impl Trouble {
    fn refuse(&self, request: &Request) -> Option<Refusal> {
        let target = Target::of(request)?;
        let is_pod = |subresource: &str| {
            target.resource == "pods" && target.subresource == subresource && target.is_write
        };
        match self {
            Self::Webhook { subresource, namespace, hangs }
                if is_pod(subresource) && target.namespace == *namespace =>
            {
                let fault = match *subresource {
                    "binding" => Fault::BindingWebhook,
                    _ => Fault::StatusWebhook,
                };
                let (cause, after) = match hangs {
                    true => ("context deadline exceeded", Duration::from_secs(10)),
                    false => ("connect: connection refused", Duration::ZERO),
                };
                let message = format!(
                    "Internal error occurred: failed calling webhook \"w.example.com\": failed to call \
                     webhook: Post \"https://w.example.com/\": {cause}"
                );
                Some(Refusal { after, ..Refusal::certain(fault, 500, "InternalError", message) })
            }
            Self::Denial { subresource, namespace, status }
                if is_pod(subresource) && target.namespace == *namespace =>
            {
                let message =
                    "admission webhook \"w.example.com\" denied the request: not now".to_owned();
                Some(Refusal::certain(Fault::WebhookDenies, *status, "", message))
            }
            Self::Quota { namespace }
                if target.namespace == *namespace
                    && (is_pod("binding") || target.resource == "events") =>
            {
                let message = format!(
                    "{} {:?} is forbidden: exceeded quota: all, requested: count=1, used: count=9, \
                     limited: count=9",
                    target.resource, target.name
                );
                Some(Refusal::certain(Fault::Quota, 403, "Forbidden", message))
            }
            Self::Permission(permission) if target.needs(*permission, request.method) => {
                let message = format!(
                    "{} {:?} is forbidden: User \"system:serviceaccount:kube-system:loadmaster\" cannot \
                     {} resource {:?}",
                    target.resource,
                    target.name,
                    request.method.as_str(),
                    permission.1
                );
                Some(Refusal::certain(Fault::PermissionWithdrawn, 403, "Forbidden", message))
            }
            Self::Node { name, unknown } if Bound::by(request)?.node == *name => {
                let fault = Fault::NodeRefusesBinds;
                let message = format!(
                    "Internal error occurred: failed calling webhook \"node.example.com\": node {name} \
                     is not known"
                );
                let certain = Refusal::certain(fault, 500, "InternalError", message);
                let body = b"upstream request timeout".to_vec();
                let uncertain =
                    Refusal { fault, status: 504, body, message: None, after: Duration::ZERO };
                Some(if *unknown { uncertain } else { certain })
            }
            _ => None,
        }
    }
}

impl Refusal {
    fn certain(fault: Fault, status: u16, reason: &str, message: String) -> Self {
        let body: Value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": message, "reason": reason, "code": status});
        let body = body.to_string().into_bytes();
        Self { fault, status, body, message: Some(message), after: Duration::ZERO }
    }
}

/// The object of a request.
struct Target<'a> {
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
    subresource: &'a str,
    is_write: bool,
}

impl<'a> Target<'a> {
    /// Returns the object of a request; `None` if its path names no resource.
    fn of(request: &'a Request) -> Option<Self> {
        let path = request.path.split('?').next()?;
        let core = path.strip_prefix("/api/v1/");
        let rest = core.or_else(|| path.strip_prefix("/apis/")?.splitn(3, '/').nth(2))?;
        let mut parts = rest.split('/').peekable();
        let namespace = match parts.next_if_eq(&"namespaces") {
            Some(_) => parts.next()?,
            None => "",
        };
        Some(Self {
            namespace,
            resource: parts.next()?,
            name: parts.next().unwrap_or_default(),
            subresource: parts.next().unwrap_or_default(),
            is_write: request.method != Method::Get,
        })
    }

    fn needs(&self, Permission(method, resource): Permission, sent: Method) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        method == sent && self.resource == resource && self.subresource == subresource
    }
}
