//! Runs a workload.

mod background;
mod barrier;
mod create;
mod creator;
mod devices;
mod launch;
mod measurement;
mod pods;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use self::creator::Creator;
use self::launch::Launched;
pub use self::launch::{Scheduler, Server};
pub use self::measurement::Measurement;
use self::measurement::Ongoing;
use crate::api::Api;
use crate::pods::Pods;
use crate::workload::{Operation, Templates, Workload};

/// Number of concurrent requests, as in scheduler_perf.
const WORKERS: usize = 30;
/// Interval at which conditions are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Time for the pods of an operation, as in scheduler_perf.
const PATIENCE: Duration = Duration::from_secs(600);

/// Learns how far a workload is.
pub trait Progress: Sync {
    /// The workload does this now.
    fn doing(&self, text: &str);
}

/// Runs a workload and returns its measurements.
///
/// # Errors
/// API server or scheduler cannot be started or end, a request is refused, or pods are not
/// scheduled in ten minutes.
pub async fn run(
    workload: &Workload,
    templates: &Templates,
    server: &Server,
    scheduler: &Scheduler,
    progress: &dyn Progress,
) -> anyhow::Result<Vec<Measurement>> {
    let launched = Launched::start(workload, server, scheduler).await?;
    let api = Api::connect(&launched.kubeconfig).await?;
    let mut run = Run {
        workload,
        templates,
        pods: Arc::new(Pods::follow(api.clone()).await?),
        creator: Creator::new(api),
        launched,
        progress,
        nodes: 0,
        unwaited: BTreeMap::new(),
        background: JoinSet::new(),
        ongoing: None,
        measurements: Vec::new(),
    };
    let outcome = run.operations().await;
    run.background.shutdown().await;
    if let Server::Given(_) = server {
        progress.doing("deleting its objects");
        let deleted = run.creator.delete_all().await;
        outcome.and(deleted)?;
    } else {
        outcome?;
    }
    run.launched.stop().await;
    Ok(run.measurements)
}

/// A workload that runs.
struct Run<'a> {
    workload: &'a Workload,
    templates: &'a Templates,
    pods: Arc<Pods>,
    creator: Creator,
    launched: Launched,
    progress: &'a dyn Progress,
    /// Number of nodes of all operations.
    nodes: usize,
    /// Number of pods that no operation has waited for, by namespace.
    unwaited: BTreeMap<String, usize>,
    /// Operations that go on beside others.
    background: JoinSet<anyhow::Result<()>>,
    ongoing: Option<Ongoing>,
    measurements: Vec<Measurement>,
}

impl Run<'_> {
    async fn operations(&mut self) -> anyhow::Result<()> {
        let workload = self.workload;
        for (index, operation) in workload.operations.iter().enumerate() {
            let opcode = operation.opcode();
            self.progress.doing(opcode);
            let done = async {
                self.check()?;
                self.operation(index, operation).await
            };
            done.await.with_context(|| format!("operation {index} ({opcode})"))?;
        }
        let peak = self.launched.scheduler.usage()?.peak_mib()?;
        self.measurements.iter_mut().for_each(|measurement| measurement.peak_mib = peak);
        if self.ongoing.is_some() {
            bail!("the last measurement has no end; add the operation stopCollectingMetrics");
        }
        self.check()
    }

    async fn operation(&mut self, index: usize, operation: &Operation) -> anyhow::Result<()> {
        match operation {
            Operation::CreateNodes(nodes) => self.create_nodes(index, nodes).await,
            Operation::CreateNamespaces(namespaces) => self.create_namespaces(namespaces).await,
            Operation::CreatePods(pods) => self.create_pods(index, pods).await,
            Operation::CreatePodSets(_) => bail!("the sets are not unrolled"),
            Operation::CreateAny(any) | Operation::CreatePodGroups(any) => {
                self.create_any(any).await
            }
            Operation::WaitForPodGroups(groups) => self.wait_for_pod_groups(groups).await,
            Operation::UpdateAny(any) => self.update_any(any).await,
            Operation::DeletePods(pods) => self.delete_pods(pods).await,
            Operation::Churn(churn) => self.churn(index, churn).await,
            Operation::Barrier(barrier) => self.barrier(barrier).await,
            Operation::Sleep(sleep) => {
                tokio::time::sleep(sleep.duration).await;
                Ok(())
            }
            Operation::StartCollectingMetrics(start) => {
                let (namespaces, labels) = (start.namespaces.clone(), start.label_selector.clone());
                self.start_measurement(&start.name, namespaces, labels)
            }
            Operation::StopCollectingMetrics {} => self.stop_measurement().await,
            Operation::CreateResourceDriver(driver) => self.create_resource_driver(driver).await,
            Operation::AllocResourceClaims(claims) => self.allocate_claims(claims).await,
        }
    }

    /// Checks that scheduler, API server and the operations in the background are well.
    fn check(&mut self) -> anyhow::Result<()> {
        self.launched.check_runs()?;
        while let Some(ended) = self.background.try_join_next() {
            ended?.context("in the background")?;
        }
        Ok(())
    }

    /// Waits until `done` returns `None`; otherwise it returns what is missing.
    async fn until(
        &mut self,
        mut missing: impl FnMut(&Pods) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(missing) = missing(&self.pods)? {
            self.progress.doing(&missing);
            self.check()?;
            if Instant::now() > deadline {
                bail!("{missing} after {} minutes", PATIENCE.as_secs() / 60);
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

/// Returns the turns of a number of requests per second; `None` for 0, which stands for no pauses.
fn turns(per_second: u32) -> Option<Interval> {
    let pause = Duration::from_secs(1).checked_div(per_second)?;
    let mut turns = interval(pause.max(Duration::from_nanos(1)));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(turns)
}
