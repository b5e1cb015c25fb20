//! Starts with a backlog of pods: the first start of a scheduler, one after a leader that released
//! its Lease, one without election, and one after a leader that crashed.
//!
//! The API server is the sandbox, or kube-apiserver from the folder `KUBEBUILDER_ASSETS`.

use std::env;
use std::time::Duration;

use anyhow::Context;
use futures::TryFutureExt;
use serde_json::{Value, json};

use crate::client::{Admin, ApiCalls, api_calls};
use crate::cluster::{self, WAITING};
use crate::figures::Figure;
use crate::parts::{SETTLE, now};
use crate::process::{Process, free_port};
use crate::server::Server;

const NODES: usize = 1_000;
/// Numbers of pending pods, unless `START_PODS` has others.
const BACKLOGS: &str = "1000,15000,50000";
/// The identity of the leader that crashed.
const CRASHED: &str = "crashed";
/// Validity of the Lease of the leader that crashed, in seconds.
const LEASE_SECONDS: u64 = 3;

/// The end of the scheduler before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// There was none, so the Lease does not exist.
    None,
    /// It ended by SIGTERM and released its Lease.
    Released,
    /// It is not known, because the scheduler takes part in no election.
    Unknown,
    /// It crashed, and the Lease is not renewed any more.
    Crashed,
}

impl Before {
    const ALL: [Self; 4] = [Self::None, Self::Released, Self::Unknown, Self::Crashed];

    const fn name(self) -> &'static str {
        match self {
            Self::None => "first start",
            Self::Released => "after SIGTERM",
            Self::Unknown => "no election",
            Self::Crashed => "after SIGKILL",
        }
    }

    /// Returns the Lease that it has left.
    fn lease(self) -> Option<Value> {
        let (holder, seconds) = match self {
            Self::None | Self::Unknown => return None,
            Self::Released => ("", 1),
            Self::Crashed => (CRASHED, LEASE_SECONDS),
        };
        Some(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "kube-scheduler", "namespace": "kube-system" },
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": seconds,
                "acquireTime": "2026-11-21T00:00:00.000000Z",
                "renewTime": "2026-11-21T00:00:00.000000Z", "leaseTransitions": 0,
            },
        }))
    }
}

/// A start that is measured.
#[derive(Debug, Clone, Copy)]
struct Start {
    pods: usize,
    before: Before,
    is_strict: bool,
}

/// Measures all starts, first those of the default takeover.
pub(crate) async fn start() -> anyhow::Result<Vec<Figure>> {
    let backlogs = env::var("START_PODS").unwrap_or_else(|_| BACKLOGS.to_owned());
    let mut figures = Vec::new();
    for is_strict in [false, true] {
        for before in Before::ALL {
            for pods in backlogs.split(',') {
                let pods = pods.trim().parse().context("START_PODS")?;
                figures.extend(Start { pods, before, is_strict }.measure().await?);
            }
        }
    }
    Ok(figures)
}

impl Start {
    /// Measures from the start of the process, or, after a crash, from the end of the Lease.
    async fn measure(self) -> anyhow::Result<Vec<Figure>> {
        let objects = cluster::nodes(NODES).chain(cluster::pods(WAITING, self.pods));
        let server = Server::start(objects.chain(self.before.lease()).collect()).await?;
        let admin = Admin::connect(server.kubeconfig()).await?;
        let port = free_port()?;
        let started = now();
        let scheduler = Process::replica_with(server.kubeconfig(), port, &self.args())?;
        let ready = async {
            scheduler.until_logged("Handlers synced").await?;
            let listed = started.elapsed();
            if self.before == Before::Crashed {
                admin.until_lease_is_not_held_by(CRASHED).await?;
            }
            anyhow::Ok((listed, started.elapsed()))
        };
        let first = admin.until_one_is_bound().map_ok(|()| started.elapsed());
        let ((listed, ready), first) = tokio::try_join!(ready, first)?;
        admin.until_all_are_bound_in(WAITING).await?;
        let last = started.elapsed().saturating_sub(ready);
        tokio::time::sleep(SETTLE).await;
        let (calls, cpu) = (api_calls(port).await?, scheduler.cpu()?);
        let first = first.saturating_sub(ready);
        self.report(listed, first, last, calls);
        let figure = |text: &str, value: f64| Figure::new(format!("{self}: {text}"), value);
        let from = if self.before == Before::Crashed { "Lease" } else { "lists" };
        let aim = if self.is_strict { "" } else { "< 1" };
        Ok(vec![
            figure("s to the end of the lists", listed.as_secs_f64()),
            figure(&format!("s from the {from} to the first binding"), first.as_secs_f64())
                .with_target(aim),
            figure(&format!("s from the {from} to the last binding"), last.as_secs_f64()),
            figure("status patches", calls.status_patches),
            figure("bindings", calls.bindings),
            figure("events", admin.count_events().await? as f64),
            figure("CPU ms/pod", cpu.as_secs_f64() * 1e3 / self.pods as f64).with_target("< 0.3"),
        ])
    }

    fn args(self) -> Vec<&'static str> {
        let election = (self.before == Before::Unknown).then_some("--leader-elect=false");
        let strict = self.is_strict.then_some("--strict-takeover");
        election.into_iter().chain(strict).collect()
    }

    /// Shows how far the benchmark is.
    fn report(self, listed: Duration, first: Duration, last: Duration, calls: ApiCalls) {
        eprintln!(
            "start: {self}: lists {listed:.2?}, first {first:.2?}, last {last:.2?}, {calls:?}"
        );
    }
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let strict = if self.is_strict { ", strict" } else { "" };
        write!(f, "{}, {} pods{strict}", self.before.name(), self.pods)
    }
}
