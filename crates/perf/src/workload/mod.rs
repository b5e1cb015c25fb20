//! The workloads of a `performance-config.yaml`.
//!
//! A file has test cases, each with a list of operations and several workloads. A workload gives
//! values to the parameters of the operations.

mod operation;
mod params;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

pub use self::operation::{
    AllocResourceClaims, Barrier, Churn, ChurnMode, CreateAny, CreateNamespaces, CreateNodes,
    CreatePods, CreateResourceDriver, DeletePods, LabelNodePrepareStrategy,
    NodeAllocatableStrategy, Operation, Sleep, Stage, StartCollectingMetrics, UpdateAny,
    WaitForPodGroups,
};
use self::params::Params;
pub use self::template::{Template, TemplateParams, TemplateUse, Templates};

/// The parameter that scheduler_perf reads itself: the number of features that each node declares.
const DECLARED_FEATURES: &str = "numNodeDeclaredFeatures";

/// A `performance-config.yaml`.
#[derive(Debug, Clone)]
pub struct File {
    path: PathBuf,
    cases: Vec<TestCase>,
}

/// A test case, as the file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TestCase {
    name: String,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    feature_gates: BTreeMap<String, bool>,
    default_pod_template_path: Option<PathBuf>,
    scheduler_config_path: Option<PathBuf>,
    workload_template: Vec<Value>,
    workloads: Vec<Variant>,
}

/// A workload, as the file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Variant {
    name: String,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    feature_gates: BTreeMap<String, bool>,
    scheduler_config_path: Option<PathBuf>,
    threshold: Option<Threshold>,
    #[serde(default)]
    params: BTreeMap<String, Value>,
}

/// The least average throughput: one number, or one for each topic.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Threshold {
    Number(f64),
    Topics(BTreeMap<String, f64>),
}

/// The workloads to run: they match a name, if there are names, and all labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names of test cases or workloads, or both as `TestCase/workload`.
    pub names: Vec<String>,
    /// Labels that a workload must have; with a leading `-`, must not have.
    pub labels: Vec<String>,
}

/// A workload with its parameters resolved.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Test case and workload, as `SchedulingBasic/5Nodes`.
    pub name: String,
    /// The labels of the test case and the workload.
    pub labels: BTreeSet<String>,
    /// The feature gates of the test case, overridden by the gates of the workload.
    pub feature_gates: BTreeMap<String, bool>,
    /// The least average throughput in pods per second.
    pub threshold: Option<f64>,
    /// The configuration of the scheduler.
    pub scheduler_config: Option<PathBuf>,
    /// The template of pods without one of their own.
    pub default_pod_template: Option<PathBuf>,
    /// Number of features that each node declares.
    pub declared_features: usize,
    /// The operations in order. Sets of pods are unrolled into one operation for each namespace.
    pub operations: Vec<Operation>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a list of test cases.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("{}: cannot read the file", path.display()))?;
        let cases = yaml::decode(&text).map_err(anyhow::Error::msg);
        let cases = cases.with_context(|| path.display().to_string())?;
        Ok(Self { path: path.to_owned(), cases })
    }

    /// Returns the selected workloads in the order of the file.
    ///
    /// # Errors
    /// No workload is selected, or an operation of a selected one is invalid.
    pub fn workloads(&self, selection: &Selection) -> anyhow::Result<Vec<Workload>> {
        let all =
            || self.cases.iter().flat_map(|case| case.workloads.iter().map(move |own| (case, own)));
        let selected: Vec<_> = all().filter(|(case, own)| selection.has(case, own)).collect();
        if selected.is_empty() {
            let close = self.names_close_to(selection).join(", ");
            let path = self.path.display();
            bail!("{path}: no workload has these names and labels; there are {close}");
        }
        let resolved = selected.into_iter().map(|(case, own)| {
            self.resolve(case, own)
                .with_context(|| format!("{}: {}", self.path.display(), full_name(case, own)))
        });
        resolved.collect()
    }

    /// Returns the workloads of the test cases that the selection names; without such a test case,
    /// all test cases.
    fn names_close_to(&self, selection: &Selection) -> Vec<String> {
        let is_named = |case: &&TestCase| {
            let mut cases = selection.names.iter().filter_map(|name| name.split('/').next());
            cases.any(|name| name == case.name)
        };
        let named = self.cases.iter().filter(is_named);
        let workloads: Vec<String> = named
            .flat_map(|case| case.workloads.iter().map(move |own| full_name(case, own)))
            .collect();
        match workloads.is_empty() {
            true => self.cases.iter().map(|case| case.name.clone()).collect(),
            false => workloads,
        }
    }

    fn resolve(&self, case: &TestCase, own: &Variant) -> anyhow::Result<Workload> {
        let folder = self.folder();
        let located = |path: &PathBuf| folder.join(path);
        let mut params = Params::new(&own.params);
        let mut operations = Vec::new();
        for (index, value) in case.workload_template.iter().enumerate() {
            let operation = Operation::resolve(value, &mut params, folder).with_context(|| {
                let opcode = value["opcode"].as_str().unwrap_or("without an opcode");
                format!("operation {index} ({opcode})")
            })?;
            operation.unroll_into(&mut operations);
        }
        let declared_features = match own.params.get(DECLARED_FEATURES) {
            None => 0,
            Some(_) => usize::deserialize(params.get(DECLARED_FEATURES)?)
                .with_context(|| format!("params.{DECLARED_FEATURES}"))?,
        };
        if let Some(name) = params.unused().next() {
            bail!("params.{name}: no operation uses this parameter; remove it or correct its name");
        }
        let config = own.scheduler_config_path.as_ref().or(case.scheduler_config_path.as_ref());
        let mut feature_gates = case.feature_gates.clone();
        feature_gates.extend(own.feature_gates.clone());
        Ok(Workload {
            name: full_name(case, own),
            labels: labels(case, own).map(ToOwned::to_owned).collect(),
            feature_gates,
            threshold: own.threshold.as_ref().map(|threshold| self.limit(threshold)).transpose()?,
            scheduler_config: config.map(located),
            default_pod_template: case.default_pod_template_path.as_ref().map(located),
            declared_features,
            operations,
        })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns the threshold of the topic, which is a folder of the file; if there is one topic
    /// only, its threshold.
    fn limit(&self, threshold: &Threshold) -> anyhow::Result<f64> {
        let topics = match threshold {
            Threshold::Number(number) => return Ok(*number),
            Threshold::Topics(topics) => topics,
        };
        let path = fs::canonicalize(self.folder()).unwrap_or_else(|_| self.folder().to_owned());
        let folders = path.ancestors().filter_map(|folder| folder.file_name()?.to_str());
        let own = folders.filter_map(|folder| topics.get(folder)).next();
        let only = topics.values().next().filter(|_| topics.len() == 1);
        own.or(only).copied().with_context(|| {
            let names: Vec<&str> = topics.keys().map(String::as_str).collect();
            format!(
                "threshold: no folder of the file has the name of a topic ({})",
                names.join(", ")
            )
        })
    }
}

impl Selection {
    fn has(&self, case: &TestCase, own: &Variant) -> bool {
        let is_named = |name: &String| {
            *name == case.name || *name == own.name || *name == full_name(case, own)
        };
        let has = |label: &str| labels(case, own).any(|own| own == label);
        let fits = |label: &String| match label.strip_prefix('-') {
            Some(unwanted) => !has(unwanted),
            None => has(label),
        };
        (self.names.is_empty() || self.names.iter().any(is_named)) && self.labels.iter().all(fits)
    }
}

impl Workload {
    /// Returns all templates, with the numbers with which they are used.
    pub fn templates(&self) -> impl Iterator<Item = TemplateUse<'_>> {
        let of_operations = self.operations.iter().flat_map(Operation::templates);
        let default = self.default_pod_template.as_deref();
        let of_pods = self.operations.iter().filter_map(move |operation| match operation {
            Operation::CreatePods(pods) if pods.pod_template_path.is_none() => {
                Some(TemplateUse { path: default?, params: &pods.template_params })
            }
            _ => None,
        });
        of_operations.chain(of_pods)
    }
}

fn full_name(case: &TestCase, own: &Variant) -> String {
    format!("{}/{}", case.name, own.name)
}

fn labels<'a>(case: &'a TestCase, own: &'a Variant) -> impl Iterator<Item = &'a str> {
    case.labels.iter().chain(&own.labels).map(String::as_str)
}

#[cfg(test)]
mod tests;
