//! What the pods of quotas use.

use framework::Cluster;
use serde::{Deserialize, Serialize, Serializer};

use crate::usage;

/// A resource of a quota, in the units of [`Usage`](crate::Usage).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUsage {
    /// The quota, as `NAMESPACE/NAME`.
    pub quota: String,
    /// The resource.
    pub resource: String,
    /// The guarantee.
    #[serde(serialize_with = "shortest")]
    pub guaranteed: f64,
    /// The amount that pods with a node use.
    #[serde(serialize_with = "shortest")]
    pub used: f64,
    /// Number of pods without a node, of the quota and of those below it.
    pub pending: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn shortest<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    usage::shortest(*number).serialize(serializer)
}

/// Returns what the pods of all quotas that count use, by namespace and name.
pub(crate) fn of_quotas(cluster: &Cluster) -> Vec<QuotaUsage> {
    let books = cluster.quotas();
    let mut rows = Vec::new();
    for quota in books.quotas().filter(|quota| quota.counts()) {
        rows.extend(quota.governed().map(|resource| {
            let name = books.resource_name(resource);
            let scale = if **name == *"cpu" { 1000.0 } else { 1.0 };
            QuotaUsage {
                quota: quota.key().to_string(),
                resource: name.to_string(),
                guaranteed: quota.min(resource).unwrap_or_default() as f64 / scale,
                used: quota.used(resource) as f64 / scale,
                pending: quota.waiting(),
            }
        }));
    }
    rows
}
