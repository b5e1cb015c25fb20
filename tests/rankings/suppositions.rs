//! Questions about several pods at once. They change nothing that later decisions read, rankings
//! answer them as the full pass does, and each pod of a group takes account of the others.

use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::Ports;
use engine::{Change, Supposition, Trial};
use fastrand::Rng;
use framework::{EventResource, ObjectKey, Pod, Time, Uid, api};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde_json::{Value, json};
use testkit::{PodBuilder, StorageObject, bound_claim, csi_node, node, pod, volume};

use super::{
    Extent, HOST, REQUIRED, Scheduler, TEMPLATES, ZONE, any_pod, relates, run_history, spreads,
};

const HISTORIES: u64 = 60;
const STEPS: i64 = 40;

/// A part of a question.
enum Part {
    Place(Arc<Pod>),
    Put(Pod),
    Remove(Uid),
    Nested(Vec<Self>),
}

/// Makes up a question about the pods of a scheduler, and up to two more of each variant.
fn any_question(scheduler: &Scheduler, depth: usize, rng: &mut Rng) -> Vec<Part> {
    let parts = (0..rng.usize(1..8)).map(|_| {
        let known = || scheduler.pods.values();
        let number = rng.usize(..1000);
        match rng.u8(..8) {
            0 | 1 => {
                known().nth(number % known().len().max(1)).map(|pod| Part::Remove(pod.uid.clone()))
            }
            2 => {
                let mut placed = known().filter(|pod| pod.node_name.is_some());
                placed.nth(number % 5).map(|pod| {
                    let app = format!("a{}", number % TEMPLATES);
                    let labels = pod.labels.iter().chain([("app", app.as_str())]);
                    Part::Put(Pod { labels: Arc::new(labels.collect()), ..pod.clone() })
                })
            }
            3 if depth < 3 => Some(Part::Nested(any_question(scheduler, depth + 1, rng))),
            _ => {
                let pod = any_pod(&format!("q{number}"), number % TEMPLATES, number % 2);
                Some(Part::Place(Arc::new(pod.uid(&format!("q{number}")).build())))
            }
        }
    });
    parts.flatten().collect()
}

/// Returns the answers in words.
fn ask(supposed: &mut Supposition<'_, '_, '_>, question: &[Part], answers: &mut Vec<String>) {
    for part in question {
        let answer = match part {
            Part::Place(pod) => in_words(supposed.place(pod)),
            Part::Put(pod) => supposed.put(pod).to_string(),
            Part::Remove(uid) => supposed.remove(uid).to_string(),
            Part::Nested(question) => {
                supposed.suppose(|supposed| ask(supposed, question, answers));
                continue;
            }
        };
        answers.push(answer);
    }
}

fn in_words(trial: Option<Trial>) -> String {
    match trial.unwrap() {
        Trial::Fits { node, feasible } => format!("{node:?}, one of {feasible}"),
        Trial::Rejected(fit) => fit.message(),
        Trial::Preempts(preemption) => {
            let victims: Vec<_> =
                preemption.victims.iter().map(|pod| pod.key.to_string()).collect();
            format!("{} without {victims:?}", preemption.node)
        }
        Trial::Gated(status) | Trial::Failed(status) => status.message(),
    }
}

/// Runs a history by the full pass and by rankings, with questions, and by rankings without
/// questions.
fn compare(seed: u64) {
    let extent = Extent { steps: STEPS, nodes: 30, variants: 2 };
    let mut all = [Form::Set, Form::Ranked, Form::Ranked].map(|form| Scheduler::new(seed, form));
    let mut rng = Rng::with_seed(!seed);
    run_history(seed, &extent, &mut all, |all, now| {
        let question = any_question(&all[0], 0, &mut rng);
        let [full, ranked] = [0, 1].map(|place| {
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            let mut answers = Vec::new();
            let engine = &mut all[place].engine;
            engine.suppose(now, ports, |supposed| ask(supposed, &question, &mut answers));
            answers
        });
        assert_eq!(full, ranked, "seed {seed}, at {now:?}");
    });
}

#[test]
fn questions_leave_no_trace_and_rankings_answer_them() {
    (0..HISTORIES).into_par_iter().for_each(compare);
}

/// Number of pods in a group.
const MEMBERS: usize = 5;

/// A group of pods, and how many of them the cluster can take.
struct Group {
    name: &'static str,
    pod: PodBuilder,
    fit: usize,
}

fn object(kind: EventResource, name: &str, object: Value) -> Change {
    let namespace = if kind == EventResource::ResourceClaim { "default" } else { "" };
    let key = ObjectKey::namespaced(kind, namespace.into(), name.into());
    Change::decode(key, Some(object)).expect("the object decodes")
}

fn of_storage(object: &StorageObject) -> Change {
    Change::Object(Box::new(object.decoded()))
}

/// Three nodes in three zones. Two of them have a device; a driver attaches one volume to each.
fn cluster() -> Vec<Change> {
    let mut changes = Vec::new();
    for number in 0..3 {
        let name = format!("n{number}");
        let node = node(&name).zone(&format!("z{number}")).label(HOST, &name);
        let node = node.allocatable("cpu", "4").allocatable("pods", "10");
        changes.push(Change::Node(node.build()));
        let limit = csi_node(&name, &[("disk.example.com", Some(1))]);
        changes.push(of_storage(&limit));
    }
    for number in 0..MEMBERS {
        let name = format!("v{number}");
        let disk = json!({"csi": {"driver": "disk.example.com", "volumeHandle": name}});
        changes.push(of_storage(&volume(&name, disk)));
        let claim = bound_claim(&name, &name);
        changes.push(of_storage(&claim));
    }
    for number in 0..2 {
        let name = format!("n{number}");
        let spec = json!({"driver": "gpu.example.com", "nodeName": name, "devices": [{"name": "gpu"}],
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}});
        let slice = json!({"metadata": {"name": name}, "spec": spec});
        changes.push(object(EventResource::ResourceSlice, &name, slice));
    }
    let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
    changes.push(object(EventResource::DeviceClass, "gpu", class));
    for number in 0..MEMBERS {
        let name = format!("gpu-{number}");
        let metadata =
            json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"});
        let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
        let claim = json!({"metadata": metadata, "spec": {"devices": {"requests": [request]}}});
        changes.push(object(EventResource::ResourceClaim, &name, claim));
    }
    changes
}

fn uses_device(pod: &mut api::Pod, claim: &str) {
    let claims = json!([{"name": "gpu", "resourceClaimName": claim}]);
    pod.spec.resource_claims = serde_json::from_value(claims).unwrap();
}

#[test]
fn each_pod_of_a_group_takes_account_of_the_others() {
    let member = || pod("m").label("app", "a");
    let groups = [
        Group { name: "host port", pod: member().host_port(80), fit: 3 },
        Group { name: "room", pod: member().cpu("3"), fit: 3 },
        Group {
            name: "anti-affinity",
            pod: member().with(|pod| relates(pod, "podAntiAffinity", REQUIRED, ZONE, "a")),
            fit: 3,
        },
        Group {
            name: "affinity",
            pod: member().cpu("1").with(|pod| relates(pod, "podAffinity", REQUIRED, HOST, "a")),
            fit: 4,
        },
        Group {
            name: "spread",
            pod: member().with(|pod| {
                spreads(pod, &[(1, ZONE, "DoNotSchedule", json!({"minDomains": 4}))]);
            }),
            fit: 3,
        },
        Group { name: "volumes", pod: member(), fit: 3 },
        Group { name: "devices", pod: member(), fit: 2 },
    ];
    for Group { name, pod, fit } in groups {
        let mut scheduler = Scheduler::new(7, Form::Ranked);
        cluster().into_iter().for_each(|change| scheduler.apply(change, Time::from_secs(0)));
        let member = |number: usize| {
            let own = pod.clone().uid(&number.to_string());
            let own = own.with(|pod| pod.metadata.name = format!("m{number}"));
            let own = match name {
                "volumes" => own.claim(&format!("v{number}")),
                "devices" => own.with(|pod| uses_device(pod, &format!("gpu-{number}"))),
                _ => own,
            };
            Arc::new(own.build())
        };
        let members: Vec<Arc<Pod>> = (0..MEMBERS).map(member).collect();
        // The second answer is the first one, because the first question has left no trace.
        for _ in 0..2 {
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            let answers = scheduler.engine.suppose(Time::from_secs(1), ports, |supposed| {
                members.iter().map(|member| in_words(supposed.place(member))).collect::<Vec<_>>()
            });
            let count = answers.iter().take_while(|answer| answer.contains("one of")).count();
            assert_eq!(count, fit, "{name}: {answers:?}");
        }
    }
}
