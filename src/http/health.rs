//! The health checks behind `/livez`, `/readyz` and `/healthz`.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use tracing::debug;

/// The health of the scheduler, which the daemon updates and probes read.
#[derive(Debug, Default)]
pub struct Health {
    handlers_synced: AtomicBool,
    shutting_down: AtomicBool,
}

impl Health {
    /// Records that all informers have synced.
    pub fn set_handlers_synced(&self) {
        self.handlers_synced.store(true, Ordering::Relaxed);
    }

    /// Records that the process is shutting down.
    pub fn set_shutting_down(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
    }
}

/// A health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Always succeeds.
    Ping,
    Shutdown,
    SchedHandlerSync,
}

impl Check {
    const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Shutdown => "shutdown",
            Self::SchedHandlerSync => "sched-handler-sync",
        }
    }

    /// Runs the check. The error is the reason, which only the log and the endpoint of a single check
    /// show.
    fn run(self, health: &Health) -> Result<(), &'static str> {
        match self {
            Self::Shutdown if health.shutting_down.load(Ordering::Relaxed) => {
                Err("process is shutting down")
            }
            Self::SchedHandlerSync if !health.handlers_synced.load(Ordering::Relaxed) => {
                Err("handlers are not fully synchronized")
            }
            _ => Ok(()),
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

    const fn checks(self) -> &'static [Check] {
        match self {
            Self::Healthz | Self::Livez => &[Check::Ping],
            Self::Readyz => &[Check::Shutdown, Check::SchedHandlerSync],
        }
    }

    /// Runs all checks except those in `exclude`. The text is `ok` on success without `verbose`, and
    /// otherwise lists the checks.
    pub(super) fn report(
        self,
        health: &Health,
        verbose: bool,
        exclude: &[String],
    ) -> (StatusCode, String) {
        let (mut text, mut failed) = (String::new(), false);
        for check in self.checks() {
            let name = check.name();
            let line = if exclude.iter().any(|excluded| excluded == name) {
                format!("[+]{name} excluded: ok")
            } else if let Err(reason) = check.run(health) {
                debug!(check = name, reason, "Health check failed");
                failed = true;
                format!("[-]{name} failed: reason withheld")
            } else {
                format!("[+]{name} ok")
            };
            push(&mut text, &line);
        }
        if let Some(warning) = self.unknown_exclusions(exclude) {
            push(&mut text, &warning);
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

    /// Returns a warning about excluded names that match no check.
    fn unknown_exclusions(self, exclude: &[String]) -> Option<String> {
        let known = |name: &str| self.checks().iter().any(|check| check.name() == name);
        let mut unknown: Vec<_> =
            exclude.iter().filter(|name| !known(name)).map(|name| format!("{name:?}")).collect();
        unknown.sort();
        let list = unknown.join(", ");
        (!list.is_empty())
            .then(|| format!("warn: some health checks cannot be excluded: no matches for {list}"))
    }

    /// Runs a single check. Returns `None` if the endpoint has no such check.
    pub(super) fn report_one(self, health: &Health, name: &str) -> Option<(StatusCode, String)> {
        let check = self.checks().iter().find(|check| check.name() == name)?;
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
