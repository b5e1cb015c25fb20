//! Upper bounds of histogram buckets, as in kube-scheduler.

use prometheus::exponential_buckets;

/// Returns `count` bounds with ratio `factor`; computed by repeated multiplication, as in Go.
fn exponential(start: f64, factor: f64, count: usize) -> Vec<f64> {
    exponential_buckets(start, factor, count)
        .expect("start, factor and count are constants in range")
}

/// Returns bounds for scheduling attempts: 1 ms to 16 s.
pub(super) fn attempt() -> Vec<f64> {
    exponential(0.001, 2.0, 15)
}

/// Returns bounds for extension points and event handlers: 0.1 ms to 0.2 s.
pub(super) fn extension_point() -> Vec<f64> {
    exponential(0.0001, 2.0, 12)
}

/// Returns bounds for calls of one plugin: 10 µs to 22 ms.
pub(super) fn plugin() -> Vec<f64> {
    exponential(0.00001, 1.5, 20)
}

/// Returns bounds for the time of a pod from the queue to its node: 10 ms to 87 min.
pub(super) fn pod() -> Vec<f64> {
    exponential(0.01, 2.0, 20)
}

/// Number of attempts of a pod.
pub(super) const POD_ATTEMPTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0];

/// Number of victims of a preemption for a pod.
pub(super) const VICTIMS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Number of victims of a preemption for a pod group.
pub(super) const GROUP_VICTIMS: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Duration of requests to the API server, in seconds.
pub(super) const REQUEST: &[f64] =
    &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Size of request and response bodies, in bytes.
pub(super) const BODY: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Duration of reviews of credentials and permissions, in seconds.
pub(super) const DELEGATED_AUTH: &[f64] = &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// Time in which changes of a watch are handled, in seconds.
pub(super) const INFORMER: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
