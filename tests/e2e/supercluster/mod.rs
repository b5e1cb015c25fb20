//! Many clusters: agents and the scheduler over them.
//!
//! The processes have the permissions that the chart grants to their roles.

mod api;
mod profiles;
mod questions;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use self::world::{NAMESPACE, PLACEMENT, World, cpus_of, phase_of, placement_of, run};
use super::endpoints::Endpoints;
use super::wait::eventually;

#[test]
fn pods_of_the_management_cluster_run_in_members_and_both_sides_are_mirrored() {
    run(2, async |world| {
        for member in &world.members {
            member.cluster.add_node("a", 4).await;
        }
        for number in 0..8 {
            let name = format!("web-{number}");
            world.management.create_pod(&name, "1", "supercluster").await;
        }
        world.start_scheduler(json!({})).await;
        let pods = world.running(8).await;
        let clusters: BTreeSet<String> =
            pods.iter().map(|pod| placement_of(pod).unwrap().0).collect();
        assert_eq!(clusters.len(), 2, "eight CPUs are four in each cluster");

        // Events of a delegate are shown on its pod, with its cluster.
        let events: Api<Event> = Api::namespaced(world.management.client.clone(), NAMESPACE);
        let uid = pods[0].uid().unwrap();
        let (cluster, node) = placement_of(&pods[0]).unwrap();
        eventually("the pod has the event of its delegate", async || {
            let list = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
            let mut shown = events.list(&list).await.unwrap().items;
            shown.retain(|event| event.reason.as_deref() == Some("Scheduled"));
            let note = shown.first()?.message.clone()?;
            assert!(note.starts_with(&format!("{cluster}: Successfully assigned")), "{note}");
            assert!(note.ends_with(&node) && shown.len() == 1, "{note}");
            Some(())
        })
        .await;

        // A ninth one fits nowhere, and says so for each cluster.
        world.management.create_pod("late", "1", "supercluster").await;
        let message = world.rejected("late").await;
        assert!(message.starts_with("0/2 clusters are available: m0: "), "{message}");
        assert!(message.contains("; m1: 0/1 nodes are available: 1 Insufficient cpu"), "{message}");

        // The original is deleted: so is its delegate, and the room is used.
        world.management.delete("web-0").await;
        world.gone("web-0").await;
        eventually("the late pod runs", async || {
            let pod = world.management.pods.get("late").await.unwrap();
            (phase_of(&pod) == "Running").then_some(())
        })
        .await;

        // The delegate is deleted: so is its original.
        for member in &world.members {
            if member.cluster.pods.get_opt("web-1").await.unwrap().is_some() {
                member.cluster.delete("web-1").await;
            }
        }
        world.gone("web-1").await;
    });
}

#[test]
fn pods_are_bound_once_while_agents_are_killed_and_others_take_the_room() {
    const PODS: usize = 36;
    run(3, async |world| {
        for member in &world.members {
            member.cluster.add_node("a", 8).await;
            member.cluster.add_node("b", 8).await;
        }
        world.start_scheduler(json!({"commitTimeout": "1s"})).await;
        for number in 0..PODS {
            let name = format!("web-{number}");
            world.management.create_pod(&name, "1", "supercluster").await;
            if number % 12 == 5 {
                // Another scheduler takes half of a node.
                let member = &world.members[number / 12].cluster;
                member.create_pod_on("foreign", "4", "a").await;
            }
            if number == 10 || number == 20 {
                let member = number / 10;
                world.members[member].agent = None;
                world.start_agent(member).await;
            }
        }
        // A scheduler that is killed is no trouble either.
        world.scheduler = None;
        world.start_scheduler(json!({"commitTimeout": "1s"})).await;
        eventually("all pods are placed", async || {
            let pods = world.management.list().await;
            let placed = pods.iter().filter(|pod| placement_of(pod).is_some());
            (placed.count() == PODS).then_some(())
        })
        .await;
        world.assert_bound_once_without_overcommit().await;
    });
}

#[test]
fn pods_go_elsewhere_while_an_agent_hangs_and_all_is_well_when_it_is_back() {
    run(2, async |world| {
        for member in &world.members {
            member.cluster.add_node("a", 8).await;
            member.cluster.add_node("b", 8).await;
        }
        let settings = json!({"sampleTimeout": "300ms", "commitTimeout": "500ms"});
        world.start_scheduler(settings).await;
        world.create_pods("before", 4).await;
        world.running(4).await;
        let agent = |world: &World| world.members[1].agent.as_ref().unwrap().id();
        suspend(agent(world)).await;
        world.create_pods("meanwhile", 6).await;
        let pods = world.running(10).await;
        let meanwhile = pods.iter().filter(|pod| pod.name_any().starts_with("meanwhile"));
        let clusters: BTreeSet<String> =
            meanwhile.map(|pod| placement_of(pod).unwrap().0).collect();
        assert_eq!(clusters, ["m0".to_owned()].into());

        // A pod that runs there is deleted: it waits for its cluster.
        let there = pods.iter().find(|pod| placement_of(pod).unwrap().0 == "m1");
        if let Some(there) = there {
            world.management.delete(&there.name_any()).await;
        }
        signal("CONT", agent(world));
        if let Some(there) = there {
            world.gone(&there.name_any()).await;
        }
        world.create_pods("after", 6).await;
        world.running(15).await;
        world.assert_bound_once_without_overcommit().await;
    });
}

#[test]
fn pods_of_a_lost_cluster_are_placed_anew_once_and_others_stay() {
    run(2, async |world| {
        world.members[1].cluster.add_node("a", 8).await;
        let settings = json!({"sampleTimeout": "300ms", "commitTimeout": "500ms"});
        world.start_scheduler(settings).await;
        // A pod that ends at once is replaced after 30 s at the earliest.
        let moves = json!({"supercluster.loadmaster.io/replace-after": "30s"});
        for number in 0..4 {
            let name = format!("moves-{number}");
            world.management.create_annotated(&name, "1", moves.clone()).await;
        }
        world.create_pods("stays", 4).await;
        let before = world.running(8).await;
        let in_m1 = |prefix: &str| {
            let named = before.iter().filter(|pod| pod.name_any().starts_with(prefix));
            let there = named.filter(|pod| placement_of(pod).unwrap().0 == "m1");
            there.map(ResourceExt::name_any).collect::<Vec<_>>()
        };
        let (moving, staying) = (in_m1("moves"), in_m1("stays"));
        assert_eq!((moving.len(), staying.len()), (4, 4), "m0 has no node yet");
        world.members[0].cluster.add_node("a", 8).await;
        let agent = world.members[1].agent.as_ref().unwrap().id();
        suspend(agent).await;
        for name in &moving {
            eventually("the pod runs elsewhere", async || {
                let pod = world.management.pods.get(name).await.unwrap();
                let there = placement_of(&pod).is_some_and(|(cluster, _)| cluster == "m0");
                (there && phase_of(&pod) == "Running").then_some(())
            })
            .await;
        }
        for name in &staying {
            let pod = world.management.pods.get(name).await.unwrap();
            assert_eq!(placement_of(&pod).unwrap().0, "m1", "{name} stays");
        }
        // The agent was suspended, so its delegates run on. It ends them as soon as it is back.
        signal("CONT", agent);
        for name in &moving {
            eventually("the old delegate is gone", async || {
                let delegate = world.members[1].cluster.pods.get_opt(name).await.unwrap();
                delegate.is_none().then_some(())
            })
            .await;
        }
        let after = world.running(8).await;
        let uid = |pods: &[Pod], name: &str| {
            pods.iter().find(|pod| pod.name_any() == name).unwrap().uid()
        };
        assert!(moving.iter().all(|name| uid(&before, name) == uid(&after, name)), "the same pods");
        world.assert_bound_once_without_overcommit().await;
    });
}

#[test]
fn standby_goes_on_when_the_leader_is_killed() {
    run(2, async |world| {
        for member in &world.members {
            member.cluster.add_node("a", 8).await;
            member.cluster.add_node("b", 8).await;
        }
        let election = [
            "--leader-elect=true",
            "--leader-elect-resource-name=loadmaster",
            "--leader-elect-lease-duration=8s",
            "--leader-elect-renew-deadline=6s",
            "--leader-elect-retry-period=1s",
        ];
        let file = world.clusters_file();
        let leader = world.run_scheduler(file.clone(), json!({}), &election);
        leader.ready().await;
        let standby = world.run_scheduler(file.clone(), json!({}), &election);
        let refused = ["--leader-elect=true", "--leader-elect-resource-name=of-others"];
        let refused = world.run_scheduler(file, json!({}), &refused);
        world.create_pods("before", 6).await;
        world.running(6).await;
        world.create_pods("meanwhile", 12).await;
        // Some of them are in flight.
        world.running(8).await;
        drop(leader);
        world.create_pods("after", 6).await;
        world.running(24).await;
        standby.log.line("Successfully acquired lease").await;
        eventually("readiness shows that one may not use its Lease", async || {
            let (_, text) = refused.probes.get("/readyz?verbose").await?;
            text.contains("[-]leaderElection failed").then_some(())
        })
        .await;
        world.assert_bound_once_without_overcommit().await;
    });
}

#[test]
fn scheduler_explains_its_decisions_and_what_agents_say_of_their_nodes() {
    run(2, async |world| {
        world.members[0].cluster.add_node("a", 4).await;
        world.members[1].cluster.add_node("b", 2).await;
        let patient = json!({"sampleTimeout": "20s", "stragglerWait": "20s"});
        world.start_scheduler(patient).await;
        world.management.create_pod("fits", "3", "supercluster").await;
        world.management.create_pod("waits", "3", "supercluster").await;
        let pods = world.running(1).await;
        let (runs, waits) = match pods[0].name_any().as_str() {
            "fits" => ("fits", "waits"),
            _ => ("waits", "fits"),
        };
        world.rejected(waits).await;
        let rule = |rule| serde_json::from_value::<PolicyRule>(rule).unwrap();
        let rules = vec![
            rule(json!({"nonResourceURLs": ["/explain/*"], "verbs": ["get"]})),
            rule(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})),
        ];
        world.management.permit("support", rules).await;
        let token = json!({"token": world.management.token("support")});
        let caller = serde_json::from_value(token).unwrap();
        let scheduler = Endpoints::at(world.scheduler.as_ref().unwrap().port, caller);
        let explain = async |name: &str| {
            let path = format!("/explain/pods/{NAMESPACE}/{name}");
            let (status, text) = scheduler.get(&path).await.unwrap();
            let answer = serde_json::from_str::<serde_json::Value>(&text).unwrap();
            (status.as_u16(), answer)
        };
        let (status, answer) = explain(runs).await;
        assert_eq!((status, answer["state"].as_str()), (200, Some("placed in m0 on node a")));
        let round = answer["rounds"].as_array().unwrap().last().unwrap();
        assert_eq!(round["candidates"][0]["commit"], "committed to node a");
        let rejected = round["clusters"].as_array().unwrap().iter();
        let reason = rejected.filter_map(|own| own["reason"].as_str()).next().unwrap();
        assert!(reason.contains("1 Insufficient cpu"), "{reason}");

        let (_, answer) = explain(waits).await;
        let round = answer["rounds"].as_array().unwrap().last().unwrap();
        assert_eq!(round["ended"], "no node can take the pod", "{answer}");
        assert!(answer["schedulingRetryCount"].as_u64().unwrap() > 0, "{answer}");
        let now = answer["now"].as_array().unwrap();
        assert_eq!(
            (now[0]["cluster"].as_str(), now[1]["cluster"].as_str()),
            (Some("m0"), Some("m1"))
        );
        let expected = json!([{"reason": "Insufficient cpu", "plugin": "NodeResourcesFit",
            "count": 1, "nodes": ["b"]}]);
        assert_eq!(now[1]["diagnosis"]["reasons"], expected);
        // About one node, also of a pod that runs.
        let (_, answer) = explain(&format!("{runs}?node=m1%2Fb")).await;
        let [asked] = &answer["now"].as_array().unwrap()[..] else { panic!("{answer}") };
        assert_eq!((&asked["cluster"], &asked["diagnosis"]["lookedAt"]), (&json!("m1"), &json!(1)));
        assert_eq!(asked["diagnosis"]["reasons"], expected);
        let (_, answer) = explain(&format!("{runs}?node=m1%2Fz")).await;
        assert_eq!(answer["now"][0]["error"], "it has no node \"z\"");
        for (node, reason) in
            [("b", "is named CLUSTER/NODE"), ("m7%2Fb", "no member is named \"m7\"")]
        {
            let (status, answer) = explain(&format!("{runs}?node={node}")).await;
            assert!(answer["message"].as_str().unwrap().contains(reason), "{answer}");
            assert_eq!(status, 400);
        }
        let (status, _) = explain("unknown").await;
        assert_eq!(status, 404);
    });
}

#[test]
fn objects_that_a_member_lacks_are_named_until_they_exist() {
    run(1, async |world| {
        world.members[0].cluster.add_node("a", 8).await;
        world.start_scheduler(json!({})).await;
        let member = &world.members[0].cluster;
        let volumes = json!([{"name": "v", "secret": {"secretName": "tls"}},
            {"name": "w", "configMap": {"name": "settings"}},
            {"name": "x", "configMap": {"name": "extra", "optional": true}}]);
        world.management.create_with_volumes("web", volumes).await;
        let message = world.rejected("web").await;
        let expected =
            "0/1 clusters are available: m0: it has no Secret \"tls\", no ConfigMap \"settings\".";
        assert_eq!(message, expected);
        let (name, post) = (json!({"metadata": {"name": "tls"}}), PostParams::default());
        let secret: Secret = serde_json::from_value(name).unwrap();
        Api::namespaced(member.client.clone(), NAMESPACE).create(&post, &secret).await.unwrap();
        let name = json!({"metadata": {"name": "settings"}});
        let map: ConfigMap = serde_json::from_value(name).unwrap();
        Api::namespaced(member.client.clone(), NAMESPACE).create(&post, &map).await.unwrap();
        world.running(1).await;
    });
}

#[test]
fn objects_that_say_so_are_copied_with_the_delegates_that_own_them() {
    run(1, async |world| {
        let member = &world.members[0].cluster;
        member.add_node("a", 8).await;
        let client = [&world.management, member].map(|own| own.client.clone());
        let secrets = client.clone().map(|own| Api::<Secret>::namespaced(own, NAMESPACE));
        let maps = client.map(|own| Api::<ConfigMap>::namespaced(own, NAMESPACE));
        let post = PostParams::default();
        let labels = json!({"supercluster.loadmaster.io/copy": "true"});
        for (name, labels) in [("tls", &labels), ("own", &labels), ("private", &json!({}))] {
            let secret = json!({"metadata": {"name": name, "labels": labels, "annotations": {"a": "b"}},
                "stringData": {"key": name}});
            secrets[0].create(&post, &serde_json::from_value(secret).unwrap()).await.unwrap();
        }
        let map = json!({"metadata": {"name": "settings", "labels": labels}, "data": {"a": "1"}});
        maps[0].create(&post, &serde_json::from_value(map).unwrap()).await.unwrap();
        let foreign = json!({"metadata": {"name": "own"}, "stringData": {"key": "of the member"}});
        secrets[1].create(&post, &serde_json::from_value(foreign).unwrap()).await.unwrap();
        let policy = json!({"kinds": ["secrets", "configmaps"], "namespaces": [NAMESPACE]});
        world.start_scheduler(json!({"copies": policy})).await;

        let secret = |name: &str| json!({"name": name, "secret": {"secretName": name}});
        let settings = json!({"name": "settings", "configMap": {"name": "settings"}});
        for name in ["web-0", "web-1"] {
            let volumes = json!([secret("tls"), secret("own"), settings]);
            world.management.create_with_volumes(name, volumes).await;
        }
        world.management.create_with_volumes("denied", json!([secret("private")])).await;
        let message = world.rejected("denied").await;
        assert_eq!(message, "0/1 clusters are available: m0: it has no Secret \"private\".");
        world.running(2).await;
        let member = &world.members[0].cluster;
        let mut owners = Vec::new();
        for name in ["web-0", "web-1"] {
            owners.push(member.pods.get(name).await.unwrap().uid().unwrap());
        }
        owners.sort();
        let copy = eventually("both delegates own the copy", async || {
            let copy = secrets[1].get_opt("tls").await.unwrap()?;
            let mut known: Vec<String> =
                copy.owner_references().iter().map(|own| own.uid.clone()).collect();
            known.sort();
            (known == owners).then_some(copy)
        })
        .await;
        assert_eq!(copy.data.as_ref().unwrap()["key"].0, b"tls");
        assert_eq!(copy.annotations().len(), 0, "nothing but the contents");
        let own = secrets[1].get("own").await.unwrap();
        assert_eq!(own.data.unwrap()["key"].0, b"of the member", "it is not overwritten");
        assert!(own.metadata.owner_references.unwrap_or_default().is_empty());

        // A change is copied with the next delegate.
        let patch = Patch::Merge(json!({"data": {"a": "2", "b": "3"}}));
        maps[0].patch("settings", &PatchParams::default(), &patch).await.unwrap();
        eventually("the next delegate brings the change", async || {
            world.management.create_with_volumes("later", json!([settings])).await;
            world.running(3).await;
            world.management.delete("later").await;
            world.gone("later").await;
            let data = maps[1].get("settings").await.unwrap().data.unwrap();
            (data == [("a".into(), "2".into()), ("b".into(), "3".into())].into()).then_some(())
        })
        .await;

        // The copies go with the last delegate.
        for name in ["web-0", "web-1"] {
            world.management.delete(name).await;
            world.gone(name).await;
        }
        eventually("the copies are gone", async || {
            let secret = secrets[1].get_opt("tls").await.unwrap();
            let map = maps[1].get_opt("settings").await.unwrap();
            (secret.is_none() && map.is_none()).then_some(())
        })
        .await;
        assert!(secrets[1].get_opt("own").await.unwrap().is_some());
    });
}

#[test]
fn agent_without_word_ends_the_delegates_that_may_be_replaced() {
    run(1, async |world| {
        world.members[0].cluster.add_node("a", 8).await;
        world.start_scheduler(json!({"replaceAfter": "30s"})).await;
        let never = json!({"supercluster.loadmaster.io/replace-after": "never"});
        world.management.create_annotated("stays", "1", never).await;
        world.create_pods("moves", 1).await;
        let before = world.running(2).await;
        world.scheduler = None;
        let member = &world.members[0].cluster;
        eventually("the lease ends", async || {
            member.pods.get_opt("moves-0").await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(member.pods.get_opt("stays").await.unwrap().is_some());
        world.start_scheduler(json!({"replaceAfter": "30s"})).await;
        let attempt = |pods: &[Pod]| {
            let pod = pods.iter().find(|pod| pod.name_any() == "moves-0").unwrap();
            pod.annotations()[PLACEMENT].clone()
        };
        eventually("the pod is placed anew", async || {
            let pods = world.running(2).await;
            (attempt(&pods) != attempt(&before)).then_some(())
        })
        .await;
        world.assert_bound_once_without_overcommit().await;
    });
}

#[test]
fn delegate_whose_pod_went_while_no_scheduler_ran_is_deleted() {
    run(1, async |world| {
        world.members[0].cluster.add_node("a", 8).await;
        world.start_scheduler(json!({})).await;
        world.create_pods("p", 2).await;
        world.running(2).await;
        world.scheduler = None;
        // Somebody removes the finalizer and the pod.
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        world.management.pods.patch("p-0", &PatchParams::default(), &patch).await.unwrap();
        world.management.delete("p-0").await;
        world.members[0].cluster.create_pod_on("other", "1", "a").await;
        world.start_scheduler(json!({})).await;
        world.gone("p-0").await;
        assert!(world.members[0].cluster.pods.get_opt("other").await.unwrap().is_some());
        world.running(1).await;
    });
}

fn signal(name: &str, process: u32) {
    let args = [format!("-{name}"), process.to_string()];
    assert!(Command::new("kill").args(args).status().unwrap().success());
}

/// Suspends a process. On a busy machine its threads go on for a while after the signal.
async fn suspend(process: u32) {
    signal("STOP", process);
    let is_stopped = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    };
    eventually("all threads are stopped", async || {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        tasks.map(Result::unwrap).all(is_stopped).then_some(())
    })
    .await;
}

impl World {
    async fn create_pods(&self, prefix: &str, count: usize) {
        for number in 0..count {
            let name = format!("{prefix}-{number}");
            self.management.create_pod(&name, "1", "supercluster").await;
        }
    }

    /// Checks that each pod has one delegate, where its placement says, and that no node has more
    /// pods than CPUs.
    async fn assert_bound_once_without_overcommit(&self) {
        let mut delegates = BTreeMap::new();
        for member in &self.members {
            let mut used: BTreeMap<String, u32> = BTreeMap::new();
            for pod in member.cluster.list().await {
                let name = pod.metadata.name.clone().unwrap();
                let Some(node) = pod.spec.as_ref().unwrap().node_name.clone() else {
                    panic!("{name} is not bound in {}", member.name);
                };
                if !matches!(phase_of(&pod), "Failed" | "Succeeded") {
                    *used.entry(node.clone()).or_default() += cpus_of(&pod);
                }
                if name != "foreign" {
                    let twice = delegates.insert(name.clone(), (member.name.clone(), node));
                    assert_eq!(twice, None, "{name} is bound twice");
                }
            }
            assert!(used.values().all(|cpus| *cpus <= 8), "{}: {used:?}", member.name);
        }
        for pod in self.management.list().await {
            let name = pod.metadata.name.clone().unwrap();
            assert_eq!(placement_of(&pod), delegates.remove(&name), "{name}");
        }
        assert!(delegates.is_empty(), "without an original: {delegates:?}");
    }
}
