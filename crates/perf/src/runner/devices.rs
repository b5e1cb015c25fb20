//! The operations on devices.

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use glob::Pattern;
use serde_json::Value;

use super::{Run, WORKERS};
use crate::api::{Fields, List, Named};
use crate::devices::{Class, Devices, Slice, claim, slice};
use crate::pods::Labels;
use crate::workload::{AllocResourceClaims, CreateResourceDriver};

const VERSION: &str = "resource.k8s.io/v1";

impl Run<'_> {
    pub(super) async fn create_resource_driver(
        &mut self,
        operation: &CreateResourceDriver,
    ) -> anyhow::Result<()> {
        let pattern = Pattern::new(&operation.nodes);
        let pattern =
            pattern.with_context(|| format!("nodes: {:?} is no pattern", operation.nodes))?;
        let api = &self.creator.api;
        let place = api.kind("v1", "Node").await?.everywhere();
        let nodes: List<Named> = api.list(&place, &Labels::new()).await?;
        let names = nodes.items.into_iter().map(|node| node.metadata.name);
        let slices = names
            .filter(|name| pattern.matches(name))
            .map(|name| Ok(slice(&operation.driver_name, &name, operation.max_claims_per_node)));
        self.creator.create_all(slices, "", Fields::Any).await
    }

    pub(super) async fn allocate_claims(
        &mut self,
        operation: &AllocResourceClaims,
    ) -> anyhow::Result<()> {
        let (api, all) = (&self.creator.api, Labels::new());
        let slices: List<Slice> =
            api.list(&api.kind(VERSION, "ResourceSlice").await?.everywhere(), &all).await?;
        let classes: List<Class> =
            api.list(&api.kind(VERSION, "DeviceClass").await?.everywhere(), &all).await?;
        let kind = api.kind(VERSION, "ResourceClaim").await?;
        let objects: List<Value> = api.list(&kind.everywhere(), &all).await?;
        let claims = objects.items.into_iter().map(claim).collect::<anyhow::Result<Vec<_>>>()?;
        let mut devices = Devices::new(slices.items, classes.items, &claims)?;
        let place = &kind.within(&operation.namespace);
        let mut allocations = Vec::new();
        for claim in claims.iter().filter(|own| own.metadata.namespace == operation.namespace) {
            let name = &claim.metadata.name;
            let allocation = devices.allocate(claim);
            let allocation = allocation.with_context(|| format!("ResourceClaim {name}"))?;
            allocations.extend(allocation.map(|allocation| (name, allocation)));
        }
        let writes = stream::iter(allocations).map(|(name, allocation)| async move {
            let status = serde_json::json!({ "allocation": allocation });
            api.patch_status(place, name, status).await
        });
        writes.buffer_unordered(WORKERS).try_collect().await
    }
}
