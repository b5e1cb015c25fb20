//! Pods and nodes under kubelets.

use std::time::Duration;

use framework::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{KUBELET_ANNOTATION, Kubelets, RUN_SECONDS_ANNOTATION, Settings};
use crate::metadata::name;
use crate::object::{condition_status, put, text};
use crate::resources::{LEASES, NODES, PODS, RESOURCECLAIMS};
use crate::store::{DeleteOptions, Store};

struct Cluster {
    store: Store,
    kubelets: Kubelets,
    now: Time,
}

impl Cluster {
    fn new(settings: Settings) -> Self {
        let now = Time::from_secs(1_000_000);
        Self { store: Store::new(1, now), kubelets: Kubelets::with_settings(settings), now }
    }

    fn with_node(settings: Settings) -> Self {
        let mut cluster = Self::new(settings);
        cluster.add_node("n1", json!({}));
        cluster
    }

    fn add_node(&mut self, name: &str, annotations: Value) {
        let node = json!({"metadata": {"name": name, "annotations": annotations},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "3"},
                "addresses": [{"type": "InternalIP", "address": "192.168.0.1"}]}});
        self.store.create(NODES, node, self.now).unwrap();
        self.step();
    }

    /// Creates a bound pod that requests `cpu`.
    fn add_pod(&mut self, name: &str, cpu: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]}});
        change(&mut pod);
        self.store.create(PODS, pod, self.now).unwrap();
        self.step();
    }

    fn delete_pod(&mut self, name: &str) {
        let options = DeleteOptions::default();
        self.store.delete(PODS, "default", name, &options, self.now).unwrap();
        self.step();
    }

    fn step(&mut self) {
        self.kubelets.step(&mut self.store, self.now);
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.step();
    }

    fn phase(&self, pod: &str) -> &str {
        text(self.store.get(PODS, "default", pod).unwrap(), "/status/phase")
    }

    fn exists(&self, pod: &str) -> bool {
        self.store.get(PODS, "default", pod).is_some()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn bound_pod_runs_after_the_start_delay() {
    let mut cluster = Cluster::with_node(Settings { start_delay: SECOND, ..Settings::default() });
    cluster.add_pod("p", "100m", |_| {});
    assert_eq!(cluster.phase("p"), "Pending");
    assert_eq!(cluster.kubelets.next_deadline(), Some(cluster.now + SECOND));
    cluster.wait(SECOND);
    assert_eq!(cluster.phase("p"), "Running");
    let pod = cluster.store.get(PODS, "default", "p").unwrap();
    assert_eq!(condition_status(pod, "Ready"), "True");
    assert_eq!(pod["status"]["hostIP"], "192.168.0.1");
    assert_eq!(pod["status"]["podIP"], "10.0.0.1");
}

#[test]
fn pod_starts_once_its_claims_are_allocated_and_reserved_for_it() {
    let mut cluster = Cluster::with_node(Settings::default());
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let claim = |name: &str| json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}});
    for name in ["named", "generated"] {
        cluster.store.create(RESOURCECLAIMS, claim(name), cluster.now).unwrap();
    }
    cluster.add_pod("p", "1", |pod| {
        pod["spec"]["resourceClaims"] = json!([
            {"name": "a", "resourceClaimName": "named"},
            {"name": "b", "resourceClaimTemplateName": "t"},
            {"name": "c", "resourceClaimTemplateName": "t"},
        ]);
    });
    cluster.step();
    assert_eq!(cluster.phase("p"), "Pending");
    let statuses = json!([{"name": "b", "resourceClaimName": "generated"}, {"name": "c"}]);
    let pod = cluster.store.get(PODS, "default", "p").unwrap();
    let user = json!({"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]});
    let generate = |pod: &mut Value| {
        pod["status"]["resourceClaimStatuses"] = statuses;
        Ok(())
    };
    cluster.store.modify(PODS, "default", "p", cluster.now, generate).unwrap();
    for (name, users) in
        [("named", json!([user])), ("generated", json!([])), ("generated", json!([user]))]
    {
        cluster.step();
        assert_eq!(cluster.phase("p"), "Pending", "before {name} is reserved for {users}");
        let allocate = |claim: &mut Value| {
            claim["status"] = json!({"allocation": {"devices": {}}, "reservedFor": users});
            Ok(())
        };
        cluster.store.modify(RESOURCECLAIMS, "default", name, cluster.now, allocate).unwrap();
    }
    cluster.step();
    assert_eq!(cluster.phase("p"), "Running");
}

#[test]
fn rejected_pod_fails_and_uses_no_resources() {
    let mut cluster = Cluster::with_node(Settings::default());
    cluster.add_pod("first", "800m", |_| {});
    cluster.add_pod("second", "500m", |_| {});
    cluster.add_pod("third", "200m", |_| {});
    let phases = ["first", "second", "third"].map(|pod| cluster.phase(pod));
    assert_eq!(phases, ["Running", "Failed", "Running"]);
    let status = &cluster.store.get(PODS, "default", "second").unwrap()["status"];
    assert_eq!(status["reason"], "OutOfcpu");
    assert_eq!(
        status["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 800, \
         capacity: 1000"
    );
}

#[test]
fn terminating_pod_keeps_its_resources_until_it_has_ended() {
    let mut cluster = Cluster::with_node(Settings { stop_delay: SECOND, ..Settings::default() });
    cluster.add_pod("old", "800m", |_| {});
    cluster.delete_pod("old");
    cluster.add_pod("early", "800m", |_| {});
    assert_eq!(cluster.phase("early"), "Failed");
    cluster.wait(SECOND);
    assert!(!cluster.exists("old"));
    cluster.step();
    cluster.add_pod("late", "800m", |_| {});
    assert_eq!(cluster.phase("late"), "Running");
}

#[test]
fn grace_period_limits_the_stop_delay() {
    let stop_delay = 60 * SECOND;
    let mut cluster = Cluster::with_node(Settings { stop_delay, ..Settings::default() });
    cluster.add_pod("p", "1m", |pod| {
        put(pod, &["spec", "terminationGracePeriodSeconds"], json!(5));
    });
    cluster.delete_pod("p");
    cluster.wait(4 * SECOND);
    assert!(cluster.exists("p"));
    cluster.wait(SECOND);
    assert!(!cluster.exists("p"));
}

#[test]
fn ended_pod_with_a_finalizer_uses_no_resources() {
    let mut cluster = Cluster::with_node(Settings::default());
    cluster.add_pod("held", "800m", |pod| {
        put(pod, &["metadata", "finalizers"], json!(["example.com/hold"]));
    });
    cluster.delete_pod("held");
    cluster.step();
    assert_eq!(cluster.phase("held"), "Succeeded");
    cluster.add_pod("next", "800m", |_| {});
    assert_eq!(cluster.phase("next"), "Running");
}

#[test]
fn pod_succeeds_after_its_run_time() {
    let mut cluster = Cluster::with_node(Settings::default());
    cluster.add_pod("p", "800m", |pod| {
        put(pod, &["metadata", "annotations", RUN_SECONDS_ANNOTATION], json!("30"));
    });
    cluster.wait(29 * SECOND);
    assert_eq!(cluster.phase("p"), "Running");
    cluster.wait(SECOND);
    assert_eq!(cluster.phase("p"), "Succeeded");
    cluster.step();
    cluster.add_pod("next", "800m", |_| {});
    assert_eq!(cluster.phase("next"), "Running");
}

#[test]
fn restarted_kubelets_keep_their_pods_running() {
    let mut cluster = Cluster::with_node(Settings::default());
    cluster.add_pod("p", "800m", |pod| {
        put(pod, &["metadata", "annotations", RUN_SECONDS_ANNOTATION], json!("30"));
    });
    cluster.kubelets = Kubelets::new();
    cluster.step();
    cluster.add_pod("next", "800m", |_| {});
    assert_eq!((cluster.phase("p"), cluster.phase("next")), ("Running", "Failed"));
    cluster.wait(30 * SECOND);
    assert_eq!(cluster.phase("p"), "Succeeded");
}

#[test]
fn running_pods_keep_their_resources_when_kubelets_restart() {
    let mut cluster = Cluster::with_node(Settings::default());
    cluster.add_pod("z", "800m", |_| {});
    cluster.kubelets = Kubelets::new();
    cluster.add_pod("a", "800m", |_| {});
    assert_eq!((cluster.phase("z"), cluster.phase("a")), ("Running", "Failed"));
}

#[test]
fn pod_waits_for_the_kubelet_of_its_node() {
    let mut cluster = Cluster::new(Settings::default());
    cluster.add_node("n2", json!({KUBELET_ANNOTATION: "false"}));
    cluster.add_pod("early", "100m", |_| {});
    cluster.add_pod("nowhere", "100m", |pod| put(pod, &["spec", "nodeName"], json!("n2")));
    assert_eq!(cluster.phase("early"), "Pending");
    cluster.add_node("n1", json!({}));
    assert_eq!((cluster.phase("early"), cluster.phase("nowhere")), ("Running", "Pending"));
    let node = cluster.store.get(NODES, "", "n2").unwrap();
    assert_eq!(condition_status(node, "Ready"), "");
    assert!(cluster.store.get(LEASES, "kube-node-lease", "n2").is_none());
}

#[test]
fn recreated_node_has_its_own_kubelet() {
    let mut cluster = Cluster::with_node(Settings::default());
    cluster.add_pod("p", "800m", |_| {});
    cluster.store.delete(NODES, "", "n1", &DeleteOptions::default(), cluster.now).unwrap();
    cluster.add_node("n1", json!({}));
    assert_eq!(condition_status(cluster.store.get(NODES, "", "n1").unwrap(), "Ready"), "True");
    cluster.add_pod("next", "800m", |_| {});
    assert_eq!((cluster.phase("p"), cluster.phase("next")), ("Running", "Failed"));
}

#[test]
fn leases_and_heartbeats_are_renewed_in_their_periods() {
    let mut cluster = Cluster::with_node(Settings::default());
    let renewed = |cluster: &Cluster| {
        let lease = cluster.store.get(LEASES, "kube-node-lease", "n1").unwrap();
        Time::parse_rfc3339(text(lease, "/spec/renewTime")).unwrap()
    };
    let beaten = |cluster: &Cluster| {
        let node = cluster.store.get(NODES, "", "n1").unwrap();
        Time::parse_rfc3339(text(node, "/status/conditions/0/lastHeartbeatTime")).unwrap()
    };
    for _ in 0..400 {
        cluster.wait(SECOND);
        assert!(cluster.now.since(renewed(&cluster)) <= 10 * SECOND);
        assert!(cluster.now.since(beaten(&cluster)) <= 300 * SECOND);
    }
    let pods_before = cluster.store.resource_version();
    cluster.step();
    assert_eq!(cluster.store.resource_version(), pods_before);
}

/// An action on the cluster.
#[derive(Debug, Clone)]
enum Event {
    Bind { cpu: u32 },
    Delete(usize),
    Wait(u64),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..700_u32).prop_map(|cpu| Event::Bind { cpu }),
        2 => any::<prop::sample::Index>().prop_map(|index| Event::Delete(index.index(16))),
        3 => (0..3_u64).prop_map(Event::Wait),
        1 => Just(Event::Restart),
    ]
}

proptest! {
    #[test]
    fn a_node_never_runs_more_than_it_has(
        events in proptest::collection::vec(event(), 0..40),
        start_delay in 0..3_u64,
        stop_delay in 0..3_u64,
    ) {
        let settings = Settings {
            start_delay: Duration::from_secs(start_delay),
            stop_delay: Duration::from_secs(stop_delay),
            ..Settings::default()
        };
        let mut cluster = Cluster::with_node(settings);
        for (index, event) in events.into_iter().enumerate() {
            match event {
                Event::Bind { cpu } => {
                    cluster.add_pod(&format!("p{index}"), &format!("{cpu}m"), |_| {});
                }
                Event::Delete(choice) => {
                    let pods: Vec<String> =
                        cluster.store.objects(PODS).map(|pod| name(pod).to_owned()).collect();
                    if let Some(pod) = pods.get(choice) {
                        cluster.delete_pod(pod);
                    }
                }
                Event::Wait(seconds) => cluster.wait(Duration::from_secs(seconds)),
                Event::Restart => cluster.kubelets = Kubelets::with_settings(settings),
            }
            let running: Vec<_> = cluster
                .store
                .objects(PODS)
                .filter(|pod| pod["status"]["phase"] == "Running")
                .map(|pod| &pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
                .map(|cpu| cpu.as_str().unwrap().parse::<framework::Quantity>().unwrap())
                .collect();
            prop_assert!(running.len() <= 3);
            prop_assert!(running.iter().map(framework::Quantity::milli_value).sum::<i64>() <= 1000);
        }
    }
}
