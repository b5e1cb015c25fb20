//! Waiting for pods.

use anyhow::Context;

use super::Run;
use crate::pods::Labels;
use crate::workload::{Barrier, Stage};

impl Run<'_> {
    pub(super) async fn barrier(&mut self, operation: &Barrier) -> anyhow::Result<()> {
        let namespaces = match operation.namespaces.as_slice() {
            [] => self.unwaited.keys().cloned().collect(),
            namespaces => namespaces.to_vec(),
        };
        for namespace in &namespaces {
            let count = self.unwaited.get(namespace);
            let count = *count.with_context(|| {
                format!("namespaces: no operation before has created the namespace {namespace}")
            })?;
            match operation.stage_requirement {
                Stage::Attempted => {
                    self.until_attempted(namespace, &operation.label_selector, count).await?;
                }
                Stage::Scheduled => {
                    self.until_scheduled(namespace, &operation.label_selector, count).await?;
                }
            }
        }
        if operation.stage_requirement == Stage::Scheduled {
            self.unwaited.retain(|namespace, _| !namespaces.contains(namespace));
        }
        Ok(())
    }

    /// Waits until this number of pods has nodes.
    pub(super) async fn until_scheduled(
        &mut self,
        namespace: &str,
        labels: &Labels,
        wanted: usize,
    ) -> anyhow::Result<()> {
        self.until(|pods| {
            let counts = pods.count(namespace, labels)?;
            Ok((counts.scheduled < wanted).then(|| {
                let example = counts.example.unwrap_or_default();
                format!("{} of {wanted} pods scheduled in {namespace}; {example}", counts.scheduled)
            }))
        })
        .await
    }

    /// Waits until the scheduler has tried this number of pods.
    async fn until_attempted(
        &mut self,
        namespace: &str,
        labels: &Labels,
        wanted: usize,
    ) -> anyhow::Result<()> {
        self.until(|pods| {
            let counts = pods.count(namespace, labels)?;
            let tried = counts.scheduled + counts.attempted;
            Ok((tried < wanted).then(|| format!("{tried} of {wanted} pods tried in {namespace}")))
        })
        .await
    }
}
