//! How far quotas are below their guarantee.

use crate::node::QuotaView;

/// The largest part that a quota uses of its `min`, over the resources of `min`, in units of 2⁻⁶².
/// Quotas that use a guarantee up, or have none, are equal and come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing(u64);

const WHOLE: u64 = 1 << 62;

impl QuotaView<'_> {
    /// Returns how far the quota is below its guarantee.
    pub fn standing(self) -> Standing {
        let guaranteed = self.node().min.iter().filter(|(_, min)| *min > 0);
        let part = |used: i128, min: i64| {
            let scaled = used.clamp(0, i128::from(min)) * i128::from(WHOLE);
            u64::try_from(scaled / i128::from(min)).unwrap_or(WHOLE)
        };
        let parts = guaranteed.map(|(resource, min)| part(self.used(resource), min));
        Standing(parts.max().unwrap_or(WHOLE))
    }
}
