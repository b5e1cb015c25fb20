//! Claims of PodGroups.

use framework::Level;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};

use super::{devices_of, eventually, run_in_sandbox};
use crate::e2e::cluster::Cluster;
use crate::e2e::groups::spawn_at;

/// Runs a test at the level of each version of PodGroups.
fn run_at_both_levels(test: impl AsyncFn(&Cluster, Level)) {
    for level in [Level::V1_36, Level::V1_37] {
        run_in_sandbox(async |cluster, _| test(cluster, level).await);
    }
}

/// Creates a gang of which each pod has these claims, which are those of its group.
async fn create_sharing_gang(cluster: &Cluster, name: &str, pods: usize, claims: &Value) {
    let fields = json!({ "resourceClaims": claims });
    cluster.create_group(name, pods, &fields).await;
    for number in 0..pods {
        cluster.create_member(name, number, &fields).await;
    }
}

/// Waits until a claim is reserved, and returns its users as `resource/name`.
async fn users(cluster: &Cluster, claim: &str) -> Vec<String> {
    eventually("the claim is reserved", async || {
        let claim = cluster.device_claims().get(claim).await.ok()?;
        let users = claim.status?.reserved_for.filter(|users| !users.is_empty())?;
        let users = users.into_iter().map(|user| format!("{}/{}", user.resource, user.name));
        Some(users.collect())
    })
    .await
}

/// Returns the name of the claim that was made for a group.
async fn claim_made_for(cluster: &Cluster, group: &str) -> String {
    let prefix = format!("{group}-gpu-");
    eventually("the group has its claim", async || {
        let name = |claim: ResourceClaim| claim.metadata.name;
        let mut names = cluster.all_device_claims().await.into_iter().filter_map(name);
        names.find(|name| name.starts_with(&prefix))
    })
    .await
}

/// Two nodes have a device each. Three gangs share one device within a gang.
#[test]
fn gangs_share_a_claim_of_their_group_and_wait_for_a_device() {
    run_at_both_levels(async |cluster, level| {
        for node in ["n0", "n1"] {
            cluster.add_node(node, 4).await;
            cluster.add_devices(node, 1).await;
        }
        let _daemon = spawn_at(cluster, level, "").await;
        let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
        let mut devices = Vec::new();
        for gang in ["first", "second"] {
            create_sharing_gang(cluster, gang, 3, &claims).await;
            let claim = claim_made_for(cluster, gang).await;
            cluster.group_condition(gang, "Scheduled").await;
            assert_eq!(users(cluster, &claim).await, [format!("podgroups/{gang}")]);
            let claim = cluster.device_claims().get(&claim).await.unwrap();
            devices.extend(devices_of(&claim));
            let node = cluster.bound(&format!("{gang}-0")).await;
            for number in 1..3 {
                assert_eq!(cluster.bound(&format!("{gang}-{number}")).await, node);
            }
        }
        assert_eq!(devices.len(), 2, "{devices:?}");

        create_sharing_gang(cluster, "third", 3, &claims).await;
        let condition = cluster.group_condition("third", "Unschedulable").await;
        let message = condition["message"].as_str().unwrap();
        assert!(message.contains("minCount (3) cannot be satisfied"), "{condition}");
        assert_eq!(cluster.bound_members("third").await, 0);

        // The claim of a group lives as long as the group.
        for number in 0..3 {
            cluster.delete_pod(&format!("first-{number}")).await;
        }
        let claim = claim_made_for(cluster, "first").await;
        assert_eq!(users(cluster, &claim).await, ["podgroups/first"]);
        cluster.delete_group("first").await;
        cluster.group_condition("third", "Scheduled").await;
        for number in 0..3 {
            cluster.bound(&format!("third-{number}")).await;
        }
        cluster.assert_bound_once().await;
    });
}

#[test]
fn gang_with_a_claim_that_was_made_by_hand_is_bound() {
    run_in_sandbox(async |cluster, _| {
        cluster.add_node("n0", 4).await;
        cluster.add_devices("n0", 1).await;
        cluster.add_device_claim("shared").await;
        let _daemon = spawn_at(cluster, Level::V1_37, "GenericWorkload=true").await;
        let claims = json!([{"name": "gpu", "resourceClaimName": "shared"}]);
        create_sharing_gang(cluster, "gang", 2, &claims).await;
        for number in 0..2 {
            cluster.bound(&format!("gang-{number}")).await;
        }
        assert_eq!(users(cluster, "shared").await, ["podgroups/gang"]);
    });
}
