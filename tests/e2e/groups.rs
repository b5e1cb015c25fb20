//! Pods that name a PodGroup, by field or by label. Only the sandbox keeps the field without its
//! feature gate.

use std::collections::BTreeSet;

use framework::Level;
use k8s_openapi::api::core::v1::Pod;
use sandbox::resources::CUSTOMRESOURCEDEFINITIONS;
use serde_json::{Value, json};

use super::cluster::{Cluster, chart_rules, chart_rules_without_pod_groups, run};
use super::daemon::Daemon;

/// Why a group evicts no pod.
const NO_VICTIMS: &str = "No preemption victims found for incoming preemptor";

/// Runs a test at the level of each version of PodGroups, on a server that serves both.
fn run_at_both_levels(test: impl AsyncFn(&Cluster, Level)) {
    for level in [Level::V1_36, Level::V1_37] {
        run(async |cluster| {
            if cluster.sandbox().is_none() {
                return eprintln!(
                    "skipped: an API server without its runtime-config serves no PodGroups"
                );
            }
            test(cluster, level).await;
        });
    }
}

/// Starts a ready daemon at a level with these feature gates. Without gates at the level of the
/// server, it has no flag about groups.
pub(super) async fn spawn_at(cluster: &Cluster, level: Level, gates: &str) -> Daemon {
    let emulated = format!("--emulated-version={level}");
    let gates = format!("--feature-gates={gates}");
    let mut args = Vec::new();
    if level != cluster.level().await {
        args.push(emulated.as_str());
    }
    if !gates.ends_with('=') {
        args.push(gates.as_str());
    }
    let daemon = Daemon::spawn_with(cluster, |_| {}, &args).await;
    daemon.ready().await;
    daemon
}

/// Returns the names of a level.
const fn names_of(level: Level) -> Names {
    match level.is_at_least(Level::V1_37) {
        true => {
            Names { version: "scheduling.k8s.io/v1beta1", condition: "PodGroupInitiallyScheduled" }
        }
        false => Names { version: "scheduling.k8s.io/v1alpha2", condition: "PodGroupScheduled" },
    }
}

/// The version of PodGroups, and the type of their condition.
struct Names {
    version: &'static str,
    condition: &'static str,
}

/// The beginning of what the preemption for a group has found.
const PREEMPTION: &str = "pod group preemption: ";

fn by_field(cluster: &Cluster, name: &str) -> Pod {
    let mut pod = json!(cluster.pod(name, 1));
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "job-a"});
    serde_json::from_value(pod).unwrap()
}

fn by_label(cluster: &Cluster, name: &str) -> Pod {
    let mut pod = cluster.pod(name, 1);
    pod.metadata.labels = Some([("scheduling.x-k8s.io/pod-group".into(), "job-b".into())].into());
    pod
}

#[test]
fn members_of_groups_are_gated_with_one_event_until_they_leave() {
    run(async |cluster| {
        if cluster.sandbox().is_none() {
            return eprintln!("skipped: an API server without the feature gate drops the field");
        }
        cluster.add_node("a", 4).await;
        let gates = ["--feature-gates=AllAlpha=false"];
        let daemon = Daemon::spawn_with(cluster, |_| {}, &gates).await;
        let field = cluster.create_pod(&by_field(cluster, "field")).await;
        let label = cluster.create_pod(&by_label(cluster, "label")).await;
        cluster.has_condition("field", "belongs to the PodGroup \"job-a\"").await;
        cluster.has_condition("label", "--schedule-group-members-alone").await;
        assert_eq!(cluster.rejected("field").await.reason.as_deref(), Some("SchedulingGated"));
        cluster.create_pod(&cluster.pod("other", 1)).await;
        cluster.bound("other").await;
        daemon.counts("scheduler_pending_pods{queue=\"gated\"}", 2.0).await;
        let profile = &cluster.name;
        let gated =
            format!("scheduler_unschedulable_pods{{plugin=\"PodGroups\",profile=\"{profile}\"}}");
        daemon.counts(&gated, 2.0).await;
        assert_eq!(daemon.log.lines("gated as a member of a PodGroup").len(), 2);
        drop(daemon);
        let _daemon = Daemon::spawn_with(cluster, |_| {}, &gates).await;
        cluster.create_pod(&cluster.pod("later", 1)).await;
        cluster.bound("later").await;
        for pod in [&field, &label] {
            let events = cluster.events(pod, "FailedScheduling").await;
            let [event] = events.as_slice() else { panic!("{events:?}") };
            let series = event.series.as_ref();
            assert!(series.is_none_or(|series| series.count == 1), "{event:?}");
        }
        cluster.remove_pod_label("label", "scheduling.x-k8s.io/pod-group").await;
        cluster.bound("label").await;
    });
}

#[test]
fn members_of_groups_are_scheduled_alone_on_request() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let args = ["--schedule-group-members-alone"];
        let _daemon = Daemon::spawn_with(cluster, |_| {}, &args).await;
        cluster.create_pod(&by_field(cluster, "field")).await;
        cluster.create_pod(&by_label(cluster, "label")).await;
        cluster.bound("field").await;
        cluster.bound("label").await;
    });
}

#[test]
fn gate_that_is_off_by_name_lets_members_go_alone_with_one_event() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let args = ["--emulated-version=1.37", "--feature-gates=GenericWorkload=false"];
        let _daemon = Daemon::spawn_with(cluster, |_| {}, &args).await;
        let pod = cluster.create_pod(&by_label(cluster, "label")).await;
        cluster.bound("label").await;
        let events = cluster.events(&pod, "PodGroupIgnored").await;
        let [event] = events.as_slice() else { panic!("{events:?}") };
        let expected = "the pod belongs to the PodGroup \"job-b\" and is scheduled by itself: the gate \
                        GenericWorkload is off";
        assert_eq!(event.note.as_deref(), Some(expected));
    });
}

#[test]
fn missing_permission_on_pod_groups_concerns_only_their_pods() {
    run(async |cluster| {
        if cluster.sandbox().is_none() {
            return eprintln!(
                "skipped: an API server without its runtime-config serves no PodGroups"
            );
        }
        cluster.permit(&chart_rules_without_pod_groups()).await;
        cluster.add_node("a", 4).await;
        let daemon = Daemon::spawn_with(cluster, |_| {}, &["--emulated-version=1.37"]).await;
        cluster.create_pod(&cluster.pod("other", 1)).await;
        cluster.bound("other").await;
        // An API server may deny a kind that it does not serve, or not find it.
        let denied = daemon.log.lines("a kind that this account may not list and watch");
        assert!(denied[0].contains("podgroups.scheduling.k8s.io"), "{denied:?}");
        daemon.log.line("cannot patch podgroups/status.scheduling.k8s.io").await;
        cluster.create_gang("gang", 2).await;
        cluster.create_members("gang", 2).await;
        daemon.counts("scheduler_pending_pods{queue=\"gated\"}", 2.0).await;
        cluster.permit(&chart_rules()).await;
        cluster.bound_pods(3).await;
    });
}

/// Two gangs of 40 on 64 nodes that have room for one pod each.
#[test]
fn gang_is_bound_whole_and_the_next_waits_whole() {
    run_at_both_levels(async |cluster, level| {
        let names = names_of(level);
        for number in 0..64 {
            cluster.add_node(&format!("n{number}"), 1).await;
        }
        let daemon = spawn_at(cluster, level, "").await;
        cluster.create_members("first", 39).await;
        daemon.counts("scheduler_pending_pods{queue=\"gated\"}", 39.0).await;
        cluster.create_gang("first", 40).await;
        assert_eq!(cluster.bound_members("first").await, 0, "a pod is missing");
        cluster.create_member("first", 39, &json!({})).await;
        let condition = cluster.group_condition("first", "Scheduled").await;
        assert_eq!(condition["status"], "True", "{condition}");
        assert_eq!(condition["type"], names.condition, "{condition}");
        assert_eq!(condition["observedGeneration"], 1, "{condition}");
        cluster.bound_pods(40).await;

        cluster.create_gang("second", 40).await;
        cluster.create_members("second", 40).await;
        let condition = cluster.group_condition("second", "Unschedulable").await;
        let text = "pod group is unschedulable, minCount (40) cannot be satisfied: 24 scheduled, 15 \
                    remaining, ";
        let text = format!("{text}{PREEMPTION}{NO_VICTIMS}");
        let message = condition["message"].as_str().unwrap();
        let missing = message.strip_prefix(&text).unwrap_or_else(|| panic!("{condition}"));
        let reasons = "0/64 nodes are available: 64 Insufficient cpu";
        let (why, nodes) = missing.split_once(", lacks ").unwrap_or_else(|| panic!("{condition}"));
        assert!(why.starts_with(", pod second-") && why.ends_with(reasons), "{condition}");
        assert!(nodes.starts_with("16 nodes like ") && nodes.ends_with(" (cpu 1)"), "{condition}");
        assert_eq!(
            (&condition["status"], &condition["type"]),
            (&json!("False"), &json!(names.condition))
        );
        cluster.has_condition("second-0", &text).await;
        daemon.counts("scheduler_pending_pods{queue=\"unschedulable\"}", 40.0).await;
        assert_eq!(cluster.bound_members("second").await, 0);
        assert_eq!(cluster.group_events("second", "FailedScheduling").await, [names.version]);

        // The number is mutable since 1.37.
        let bound = if level.is_at_least(Level::V1_37) {
            cluster.set_min_count("second", 24).await;
            24
        } else {
            for number in 64..80 {
                cluster.add_node(&format!("n{number}"), 1).await;
            }
            40
        };
        let condition = cluster.group_condition("second", "Scheduled").await;
        assert_eq!(condition["status"], "True", "{condition}");
        cluster.bound_pods(40 + bound).await;
        assert_eq!(cluster.bound_members("second").await, bound);
        for gang in ["first", "second"] {
            assert_eq!(cluster.group_events(gang, "Scheduled").await, [names.version]);
        }
        if bound == 40 {
            // No pod of the second gang is left for the node.
            cluster.add_node("late", 1).await;
            cluster.create_member("first", 40, &json!({})).await;
            cluster.bound("first-40").await;
        }
        cluster.assert_bound_once().await;
    });
}

/// An API server of 1.36 without the gate WorkloadAwarePreemption knows no priority of a PodGroup,
/// and one with it lets pods differ from their group.
#[test]
fn pods_of_a_gang_have_priorities_of_their_own_at_level_1_36() {
    run(async |cluster| {
        if cluster.sandbox().is_none() {
            return eprintln!(
                "skipped: an API server without its runtime-config serves no PodGroups"
            );
        }
        let class = cluster.add_priority("high", 1000, "Never").await;
        cluster.add_node("a", 2).await;
        let _daemon = spawn_at(cluster, Level::V1_36, "").await;
        cluster.create_gang("gang", 2).await;
        cluster.create_member("gang", 0, &json!({"priorityClassName": class})).await;
        cluster.create_member("gang", 1, &json!({})).await;
        cluster.group_condition("gang", "Scheduled").await;
        cluster.bound_pods(2).await;
    });
}

/// Racks are zones here. Three have four nodes with room for one pod each; a pod runs on a node of
/// the last.
#[test]
fn gang_is_bound_in_one_rack_and_waits_for_a_node_of_the_closest() {
    run_at_both_levels(async |cluster, level| {
        for rack in ["a", "b", "c"] {
            for number in 0..4 {
                cluster.add_node_in_zone(&format!("{rack}{number}"), 1, rack).await;
            }
        }
        cluster.create_pod(&cluster.pod("filler", 1)).await;
        cluster.bind("filler", "c0").await;
        let gates = match level.is_at_least(Level::V1_37) {
            true => "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
            false => {
                "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
            }
        };
        let daemon = spawn_at(cluster, level, gates).await;
        let rack = json!({"topology": [{"key": "topology.kubernetes.io/zone"}]});
        let mut racks = BTreeSet::new();
        for gang in ["first", "second"] {
            cluster.create_gang_with(gang, 4, rack.clone()).await;
            cluster.create_members(gang, 4).await;
            racks.insert(cluster.rack_of(gang, 4).await);
        }
        assert_eq!(racks, ["a", "b"].map(str::to_owned).into());
        cluster.create_gang_with("third", 4, rack).await;
        cluster.create_members("third", 4).await;
        let condition = cluster.group_condition("third", "Unschedulable").await;
        let text = "pod group is unschedulable, 0/3 placements are available, the closest is \"c\", \
                    where 3 of 4 pods fit: 0/4 nodes are available: 4 Insufficient cpu, ";
        let text = format!("{text}{PREEMPTION}{NO_VICTIMS}");
        assert_eq!(condition["message"], text, "{condition}");
        assert_eq!(condition["type"], names_of(level).condition, "{condition}");
        assert_eq!(cluster.bound_members("third").await, 0);
        cluster.delete_pod("filler").await;
        assert_eq!(cluster.rack_of("third", 4).await, "c");
        let profile = &cluster.name;
        let generated = format!("scheduler_generated_placements_total{{profile=\"{profile}\"}}");
        daemon.counts(&generated, 12.0).await;
        cluster.assert_bound_once().await;
    });
}

/// Racks are zones here: one with room for two pods, one with room for three.
#[test]
fn pods_with_annotations_of_kueue_are_bound_in_one_rack_if_they_agree() {
    run(async |cluster| {
        if cluster.sandbox().is_none() {
            return eprintln!("skipped: an API server without its runtime-config has no PodGroups");
        }
        for (node, rack) in [("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b"), ("b2", "b")] {
            cluster.add_node_in_zone(node, 1, rack).await;
        }
        let gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
        let _daemon = spawn_at(cluster, Level::V1_37, gates).await;
        let create = async |group: &str, number: usize, annotations: Value| {
            let mut pod = json!(cluster.pod(&format!("{group}-{number}"), 1));
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
            pod["metadata"]["annotations"] = annotations;
            cluster.create_pod(&serde_json::from_value(pod).unwrap()).await;
        };
        let zone = "topology.kubernetes.io/zone";
        let required = || json!({"kueue.x-k8s.io/podset-required-topology": zone});
        cluster.create_gang("whole", 3).await;
        for number in 0..3 {
            create("whole", number, required()).await;
        }
        assert_eq!(cluster.rack_of("whole", 3).await, "b");
        cluster.create_gang("mixed", 2).await;
        create("mixed", 0, required()).await;
        create("mixed", 1, json!({})).await;
        let condition = cluster.group_condition("mixed", "SchedulerError").await;
        let text = "the pods of the group disagree about the topology: 1 ask for \
                    \"topology.kubernetes.io/zone required\", 1 for none";
        assert_eq!(condition["message"], text, "{condition}");
        assert_eq!(cluster.bound_members("mixed").await, 0);
    });
}

/// Four nodes full of pods of low priority.
#[test]
fn gang_evicts_only_the_pods_that_it_needs_and_none_if_it_does_not_fit() {
    run_at_both_levels(async |cluster, level| {
        let class = cluster.add_priority("low", -10, "PreemptLowerPriority").await;
        for number in 0..4 {
            let (node, name) = (format!("n{number}"), format!("low-{number}"));
            cluster.add_node(&node, 1).await;
            let mut pod = cluster.pod(&name, 1);
            pod.spec.as_mut().unwrap().priority_class_name = Some(class.clone());
            cluster.create_pod(&pod).await;
            cluster.bind(&name, &node).await;
        }
        let _daemon = spawn_at(cluster, level, "").await;
        cluster.create_gang("huge", 5).await;
        cluster.create_members("huge", 5).await;
        let condition = cluster.group_condition("huge", "Unschedulable").await;
        let text = "pod group is unschedulable, minCount (5) cannot be satisfied: 0 scheduled, 4 \
                    remaining, ";
        let text = format!(
            "{text}{PREEMPTION}pod group is unschedulable, minCount (5) cannot be satisfied: 4 \
             scheduled, 0 remaining, pod huge-"
        );
        assert!(condition["message"].as_str().unwrap().starts_with(&text), "{condition}");
        assert_eq!(cluster.bound_members("low").await, 4, "no pod is evicted");

        cluster.create_gang("gang", 3).await;
        cluster.create_members("gang", 3).await;
        cluster.group_condition("gang", "Scheduled").await;
        cluster.bound_pods(4).await;
        assert_eq!(cluster.bound_members("gang").await, 3);
        assert_eq!(cluster.bound_members("low").await, 1);
    });
}

/// The CustomResourceDefinition of Coscheduling, with the fields that matter here.
fn coscheduling_definition() -> Value {
    let (number, text) = (json!({"type": "integer", "format": "int32"}), json!({"type": "string"}));
    let spec = json!({"type": "object", "properties": {"minMember": number}});
    let status = json!({"type": "object", "properties": {
        "phase": text, "occupiedBy": text, "running": number, "succeeded": number,
        "failed": number,
    }});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "metadata": {
            "name": "podgroups.scheduling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io":
                "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
        },
        "spec": {
            "group": "scheduling.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Two gangs of three on four nodes that have room for one pod each.
#[test]
fn gang_of_coscheduling_has_the_status_that_its_controller_writes() {
    run(async |cluster| {
        let Some(sandbox) = cluster.sandbox() else {
            return eprintln!("skipped: the cluster may have PodGroups of Coscheduling in use");
        };
        sandbox.with_store(|store, now| {
            store.create(CUSTOMRESOURCEDEFINITIONS, coscheduling_definition(), now).unwrap();
        });
        for number in 0..4 {
            cluster.add_node(&format!("n{number}"), 1).await;
        }
        let _daemon = Daemon::spawn_with(cluster, |_| {}, &["--emulated-version=1.37"]).await;
        cluster.create_coscheduling_gang("first", 3).await;
        cluster.create_labelled_members("first", 2).await;
        let status = cluster.coscheduling_status("first", "Pending").await;
        assert_eq!(status, json!({"phase": "Pending", "running": 0}));
        cluster.create_labelled_member("first", 2).await;
        cluster.bound_pods(3).await;
        let status = cluster.coscheduling_status("first", "Scheduling").await;
        assert_eq!(status, json!({"phase": "Scheduling", "running": 0}));

        cluster.create_coscheduling_gang("second", 3).await;
        cluster.create_labelled_members("second", 3).await;
        cluster.has_condition("second-0", "minCount (3) cannot be satisfied: 1 scheduled").await;
        for number in 0..3 {
            cluster.set_pod_phase(&format!("first-{number}"), "Running").await;
        }
        let status = cluster.coscheduling_status("first", "Running").await;
        assert_eq!(status, json!({"phase": "Running", "running": 3}));
        let status = cluster.coscheduling_status("second", "Pending").await;
        assert_eq!(status, json!({"phase": "Pending", "running": 0}));

        cluster.set_pod_phase("first-0", "Succeeded").await;
        let status = cluster.coscheduling_status("first", "Unknown").await;
        assert_eq!(status, json!({"phase": "Unknown", "running": 2}));
    });
}
