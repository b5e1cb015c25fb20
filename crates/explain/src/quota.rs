//! The answer about quotas: what each guarantees, uses, borrows and may use.

use framework::Cluster;
use framework::quota::{Books, QuotaView};
use serde::{Deserialize, Serialize};

use crate::quantity;

/// The quotas as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotasAnswer {
    /// One sentence.
    pub summary: String,
    /// The quotas that count, each behind its parent.
    pub quotas: Vec<QuotaRow>,
    /// The quotas that do not count, beside an older one of their namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// A quota.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRow {
    /// Namespace and name.
    pub quota: String,
    /// Number of quotas above it.
    pub depth: usize,
    /// Number of pods without a node, of it and of those below it.
    pub pending: i64,
    /// Whether others may use what it leaves of its `min`.
    pub lends: bool,
    /// The resources that it governs.
    pub resources: Vec<QuotaResource>,
}

/// A resource of a quota, in the unit of the resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaResource {
    /// The name.
    pub resource: String,
    /// What pods with a node use.
    pub used: String,
    /// The guarantee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// What it may use without owing it to others.
    pub share: String,
    /// What it uses beyond its `min`; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowed: Option<String>,
    /// What its pods use and ask for.
    pub wanted: String,
    /// What it uses of its share, in percent.
    pub percent: i64,
    /// The same amounts, compared with each other.
    #[serde(default)]
    pub bar: QuotaBar,
}

/// Amounts of a resource of a quota, in percent of the largest of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaBar {
    /// What pods with a node use.
    pub used: i64,
    /// What they use beyond the guarantee.
    pub borrowed: i64,
    /// What pods use and ask for.
    pub wanted: i64,
    /// The guarantee.
    pub min: i64,
    /// What may be used without owing it to others.
    pub share: i64,
}

/// Answers about all quotas.
pub fn explain_quotas(cluster: &Cluster) -> QuotasAnswer {
    let books = cluster.quotas();
    if !books.counts() {
        let summary = "no profile enables CapacityScheduling, so quotas have no effect".to_owned();
        return QuotasAnswer { summary, ..QuotasAnswer::default() };
    }
    let mut quotas = Vec::new();
    let mut tops: Vec<QuotaView<'_>> = books.tops().collect();
    tops.sort_by(|one, other| one.key().cmp(other.key()));
    tops.into_iter().for_each(|top| add(books, top, 0, &mut quotas));
    let ignored = books.quotas().filter(|quota| !quota.counts());
    let ignored: Vec<String> = ignored.map(|quota| quota.key().to_string()).collect();
    let borrowing = quotas
        .iter()
        .filter(|row: &&QuotaRow| row.resources.iter().any(|resource| resource.borrowed.is_some()));
    let pending: i64 = quotas.iter().filter(|row| row.depth == 0).map(|row| row.pending).sum();
    let summary = format!(
        "{} quotas count, {} use more than their guarantee, {pending} of their pods wait",
        quotas.len(),
        borrowing.count()
    );
    QuotasAnswer { summary, quotas, ignored }
}

fn add(books: &Books, quota: QuotaView<'_>, depth: usize, rows: &mut Vec<QuotaRow>) {
    let resources = quota.governed().map(|resource| {
        let name = books.resource_name(resource);
        let narrow = |amount: i128| i64::try_from(amount).unwrap_or(i64::MAX);
        let text = |amount: i128| quantity::text(name, narrow(amount));
        let (used, share) = (quota.used(resource), books.share_of(quota.ix(), resource));
        let min = quota.min(resource).map(i128::from);
        let beyond = used - min.unwrap_or_default();
        let wanted = quota.demand(resource);
        let all = [used, share, wanted, min.unwrap_or_default(), 1].into_iter().max().unwrap_or(1);
        let part = |amount: i128| narrow(amount.max(0).saturating_mul(100) / all);
        QuotaResource {
            resource: name.to_string(),
            used: text(used),
            min: min.map(text),
            max: quota.max(resource).map(|max| text(max.into())),
            share: text(share),
            borrowed: (beyond > 0).then(|| text(beyond)),
            wanted: text(wanted),
            percent: narrow(used.saturating_mul(100) / share.max(1)),
            bar: QuotaBar {
                used: part(used),
                borrowed: part(beyond),
                wanted: part(wanted),
                min: part(min.unwrap_or_default()),
                share: part(share),
            },
        }
    });
    rows.push(QuotaRow {
        quota: quota.key().to_string(),
        depth,
        pending: quota.waiting(),
        lends: quota.object().spec.lends,
        resources: resources.collect(),
    });
    let mut children: Vec<QuotaView<'_>> = quota.children().collect();
    children.sort_by(|one, other| one.key().cmp(other.key()));
    children.into_iter().for_each(|child| add(books, child, depth + 1, rows));
}

impl QuotasAnswer {
    /// Keeps a quota, those above it and those below it. Returns whether there is such a quota.
    pub fn retain(&mut self, quota: &str) -> bool {
        let Some(place) = self.quotas.iter().position(|row| row.quota == quota) else {
            return false;
        };
        let own = self.quotas[place].depth;
        let below = self.quotas[place + 1..].iter().take_while(|row| row.depth > own).count();
        let mut above = own;
        let mut kept: Vec<QuotaRow> = Vec::new();
        for row in self.quotas[..place].iter().rev() {
            if row.depth < above {
                above = row.depth;
                kept.insert(0, row.clone());
            }
        }
        kept.extend_from_slice(&self.quotas[place..=place + below]);
        self.quotas = kept;
        true
    }
}

#[cfg(test)]
mod tests {
    use framework::{
        Cluster, ELASTIC_QUOTAS, EventResource, QUOTA_IS_PARENT_LABEL, QUOTA_PARENT_LABEL,
    };
    use serde_json::json;
    use testkit::{object, pod};

    use super::*;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        cluster.count_quotas();
        let quota = |namespace: &str, name: &str, labels: serde_json::Value, cpu: &str| {
            let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
            let spec = json!({"min": {"cpu": cpu}, "max": {"cpu": "8"}});
            let kind = EventResource::Custom(ELASTIC_QUOTAS.into());
            object(kind, json!({"metadata": metadata, "spec": spec}))
        };
        cluster.set_object(quota("x", "lab", json!({QUOTA_IS_PARENT_LABEL: "true"}), "4"));
        cluster.set_object(quota("default", "a", json!({QUOTA_PARENT_LABEL: "lab"}), "1"));
        cluster.set_object(quota("b", "b", json!({QUOTA_PARENT_LABEL: "lab"}), "3"));
        cluster.set_object(quota("c", "c", json!({}), "1"));
        cluster.place_pod(pod("p").cpu("2").build().into(), "n");
        cluster
    }

    #[test]
    fn quotas_are_listed_behind_their_parents() {
        let answer = explain_quotas(&cluster());
        let names: Vec<_> = answer.quotas.iter().map(|row| (&*row.quota, row.depth)).collect();
        assert_eq!(names, [("c/c", 0), ("x/lab", 0), ("b/b", 1), ("default/a", 1)]);
        let own = &answer.quotas[3].resources[0];
        assert_eq!((&*own.used, own.borrowed.as_deref(), &*own.share), ("2", Some("1"), "2"));
        assert_eq!(own.percent, 100);
        let bar = QuotaBar { used: 100, borrowed: 50, wanted: 100, min: 50, share: 100 };
        assert_eq!(own.bar, bar);
        assert!(answer.summary.starts_with("4 quotas count, 1 use more"), "{}", answer.summary);
    }

    #[test]
    fn one_quota_is_shown_with_those_above_and_below_it() {
        let mut answer = explain_quotas(&cluster());
        assert!(!answer.clone().retain("default/unknown"));
        assert!(answer.retain("default/a"));
        let names: Vec<_> = answer.quotas.iter().map(|row| &*row.quota).collect();
        assert_eq!(names, ["x/lab", "default/a"]);
    }

    #[test]
    fn cluster_without_the_plugin_says_so() {
        let answer = explain_quotas(&Cluster::default());
        assert!(answer.summary.contains("CapacityScheduling"));
    }
}
