//! Ids of traces.

use std::fmt;

use framework::Uid;

/// The annotation of a `Scheduled` event with the trace id of its pod.
pub const TRACE_ID_ANNOTATION: &str = "loadmaster.io/trace-id";

/// Number of traced pods of which `samplingRatePerMillion` is a share.
const MILLION: u64 = 1_000_000;

/// The id of a trace; prints as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// Returns the bytes of the id.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// Returns the id of the trace of a pod: its UID, or a hash of the UID if it is not a UUID.
    fn of(pod: &Uid) -> Self {
        match pod {
            Uid::Uuid(uuid) => Self((*uuid).into()),
            Uid::Text(text) => Self(hash(text.as_bytes()).to_be_bytes()),
        }
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Which pods are traced, and under which ids.
///
/// Both follow from the UID of the pod. So every replica, and a process that starts again, adds to
/// the same trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceIds {
    per_million: u64,
}

impl TraceIds {
    /// Traces this share of all pods.
    pub const fn new(per_million: u32) -> Self {
        Self { per_million: per_million as u64 }
    }

    /// Returns the id of the trace of a pod, if the pod is traced.
    pub fn of(self, pod: &Uid) -> Option<TraceId> {
        let id = TraceId::of(pod);
        // Some bits of a UUID are fixed; the bits of its hash are not.
        let draw = (hash(&id.0) >> 64) as u64 % MILLION;
        (draw < self.per_million).then_some(id)
    }
}

/// The hash FNV-1a of 128 bits. It is never zero in practice, which no trace id may be.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UIDs like those of an API server, version 4 of RFC 9562.
    fn uids() -> impl Iterator<Item = Uid> {
        let mut rng = fastrand::Rng::with_seed(7);
        std::iter::repeat_with(move || {
            let (first, second) = (rng.u64(..), rng.u64(..));
            let text = format!(
                "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                first >> 32,
                first >> 16 & 0xffff,
                first & 0xfff,
                second >> 52,
                second & 0xffff_ffff_ffff
            );
            text.as_str().into()
        })
    }

    #[test]
    fn trace_id_is_the_uid_without_dashes() {
        let uid = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f0".into();
        let id = TraceIds::new(1_000_000).of(&uid).unwrap();
        assert_eq!(id.to_string(), "0f1e2d3c4b5a49788695a4b3c2d1e0f0");
        let id = TraceIds::new(1_000_000).of(&"no-uuid".into()).unwrap();
        assert_ne!(id.to_bytes(), [0; 16]);
    }

    #[test]
    fn share_of_traced_pods_is_the_configured_one() {
        for (per_million, low, high) in [
            (0, 0, 0),
            (10_000, 900, 1_100),
            (500_000, 49_500, 50_500),
            (1_000_000, 100_000, 100_000),
        ] {
            let ids = TraceIds::new(per_million);
            let traced = uids().take(100_000).filter(|uid| ids.of(uid).is_some()).count();
            assert!((low..=high).contains(&traced), "{per_million}: {traced} of 100,000");
        }
    }
}
