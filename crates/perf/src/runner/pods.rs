//! The operations on pods.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::creator::Creator;
use super::{LOOK, Run, WORKERS};
use crate::api::{Fields, Kind};
use crate::objects;
use crate::pods::Labels;
use crate::workload::{CreatePods, Template, TemplateUse};

/// The pods of an operation.
#[derive(Clone)]
struct Recipe {
    namespace: String,
    count: usize,
    pod: Option<Arc<Template>>,
    /// Templates of the volume and the claim of each pod.
    volume: Option<(Arc<Template>, Arc<Template>)>,
}

impl Recipe {
    fn pod(&self, index: usize) -> anyhow::Result<Value> {
        self.pod
            .as_ref()
            .map_or_else(|| Ok(objects::base_pod()), |pod| pod.object(index, self.count))
    }

    /// Creates a pod, with its claim and volume first.
    async fn create(&self, creator: &Creator, index: usize) -> anyhow::Result<()> {
        let mut pod = self.pod(index)?;
        if let Some((volume, claim)) = &self.volume {
            let mut volume = volume.object(index, self.count)?;
            let mut claim = claim.object(index, self.count)?;
            objects::bind_volume(&mut volume, &mut claim, &mut pod, &self.namespace, index);
            creator.create(claim, &self.namespace, Fields::Any).await?;
            creator.create(volume, &self.namespace, Fields::Any).await?;
        }
        creator.create(pod, &self.namespace, Fields::Any).await.map(drop)
    }
}

impl Run<'_> {
    pub(super) async fn create_pods(
        &mut self,
        index: usize,
        operation: &CreatePods,
    ) -> anyhow::Result<()> {
        let namespace = operation.namespace.clone().unwrap_or_else(|| format!("namespace-{index}"));
        self.existing(Some(&namespace)).await?;
        let get = |path: &Option<PathBuf>| {
            let params = &operation.template_params;
            path.as_deref().map(|path| self.templates.get(TemplateUse { path, params })).transpose()
        };
        let pod = get(&operation.pod_template_path)?;
        let volume = get(&operation.persistent_volume_template_path)?;
        let recipe = Recipe {
            namespace: namespace.clone(),
            count: operation.count,
            pod: match pod {
                None => get(&self.workload.default_pod_template)?,
                pod => pod,
            },
            volume: volume.zip(get(&operation.persistent_volume_claim_template_path)?),
        };
        self.creator.ensure_priority_class(recipe.pod(0)?).await?;
        if operation.collect_metrics {
            self.start_measurement(&namespace, vec![namespace.clone()], Labels::new())?;
        }
        if operation.steady_state {
            self.keep_steady(&recipe, operation).await?;
        } else {
            let (creator, recipe) = (&self.creator, &recipe);
            let creations =
                stream::iter(0..operation.count).map(|index| recipe.create(creator, index));
            creations.buffer_unordered(WORKERS).try_collect::<()>().await?;
            if operation.skip_wait_to_completion {
                let unwaited = self.unwaited.entry(namespace).or_default();
                *unwaited = unwaited.saturating_add(operation.count);
            } else {
                self.until_scheduled(&namespace, &Labels::new(), operation.count).await?;
            }
        }
        if operation.collect_metrics {
            self.stop_measurement().await?;
        }
        Ok(())
    }

    /// Replaces each pod that gets a node, until the duration is over.
    async fn keep_steady(&mut self, recipe: &Recipe, operation: &CreatePods) -> anyhow::Result<()> {
        let end = Instant::now() + operation.duration;
        let mut scheduled = self.pods.scheduled_in(&recipe.namespace);
        let pods = self.creator.api.kind("v1", "Pod").await?;
        let mut replacements = JoinSet::new();
        for index in 0..recipe.count {
            recipe.create(&self.creator, index).await?;
        }
        let (mut created, mut replaced) = (recipe.count, 0_usize);
        let mut looks = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                () = sleep_until(end) => break,
                Some(name) = scheduled.recv() => {
                    let replacing = replace(recipe.clone(), self.creator.clone(), pods.clone(), name, created);
                    replacements.spawn(replacing);
                    created += 1;
                    replaced += 1;
                }
                Some(done) = replacements.join_next() => done??,
                _ = looks.tick() => {
                    self.progress.doing(&format!("{replaced} pods scheduled and replaced"));
                    self.check()?;
                }
            }
        }
        ensure!(replaced > 0, "no pod was scheduled in {:?}", operation.duration);
        Ok(())
    }
}

async fn replace(
    recipe: Recipe,
    creator: Creator,
    pods: Kind,
    name: String,
    index: usize,
) -> anyhow::Result<()> {
    creator.api.delete(&pods.within(&recipe.namespace), &name, Some(0)).await?;
    recipe.create(&creator, index).await
}
