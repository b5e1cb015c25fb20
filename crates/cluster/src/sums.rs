//! Sums of the requests of sets of pods.

use std::sync::Arc;

use smallvec::SmallVec;

use api::{Pod, Resources};

/// The number of pods in a set, and the sum of their requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodSums {
    /// Number of pods, including terminating pods.
    pub pods: i64,
    /// Sum of [`PodRequests::placed`](api::PodRequests::placed). Scalar resources with the sum 0
    /// are left out.
    pub requests: Resources,
}

/// Running sums that follow pods as they are placed and removed. They are wide enough to be exact
/// for any number of pods.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningSums {
    pods: i64,
    milli_cpu: i128,
    memory: i128,
    ephemeral_storage: i128,
    scalars: SmallVec<[(Arc<str>, i128); 1]>,
}

impl RunningSums {
    pub(super) const fn pods(&self) -> i64 {
        self.pods
    }

    pub(super) fn add(&mut self, pod: &Pod) {
        self.count(pod, 1);
    }

    pub(super) fn subtract(&mut self, pod: &Pod) {
        self.count(pod, -1);
    }

    fn count(&mut self, pod: &Pod, sign: i64) {
        let Resources { milli_cpu, memory, ephemeral_storage, scalars } = &pod.requests.placed;
        let signed = |amount: i64| i128::from(amount) * i128::from(sign);
        self.pods += sign;
        self.milli_cpu += signed(*milli_cpu);
        self.memory += signed(*memory);
        self.ephemeral_storage += signed(*ephemeral_storage);
        for (name, amount) in scalars {
            match self.scalars.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += signed(*amount),
                None => self.scalars.push((name.clone(), signed(*amount))),
            }
        }
        if !scalars.is_empty() {
            self.scalars.retain(|(_, sum)| *sum != 0);
        }
    }

    /// Returns the sums, which saturate at the largest `i64`.
    pub(super) fn totals(&self) -> PodSums {
        let narrow = |sum: i128| i64::try_from(sum).unwrap_or(i64::MAX);
        let scalars = self.scalars.iter().map(|(name, sum)| (name.clone(), narrow(*sum)));
        let mut scalars: Vec<_> = scalars.collect();
        scalars.sort_unstable();
        let requests = Resources {
            milli_cpu: narrow(self.milli_cpu),
            memory: narrow(self.memory),
            ephemeral_storage: narrow(self.ephemeral_storage),
            scalars: scalars.into(),
        };
        PodSums { pods: self.pods, requests }
    }
}
