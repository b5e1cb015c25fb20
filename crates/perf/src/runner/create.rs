//! The operations that create and update nodes, namespaces and objects of any kind.

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{LOOK, PATIENCE, Run, WORKERS, turns};
use crate::api::{Fields, List};
use crate::objects;
use crate::pods::Labels;
use crate::workload::{
    CreateAny, CreateNamespaces, CreateNodes, TemplateUse, UpdateAny, WaitForPodGroups,
};

/// The version of PodGroups; another one is used if the API server does not serve it.
const POD_GROUPS: &str = "scheduling.k8s.io/v1beta1";

impl Run<'_> {
    pub(super) async fn create_nodes(
        &mut self,
        index: usize,
        operation: &CreateNodes,
    ) -> anyhow::Result<()> {
        let path = operation.node_template_path.as_deref();
        let params = &operation.template_params;
        let template =
            path.map(|path| self.templates.get(TemplateUse { path, params })).transpose()?;
        let (creator, declared) = (&self.creator, self.workload.declared_features);
        let before = self.nodes;
        self.nodes = before.saturating_add(operation.count);
        let creations = stream::iter(0..operation.count).map(|number| {
            let object = match &template {
                None => Ok(objects::base_node(index)),
                Some(template) => template.object(number, operation.count),
            };
            async move {
                let mut node = object?;
                let name = objects::set_name(&mut node, before + number);
                objects::set_node_fields(&mut node, &name, declared);
                if let Some(strategy) = &operation.label_node_prepare_strategy {
                    strategy.apply(&mut node, number);
                }
                if let Some(strategy) = &operation.node_allocatable_strategy {
                    strategy.apply(&mut node);
                    creator.create(strategy.csi_node(&name), "", Fields::Any).await?;
                }
                creator.create(node, "", Fields::Any).await.map(drop)
            }
        });
        creations.buffer_unordered(WORKERS).try_collect().await
    }

    pub(super) async fn create_namespaces(
        &mut self,
        operation: &CreateNamespaces,
    ) -> anyhow::Result<()> {
        let path = operation.namespace_template_path.as_deref();
        let template = path.map(|path| self.templates.get(TemplateUse::plain(path))).transpose()?;
        for number in 0..operation.count {
            let name = format!("{}-{number}", operation.prefix);
            let mut object = match &template {
                None => objects::namespace(&name),
                Some(template) => template.object(number, operation.count)?,
            };
            object["metadata"]["name"] = name.as_str().into();
            self.creator.ensure_namespace(object).await?;
            self.unwaited.entry(name).or_default();
        }
        Ok(())
    }

    pub(super) async fn create_any(&mut self, operation: &CreateAny) -> anyhow::Result<()> {
        let CreateAny { template_path: path, template_params: params, .. } = operation;
        let template = self.templates.get(TemplateUse { path, params })?;
        let namespace = self.existing(operation.namespace.as_deref()).await?;
        let count = operation.count;
        if count > 0 {
            self.creator.ensure_priority_class(template.object(0, count)?).await?;
        }
        let objects = (0..count).map(|index| template.object(index, count));
        self.creator
            .create_all(objects, namespace, Fields::Known)
            .await
            .with_context(|| operation.template_path.display().to_string())
    }

    /// Waits until the API server lists PodGroups.
    pub(super) async fn wait_for_pod_groups(
        &mut self,
        operation: &WaitForPodGroups,
    ) -> anyhow::Result<()> {
        let WaitForPodGroups { namespace, count } = operation;
        let place = self.creator.api.kind(POD_GROUPS, "PodGroup").await?.within(namespace);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list: List<Value> = self.creator.api.list(&place, &Labels::new()).await?;
            let found = list.items.len();
            if found >= *count {
                return Ok(());
            }
            let missing = format!("{found} of {count} PodGroups exist in {namespace}");
            ensure!(
                Instant::now() < deadline,
                "{missing} after {} minutes",
                PATIENCE.as_secs() / 60
            );
            self.progress.doing(&missing);
            self.check()?;
            sleep(LOOK).await;
        }
    }

    pub(super) async fn update_any(&mut self, operation: &UpdateAny) -> anyhow::Result<()> {
        let template = self.templates.get(TemplateUse::plain(&operation.template_path))?;
        let namespace = self.existing(operation.namespace.as_deref()).await?;
        let updates = (0..operation.count).map(|index| template.object(index, operation.count));
        let mut turns = turns(operation.update_per_second);
        for object in updates {
            if let Some(turns) = &mut turns {
                turns.tick().await;
            }
            self.update(object?, namespace, &operation.subresources)
                .await
                .with_context(|| operation.template_path.display().to_string())?;
        }
        Ok(())
    }

    /// Updates an object or its subresources, and its status if the template has one.
    async fn update(
        &self,
        mut object: Value,
        namespace: &str,
        subresources: &[String],
    ) -> anyhow::Result<()> {
        let api = &self.creator.api;
        let place = api.kind_of(&object).await?.within(namespace);
        if object["kind"] == "Pod" {
            objects::take_priority(&mut object);
            objects::correct_case(&mut object);
            let current = api.get(&place, &object).await?;
            objects::keep_admitted(&mut object, &current);
        }
        match subresources {
            [] => api.update(&place, object.clone(), None).await?,
            subresources => {
                for subresource in subresources {
                    api.update(&place, object.clone(), Some(subresource)).await?;
                }
            }
        }
        if object.get("status").is_some() {
            api.update(&place, object, Some("status")).await?;
        }
        Ok(())
    }

    /// Creates the namespace of an operation; `""` stands for none.
    pub(super) async fn existing<'n>(
        &mut self,
        namespace: Option<&'n str>,
    ) -> anyhow::Result<&'n str> {
        let Some(namespace) = namespace else { return Ok("") };
        self.creator.ensure_namespace(objects::namespace(namespace)).await?;
        self.unwaited.entry(namespace.to_owned()).or_default();
        Ok(namespace)
    }
}
