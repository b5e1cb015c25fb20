//! Metrics of quotas.

use framework::quota::{Books, QuotaView, ResourceIx};

use super::family::{GaugeVec, IntGaugeVec};
use super::table::{ALPHA, Declaration, Table};

/// Maximum number of quotas with series. Quotas at the top of the tree get theirs first.
const MOST_QUOTAS: usize = 300;

/// Metrics of quotas. Without quotas they have no series.
#[derive(Debug)]
pub(super) struct Quotas {
    amounts: GaugeVec,
    pending: IntGaugeVec,
    counts: IntGaugeVec,
}

impl Quotas {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            amounts: table.timestamps(Declaration {
                name: "loadmaster_quota_amount",
                labels: &["quota", "resource", "amount"],
                help: "Amounts of an ElasticQuota, by namespace/name: `guaranteed` (min), `max`, \
                       `used`, `share`, `borrowed` (used beyond min) and `wanted` (used and asked \
                       for by pods without a node). CPU in CPUs.",
                page: "`guaranteed` (min), `max`, `used`, [`share`](quotas.md#shares), `borrowed` \
                       (used beyond min) and `wanted` (used, and asked for by pods without a \
                       node) of an ElasticQuota, `NAMESPACE/NAME`, in CPUs, bytes or units; \
                       updated every five seconds. Of 300 quotas, those at the top first",
                ..ALPHA
            }),
            pending: table.gauges(Declaration {
                name: "loadmaster_quota_pending_pods",
                labels: &["quota"],
                help: "Pods without a node of an ElasticQuota and those below it.",
                page: "Pods without a node of an ElasticQuota and those below it, without pods \
                       that have scheduling gates",
                ..ALPHA
            }),
            counts: table.gauges(Declaration {
                name: "loadmaster_quotas",
                labels: &["state"],
                help: "ElasticQuotas: `counted`, `ignored` beside an older one of its namespace, \
                       and `not_shown` in the other metrics.",
                page: "ElasticQuotas: `counted`, `ignored` beside an older one of their namespace, \
                       and `not_shown` by the metrics above",
                ..ALPHA
            }),
        }
    }

    /// Sets all of them.
    pub(super) fn set(&self, books: &Books) {
        self.amounts.reset();
        self.pending.reset();
        if !books.counts() {
            return;
        }
        let mut queue: std::collections::VecDeque<QuotaView<'_>> = books.tops().collect();
        let mut shown = 0;
        while let Some(quota) = queue.pop_front().filter(|_| shown < MOST_QUOTAS) {
            queue.extend(quota.children());
            shown += 1;
            self.set_quota(books, quota);
        }
        let counted = books.quotas().filter(|quota| quota.counts()).count();
        let ignored = books.quotas().count() - counted;
        let states = [("counted", counted), ("ignored", ignored), ("not_shown", counted - shown)];
        super::set_sizes(&self.counts, states);
    }

    fn set_quota(&self, books: &Books, quota: QuotaView<'_>) {
        let name = quota.key().to_string();
        self.pending.with_label_values(&[&name]).set(quota.waiting());
        for resource in quota.governed() {
            let used = quota.used(resource);
            let min = quota.min(resource).map_or(0, i128::from);
            let amounts = [
                ("guaranteed", Some(min)),
                ("max", quota.max(resource).map(i128::from)),
                ("used", Some(used)),
                ("share", Some(books.share_of(quota.ix(), resource))),
                ("borrowed", Some((used - min).max(0))),
                ("wanted", Some(quota.demand(resource))),
            ];
            let of = |amount: &str| {
                let resource = &**books.resource_name(resource);
                self.amounts.with_label_values(&[&*name, resource, amount])
            };
            for (amount, value) in amounts {
                if let Some(value) = value {
                    of(amount).set(in_units(books, resource, value));
                }
            }
        }
    }
}

/// Returns an amount as Prometheus counts it: CPU in CPUs.
#[expect(clippy::cast_precision_loss, reason = "a metric is a 64-bit float")]
fn in_units(books: &Books, resource: ResourceIx, amount: i128) -> f64 {
    let scale = if **books.resource_name(resource) == *"cpu" { 1000.0 } else { 1.0 };
    amount as f64 / scale
}
