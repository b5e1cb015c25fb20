//! Fingerprints of the pods on a node, by which an agent says which pods its report accounts for.

use framework::Pod;
use twox_hash::XxHash64;

/// The version of the format.
const PREFIX: &str = "pfp0v001";

/// Returns the fingerprint of these pods. Their order does not matter.
pub(super) fn of<'a>(pods: impl Iterator<Item = &'a Pod>) -> String {
    let mut hashes: Vec<u64> = pods
        .map(|pod| {
            let seed = XxHash64::oneshot(0, pod.key.namespace.as_bytes());
            XxHash64::oneshot(seed, pod.key.name.as_bytes())
        })
        .collect();
    hashes.sort_unstable();
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    format!("{PREFIX}{:016x}", XxHash64::oneshot(0, &bytes))
}

#[cfg(test)]
mod tests {
    use testkit::pod;

    use super::*;

    #[test]
    fn fingerprint_is_that_of_the_agents() {
        let pods = ["jaeger-dpgjk", "nginx-rt684", "envoy-g9m22"]
            .map(|name| pod(name).namespace("production").build());
        assert_eq!(of(pods.iter()), "pfp0v001607b76a0e9d3aeb4");
        assert_eq!(of(pods.iter().rev()), "pfp0v001607b76a0e9d3aeb4");
    }
}
