//! Creation of objects, with the names of the objects to delete at the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use super::WORKERS;
use crate::api::{Api, Fields, Place, is_conflict};
use crate::objects;

/// Creates objects.
#[derive(Clone)]
pub(super) struct Creator {
    pub(super) api: Api,
    /// The next number of a generated name.
    number: Arc<AtomicUsize>,
    /// Created objects without a namespace.
    created: Arc<Mutex<Vec<(Place, String)>>>,
    namespaces: Arc<Mutex<Vec<String>>>,
}

impl Creator {
    pub(super) fn new(api: Api) -> Self {
        Self { api, number: Arc::default(), created: Arc::default(), namespaces: Arc::default() }
    }

    /// Creates an object, in a namespace if its kind belongs to namespaces. Returns its place and
    /// name.
    pub(super) async fn create(
        &self,
        mut object: Value,
        namespace: &str,
        fields: Fields,
    ) -> anyhow::Result<(Place, String)> {
        let name = objects::set_name(&mut object, self.next_number());
        let kind = self.api.kind_of(&object).await?;
        if object["kind"] == "Pod" {
            objects::take_priority(&mut object);
            objects::correct_case(&mut object);
        }
        ensure!(
            !kind.is_namespaced() || !namespace.is_empty(),
            "{name}: the operation has to name a namespace for objects of this kind"
        );
        let place = kind.within(namespace);
        self.api.create(&place, object, fields).await?;
        if !kind.is_namespaced() {
            let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
            created.push((place.clone(), name.clone()));
        }
        Ok((place, name))
    }

    /// Creates objects, several at a time.
    pub(super) async fn create_all(
        &self,
        objects: impl Iterator<Item = anyhow::Result<Value>>,
        namespace: &str,
        fields: Fields,
    ) -> anyhow::Result<()> {
        let creations = stream::iter(objects)
            .map(|object| async { self.create(object?, namespace, fields).await.map(drop) });
        creations.buffer_unordered(WORKERS).try_collect().await
    }

    /// Creates the PriorityClass of a pod that has a priority.
    pub(super) async fn ensure_priority_class(&self, mut pod: Value) -> anyhow::Result<()> {
        if pod["kind"] == "Pod"
            && let Some(class) = objects::take_priority(&mut pod)
        {
            unless_it_exists(self.create(class, "", Fields::Any).await.map(drop))?;
        }
        Ok(())
    }

    /// Creates a namespace unless it exists.
    pub(super) async fn ensure_namespace(&self, object: Value) -> anyhow::Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let place = self.api.kind("v1", "Namespace").await?.everywhere();
        unless_it_exists(self.api.create(&place, object, Fields::Any).await)?;
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if !namespaces.contains(&name) {
            namespaces.push(name);
        }
        Ok(())
    }

    /// Deletes what was created: pods at once, namespaces with the rest, and all objects without a
    /// namespace.
    pub(super) async fn delete_all(&self) -> anyhow::Result<()> {
        let pods = self.api.kind("v1", "Pod").await?;
        let all = self.api.kind("v1", "Namespace").await?.everywhere();
        let namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for namespace in namespaces.iter().filter(|name| *name != "default") {
            self.api.delete_all(&pods.within(namespace), &BTreeMap::new(), Some(0)).await?;
            self.api.delete(&all, namespace, None).await?;
        }
        let created =
            std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        let deletions = stream::iter(created)
            .map(|(place, name)| async move { self.api.delete(&place, &name, None).await });
        deletions.buffer_unordered(WORKERS).try_collect().await
    }

    fn next_number(&self) -> usize {
        self.number.fetch_add(1, Ordering::Relaxed)
    }
}

fn unless_it_exists(created: anyhow::Result<()>) -> anyhow::Result<()> {
    created.or_else(|error| if is_conflict(&error) { Ok(()) } else { Err(error) })
}
