//! Workloads of other API groups: JobSets, LeaderWorkerSets, Ray clusters, training jobs, Volcano
//! Jobs, Rollouts.
//!
//! A reader says where a kind has its pod templates and their numbers. Its pods are made from the
//! templates alone: gangs, queues and the order in which a controller starts its pods are not
//! simulated.

use std::borrow::Cow;

use framework::Pod;
use serde_json::{Value, json};

use super::template::{self, checked_count, name, namespace, put, text};
use super::unread::has;
use super::{Controllers, Key, training};

/// How the pods of a kind are found.
pub(super) struct Reader {
    group: &'static str,
    kind: &'static str,
    /// The kind with its group, as kubectl accepts it.
    shown: &'static str,
    /// The label by which its pods name it.
    label: &'static str,
    /// The label by which its pods name their part.
    part_label: &'static str,
    /// Where it says that it is suspended.
    suspend: &'static str,
    /// Where a kind that refers to a template of another object does so.
    refers: &'static str,
    parts: &'static [Part],
}

/// Pods of one template.
struct Part {
    /// A list or a map of objects with templates; empty for the object itself.
    items: &'static str,
    /// The name of the part, if it differs from its item's.
    named: &'static str,
    /// The template in an item: the first one that is there.
    templates: &'static [&'static str],
    /// Numbers in an item, which are multiplied.
    counts: &'static [Count],
}

/// A number of pods.
struct Count {
    field: &'static str,
    default: usize,
    /// The field with the least number.
    least: &'static str,
    /// The field with the greatest number.
    most: &'static str,
    /// The number of these pods that belong to other parts.
    minus: usize,
}

const fn times(field: &'static str) -> Count {
    Count { field, default: 1, least: "", most: "", minus: 0 }
}

/// The end of annotations of JobSets and LeaderWorkerSets that keep other jobs or groups out of a
/// topology.
const EXCLUSIVE: &str = "/exclusive-topology";

/// The group of TrainJobs and their runtimes.
pub(super) const TRAINER: &str = "trainer.kubeflow.org";

const NONE: &str = "";
const TEMPLATE: &[&str] = &["/template"];
const SPEC_TEMPLATE: &[&str] = &["/spec/template"];
const REPLICAS: &[Count] = &[times("/replicas")];
const SPEC_REPLICAS: &[Count] = &[times("/spec/replicas")];

const fn each(items: &'static str) -> Part {
    Part { items, named: NONE, templates: TEMPLATE, counts: REPLICAS }
}

const REPLICATED_JOBS: Part = Part {
    items: "/spec/replicatedJobs",
    named: NONE,
    templates: &["/template/spec/template"],
    counts: &[
        times("/replicas"),
        Count { most: "/template/spec/completions", ..times("/template/spec/parallelism") },
    ],
};

const fn head(template: &'static [&'static str]) -> Part {
    Part { items: NONE, named: "headgroup", templates: template, counts: &[] }
}

const HOSTS: &[Count] = &[
    Count { default: 0, least: "/minReplicas", most: "/maxReplicas", ..times("/replicas") },
    times("/numOfHosts"),
];

const fn workers(items: &'static str) -> Part {
    Part { items, named: NONE, templates: TEMPLATE, counts: HOSTS }
}

const KUBEFLOW: Reader = Reader {
    group: "kubeflow.org",
    kind: NONE,
    shown: NONE,
    label: "training.kubeflow.org/job-name",
    part_label: "training.kubeflow.org/replica-type",
    suspend: "/spec/runPolicy/suspend",
    refers: NONE,
    parts: &[],
};

const RAY: Reader = Reader {
    group: "ray.io",
    kind: NONE,
    shown: NONE,
    label: "ray.io/originated-from-cr-name",
    part_label: "ray.io/group",
    suspend: "/spec/suspend",
    refers: NONE,
    parts: &[],
};

const SCALED: Reader = Reader {
    group: "apps.kruise.io",
    kind: NONE,
    shown: NONE,
    label: NONE,
    part_label: NONE,
    suspend: NONE,
    refers: "/spec/workloadRef",
    parts: &[Part { items: NONE, named: NONE, templates: SPEC_TEMPLATE, counts: SPEC_REPLICAS }],
};

const JOB_SET: Reader = Reader {
    group: "jobset.x-k8s.io",
    kind: "JobSet",
    shown: "JobSet.jobset.x-k8s.io",
    label: "jobset.sigs.k8s.io/jobset-name",
    part_label: "jobset.sigs.k8s.io/replicatedjob-name",
    suspend: "/spec/suspend",
    refers: NONE,
    parts: &[REPLICATED_JOBS],
};

const READERS: [Reader; 17] = [
    JOB_SET,
    Reader {
        group: "leaderworkerset.x-k8s.io",
        kind: "LeaderWorkerSet",
        shown: "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        label: "leaderworkerset.sigs.k8s.io/name",
        part_label: NONE,
        suspend: NONE,
        refers: NONE,
        parts: &[
            Part {
                items: NONE,
                named: "leader",
                templates: &[
                    "/spec/leaderWorkerTemplate/leaderTemplate",
                    "/spec/leaderWorkerTemplate/workerTemplate",
                ],
                counts: SPEC_REPLICAS,
            },
            Part {
                items: NONE,
                named: "worker",
                templates: &["/spec/leaderWorkerTemplate/workerTemplate"],
                counts: &[
                    times("/spec/replicas"),
                    Count { minus: 1, ..times("/spec/leaderWorkerTemplate/size") },
                ],
            },
        ],
    },
    Reader {
        kind: "RayCluster",
        shown: "RayCluster.ray.io",
        label: "ray.io/cluster",
        parts: &[head(&["/spec/headGroupSpec/template"]), workers("/spec/workerGroupSpecs")],
        ..RAY
    },
    Reader {
        kind: "RayJob",
        shown: "RayJob.ray.io",
        refers: "/spec/clusterSelector",
        parts: &[
            head(&["/spec/rayClusterSpec/headGroupSpec/template"]),
            workers("/spec/rayClusterSpec/workerGroupSpecs"),
            Part {
                items: NONE,
                named: "submitter",
                templates: &["/spec/submitterPodTemplate"],
                counts: &[],
            },
        ],
        ..RAY
    },
    Reader {
        kind: "RayService",
        shown: "RayService.ray.io",
        parts: &[
            head(&["/spec/rayClusterConfig/headGroupSpec/template"]),
            workers("/spec/rayClusterConfig/workerGroupSpecs"),
        ],
        ..RAY
    },
    Reader {
        kind: "JAXJob",
        shown: "JAXJob.kubeflow.org",
        parts: &[each("/spec/jaxReplicaSpecs")],
        ..KUBEFLOW
    },
    Reader {
        kind: "MPIJob",
        shown: "MPIJob.kubeflow.org",
        parts: &[each("/spec/mpiReplicaSpecs")],
        ..KUBEFLOW
    },
    Reader {
        kind: "MXJob",
        shown: "MXJob.kubeflow.org",
        parts: &[each("/spec/mxReplicaSpecs")],
        ..KUBEFLOW
    },
    Reader {
        kind: "PaddleJob",
        shown: "PaddleJob.kubeflow.org",
        parts: &[each("/spec/paddleReplicaSpecs")],
        ..KUBEFLOW
    },
    Reader {
        kind: "PyTorchJob",
        shown: "PyTorchJob.kubeflow.org",
        parts: &[each("/spec/pytorchReplicaSpecs")],
        ..KUBEFLOW
    },
    Reader {
        kind: "TFJob",
        shown: "TFJob.kubeflow.org",
        parts: &[each("/spec/tfReplicaSpecs")],
        ..KUBEFLOW
    },
    Reader {
        kind: "XGBoostJob",
        shown: "XGBoostJob.kubeflow.org",
        parts: &[each("/spec/xgbReplicaSpecs")],
        ..KUBEFLOW
    },
    // Its parts are the parts of the JobSet that its runtime describes.
    Reader { group: TRAINER, kind: "TrainJob", shown: "TrainJob.trainer.kubeflow.org", ..JOB_SET },
    Reader {
        group: "batch.volcano.sh",
        kind: "Job",
        shown: "Job.batch.volcano.sh",
        label: "volcano.sh/job-name",
        part_label: "volcano.sh/task-spec",
        suspend: NONE,
        refers: NONE,
        parts: &[each("/spec/tasks")],
    },
    Reader { group: "argoproj.io", kind: "Rollout", shown: "Rollout.argoproj.io", ..SCALED },
    Reader { kind: "CloneSet", shown: "CloneSet.apps.kruise.io", ..SCALED },
    Reader { kind: "StatefulSet", shown: "StatefulSet.apps.kruise.io", ..SCALED },
];

/// The pods of a part.
struct PodSet<'a> {
    /// The name of the part; empty if the object has only one.
    name: Cow<'a, str>,
    template: &'a Value,
    wanted: usize,
}

/// Returns the reader of an object, if there is one.
pub(super) fn reader(object: &Value) -> Option<&'static Reader> {
    let (group, kind) = group_and_kind(object);
    READERS.iter().find(|own| (own.group, own.kind) == (group, kind))
}

/// Returns the labels with which pods name their workloads.
pub(super) fn labels() -> Vec<&'static str> {
    let mut labels: Vec<_> = READERS.iter().map(|own| own.label).collect();
    labels.retain(|label| !label.is_empty());
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// Returns group and kind of an object.
pub(super) fn group_and_kind(object: &Value) -> (&str, &str) {
    let version = text(object, "/apiVersion");
    (version.split_once('/').map_or("", |(group, _)| group), text(object, "/kind"))
}

impl Reader {
    /// Returns the kind with its group.
    pub(super) const fn shown(&self) -> &'static str {
        self.shown
    }

    /// Returns the key of an object.
    pub(super) fn key_of(&self, object: &Value) -> Key {
        (self.shown, namespace(object).to_owned(), name(object).to_owned())
    }

    /// Returns the parts of an object.
    ///
    /// # Errors
    /// The object has no template, names the template of another object, or has an invalid number.
    fn pod_sets<'a>(&self, object: &'a Value) -> Result<Vec<PodSet<'a>>, String> {
        if !self.refers.is_empty() && object.pointer(self.refers).is_some_and(|own| !own.is_null())
        {
            let field = self.refers.trim_start_matches('/').replace('/', ".");
            return Err(format!("{field}: names another object, which is not followed"));
        }
        let mut sets = Vec::new();
        for part in self.parts {
            part.add_sets(object, &mut sets)?;
        }
        if sets.is_empty() { Err("has no pod template".to_owned()) } else { Ok(sets) }
    }
}

impl Part {
    fn add_sets<'a>(&self, object: &'a Value, sets: &mut Vec<PodSet<'a>>) -> Result<(), String> {
        match object.pointer(self.items) {
            None => {}
            Some(item) if self.items.is_empty() => {
                sets.extend(self.set(item, Cow::Borrowed(self.named))?);
            }
            Some(Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    sets.extend(self.set(item, name_of(item, index))?);
                }
            }
            Some(Value::Object(items)) => {
                for (name, item) in items {
                    sets.extend(self.set(item, Cow::Owned(name.to_lowercase()))?);
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn set<'a>(&self, item: &'a Value, name: Cow<'a, str>) -> Result<Option<PodSet<'a>>, String> {
        let mut templates = self.templates.iter().filter_map(|own| item.pointer(own));
        let Some(template) = templates.find(|own| own.is_object()) else { return Ok(None) };
        let is_suspended = !self.items.is_empty() && item["suspend"] == true;
        let mut wanted = 1_usize;
        for count in self.counts {
            let of = |fault| if name.is_empty() { fault } else { format!("{name}: {fault}") };
            wanted = wanted.saturating_mul(count.of(item).map_err(of)?);
        }
        Ok(Some(PodSet { name, template, wanted: if is_suspended { 0 } else { wanted } }))
    }
}

/// Returns the name of an item of a list.
fn name_of(item: &Value, index: usize) -> Cow<'_, str> {
    let names = ["/name", "/groupName"].iter().map(|own| text(item, own));
    let given = names.into_iter().find(|own| !own.is_empty());
    given.map_or_else(|| index.to_string().into(), Cow::Borrowed)
}

impl Count {
    fn of(&self, item: &Value) -> Result<usize, String> {
        let field = |pointer: &str| match pointer {
            "" => Ok(None),
            pointer => checked_count(item, pointer),
        };
        let number = field(self.field)?.unwrap_or(self.default);
        let number = number.max(field(self.least)?.unwrap_or(0));
        let number = number.min(field(self.most)?.unwrap_or(usize::MAX));
        Ok(number.saturating_sub(self.minus))
    }
}

/// Whether all pods of the object have ended.
pub(super) fn is_over(object: &Value) -> bool {
    const ENDS: [&str; 4] = ["Complete", "Completed", "Failed", "Succeeded"];
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let states = ["/status/terminalState", "/status/jobDeploymentStatus", "/status/state/phase"];
    conditions.any(|own| own["status"] == "True" && ENDS.contains(&text(own, "/type")))
        || states.iter().any(|state| ENDS.contains(&text(object, state)))
        || ["Aborted", "Terminated"].contains(&text(object, "/status/state/phase"))
}

/// Makes the missing pods of a foreign workload.
///
/// # Errors
/// The workload cannot be expanded; with the reason.
pub(super) fn sync(
    controllers: &mut Controllers<'_>,
    reader: &'static Reader,
    workload: &Foreign<'_>,
) -> Result<(), String> {
    let object = workload.object;
    if is_over(object) {
        return Ok(());
    }
    if controllers.controls_workloads(object) {
        let why = "its own workloads are in the input, and a change of it does not reach them";
        return if workload.is_changed { Err(why.to_owned()) } else { Ok(()) };
    }
    match reader.group {
        TRAINER => {
            let described = training::job_set(controllers, object)?;
            add_sets(controllers, reader, object, reader.pod_sets(&described)?);
        }
        _ => add_sets(controllers, reader, object, reader.pod_sets(object)?),
    }
    Ok(())
}

/// A foreign workload of the input.
pub(super) struct Foreign<'a> {
    pub(super) object: &'a Value,
    /// Whether it is one of a change.
    pub(super) is_changed: bool,
}

fn add_sets(
    controllers: &mut Controllers<'_>,
    reader: &'static Reader,
    object: &Value,
    sets: Vec<PodSet<'_>>,
) {
    let root = reader.key_of(object);
    let is_suspended = object.pointer(reader.suspend).is_some_and(|own| *own == true);
    if is_suspended && !reader.suspend.is_empty() {
        let message = "is suspended; no pods are made from it";
        return controllers.warn(reader.shown, object, message);
    }
    if has(object, &|field: &str, _: &Value| field.ends_with(EXCLUSIVE)) {
        let message = "has an annotation for exclusive topologies, which its controller turns into affinity; that is not simulated";
        controllers.warn(reader.shown, object, message);
    }
    let mut present = controllers.pods_of_foreign(reader.label, object);
    let before = controllers.made.objects.len();
    for set in sets {
        let own = take_own(&mut present, reader, &set);
        controllers.count(root.clone(), set.wanted, &own);
        let missing = set.wanted.saturating_sub(own.len());
        let base = match &*set.name {
            "" => name(object).to_owned(),
            part => format!("{}-{part}", name(object)),
        };
        let pod = pod(reader, object, &set);
        controllers.add_pods(&root, object, &base, missing, &pod);
    }
    let made = controllers.made.objects.len() - before;
    controllers.note_foreign(&root, made);
}

/// Takes the pods of a part from the pods of its workload: the pods with its label, or as many as
/// it wants.
fn take_own<'a>(present: &mut Vec<&'a Pod>, reader: &Reader, set: &PodSet<'_>) -> Vec<&'a Pod> {
    let mut left = set.wanted;
    let mut is_own = |pod: &&'a Pod| {
        let is_own = match pod.labels.get(reader.part_label) {
            Some(part) => *part == *set.name,
            None => left > 0,
        };
        left = left.saturating_sub(usize::from(is_own));
        is_own
    };
    let (own, others) = present.drain(..).partition(|pod| is_own(pod));
    *present = others;
    own
}

/// Returns a pod of a part without a name.
fn pod(reader: &Reader, object: &Value, set: &PodSet<'_>) -> Value {
    let mut pod = template::pod_of_template(object, set.template);
    let labels = [(reader.label, name(object)), (reader.part_label, &*set.name)];
    for (key, value) in
        labels.into_iter().filter(|(key, value)| !key.is_empty() && !value.is_empty())
    {
        put(&mut pod, &["metadata", "labels", key], json!(value));
    }
    for field in ["schedulerName", "priorityClassName"] {
        let given = &object["spec"][field];
        if given.is_string() && pod["spec"][field].is_null() {
            put(&mut pod, &["spec", field], given.clone());
        }
    }
    pod
}
