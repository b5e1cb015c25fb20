//! ElasticQuotas: how much the pods of a team may use, and how much of it is guaranteed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Pod, Quantity, Time, Uid, api};

/// ElasticQuotas, as `<plural>.<version>.<group>`.
pub const ELASTIC_QUOTAS: &str = "elasticquotas.v1alpha1.scheduling.x-k8s.io";

/// The label by which a pod chooses a quota.
pub const QUOTA_NAME_LABEL: &str = "quota.scheduling.koordinator.sh/name";
/// The label of an ElasticQuota that names its parent.
pub const QUOTA_PARENT_LABEL: &str = "quota.scheduling.koordinator.sh/parent";
/// The label of an ElasticQuota that has others below it.
pub const QUOTA_IS_PARENT_LABEL: &str = "quota.scheduling.koordinator.sh/is-parent";
/// The label of an ElasticQuota that says whether others may use what it leaves of its `min`.
pub const QUOTA_LENDS_LABEL: &str = "quota.scheduling.koordinator.sh/allow-lent-resource";
/// The annotation of an ElasticQuota with its weight for each resource, as a JSON resource list.
pub const QUOTA_WEIGHT_ANNOTATION: &str = "quota.scheduling.koordinator.sh/shared-weight";
/// The annotation of an ElasticQuota with the seconds for which its pods are spared, from their
/// start.
pub const QUOTA_MINIMUM_RUN_ANNOTATION: &str = "loadmaster.io/minimum-run-seconds";
/// The name of the parent that quotas without one have in Koordinator.
const ROOT_QUOTA: &str = "koordinator-root-quota";

/// Amounts by the names of resources: CPU in thousandths, all others in units.
pub type QuotaAmounts = BTreeMap<Arc<str>, i64>;

/// Namespace and name of an ElasticQuota; prints as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaKey {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for QuotaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An ElasticQuota of `scheduling.x-k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElasticQuota {
    /// Its UID.
    pub uid: Uid,
    /// When it was created.
    pub created: Option<Time>,
    /// The desired state.
    pub spec: QuotaSpec,
    /// `status.used`; `None` if it is absent.
    pub used: Option<QuotaAmounts>,
}

/// The desired state of an ElasticQuota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaSpec {
    /// The guaranteed amounts; `None` if the field is absent.
    pub min: Option<QuotaAmounts>,
    /// The largest amounts; `None` if the field is absent.
    pub max: Option<QuotaAmounts>,
    /// The name of its parent; `None` for a quota at the top.
    pub parent: Option<Arc<str>>,
    /// Whether its place in a tree is given, by a parent or because it is one.
    pub is_in_tree: bool,
    /// Whether it has others below it.
    pub is_parent: bool,
    /// Whether others may use what it leaves of its `min`.
    pub lends: bool,
    /// Its share of what is left, compared with that of others; `None` for the default.
    pub weight: Option<QuotaAmounts>,
    /// For how long its pods are not evicted for pods of others, from their start.
    pub minimum_run: Option<Duration>,
}

/// A field of an ElasticQuota that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaFault {
    /// The path of the field.
    pub path: String,
    /// The reason.
    pub reason: String,
}

impl ElasticQuota {
    /// Converts the API object.
    ///
    /// # Errors
    /// An amount is no quantity, or the weight is no resource list.
    pub fn from_api(quota: &api::ElasticQuota) -> Result<Self, QuotaFault> {
        let api::ElasticQuota { metadata, spec, status } = quota;
        let label = |name: &str| metadata.labels.get(name).map(String::as_str);
        let parent = label(QUOTA_PARENT_LABEL).filter(|name| !name.is_empty());
        let is_parent = label(QUOTA_IS_PARENT_LABEL) == Some("true");
        let amounts = |list: &Option<api::ResourceList>, path: &str| {
            list.as_ref().map(|list| amounts(list, path)).transpose()
        };
        let created = metadata.creation_timestamp.as_deref();
        Ok(Self {
            uid: metadata.uid.as_str().into(),
            created: created.and_then(|created| Time::parse_rfc3339(created).ok()),
            spec: QuotaSpec {
                min: amounts(&spec.min, "spec.min")?,
                max: amounts(&spec.max, "spec.max")?,
                parent: parent.filter(|name| *name != ROOT_QUOTA).map(Into::into),
                is_in_tree: parent.is_some() || is_parent,
                is_parent,
                lends: label(QUOTA_LENDS_LABEL) != Some("false"),
                weight: weight(&metadata.annotations)?,
                minimum_run: minimum_run(&metadata.annotations)?,
            },
            used: amounts(&status.used, "status.used")?,
        })
    }
}

fn weight(annotations: &BTreeMap<String, String>) -> Result<Option<QuotaAmounts>, QuotaFault> {
    let Some(text) = annotations.get(QUOTA_WEIGHT_ANNOTATION) else { return Ok(None) };
    let path = format!("metadata.annotations[{QUOTA_WEIGHT_ANNOTATION}]");
    let list: api::ResourceList = serde_json::from_str(text).map_err(|error| QuotaFault {
        path: path.clone(),
        reason: format!("is no JSON object of quantities by resource: {error}"),
    })?;
    amounts(&list, &path).map(Some)
}

fn minimum_run(annotations: &BTreeMap<String, String>) -> Result<Option<Duration>, QuotaFault> {
    let Some(text) = annotations.get(QUOTA_MINIMUM_RUN_ANNOTATION) else { return Ok(None) };
    let seconds = text.trim().parse().map_err(|_| QuotaFault {
        path: format!("metadata.annotations[{QUOTA_MINIMUM_RUN_ANNOTATION}]"),
        reason: format!("{text:?} is no whole number of seconds"),
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}

fn amounts(list: &api::ResourceList, path: &str) -> Result<QuotaAmounts, QuotaFault> {
    let amount = |(name, text): (&String, &api::QuantityText)| {
        let quantity: Quantity = text.0.parse().map_err(|error| QuotaFault {
            path: format!("{path}[{name}]"),
            reason: format!("cannot read {:?} as a quantity: {error}", text.0),
        })?;
        let amount = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
        Ok((Arc::from(name.as_str()), amount))
    };
    list.iter().map(amount).collect()
}

/// Returns an amount of a resource as a quantity: CPU in thousandths, memory and storage with the
/// largest binary suffix that leaves a whole number.
pub fn quantity_of(resource: &str, amount: i64) -> String {
    const SUFFIXES: [&str; 5] = ["", "Ki", "Mi", "Gi", "Ti"];
    match resource {
        "cpu" if amount % 1000 != 0 => format!("{amount}m"),
        "cpu" => (amount / 1000).to_string(),
        "memory" | "ephemeral-storage" if amount != 0 => {
            let (mut left, mut suffix) = (amount, 0);
            while left % 1024 == 0 && suffix + 1 < SUFFIXES.len() {
                left /= 1024;
                suffix += 1;
            }
            format!("{left}{}", SUFFIXES[suffix])
        }
        _ => amount.to_string(),
    }
}

impl Pod {
    /// Returns the name of the quota that the pod chooses by its [label](QUOTA_NAME_LABEL).
    pub fn quota_name(&self) -> Option<&str> {
        self.labels.get(QUOTA_NAME_LABEL).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    fn quota(object: Value) -> Result<ElasticQuota, QuotaFault> {
        ElasticQuota::from_api(&api::ElasticQuota::deserialize(object).unwrap())
    }

    #[test]
    fn amounts_are_read_with_cpu_in_thousandths() {
        let spec = json!({"min": {"cpu": "1500m", "nvidia.com/gpu": 4}, "max": {}});
        let quota = quota(json!({"spec": spec, "status": {"used": {"memory": "1Gi"}}})).unwrap();
        let min = quota.spec.min.unwrap();
        assert_eq!((min["cpu"], min["nvidia.com/gpu"], min.len()), (1500, 4, 2));
        assert_eq!(quota.spec.max.unwrap().len(), 0);
        assert_eq!(quota.used.unwrap()["memory"], 1 << 30);
    }

    #[test]
    fn place_in_the_tree_is_read_from_labels() {
        let read = |labels: Value| quota(json!({"metadata": {"labels": labels}})).unwrap().spec;
        let plain = read(json!({}));
        assert_eq!((plain.parent, plain.is_in_tree, plain.is_parent), (None, false, false));
        assert!(plain.lends);
        let child = read(json!({QUOTA_PARENT_LABEL: "lab", QUOTA_LENDS_LABEL: "false"}));
        assert_eq!((child.parent.as_deref(), child.is_in_tree), (Some("lab"), true));
        assert!(!child.lends);
        let top = read(json!({QUOTA_PARENT_LABEL: ROOT_QUOTA, QUOTA_IS_PARENT_LABEL: "true"}));
        assert_eq!((top.parent, top.is_in_tree, top.is_parent), (None, true, true));
    }

    #[test]
    fn amounts_print_as_quantities() {
        let rows = [
            ("cpu", 1500, "1500m"),
            ("cpu", 2000, "2"),
            ("memory", 3 << 30, "3Gi"),
            ("memory", 0, "0"),
            ("memory", 1025, "1025"),
            ("nvidia.com/gpu", 1024, "1024"),
        ];
        for (resource, amount, expected) in rows {
            assert_eq!(quantity_of(resource, amount), expected);
        }
    }

    #[test]
    fn unreadable_amount_is_named() {
        let fault = quota(json!({"spec": {"min": {"cpu": "many"}}})).unwrap_err();
        assert_eq!(fault.path, "spec.min[cpu]");
        let with = |weight: &str| {
            quota(json!({"metadata": {"annotations": {QUOTA_WEIGHT_ANNOTATION: weight}}}))
        };
        assert!(with("4").unwrap_err().path.contains(QUOTA_WEIGHT_ANNOTATION));
        assert_eq!(with(r#"{"cpu": "2"}"#).unwrap().spec.weight.unwrap()["cpu"], 2000);
    }
}
