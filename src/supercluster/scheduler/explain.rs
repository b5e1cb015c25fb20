//! Answers about pods: what the scheduler did, and what the agents say about their nodes now.

use std::sync::{Arc, OnceLock};

use framework::PodKey;
use futures::FutureExt;
use futures::future::join_all;
use serde_json::Value;
use supercluster::message::{DiagnosisRequest, PodObject};
use supercluster::scheduler::{ClusterDiagnosis, PodExplanation};
use tokio::sync::oneshot;

use super::SchedulerEvent;
use super::agents::{AgentClient, Agents};
use crate::http::ExplainPod;
use crate::scheduling_loop::{EventSender, LoopEvent};

/// Maximum number of agents that are asked about a pod.
const MAX_ASKED: usize = 16;

/// The answer of the loop: what it knows of a pod, the pod, and whether it is placed.
pub type Explained = Option<(PodExplanation, PodObject, bool)>;

/// Returns what answers questions about pods.
pub(super) fn explainer(
    events: EventSender<SchedulerEvent>,
    agents: Arc<OnceLock<Agents>>,
) -> ExplainPod {
    Arc::new(move |pod: PodKey, node: Option<String>| {
        let (events, agents) = (events.clone(), agents.clone());
        async move { explain(pod, node, &events, &agents).await }.boxed()
    })
}

/// Answers about a pod. With a node, `CLUSTER/NODE`, only its agent is asked, and only about that
/// node.
async fn explain(
    pod: PodKey,
    node: Option<String>,
    events: &EventSender<SchedulerEvent>,
    agents: &OnceLock<Agents>,
) -> Result<Option<Value>, String> {
    let (reply, answer) = oneshot::channel();
    events.send(LoopEvent::Own(SchedulerEvent::Explain(pod, reply)));
    let Ok(Some((mut explanation, pod, is_placed))) = answer.await else { return Ok(None) };
    let agents = agents.get();
    if let Some(named) = &node {
        let (agent, node) = node_of(named, agents)?;
        let request = DiagnosisRequest { pod, node: Some(node.into()) };
        let mut answer = ask(agent, &request).await;
        if answer.diagnosis.take_if(|own| own.looked_at == 0).is_some() {
            answer.error = Some(format!("it has no node {node:?}"));
        }
        explanation.now = vec![answer];
    } else if let Some(agents) = agents.filter(|_| !is_placed) {
        let request = DiagnosisRequest { pod, node: None };
        let members = agents.members().into_iter().take(MAX_ASKED);
        explanation.now = join_all(members.map(|agent| ask(agent, &request))).await;
    }
    serde_json::to_value(explanation).map(Some).map_err(|error| error.to_string())
}

/// Returns the agent of the cluster, and the name of the node.
fn node_of<'a>(named: &'a str, agents: Option<&Agents>) -> Result<(AgentClient, &'a str), String> {
    let (cluster, node) = named
        .split_once('/')
        .ok_or_else(|| format!("node {named:?}: a node of a member is named CLUSTER/NODE"))?;
    let agent = agents
        .and_then(|agents| agents.members().into_iter().find(|agent| *agent.name == *cluster));
    agent.map(|agent| (agent, node)).ok_or_else(|| format!("no member is named {cluster:?}"))
}

async fn ask(agent: AgentClient, request: &DiagnosisRequest) -> ClusterDiagnosis {
    let answer = agent.diagnose(request).await;
    let (diagnosis, error) = match answer {
        Ok(diagnosis) => (Some(diagnosis), None),
        Err(error) => (None, Some(error)),
    };
    ClusterDiagnosis { cluster: agent.name.clone(), diagnosis, error }
}
