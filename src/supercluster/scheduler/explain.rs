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

/// The answer of the loop: what it knows of a pod, and the pod if it waits for a placement.
pub type Explained = Option<(PodExplanation, Option<PodObject>)>;

/// Returns what answers questions about pods.
pub(super) fn explainer(
    events: EventSender<SchedulerEvent>,
    agents: Arc<OnceLock<Agents>>,
) -> ExplainPod {
    Arc::new(move |pod: PodKey| {
        let (events, agents) = (events.clone(), agents.clone());
        async move { explain(pod, &events, &agents).await }.boxed()
    })
}

async fn explain(
    pod: PodKey,
    events: &EventSender<SchedulerEvent>,
    agents: &OnceLock<Agents>,
) -> Option<Value> {
    let (reply, answer) = oneshot::channel();
    events.send(LoopEvent::Own(SchedulerEvent::Explain(pod, reply)));
    let (mut explanation, waiting) = answer.await.ok()??;
    if let (Some(pod), Some(agents)) = (waiting, agents.get()) {
        let request = DiagnosisRequest { pod };
        let members = agents.members().into_iter().take(MAX_ASKED);
        explanation.now = join_all(members.map(|agent| ask(agent, &request))).await;
    }
    serde_json::to_value(explanation).ok()
}

async fn ask(agent: AgentClient, request: &DiagnosisRequest) -> ClusterDiagnosis {
    let answer = agent.diagnose(request).await;
    let (diagnosis, error) = match answer {
        Ok(diagnosis) => (Some(diagnosis), None),
        Err(error) => (None, Some(error)),
    };
    ClusterDiagnosis { cluster: agent.name.clone(), diagnosis, error }
}
