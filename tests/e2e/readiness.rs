//! What turns readiness red, with a scheduler in this process that tolerates outages for a moment
//! only. The tests of the endpoints show that `/readyz` shows it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::config::Kubeconfig;
use loadmaster::api_client::ServerStatus;
use loadmaster::config::{self, Gates};
use loadmaster::http::Health;
use loadmaster::metrics::Metrics;
use loadmaster::observer::MetricsObserver;
use loadmaster::runtime;
use loadmaster::scheduling_loop::{EventSender, LoopEvent};
use tokio_util::sync::CancellationToken;

use super::cluster::{chart_rules, run};
use super::custom_resources::setup_of;
use super::proxy::{Proxy, Way};
use super::wait::eventually;

/// Time for which the schedulers of these tests tolerate an outage.
const TOLERANCE: Duration = Duration::from_millis(300);

/// A scheduler in this process, which is stopped when dropped.
struct Scheduler {
    status: Arc<ServerStatus>,
    metrics: Arc<Metrics>,
    events: EventSender,
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // The end of the process would wait for its thread.
        self.events.send(LoopEvent::Stop);
    }
}

impl Scheduler {
    async fn start(kubeconfig: &Kubeconfig) -> Self {
        let mut config = config::defaults(&Gates::default());
        config.leader_election.leader_elect = false;
        let kubeconfig = serde_json::to_string(kubeconfig).unwrap();
        let mut setup = setup_of(config, plugins::registry(), &kubeconfig).await;
        setup.server_status = Arc::new(ServerStatus::with_tolerance(TOLERANCE));
        let (status, metrics) = (setup.server_status.clone(), setup.metrics.clone());
        let events = setup.channel.0.clone();
        let observer = MetricsObserver::new(metrics.clone(), Arc::new(Health::default()));
        tokio::spawn(async move {
            let ended = runtime::run_scheduler(setup, observer, &CancellationToken::new()).await;
            eprintln!("the scheduler has ended: {ended:?}");
        });
        Self { status, metrics, events }
    }

    async fn synced(&self) {
        let synced = "\nloadmaster_scheduling_held{reason=\"syncing\"} 0\n";
        let is_synced = async || self.metrics.render().contains(synced).then_some(());
        eventually("the watches have synced", is_synced).await;
    }

    /// Waits until the API server counts as failing, and returns the reason.
    async fn red(&self) -> String {
        eventually("the check fails", async || self.status.check().err()).await
    }

    async fn green(&self) {
        eventually("the check succeeds", async || self.status.check().ok()).await;
    }
}

#[test]
fn outage_of_the_api_server_turns_readiness_red_until_it_ends() {
    run(async |cluster| {
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Open).await;
        let scheduler = Scheduler::start(&proxy.kubeconfig).await;
        scheduler.synced().await;
        assert_eq!(scheduler.status.check(), Ok(()));
        proxy.set(Way::Cut);
        let reason = scheduler.red().await;
        assert!(reason.contains("requests to the API server fail for 0 s: "), "{reason}");
        proxy.set(Way::Open);
        scheduler.green().await;
    });
}

#[test]
fn missing_permission_turns_readiness_red_until_it_is_granted() {
    run(async |cluster| {
        let all = chart_rules();
        let mut without_budgets = all.clone();
        let names_budgets = |rule: &PolicyRule| {
            rule.resources.iter().flatten().any(|resource| resource == "poddisruptionbudgets")
        };
        without_budgets.retain(|rule| !names_budgets(rule));
        assert!(without_budgets.len() < all.len());
        cluster.permit(&without_budgets).await;
        let scheduler = Scheduler::start(&cluster.scheduler_kubeconfig().await).await;
        let reason = scheduler.red().await;
        assert!(reason.contains("cannot watch resource \"poddisruptionbudgets\""), "{reason}");
        assert!(reason.contains("grant the verbs list and watch"), "{reason}");
        cluster.permit(&all).await;
        scheduler.green().await;
        scheduler.synced().await;
    });
}
