//! The script of the demo.

use std::fmt;
use std::time::Duration;

/// Duration of the demo.
pub(crate) const END: Duration = Duration::from_secs(30);

/// An action at a time.
pub(crate) struct Scene {
    /// Time since the start.
    pub(crate) at: Duration,
    pub(crate) deed: Deed,
    /// Comment for the viewer.
    pub(crate) remark: &'static str,
}

/// An action on the cluster; shown as the equivalent kubectl command.
pub(crate) enum Deed {
    Apply(&'static str),
    Scale { namespace: &'static str, deployment: &'static str, replicas: u32 },
    Cordon(&'static str),
    Ungate { namespace: &'static str, pod: &'static str },
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kubectl ")?;
        match self {
            Self::Apply(file) => write!(f, "apply -f {file}"),
            Self::Scale { namespace, deployment, replicas } => {
                write!(f, "scale -n {namespace} deployment/{deployment} --replicas={replicas}")
            }
            Self::Cordon(node) => write!(f, "cordon {node}"),
            Self::Ungate { namespace, pod } => write!(
                f,
                "patch -n {namespace} pod/{pod} -p '{{\"spec\":{{\"schedulingGates\":null}}}}'"
            ),
        }
    }
}

const fn scene(seconds: u64, deed: Deed, remark: &'static str) -> Scene {
    Scene { at: Duration::from_secs(seconds), deed, remark }
}

const WEB: (&str, &str) = ("shop", "web");

const fn scale_web(replicas: u32) -> Deed {
    Deed::Scale { namespace: WEB.0, deployment: WEB.1, replicas }
}

/// All actions, in order.
pub(crate) const SCRIPT: [Scene; 12] = [
    scene(0, Deed::Apply("examples/demo-cluster/nodes.yaml"), "Six nodes, two with GPUs"),
    scene(
        2,
        Deed::Apply("examples/demo-cluster/shop.yaml"),
        "Controllers create pods; those of edge can only run on arm-c",
    ),
    scene(
        4,
        Deed::Apply("examples/demo-cluster/orders.yaml"),
        "A StatefulSet: each pod gets a volume in the zone of its node",
    ),
    scene(
        7,
        Deed::Apply("examples/demo-cluster/batch.yaml"),
        "A Job, a gated pod, and a pod that fits on no node",
    ),
    scene(
        10,
        Deed::Apply("examples/demo-cluster/ml.yaml"),
        "Training pods tolerate the taint of the GPU nodes",
    ),
    scene(
        12,
        Deed::Apply("examples/demo-cluster/inference.yaml"),
        "llm gets half a GPU and a network card on the same PCIe root",
    ),
    scene(
        13,
        Deed::Apply("examples/demo-cluster/data.yaml"),
        "primary is first because of its priority; warehouse fits on no node",
    ),
    scene(15, scale_web(16), "Ten more replicas spread over the general nodes"),
    scene(
        18,
        Deed::Apply("examples/demo-cluster/larger-node.yaml"),
        "A node with 16 cores is added; warehouse is scheduled at once",
    ),
    scene(
        21,
        Deed::Cordon("general-a"),
        "Pods on general-a keep running; no new pod is placed there",
    ),
    scene(23, scale_web(22), "Six more replicas, none of them on general-a"),
    scene(
        26,
        Deed::Ungate { namespace: "batch", pod: "nightly-export" },
        "The gate is removed, so the pod is scheduled",
    ),
];
