//! Preemption.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Patch, PatchParams};
use sandbox::faults::Settings;
use sandbox::http::Server;
use serde_json::{Value, json};

use super::cluster::{Cluster, chart_rules, node_of, run, uid};
use super::daemon::Daemon;
use super::wait::eventually;

/// A finalizer that keeps a deleted Pod.
const FINALIZER: &str = "loadmaster.e2e/stay";
/// The preemption policy of most PriorityClasses.
const PREEMPTS: &str = "PreemptLowerPriority";

/// A Pod of one CPU with this label `app`.
fn of_app(cluster: &Cluster, name: &str, app: &str) -> Pod {
    let mut pod = cluster.pod(name, 1);
    pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
    pod
}

fn of_class(mut pod: Pod, class: &str) -> Pod {
    pod.spec.as_mut().unwrap().priority_class_name = Some(class.to_owned());
    pod
}

/// A Pod that stays terminating until [`let_go`].
fn stubborn(mut pod: Pod) -> Pod {
    pod.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    pod
}

async fn let_go(cluster: &Cluster, pod: &str) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    cluster.pods.patch(pod, &PatchParams::default(), &patch).await.unwrap();
}

/// Adds a Node of one CPU for each of these Pods, which runs there.
async fn fill<const N: usize>(cluster: &Cluster, pods: [(&str, Pod); N]) {
    for (node, pod) in pods {
        cluster.add_node(node, 1).await;
        cluster.create_pod(&pod).await;
        cluster.bind(pod.metadata.name.as_deref().unwrap(), node).await;
    }
}

/// Fills each Node with a Pod `low-<node>`.
async fn fill_with_low<const N: usize>(cluster: &Cluster, nodes: [&str; N]) {
    fill(cluster, nodes.map(|node| (node, cluster.pod(&format!("low-{node}"), 1)))).await;
}

/// A PriorityClass above the default and below that of the Pod `important`.
async fn middle_class(cluster: &Cluster) -> String {
    cluster.add_priority("middle", 10, PREEMPTS).await
}

/// Creates the Pod `important`, of one CPU and the highest priority.
async fn create_important(cluster: &Cluster) -> Pod {
    let class = cluster.add_priority("high", 1000, PREEMPTS).await;
    cluster.create_pod(&of_class(cluster.pod("important", 1), &class)).await
}

/// Creates a budget with this selector that allows no disruption.
async fn protect(cluster: &Cluster, selector: &Value) {
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": "100%", "selector": selector},
    }))
    .unwrap();
    cluster.create(&budget).await;
}

/// Returns a victim that is still there.
async fn evicted(cluster: &Cluster, pod: &str) -> Pod {
    eventually(&format!("pod {pod} is evicted"), async || {
        let pod = cluster.pods.get(pod).await.ok()?;
        pod.metadata.deletion_timestamp.is_some().then_some(pod)
    })
    .await
}

/// Checks that this Pod is not evicted.
async fn assert_spared(cluster: &Cluster, pod: &str) {
    let pod = cluster.pods.get(pod).await.unwrap();
    assert_eq!(pod.metadata.deletion_timestamp, None);
}

async fn assert_gone(cluster: &Cluster, pod: &str) {
    assert!(cluster.pods.get_opt(pod).await.unwrap().is_none(), "{pod} is there");
}

fn disruption_target(pod: &Pod) -> PodCondition {
    let conditions = pod.status.as_ref().unwrap().conditions.iter().flatten();
    let mut conditions = conditions.filter(|one| one.type_ == "DisruptionTarget");
    conditions.next().unwrap().clone()
}

/// Returns the number of Pods that the daemon has tried to delete.
async fn deletions(daemon: &Daemon) -> f64 {
    let (_, metrics) = daemon.endpoints.get("/metrics").await.unwrap();
    let of_deletions = |line: &&str| {
        line.starts_with("rest_client_requests_total{") && line.contains("method=\"DELETE\"")
    };
    let counts = metrics.lines().filter(of_deletions).filter_map(|line| line.rsplit(' ').next());
    counts.map(|count| count.parse::<f64>().unwrap()).sum()
}

#[test]
fn least_important_pod_is_evicted_with_an_event() {
    run(async |cluster| {
        let class = middle_class(cluster).await;
        let middle = of_class(cluster.pod("middle", 1), &class);
        fill(cluster, [("a", middle), ("b", stubborn(cluster.pod("low", 1)))]).await;
        let _daemon = Daemon::start(cluster).await;
        let important = create_important(cluster).await;

        let low = evicted(cluster, "low").await;
        let condition = disruption_target(&low);
        assert_eq!(
            (&*condition.status, condition.reason.as_deref()),
            ("True", Some("PreemptionByScheduler"))
        );
        let message = format!("{}: preempting to accommodate a higher priority pod", cluster.name);
        assert_eq!(condition.message, Some(message));

        let [event] = cluster.events(&low, "Preempted").await.try_into().unwrap();
        let node = cluster.node_name("b");
        let note = format!("Preempted by pod {} on node {node}", uid(&important));
        assert_eq!(event.note, Some(note));
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.action.as_deref(), Some("Preempting"));
        let related = event.related.unwrap();
        assert_eq!(
            (related.kind.as_deref(), related.name.as_deref(), related.uid.as_deref()),
            (Some("Pod"), Some("important"), Some(uid(&important)))
        );

        let waiting = cluster.pods.get("important").await.unwrap();
        assert_eq!(node_of(&waiting), None);
        assert_eq!(waiting.status.unwrap().nominated_node_name.as_ref(), Some(&node));
        let_go(cluster, "low").await;
        assert_eq!(cluster.bound("important").await, node);
        assert_spared(cluster, "middle").await;
    });
}

#[test]
fn terminating_victim_is_evicted_once_and_waited_for() {
    run(async |cluster| {
        let class = middle_class(cluster).await;
        let middle = |name| of_class(cluster.pod(name, 1), &class);
        let low = stubborn(cluster.pod("low", 1));
        fill(cluster, [("a", middle("middle")), ("b", low), ("c", middle("bystander"))]).await;
        cluster.patch_node("c", json!({"unschedulable": true})).await;
        let daemon = Daemon::start(cluster).await;
        create_important(cluster).await;
        evicted(cluster, "low").await;

        // An unrelated event lets the daemon try it again.
        cluster.delete_pod("bystander").await;
        cluster.has_condition("important", "terminating pod on the nominated node").await;
        let_go(cluster, "low").await;
        assert_eq!(cluster.bound("important").await, cluster.node_name("b"));
        assert_spared(cluster, "middle").await;
        assert_eq!(deletions(&daemon).await, 1.0);
    });
}

#[test]
fn victim_within_its_budget_is_preferred() {
    run(async |cluster| {
        let class = middle_class(cluster).await;
        let free = of_class(of_app(cluster, "free", "batch"), &class);
        fill(cluster, [("a", of_app(cluster, "protected", "web")), ("b", free)]).await;
        protect(cluster, &json!({"matchLabels": {"app": "web"}})).await;
        let _daemon = Daemon::start(cluster).await;
        create_important(cluster).await;
        assert_eq!(cluster.bound("important").await, cluster.node_name("b"));
        assert_spared(cluster, "protected").await;
    });
}

/// Two less important victims violate the budget twice, one more important victim violates it once.
#[test]
fn budget_with_an_empty_selector_protects_every_pod() {
    run(async |cluster| {
        let middle = middle_class(cluster).await;
        let high = cluster.add_priority("high", 1000, PREEMPTS).await;
        cluster.add_node("a", 2).await;
        cluster.add_node("b", 2).await;
        let of_middle = of_class(cluster.pod("middle", 2), &middle);
        let placed =
            [(cluster.pod("low-0", 1), "a"), (cluster.pod("low-1", 1), "a"), (of_middle, "b")];
        for (pod, node) in placed {
            cluster.create_pod(&pod).await;
            cluster.bind(pod.metadata.name.as_deref().unwrap(), node).await;
        }
        protect(cluster, &json!({})).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create_pod(&of_class(cluster.pod("important", 2), &high)).await;
        assert_eq!(cluster.bound("important").await, cluster.node_name("b"));
        assert_spared(cluster, "low-0").await;
        assert_spared(cluster, "low-1").await;
    });
}

#[test]
fn pod_with_preemption_policy_never_gets_a_reason() {
    run(async |cluster| {
        fill(cluster, [("a", cluster.pod("low", 1))]).await;
        let daemon = Daemon::start(cluster).await;
        let class = cluster.add_priority("patient", 1000, "Never").await;
        cluster.create_pod(&of_class(cluster.pod("patient", 1), &class)).await;
        cluster
            .has_condition("patient", "preemption: not eligible due to preemptionPolicy=Never.")
            .await;
        assert_spared(cluster, "low").await;
        assert_eq!(deletions(&daemon).await, 0.0);
        cluster.delete_pod("low").await;
        cluster.bound("patient").await;
    });
}

#[test]
fn two_preemptors_at_once_take_two_victims() {
    run(async |cluster| {
        fill_with_low(cluster, ["a", "b", "c"]).await;
        let daemon = Daemon::start(cluster).await;
        let class = cluster.add_priority("high", 1000, PREEMPTS).await;
        for name in ["important-0", "important-1"] {
            cluster.create_pod(&of_class(cluster.pod(name, 1), &class)).await;
        }
        let nodes = [cluster.bound("important-0").await, cluster.bound("important-1").await];
        assert_ne!(nodes[0], nodes[1]);
        assert_eq!(deletions(&daemon).await, 2.0);
    });
}

#[test]
fn restart_between_eviction_and_binding_takes_no_second_victim() {
    run(async |cluster| {
        let low = |name| stubborn(cluster.pod(name, 1));
        fill(cluster, [("a", low("low-a")), ("b", low("low-b"))]).await;
        let mut daemon = Daemon::start(cluster).await;
        create_important(cluster).await;
        let node = eventually("the pod is nominated", async || {
            cluster.pods.get("important").await.ok()?.status?.nominated_node_name
        })
        .await;
        let (victim, other) = match node == cluster.node_name("a") {
            true => ("low-a", "low-b"),
            false => ("low-b", "low-a"),
        };
        evicted(cluster, victim).await;
        daemon.signal("KILL");
        daemon.ended().await;

        let restarted = Daemon::start(cluster).await;
        cluster.has_condition("important", "terminating pod on the nominated node").await;
        let_go(cluster, victim).await;
        assert_eq!(cluster.bound("important").await, node);
        assert_spared(cluster, other).await;
        assert_eq!(deletions(&restarted).await, 0.0);
    });
}

/// Returns the permissions of the chart without deleting Pods.
fn rules_without_deletion() -> Vec<PolicyRule> {
    let mut rules = chart_rules();
    rules.iter_mut().for_each(|rule| rule.verbs.retain(|verb| verb != "delete"));
    rules
}

#[test]
fn missing_permission_to_delete_pods_is_logged() {
    run(async |cluster| {
        fill(cluster, [("a", cluster.pod("low", 1))]).await;
        cluster.permit(&rules_without_deletion()).await;
        let daemon = Daemon::start(cluster).await;
        create_important(cluster).await;
        let line = daemon.log.line("evicting failed").await;
        let missing = "cannot delete resource \\\"pods\\\"";
        assert!(line.contains("low") && line.contains(missing), "{line}");
        cluster.permit(&chart_rules()).await;
        cluster.bound("important").await;
        assert_gone(cluster, "low").await;
    });
}

/// A fault of the sandbox for deletions of Pods only.
fn of_deletions(fault: &str) -> Settings {
    let settings = [fault, "only-methods=DELETE", "only-path=/pods/"];
    settings.iter().fold(Settings::default(), |all, one| all.with(one).unwrap())
}

/// Runs a test against a server that can inject faults.
fn run_in_sandbox(test: impl AsyncFnOnce(&Cluster, &Server)) {
    run(async |cluster| match cluster.sandbox() {
        None => eprintln!("skipped: only the sandbox injects faults"),
        Some(server) => test(cluster, server).await,
    });
}

/// Runs a preemption while the server answers deletions with this fault, until the fault has
/// occurred.
fn preempt_despite(fault: &str) {
    run_in_sandbox(async |cluster, server| {
        fill(cluster, [("a", cluster.pod("low", 1))]).await;
        let daemon = Daemon::start(cluster).await;
        server.set_faults(of_deletions(fault));
        create_important(cluster).await;
        daemon.log.line("evicting failed").await;
        assert_spared(cluster, "low").await;
        server.set_faults(Settings::default());
        cluster.bound("important").await;
        assert_gone(cluster, "low").await;
    });
}

#[test]
fn throttled_eviction_succeeds() {
    preempt_despite("throttling=1");
}

#[test]
fn failed_eviction_is_retried() {
    preempt_despite("errors=1");
}

#[test]
fn eviction_with_lost_answers_evicts_one_pod() {
    run_in_sandbox(async |cluster, server| {
        fill_with_low(cluster, ["a", "b"]).await;
        let _daemon = Daemon::start(cluster).await;
        server.set_faults(of_deletions("lost-answers=1"));
        create_important(cluster).await;
        cluster.bound("important").await;
        assert_eq!(cluster.bound_pods(2).await.len(), 2, "one of both is there");
    });
}
