//! The health checks behind `/livez`, `/readyz` and `/healthz`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use tracing::debug;

use crate::api_client::ServerStatus;
use crate::metrics::Slis;
use crate::scheduling_loop::Heartbeat;

/// The health of the scheduler, which the daemon updates and probes read.
#[derive(Debug, Default)]
pub struct Health {
    handlers_synced: AtomicBool,
    shutting_down: AtomicBool,
    /// The state of leader election; `None` without an election.
    leader_election: Option<Mutex<Result<(), String>>>,
    api_server: Arc<ServerStatus>,
    heartbeat: Arc<Heartbeat>,
    slis: Slis,
}

impl Health {
    /// Creates the health of a scheduler that takes part in leader election.
    pub fn with_leader_election() -> Self {
        Self { leader_election: Some(Mutex::new(Ok(()))), ..Self::default() }
    }

    /// Records that all informers have synced.
    pub fn set_handlers_synced(&self) {
        self.handlers_synced.store(true, Ordering::Relaxed);
    }

    /// Returns whether all informers have synced.
    pub(super) fn is_synced(&self) -> bool {
        self.handlers_synced.load(Ordering::Relaxed)
    }

    /// Records that the process is shutting down.
    pub fn set_shutting_down(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
    }

    /// Records whether this replica can take part in leader election, or why not. A standby can.
    pub fn set_leader_election(&self, state: Result<(), String>) {
        if let Some(current) = &self.leader_election {
            // No code that holds the lock panics.
            *current.lock().unwrap_or_else(PoisonError::into_inner) = state;
        }
    }

    /// Returns the status of the API server, for the clients that update it.
    pub fn server_status(&self) -> Arc<ServerStatus> {
        self.api_server.clone()
    }

    /// Returns the heartbeat of the scheduling loop, for the loop that updates it.
    pub fn heartbeat(&self) -> Arc<Heartbeat> {
        self.heartbeat.clone()
    }

    /// Returns the results of the checks so far, as metrics.
    pub(super) const fn slis(&self) -> &Slis {
        &self.slis
    }

    fn check_leader_election(&self) -> Result<(), String> {
        match &self.leader_election {
            Some(state) => state.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            None => Ok(()),
        }
    }
}

/// A health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Always succeeds, under this name: the process answers.
    Alive(&'static str),
    LeaderElection,
    Shutdown,
    SchedHandlerSync,
    ApiServer,
    SchedulingLoop,
}

/// The name of the check of leader election.
const LEADER_ELECTION: &str = "leaderElection";

impl Check {
    const fn name(self) -> &'static str {
        match self {
            Self::Alive(name) => name,
            Self::LeaderElection => LEADER_ELECTION,
            Self::Shutdown => "shutdown",
            Self::SchedHandlerSync => "sched-handler-sync",
            Self::ApiServer => "api-server",
            Self::SchedulingLoop => "scheduling-loop",
        }
    }

    /// Runs the check. The error is the reason, which only the log and the endpoint of a single
    /// check show.
    fn run(self, health: &Health) -> Result<(), String> {
        let require = |fact, reason: &str| if fact { Ok(()) } else { Err(reason.to_owned()) };
        match self {
            Self::Alive(_) => Ok(()),
            Self::LeaderElection => health.check_leader_election(),
            Self::Shutdown => {
                let stays = !health.shutting_down.load(Ordering::Relaxed);
                require(stays, "process is shutting down")
            }
            Self::SchedHandlerSync => {
                require(health.is_synced(), "handlers are not fully synchronized")
            }
            Self::ApiServer => health.api_server.check(),
            Self::SchedulingLoop => health.heartbeat.check(),
        }
    }
}

/// A health endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    /// Returns the checks, in the order of the answer.
    ///
    /// As in kube-scheduler, the check of leader election under `/healthz` cannot fail: a leader
    /// that loses its lease ends, and a restart helps no other replica.
    fn checks(self, health: &Health) -> Vec<Check> {
        let elects = health.leader_election.is_some();
        match self {
            Self::Healthz if elects => vec![Check::Alive(LEADER_ELECTION)],
            Self::Healthz => vec![Check::Alive("ping")],
            Self::Livez => vec![Check::Alive("ping"), Check::SchedulingLoop],
            Self::Readyz => {
                let election = elects.then_some(Check::LeaderElection).into_iter();
                let others = [
                    Check::Shutdown,
                    Check::SchedHandlerSync,
                    Check::ApiServer,
                    Check::SchedulingLoop,
                ];
                election.chain(others).collect()
            }
        }
    }

    /// Runs all checks except those in `exclude`. The text is `ok` on success without `verbose`,
    /// and otherwise lists the checks, and behind those of `/readyz` the kinds and feeds that are
    /// not read although pods are scheduled.
    pub(super) fn report(
        self,
        health: &Health,
        verbose: bool,
        mut exclude: BTreeSet<String>,
    ) -> (StatusCode, String) {
        let (mut text, mut failed) = (String::new(), false);
        for check in self.checks(health) {
            let name = check.name();
            let line = if exclude.remove(name) {
                format!("[+]{name} excluded: ok")
            } else {
                let result = check.run(health);
                health.slis.observe(name, self.name(), result.is_ok());
                match result {
                    Ok(()) => format!("[+]{name} ok"),
                    Err(reason) => {
                        debug!(check = name, reason, "Health check failed");
                        failed = true;
                        format!("[-]{name} failed: reason withheld")
                    }
                }
            };
            push(&mut text, &line);
        }
        if self == Self::Readyz {
            for name in health.api_server.unread().keys() {
                push(&mut text, &format!("[+]source {name} is not read, pods are scheduled: ok"));
            }
        }
        if !exclude.is_empty() {
            let unknown: Vec<_> = exclude.iter().map(|name| format!("{name:?}")).collect();
            let unknown = unknown.join(", ");
            let warning = "some health checks cannot be excluded: no matches for";
            push(&mut text, &format!("warn: {warning} {unknown}"));
        }
        let name = self.name();
        match (failed, verbose) {
            (true, _) => {
                push(&mut text, &format!("{name} check failed"));
                (StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            (false, true) => {
                push(&mut text, &format!("{name} check passed"));
                (StatusCode::OK, text)
            }
            (false, false) => (StatusCode::OK, "ok".to_owned()),
        }
    }

    /// Runs a single check. Returns `None` if the endpoint has no such check.
    pub(super) fn report_one(self, health: &Health, name: &str) -> Option<(StatusCode, String)> {
        let check = self.checks(health).into_iter().find(|check| check.name() == name)?;
        Some(match check.run(health) {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => {
                let text = format!("internal server error: {reason}\n");
                (StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        })
    }
}

fn push(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
