//! Binding of volumes, and of pods with volumes.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::DeleteParams;

use super::*;
use crate::e2e::cluster::uid;

#[test]
fn smallest_reachable_volume_is_reserved_and_bound() {
    run(async |cluster| {
        for node in ["a", "b"] {
            cluster.add_node(node, 4).await;
        }
        cluster.add_class("local", Kind::Static, json!({})).await;
        let mut large = cluster.volume("large", "local", &["b"]);
        large["spec"]["capacity"]["storage"] = json!("9Gi");
        let mut small = cluster.volume("small", "local", &["b"]);
        small["spec"]["capacity"]["storage"] = json!("1Mi");
        for volume in [large, cluster.volume("fitting", "local", &["b"]), small] {
            cluster.add_volume(volume).await;
        }
        let _daemon = Daemon::start(cluster).await;
        let pod = create_pod_and_claim(cluster, "data", "local").await;
        assert_eq!(cluster.claim_bound("data").await, cluster.storage_name("fitting"));
        assert_eq!(cluster.bound("data").await, cluster.node_name("b"));
        cluster.events(&pod, "Scheduled").await;
    });
}

#[test]
fn volume_is_provisioned_for_the_selected_node() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("fast", Kind::Provisioned, json!({})).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        assert_eq!(cluster.selected_node("data").await, cluster.node_name("a"));
        cluster.claim_bound("data").await;
        assert_eq!(cluster.bound("data").await, cluster.node_name("a"));
    });
}

#[test]
fn a_pod_with_volumes_of_every_kind_waits_for_all_of_them() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let parameters = json!({"sandbox/provisioning-seconds": "1"});
        cluster.add_class("slow", Kind::Provisioned, parameters).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("disk", "local", &[])).await;
        cluster.add_bound_claim("bound", ONE_NODE).await;
        for class in ["slow", "local"] {
            cluster.add_claim(class, class).await;
        }
        let _daemon = Daemon::start(cluster).await;
        create_pod(cluster, "web", &["slow", "bound", "local"]).await;
        for claim in ["slow", "local"] {
            cluster.claim_bound(claim).await;
        }
        cluster.bound("web").await;
    });
}

#[test]
fn pod_waits_for_an_immediate_claim() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("manual", Kind::ImmediateStatic, json!({})).await;
        let _daemon = Daemon::start(cluster).await;
        let claim = cluster.create_claim(cluster.claim("data", "manual", ONE_NODE)).await;
        create_pod(cluster, "web", &["data"]).await;
        cluster.has_condition("web", "pod has unbound immediate PersistentVolumeClaims").await;

        let mut volume = cluster.volume("disk", "manual", &[]);
        volume["spec"]["claimRef"] = json!({"namespace": cluster.name, "name": "data",
            "uid": claim.metadata.uid});
        cluster.add_volume(volume).await;
        cluster.claim_bound("data").await;
        cluster.bound("web").await;
    });
}

#[test]
fn pod_waits_for_immediate_provisioning() {
    run_in_sandbox(async |cluster, _| {
        cluster.add_node("a", 4).await;
        let parameters = json!({"sandbox/provisioning-seconds": "2"});
        cluster.add_class("slow", Kind::ImmediateProvisioned, parameters).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "slow").await;
        cluster.has_condition("data", "pod has unbound immediate PersistentVolumeClaims").await;
        cluster.bound("data").await;
    });
}

/// A StatefulSet `db` of three Pods with a claim each, created in parallel.
fn stateful_set(cluster: &Cluster, class: &str) -> StatefulSet {
    let mut claim = cluster.claim("data", class, ONE_NODE);
    claim["metadata"]["labels"] = json!({"app": "db"});
    let mut spec = cluster.pod("db", 1).spec.unwrap();
    spec.termination_grace_period_seconds = None;
    let set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 3,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": spec},
            "volumeClaimTemplates": [claim],
        },
    });
    serde_json::from_value(set).unwrap()
}

#[test]
fn stateful_set_pod_returns_to_its_volume() {
    run_in_sandbox(async |cluster, _| {
        for zone in ["a", "b", "c"] {
            cluster.add_node_in_zone(zone, 4, zone).await;
        }
        cluster.add_class("zonal", Kind::Provisioned, json!({})).await;
        let _daemon = Daemon::start(cluster).await;
        cluster.create(&stateful_set(cluster, "zonal")).await;
        let pods = cluster.bound_pods(3).await;
        let before = pods.iter().find(|pod| pod.metadata.name.as_deref() == Some("db-1")).unwrap();
        let now = DeleteParams::default().grace_period(0);
        cluster.pods.delete("db-1", &now).await.unwrap();
        let node = eventually("the pod is there again", async || {
            let pod = cluster.pods.get("db-1").await.ok()?;
            node_of(&pod).filter(|_| uid(&pod) != uid(before))
        })
        .await;
        assert_eq!(Some(node), node_of(before));
    });
}

#[test]
fn claim_of_an_ephemeral_volume_is_bound() {
    run(async |cluster| {
        if !cluster.runs_controllers() {
            return eprintln!("skipped: no controller creates the claims of ephemeral volumes");
        }
        cluster.add_node("a", 4).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("disk", "local", &[])).await;
        let _daemon = Daemon::start(cluster).await;
        let mut pod = cluster.pod("web", 1);
        let template = json!({"spec": cluster.claim("", "local", ONE_NODE)["spec"]});
        let volume = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}});
        pod.spec.as_mut().unwrap().volumes = serde_json::from_value(json!([volume])).unwrap();
        cluster.create_pod(&pod).await;
        cluster.bound("web").await;
        assert_eq!(cluster.claim_bound("web-scratch").await, cluster.storage_name("disk"));
    });
}

#[test]
fn foreign_claim_is_not_used_for_an_ephemeral_volume() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_bound_claim("web-scratch", ONE_NODE).await;
        let _daemon = Daemon::start(cluster).await;
        let mut pod = cluster.pod("web", 1);
        let template = json!({"spec": cluster.claim("", "local", ONE_NODE)["spec"]});
        let volume = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}});
        pod.spec.as_mut().unwrap().volumes = serde_json::from_value(json!([volume])).unwrap();
        cluster.create_pod(&pod).await;
        let claim = format!("PVC {0}/web-scratch was not created for pod {0}/web", cluster.name);
        cluster.has_condition("web", &claim).await;
    });
}

#[test]
fn volume_is_provisioned_where_the_driver_has_capacity() {
    run(async |cluster| {
        for node in ["a", "b", "c"] {
            cluster.add_node(node, 4).await;
        }
        cluster.add_class("fast", Kind::Provisioned, json!({})).await;
        cluster.add_capacity("fast", "a", "100Mi").await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "fast").await;
        cluster.has_condition("data", "3 node(s) did not have enough free storage").await;
        cluster.add_capacity("fast", "b", "10Gi").await;
        cluster.claim_bound("data").await;
        assert_eq!(cluster.bound("data").await, cluster.node_name("b"));
    });
}

/// Fields that other clients write into an object before it is bound.
fn decorate(mut object: Value, name: &str) -> Value {
    object["metadata"]["annotations"] = json!({"backup.example.com/policy": "daily"});
    object["metadata"]["labels"]["team"] = json!("storage");
    object["metadata"]["finalizers"] = json!(["example.com/audit"]);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": name,
        "uid": "00000000-0000-0000-0000-000000000001",
    }]);
    object
}

/// Removes the fields that binding changes, and those that every write changes.
fn undecided(mut object: Value) -> Value {
    const BINDING: [&str; 4] = [
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
    ];
    let remove = |place: &mut Value, fields: &[&str]| {
        let place = place.as_object_mut().unwrap();
        fields.iter().for_each(|field| drop(place.remove(*field)));
    };
    remove(&mut object["metadata"]["annotations"], &BINDING);
    remove(&mut object["metadata"], &["resourceVersion", "managedFields"]);
    remove(&mut object["spec"], &["claimRef", "volumeName"]);
    remove(&mut object, &["status"]);
    object
}

#[test]
fn writes_keep_fields_of_other_clients() {
    run_by_hand(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_class("fast", Kind::Provisioned, json!({})).await;
        let mut volume = decorate(cluster.volume("disk", "local", &[]), "plan");
        volume["spec"]["csi"]["volumeAttributes"] = json!({"tier": "gold"});
        volume["spec"]["mountOptions"] = json!(["noatime"]);
        cluster.add_volume(volume).await;
        cluster.add_claim("static", "local").await;
        let claim = decorate(cluster.claim("made", "fast", ONE_NODE), "plan");
        cluster.create_claim(claim).await;
        let disk = cluster.storage_name("disk");
        let look = async || {
            let volume = cluster.volumes().get(&disk).await.unwrap();
            let claim = cluster.claims().get("made").await.unwrap();
            [serde_json::to_value(volume).unwrap(), serde_json::to_value(claim).unwrap()]
        };
        let before = look().await.map(undecided);

        let _daemon = Daemon::start(cluster).await;
        create_pod(cluster, "web", &["static", "made"]).await;
        cluster.claim_bound("static").await;
        cluster.claim_bound("made").await;
        cluster.bound("web").await;
        assert_eq!(look().await.map(undecided), before);
        let reserved = look().await[0]["spec"]["claimRef"].clone();
        assert_eq!(
            (&reserved["kind"], &reserved["name"]),
            (&json!("PersistentVolumeClaim"), &json!("static"))
        );
    });
}

/// Returns the permissions of the chart without writing volumes.
fn rules_without_volumes() -> Vec<PolicyRule> {
    let mut rules = chart_rules();
    let writes = |rule: &&mut PolicyRule| {
        rule.resources.iter().flatten().any(|resource| resource == "persistentvolumes")
    };
    let writing: Vec<_> = rules.iter_mut().filter(writes).collect();
    assert_eq!(writing.len(), 1);
    writing.into_iter().for_each(|rule| rule.verbs.retain(|verb| verb != "patch"));
    rules
}

#[test]
fn missing_permission_to_patch_volumes_is_reported() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        cluster.add_class("local", Kind::Static, json!({})).await;
        cluster.add_volume(cluster.volume("disk", "local", &[])).await;
        cluster.permit(&rules_without_volumes()).await;
        let _daemon = Daemon::start(cluster).await;
        create_pod_and_claim(cluster, "data", "local").await;
        cluster.has_condition("data", "cannot patch resource \"persistentvolumes\"").await;
        cluster.permit(&chart_rules()).await;
        cluster.claim_bound("data").await;
        cluster.bound("data").await;
    });
}
