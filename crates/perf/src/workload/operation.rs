//! The operations of a workload, under the names of scheduler_perf.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::params::Params;
use super::template::{NO_PARAMS, TemplateParams, TemplateUse};

/// The longest duration.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// One step of a workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "opcode", rename_all = "camelCase")]
pub enum Operation {
    /// Creates nodes.
    CreateNodes(CreateNodes),
    /// Creates namespaces.
    CreateNamespaces(CreateNamespaces),
    /// Creates pods.
    CreatePods(CreatePods),
    /// Creates pods in several namespaces. A [`Workload`](super::Workload) has one `CreatePods` for
    /// each instead.
    CreatePodSets(CreatePodSets),
    /// Creates objects of any kind.
    CreateAny(CreateAny),
    /// Creates PodGroups.
    CreatePodGroups(CreateAny),
    /// Waits until PodGroups exist.
    WaitForPodGroups(WaitForPodGroups),
    /// Updates objects of any kind.
    UpdateAny(UpdateAny),
    /// Deletes the pods of a namespace.
    DeletePods(DeletePods),
    /// Creates objects in the background until the end of the workload.
    Churn(Churn),
    /// Waits for pods.
    Barrier(Barrier),
    /// Waits for some time.
    Sleep(Sleep),
    /// Starts a measurement.
    StartCollectingMetrics(StartCollectingMetrics),
    /// Ends the measurement.
    StopCollectingMetrics {},
    /// Publishes the devices of a driver.
    CreateResourceDriver(CreateResourceDriver),
    /// Allocates claims without pods.
    AllocResourceClaims(AllocResourceClaims),
}

/// The operation `createNodes`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateNodes {
    /// Number of nodes.
    pub count: usize,
    /// Template of a node.
    pub node_template_path: Option<PathBuf>,
    /// The numbers of the names in the template.
    #[serde(default)]
    pub template_params: TemplateParams,
    /// Resources and drivers of each node.
    pub node_allocatable_strategy: Option<NodeAllocatableStrategy>,
    /// A label of each node.
    pub label_node_prepare_strategy: Option<LabelNodePrepareStrategy>,
}

/// Resources and CSI drivers of nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeAllocatableStrategy {
    /// Further allocatable resources.
    #[serde(default)]
    pub node_allocatable: Map<String, Value>,
    /// `allocatable` in the CSINode, by driver.
    #[serde(default)]
    pub csi_node_allocatable: BTreeMap<String, Value>,
    /// In-tree plugins whose volumes a CSI driver attaches.
    #[serde(default)]
    pub migrated_plugins: Vec<String>,
}

/// A label whose values the nodes take in turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelNodePrepareStrategy {
    /// The key.
    pub label_key: String,
    /// The values.
    pub label_values: Vec<String>,
}

/// The operation `createNamespaces`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateNamespaces {
    /// Number of namespaces.
    pub count: usize,
    /// The names are `prefix-0`, `prefix-1` and so on.
    pub prefix: String,
    /// Template of a namespace.
    pub namespace_template_path: Option<PathBuf>,
}

/// The operation `createPods`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePods {
    /// Number of pods; in a steady state, of pods at a time.
    pub count: usize,
    /// A factor of the number, for example the pods of each group.
    count_multiplier: Option<usize>,
    /// The numbers of the names in the templates.
    #[serde(default)]
    pub template_params: TemplateParams,
    /// The namespace; otherwise `namespace-` and the number of the operation.
    pub namespace: Option<String>,
    /// Template of a pod; otherwise the template of the test case.
    pub pod_template_path: Option<PathBuf>,
    /// Template of a volume for each pod.
    pub persistent_volume_template_path: Option<PathBuf>,
    /// Template of a claim for each pod.
    pub persistent_volume_claim_template_path: Option<PathBuf>,
    /// Whether the pods are measured.
    #[serde(default)]
    pub collect_metrics: bool,
    /// Whether the next operation starts before the pods are scheduled.
    #[serde(default)]
    pub skip_wait_to_completion: bool,
    /// Whether scheduled pods are deleted and replaced until the duration is over.
    #[serde(default)]
    pub steady_state: bool,
    /// How long the steady state lasts.
    #[serde(default, deserialize_with = "duration")]
    pub duration: Duration,
}

/// The operation `createPodSets`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePodSets {
    count: usize,
    namespace_prefix: String,
    create_pods_op: Box<Operation>,
}

/// The operations `createAny` and `createPodGroups`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAny {
    /// Number of objects.
    #[serde(default = "one")]
    pub count: usize,
    /// The namespace; none for objects without namespaces.
    pub namespace: Option<String>,
    /// Template of an object.
    pub template_path: PathBuf,
    /// The numbers of the names in the template.
    #[serde(default)]
    pub template_params: TemplateParams,
}

/// The operation `waitForPodGroups`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitForPodGroups {
    /// The namespace.
    pub namespace: String,
    /// Number of PodGroups.
    pub count: usize,
}

/// The operation `updateAny`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateAny {
    /// Number of objects.
    #[serde(default = "one")]
    pub count: usize,
    /// The namespace; none for objects without namespaces.
    pub namespace: Option<String>,
    /// Template of an object with its name.
    pub template_path: PathBuf,
    /// Number of updates per second; 0 for as fast as possible.
    #[serde(default)]
    pub update_per_second: u32,
    /// The subresources to update instead of the object.
    #[serde(default)]
    pub subresources: Vec<String>,
}

/// The operation `deletePods`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeletePods {
    /// The namespace.
    pub namespace: String,
    /// Labels of the pods; all pods without any.
    #[serde(default)]
    pub label_selector: BTreeMap<String, String>,
    /// Number of pods per second; 0 deletes them all at once.
    #[serde(default)]
    pub delete_pods_per_second: u32,
    /// Whether the next operation starts before the pods are deleted.
    #[serde(default)]
    pub skip_wait_to_completion: bool,
}

/// The operation `churn`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Churn {
    /// Whether objects stay.
    pub mode: ChurnMode,
    /// `create`: number of rounds, 0 without end. `recreate`: number of objects of each template.
    #[serde(default)]
    pub number: usize,
    /// Time between rounds.
    #[serde(default = "half_a_second")]
    pub interval_milliseconds: u64,
    /// The namespace; otherwise `namespace-` and the number of the operation.
    pub namespace: Option<String>,
    /// Templates, of which each round creates or deletes one object each.
    pub template_paths: Vec<PathBuf>,
}

/// The way in which [`Churn`] treats its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChurnMode {
    /// Creates them.
    Create,
    /// Creates and deletes them.
    Recreate,
}

/// The operation `barrier`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Barrier {
    /// The namespaces; all of pods that were not waited for if empty.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Labels of the pods.
    #[serde(default)]
    pub label_selector: BTreeMap<String, String>,
    /// How far the pods must be.
    #[serde(default)]
    pub stage_requirement: Stage,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Stage {
    /// The scheduler has tried it, or has found that it is gated.
    Attempted,
    /// It has a node.
    #[default]
    Scheduled,
}

/// The operation `sleep`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sleep {
    /// How long.
    #[serde(deserialize_with = "duration")]
    pub duration: Duration,
}

/// The operation `startCollectingMetrics`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartCollectingMetrics {
    /// Name of the measurement.
    #[serde(default)]
    pub name: String,
    /// Namespaces of the measured pods.
    pub namespaces: Vec<String>,
    /// Labels of the measured pods.
    #[serde(default)]
    pub label_selector: BTreeMap<String, String>,
}

/// The operation `createResourceDriver`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateResourceDriver {
    /// Name of the driver.
    pub driver_name: String,
    /// Pattern for the names of nodes with devices.
    pub nodes: String,
    /// Number of devices of each node.
    pub max_claims_per_node: usize,
}

/// The operation `allocResourceClaims`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllocResourceClaims {
    /// The namespace of the claims.
    pub namespace: String,
}

impl Operation {
    /// Decodes an operation, with its parameters replaced and its paths relative to `folder`.
    pub(super) fn resolve(
        value: &Value,
        params: &mut Params<'_>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let mut operation: Self = serde_json::from_value(params.resolve(value)?)?;
        operation.multiply()?;
        operation.check()?;
        operation.paths_mut().into_iter().for_each(|path| *path = folder.join(&*path));
        Ok(operation)
    }

    /// Multiplies the number of pods by its factor.
    fn multiply(&mut self) -> anyhow::Result<()> {
        match self {
            Self::CreatePods(pods) => {
                let factor = pods.count_multiplier.take().unwrap_or(1);
                let count = pods.count.checked_mul(factor);
                pods.count = count.context("count times countMultiplier is too large")?;
                Ok(())
            }
            Self::CreatePodSets(sets) => sets.create_pods_op.multiply(),
            _ => Ok(()),
        }
    }

    /// Appends the operation to a list; of a set of pods, the operation of each namespace.
    pub(super) fn unroll_into(self, list: &mut Vec<Self>) {
        let Self::CreatePodSets(sets) = self else {
            list.push(self);
            return;
        };
        for number in 0..sets.count {
            let mut operation = (*sets.create_pods_op).clone();
            if let Self::CreatePods(pods) = &mut operation {
                pods.namespace = Some(format!("{}-{number}", sets.namespace_prefix));
            }
            list.push(operation);
        }
    }

    /// Returns the name of the operation in the files.
    pub fn opcode(&self) -> &'static str {
        match self {
            Self::CreateNodes(_) => "createNodes",
            Self::CreateNamespaces(_) => "createNamespaces",
            Self::CreatePods(_) => "createPods",
            Self::CreatePodSets(_) => "createPodSets",
            Self::CreateAny(_) => "createAny",
            Self::CreatePodGroups(_) => "createPodGroups",
            Self::WaitForPodGroups(_) => "waitForPodGroups",
            Self::UpdateAny(_) => "updateAny",
            Self::DeletePods(_) => "deletePods",
            Self::Churn(_) => "churn",
            Self::Barrier(_) => "barrier",
            Self::Sleep(_) => "sleep",
            Self::StartCollectingMetrics(_) => "startCollectingMetrics",
            Self::StopCollectingMetrics {} => "stopCollectingMetrics",
            Self::CreateResourceDriver(_) => "createResourceDriver",
            Self::AllocResourceClaims(_) => "allocResourceClaims",
        }
    }

    /// Returns its templates, with the numbers with which it uses them.
    pub(super) fn templates(&self) -> impl Iterator<Item = TemplateUse<'_>> {
        let paths = match self {
            Self::CreateNodes(nodes) => vec![nodes.node_template_path.as_ref()],
            Self::CreateNamespaces(namespaces) => vec![namespaces.namespace_template_path.as_ref()],
            Self::CreatePods(pods) => vec![
                pods.pod_template_path.as_ref(),
                pods.persistent_volume_template_path.as_ref(),
                pods.persistent_volume_claim_template_path.as_ref(),
            ],
            Self::CreateAny(any) | Self::CreatePodGroups(any) => vec![Some(&any.template_path)],
            Self::UpdateAny(any) => vec![Some(&any.template_path)],
            Self::Churn(churn) => churn.template_paths.iter().map(Some).collect(),
            _ => Vec::new(),
        };
        let params = self.template_params();
        paths.into_iter().flatten().map(move |path| TemplateUse { path, params })
    }

    /// Returns the numbers of the names in its templates.
    fn template_params(&self) -> &TemplateParams {
        match self {
            Self::CreateNodes(nodes) => &nodes.template_params,
            Self::CreatePods(pods) => &pods.template_params,
            Self::CreateAny(any) | Self::CreatePodGroups(any) => &any.template_params,
            _ => &NO_PARAMS,
        }
    }

    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let paths = match self {
            Self::CreateNodes(nodes) => vec![nodes.node_template_path.as_mut()],
            Self::CreateNamespaces(namespaces) => vec![namespaces.namespace_template_path.as_mut()],
            Self::CreatePods(pods) => vec![
                pods.pod_template_path.as_mut(),
                pods.persistent_volume_template_path.as_mut(),
                pods.persistent_volume_claim_template_path.as_mut(),
            ],
            Self::CreatePodSets(sets) => return sets.create_pods_op.paths_mut(),
            Self::CreateAny(any) | Self::CreatePodGroups(any) => vec![Some(&mut any.template_path)],
            Self::UpdateAny(any) => vec![Some(&mut any.template_path)],
            Self::Churn(churn) => churn.template_paths.iter_mut().map(Some).collect(),
            _ => Vec::new(),
        };
        paths.into_iter().flatten().collect()
    }

    /// Rejects what no single field shows.
    fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::CreatePods(pods) => pods.check(),
            Self::CreatePodSets(sets) => match &*sets.create_pods_op {
                Self::CreatePods(pods) => pods.check(),
                other => {
                    bail!("createPodsOp.opcode is {}; it has to be createPods", other.opcode())
                }
            },
            Self::CreateNodes(nodes) => {
                let empty = |own: &LabelNodePrepareStrategy| own.label_values.is_empty();
                ensure!(
                    !nodes.label_node_prepare_strategy.as_ref().is_some_and(empty),
                    "labelNodePrepareStrategy.labelValues has to have a value"
                );
                Ok(())
            }
            Self::Churn(churn) => {
                ensure!(
                    churn.mode == ChurnMode::Create || churn.number > 0,
                    "number has to be above 0 in the mode recreate"
                );
                ensure!(churn.interval_milliseconds > 0, "intervalMilliseconds has to be above 0");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl CreatePods {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !(self.collect_metrics && self.skip_wait_to_completion),
            "collectMetrics and skipWaitToCompletion cannot both be true; use startCollectingMetrics"
        );
        ensure!(
            !(self.steady_state && self.skip_wait_to_completion),
            "steadyState and skipWaitToCompletion cannot both be true"
        );
        ensure!(
            !self.steady_state || (!self.duration.is_zero() && self.count > 0),
            "a steady state needs a duration and a count above 0"
        );
        let (volume, claim) =
            (&self.persistent_volume_template_path, &self.persistent_volume_claim_template_path);
        ensure!(
            volume.is_some() == claim.is_some(),
            "persistentVolumeTemplatePath and persistentVolumeClaimTemplatePath need each other"
        );
        Ok(())
    }
}

fn one() -> usize {
    1
}

fn half_a_second() -> u64 {
    500
}

/// Decodes a duration of Go, such as `10s`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    let parsed = parsed.and_then(|parsed| Duration::try_from(parsed).ok());
    parsed.filter(|parsed| *parsed <= LONGEST).ok_or_else(|| {
        let why = format!("{text:?} is not a duration of at most a day; write one as 10s");
        serde::de::Error::custom(why)
    })
}
