//! What happens while people look.

use std::fmt;
use std::time::Duration;

/// When the demo ends.
pub(crate) const END: Duration = Duration::from_secs(30);

/// Something that happens.
pub(crate) struct Scene {
    /// When, from the start.
    pub(crate) at: Duration,
    pub(crate) deed: Deed,
    /// What there is to see.
    pub(crate) remark: &'static str,
}

/// What is done to the cluster; shown as the command that does it elsewhere.
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

/// Everything that happens, in order.
pub(crate) const SCRIPT: [Scene; 11] = [
    scene(0, Deed::Apply("examples/demo-cluster/nodes.yaml"), "Six nodes, two with GPUs"),
    scene(
        2,
        Deed::Apply("examples/demo-cluster/shop.yaml"),
        "Controllers make pods; those of edge can only run on arm-c",
    ),
    scene(
        4,
        Deed::Apply("examples/demo-cluster/orders.yaml"),
        "A StatefulSet: each pod gets a volume, made in the zone of the node it goes to",
    ),
    scene(
        7,
        Deed::Apply("examples/demo-cluster/batch.yaml"),
        "A Job that ends, a gated pod, and one that fits nowhere",
    ),
    scene(
        10,
        Deed::Apply("examples/demo-cluster/ml.yaml"),
        "Training tolerates the taint of the GPU nodes",
    ),
    scene(
        13,
        Deed::Apply("examples/demo-cluster/data.yaml"),
        "primary comes first by its priority; warehouse finds no room",
    ),
    scene(15, scale_web(16), "Ten more replicas spread over the general nodes"),
    scene(
        18,
        Deed::Apply("examples/demo-cluster/larger-node.yaml"),
        "A node with 16 cores comes, and warehouse gets it at once",
    ),
    scene(21, Deed::Cordon("general-a"), "What runs on general-a stays, nothing new goes there"),
    scene(23, scale_web(22), "Six more replicas, none of them on general-a"),
    scene(
        26,
        Deed::Ungate { namespace: "batch", pod: "nightly-export" },
        "The gate is gone, so the pod gets its turn",
    ),
];
