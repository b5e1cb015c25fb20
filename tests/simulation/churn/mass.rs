//! Actions on many objects at once.

use framework::Time;
use sandbox::resources::PODS;
use serde_json::{Value, json};

use super::super::coverage::Fault;
use super::super::server::Server;
use super::chance::one_of;
use super::related::collection;
use super::{Churn, NAMESPACES};

/// Maximum number of pods that are created at once.
const MOST_AT_ONCE: u32 = 30;
/// Start of the names of these pods, which are equal.
pub(super) const MANY: &str = "many";

impl Churn {
    /// Creates or deletes many pods, or deletes a third of the nodes.
    pub(super) fn act_in_mass(&mut self, server: &mut Server, now: Time) -> String {
        match self.rng.u32(..3) {
            0 => {
                server.fired.push(Fault::PodsDeletedInMass);
                let pods = collection(PODS, one_of(&mut self.rng, NAMESPACES));
                let status = server.request("DELETE", &pods, &Value::Null, now);
                format!("delete all of {pods}: {status}")
            }
            1 => self.lose_nodes(server, now),
            _ => self.create_many(server, now),
        }
    }

    fn lose_nodes(&mut self, server: &mut Server, now: Time) -> String {
        let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut nodes: Vec<String> = server.nodes().map(|node| name(node)).collect();
        self.rng.shuffle(&mut nodes);
        nodes.truncate(nodes.len().div_ceil(3));
        server.fired.push(Fault::NodesLost);
        for node in &nodes {
            server.request("DELETE", &format!("/api/v1/nodes/{node}"), &Value::Null, now);
        }
        format!("nodes {nodes:?} are gone")
    }

    fn create_many(&mut self, server: &mut Server, now: Time) -> String {
        let namespace = one_of(&mut self.rng, NAMESPACES);
        let count = self.rng.u32(8..MOST_AT_ONCE);
        let like = self.pod(server, namespace, "");
        server.fired.push(Fault::PodsCreatedInMass);
        let mut created = 0;
        for number in 0..count {
            let mut pod = like.clone();
            pod["metadata"]["name"] = json!(format!("{MANY}{number}"));
            created +=
                u32::from(server.request("POST", &collection(PODS, namespace), &pod, now) == 201);
        }
        format!("create {created} pods in {namespace} like {like}")
    }
}
