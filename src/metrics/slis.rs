//! The results of health checks, served at `/metrics/slis`.

use framework::Level;

use super::family::{IntCounterVec, IntGaugeVec};
use super::process::Process;
use super::selection::Selection;
use super::table::{Declaration, STABLE, Table};
use super::text;

/// The metric of the process that is served with the results.
const START_TIME: &str = "process_start_time_seconds";

/// The results of health checks, by name of the check and type (`livez`, `readyz`, `healthz`).
#[derive(Debug)]
pub struct Slis {
    registry: prometheus::Registry,
    healthcheck: IntGaugeVec,
    healthchecks: IntCounterVec,
}

impl Default for Slis {
    fn default() -> Self {
        let mut table = Table::new(Level::default(), Selection::default());
        table.process(Process::only(START_TIME));
        let healthcheck = table.gauges(Declaration {
            name: "kubernetes_healthcheck",
            labels: &["name", "type"],
            help: "The last result of a health check: 1 for success, 0 for failure.",
            ..STABLE
        });
        let healthchecks = table.counters(Declaration {
            name: "kubernetes_healthchecks_total",
            labels: &["name", "type", "status"],
            help: "Health checks, by result.",
            ..STABLE
        });
        Self { registry: table.into_registry(), healthcheck, healthchecks }
    }
}

impl Slis {
    /// Records the result of a check.
    pub fn observe(&self, name: &str, kind: &str, succeeded: bool) {
        self.healthcheck.with_label_values(&[name, kind]).set(succeeded.into());
        let status = if succeeded { "success" } else { "error" };
        self.healthchecks.with_label_values(&[name, kind, status]).inc();
    }

    /// Renders the results in the text format of Prometheus.
    pub fn render(&self) -> String {
        text::render(&self.registry.gather())
    }

    /// Forgets all results.
    pub fn reset(&self) {
        self.healthcheck.reset();
        self.healthchecks.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_and_the_last_one_is_kept() {
        let slis = Slis::default();
        for succeeded in [false, true, true] {
            slis.observe("shutdown", "readyz", succeeded);
        }
        slis.observe("ping", "livez", true);
        let text = slis.render();
        for line in [
            "# HELP kubernetes_healthcheck [STABLE] The last result",
            "\nkubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1\n",
            "\nkubernetes_healthcheck{name=\"shutdown\",type=\"readyz\"} 1\n",
            "\n# TYPE kubernetes_healthchecks_total counter\n",
            "\nkubernetes_healthchecks_total{name=\"shutdown\",status=\"error\",type=\"readyz\"} 1\n",
            "\nkubernetes_healthchecks_total{name=\"shutdown\",status=\"success\",type=\"readyz\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        slis.reset();
        assert!(!slis.render().contains("kubernetes_"));
    }
}
