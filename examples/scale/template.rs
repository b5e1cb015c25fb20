//! The templates of the pods.

use std::sync::Arc;

use fastrand::Rng;
use framework::{Pod, PodKey, Uid, Uuid, api};
use serde_json::{Value, json};

use crate::Shape;
use crate::cluster::{self, DEDICATED, POOL, SCARCE};

/// A template, and what the rules read of it.
#[derive(Debug)]
pub(crate) struct Template {
    /// The pod without a name.
    pub(crate) pod: Value,
    /// The same, as the engine takes it.
    compact: Pod,
    /// Milli-CPU.
    pub(crate) cpu: i64,
    /// MiB.
    pub(crate) memory: i64,
    /// The pool that the node selector names.
    pub(crate) pool: Option<&'static str>,
    /// Whether the pod tolerates the taint of the pool `gpu`.
    pub(crate) tolerates: bool,
    /// The host port.
    pub(crate) port: Option<u32>,
    /// `maxSkew` of a hard constraint over zones.
    pub(crate) max_skew: Option<u32>,
    /// Whether no two pods may share a node.
    pub(crate) is_alone: bool,
}

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const HARD_SKEW: u32 = 5;

impl Template {
    /// Draws the constraints of the template with this number.
    pub(crate) fn draw(number: u32, shape: Shape, rng: &mut Rng) -> Self {
        let (cpu, memory) = requests(rng);
        let mut template = Self::plain(&format!("app-{number}"), cpu, memory);
        let image = cluster::image(rng.u32(..200));
        template.pod["spec"]["containers"][0]["image"] = json!(image);
        let shape = match shape {
            Shape::Mixed if number.is_multiple_of(2) => Shape::Basic,
            Shape::Mixed if number % 4 == 1 => Shape::Spread,
            Shape::Mixed => Shape::Affinity,
            shape => shape,
        };
        match shape {
            Shape::Spread => template.spread(rng),
            Shape::Affinity => template.relate(rng),
            _ => template.restrict(number, rng),
        }
        template.finish()
    }

    /// Returns pods that fill the scarce nodes.
    pub(crate) fn filler() -> Self {
        let mut template = Self::plain("filler", 2_000, 4_096);
        template.select(SCARCE);
        template.pod["spec"]["priority"] = json!(-10);
        template.finish()
    }

    /// Returns pods that evict them.
    pub(crate) fn preemptor() -> Self {
        let mut template = Self::plain("preemptor", 3_000, 6_144);
        template.select(SCARCE);
        template.pod["spec"]["priority"] = json!(1_000);
        template.finish()
    }

    /// Returns the pod of this number, on a node if one is named.
    pub(crate) fn pod(&self, number: u32, node: Option<Arc<str>>) -> Pod {
        let PodKey { namespace, .. } = &self.compact.key;
        Pod {
            key: PodKey::new(namespace, &name(number)),
            uid: uid(number),
            resource_version: u64::from(number) + 1,
            node_name: node,
            ..self.compact.clone()
        }
    }

    fn plain(app: &str, cpu: i64, memory: i64) -> Self {
        let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "scale", "labels": {"app": app}},
        "spec": {"schedulerName": "default-scheduler", "containers": [
            {"name": "main", "image": cluster::image(0), "resources": {"requests": requests}},
        ]}});
        Self {
            pod,
            compact: Pod::from_api(&api::Pod::default()),
            cpu,
            memory,
            pool: None,
            tolerates: false,
            port: None,
            max_skew: None,
            is_alone: false,
        }
    }

    fn finish(mut self) -> Self {
        let pod: api::Pod = serde_json::from_value(self.pod.clone()).expect("the pod is valid");
        self.compact = Pod::from_api(&pod);
        self
    }

    fn select(&mut self, pool: &'static str) {
        self.pool = Some(pool);
        self.pod["spec"]["nodeSelector"] = json!({ POOL: pool });
    }

    /// Adds constraints that look at the node alone.
    fn restrict(&mut self, number: u32, rng: &mut Rng) {
        match rng.u32(..10) {
            0 => self.select("general"),
            1 => self.select("memory"),
            2 => {
                self.select("gpu");
                self.tolerates = true;
                self.pod["spec"]["tolerations"] =
                    json!([{"key": DEDICATED, "operator": "Exists", "effect": "NoSchedule"}]);
            }
            3 => {
                let port = 20_000 + number;
                self.port = Some(port);
                self.pod["spec"]["containers"][0]["ports"] =
                    json!([{"containerPort": 8080, "hostPort": port, "protocol": "TCP"}]);
            }
            4 | 5 => {
                let zone = format!("eu-1-{}", rng.u32(..cluster::ZONES));
                let term = json!({"key": ZONE, "operator": "In", "values": [zone]});
                let preferred = json!([{"weight": 50, "preference": {"matchExpressions": [term]}}]);
                self.pod["spec"]["affinity"] = json!({"nodeAffinity":
                    {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
            }
            _ => {}
        }
    }

    fn spread(&mut self, rng: &mut Rng) {
        let selector = json!({"matchLabels": self.pod["metadata"]["labels"]});
        let constraint = |key: &str, skew: u32, unsatisfiable: &str| {
            json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": unsatisfiable,
                "labelSelector": selector})
        };
        let constraints = if rng.bool() {
            self.max_skew = Some(HARD_SKEW);
            vec![constraint(ZONE, HARD_SKEW, "DoNotSchedule")]
        } else {
            vec![constraint(ZONE, 3, "ScheduleAnyway"), constraint(HOSTNAME, 5, "ScheduleAnyway")]
        };
        self.pod["spec"]["topologySpreadConstraints"] = json!(constraints);
    }

    fn relate(&mut self, rng: &mut Rng) {
        let selector = json!({"matchLabels": self.pod["metadata"]["labels"]});
        let term = |key: &str| json!({"topologyKey": key, "labelSelector": selector});
        let preferred = |key: &str| json!([{"weight": 100, "podAffinityTerm": term(key)}]);
        self.pod["spec"]["affinity"] = match rng.u32(..3) {
            0 => {
                self.is_alone = true;
                json!({"podAntiAffinity":
                    {"requiredDuringSchedulingIgnoredDuringExecution": [term(HOSTNAME)]}})
            }
            1 => json!({"podAntiAffinity":
                {"preferredDuringSchedulingIgnoredDuringExecution": preferred(HOSTNAME)}}),
            _ => json!({"podAffinity":
                {"preferredDuringSchedulingIgnoredDuringExecution": preferred(ZONE)}}),
        };
    }
}

fn requests(rng: &mut Rng) -> (i64, i64) {
    let cpu = *rng.choice(&[50, 100, 100, 250, 250, 500, 1_000]).expect("it is not empty");
    (cpu, cpu * *rng.choice(&[1, 2, 4]).expect("it is not empty"))
}

/// Returns the name of the pod with this number.
pub(crate) fn name(number: u32) -> String {
    format!("pod-{number:08}")
}

/// Returns the number of the pod of this name.
pub(crate) fn number(name: &str) -> u32 {
    name.trim_start_matches("pod-").parse().expect("it is the name of a pod")
}

/// Returns the UID of the pod with this number. It compresses no better than a random one.
pub(crate) fn uid(number: u32) -> Uid {
    let mut rng = fastrand::Rng::with_seed(u64::from(number));
    let bytes = rng.u128(..).to_le_bytes();
    Uuid::try_from(bytes).map_or_else(|_| Uid::from("nil"), Uid::Uuid)
}
