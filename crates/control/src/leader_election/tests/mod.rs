//! Tests of the requests of an elector and of its authority.

mod acquire;
mod release;
mod renew;

use std::time::Duration;

use framework::{Time, WallOffset};
use serde_json::{Value, json};

use super::*;
use crate::request::{Method, Reply, Request, RequestId, Response};

const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// The settings of kube-scheduler.
fn config(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        identity: identity.to_owned(),
        namespace: "kube-system".to_owned(),
        name: "loadmaster".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        level: None,
    }
}

/// The elector `a` and its clock.
struct Harness {
    elector: LeaderElector,
    now: Time,
    /// The request without a reply.
    in_flight: Option<RequestId>,
}

/// Creates an elector that has begun its first attempt.
fn harness() -> Harness {
    let now = Time::parse_rfc3339("2026-01-01T00:00:00Z").unwrap();
    let elector = LeaderElector::new(config("a"), 7).unwrap();
    let mut harness = Harness { elector, now, in_flight: None };
    harness.elector.tick(now);
    harness
}

/// Creates an elector that has just become the leader. Returns its Lease too.
fn leader() -> (Harness, Value) {
    let mut harness = harness();
    harness.expect(Method::Get);
    harness.reply(status(404));
    let created = stored(&harness.expect(Method::Post), 1);
    harness.reply(ok(&created));
    assert_eq!(harness.elector.take_notices().last(), Some(&Notice::StartedLeading));
    (harness, created)
}

impl Harness {
    fn wait(&mut self, seconds: f64) {
        self.now = self.now + Duration::from_secs_f64(seconds);
        self.elector.tick(self.now);
    }

    /// Waits until something is due. Returns for how many seconds.
    fn wait_for_deadline(&mut self) -> f64 {
        let deadline = self.elector.next_deadline().expect("something is due");
        let wait = deadline.since(self.now).as_secs_f64();
        self.now = deadline;
        self.elector.tick(self.now);
        wait
    }

    /// Takes the one request to send, which has this method.
    fn expect(&mut self, method: Method) -> Request {
        let mut requests = self.elector.take_requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        let request = requests.remove(0);
        assert_eq!(request.method, method, "{request:?}");
        self.in_flight = Some(request.id);
        request
    }

    /// Replies to the last request.
    fn reply(&mut self, reply: Reply) {
        let id = self.in_flight.take().expect("a request is in flight");
        self.elector.handle_reply(id, reply, self.now);
    }

    fn is_leader(&self) -> bool {
        self.elector.is_leader(self.now)
    }

    /// Takes the notices and checks that this is the last one.
    fn last_notice(&mut self) -> Notice {
        self.elector.take_notices().pop().expect("there is a notice")
    }
}

/// A Lease as the server returns it.
fn lease(holder: &str, version: u64) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "loadmaster", "namespace": "kube-system", "uid": "u1",
            "resourceVersion": version.to_string(), "labels": { "team": "x" },
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2025-12-31T23:00:00.000000Z",
            "renewTime": format!("2025-12-31T23:59:{:02}.000000Z", version % 60),
            "leaseTransitions": 3,
        },
    })
}

/// Returns the Lease that the server stores for a write.
fn stored(request: &Request, version: u64) -> Value {
    let mut lease = body(request);
    lease["metadata"]["uid"] = "u1".into();
    lease["metadata"]["resourceVersion"] = version.to_string().into();
    lease
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn ok(lease: &Value) -> Reply {
    Reply::Answered(Response { status: 200, retry_after: None, body: lease.to_string().into() })
}

fn status(code: u16) -> Reply {
    failure(code, "the message of the server")
}

fn failure(code: u16, message: &str) -> Reply {
    let body = json!({ "kind": "Status", "message": message, "code": code }).to_string().into();
    Reply::Answered(Response { status: code, retry_after: None, body })
}

fn lost() -> Reply {
    Reply::Lost("connection reset".to_owned())
}

#[test]
fn unsafe_settings_are_refused() {
    let refusal = |config| LeaderElector::new(config, 0).unwrap_err().to_string();
    let valid = config("a");
    let short_lease =
        LeaderElectionConfig { lease_duration: valid.renew_deadline, ..valid.clone() };
    assert_eq!(refusal(short_lease), "leaseDuration must be greater than renewDeadline");
    for retry_period in [valid.renew_deadline.div_f64(1.2), Duration::MAX] {
        let seldom = LeaderElectionConfig { retry_period, ..valid.clone() };
        let text = "renewDeadline must be greater than retryPeriod*JitterFactor";
        assert_eq!(refusal(seldom), text);
    }
    let always = LeaderElectionConfig { retry_period: Duration::ZERO, ..valid.clone() };
    assert_eq!(refusal(always), "retryPeriod must be greater than zero");
    let unnamed = LeaderElectionConfig { identity: String::new(), ..valid };
    assert_eq!(refusal(unnamed), "Lock identity is empty");
}
