//! The operations that may go on beside others.

use std::time::Duration;

use serde_json::Value;
use tokio::time::interval;

use super::creator::Creator;
use super::{Run, turns};
use crate::api::{Fields, List, Named, Place};
use crate::workload::{Churn, ChurnMode, DeletePods, TemplateUse};

impl Run<'_> {
    pub(super) async fn delete_pods(&mut self, operation: &DeletePods) -> anyhow::Result<()> {
        let api = self.creator.api.clone();
        let place = api.kind("v1", "Pod").await?.within(&operation.namespace);
        let labels = operation.label_selector.clone();
        let rate = operation.delete_pods_per_second;
        let pods: List<Named> = api.list(&place, &labels).await?;
        let deletion = async move {
            let Some(mut turns) = turns(rate) else {
                return api.delete_all(&place, &labels, None).await;
            };
            for pod in pods.items {
                turns.tick().await;
                api.delete(&place, &pod.metadata.name, None).await?;
            }
            Ok(())
        };
        if operation.skip_wait_to_completion {
            self.background.spawn(deletion);
            return Ok(());
        }
        deletion.await
    }

    pub(super) async fn churn(&mut self, index: usize, operation: &Churn) -> anyhow::Result<()> {
        let namespace = operation.namespace.clone().unwrap_or_else(|| format!("namespace-{index}"));
        self.existing(Some(&namespace)).await?;
        let mut objects = Vec::new();
        for path in &operation.template_paths {
            let object = self.templates.get(TemplateUse::plain(path))?.object(0, 1)?;
            self.creator.ensure_priority_class(object.clone()).await?;
            objects.push(object);
        }
        let (creator, mode, number) = (self.creator.clone(), operation.mode, operation.number);
        let pause = Duration::from_millis(operation.interval_milliseconds);
        self.background.spawn(async move {
            match mode {
                ChurnMode::Create => create(&creator, &objects, &namespace, number, pause).await,
                ChurnMode::Recreate => {
                    recreate(&creator, &objects, &namespace, number, pause).await
                }
            }
        });
        Ok(())
    }
}

/// Creates one object of each template in each round; without end if there are 0 rounds.
async fn create(
    creator: &Creator,
    objects: &[Value],
    namespace: &str,
    rounds: usize,
    pause: Duration,
) -> anyhow::Result<()> {
    let mut turns = interval(pause);
    turns.tick().await;
    let mut round = 0;
    while rounds == 0 || round < rounds {
        turns.tick().await;
        for object in objects {
            creator.create(object.clone(), namespace, Fields::Any).await?;
        }
        round += 1;
    }
    Ok(())
}

/// Creates objects in `number` rounds, deletes them in as many, and begins again.
async fn recreate(
    creator: &Creator,
    objects: &[Value],
    namespace: &str,
    number: usize,
    pause: Duration,
) -> anyhow::Result<()> {
    let mut turns = interval(pause);
    turns.tick().await;
    let mut existing: Vec<Option<Vec<(Place, String)>>> = vec![None; number];
    for slot in (0..number).cycle() {
        turns.tick().await;
        match existing[slot].take() {
            Some(created) => {
                for (place, name) in created {
                    creator.api.delete(&place, &name, None).await?;
                }
            }
            None => {
                let mut created = Vec::new();
                for object in objects {
                    created.push(creator.create(object.clone(), namespace, Fields::Any).await?);
                }
                existing[slot] = Some(created);
            }
        }
    }
    Ok(())
}
