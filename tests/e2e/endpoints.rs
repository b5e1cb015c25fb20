//! The HTTPS endpoints of the daemon.

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::client::Body;
use kube::config::{AuthInfo, Config};

use super::cluster::{chart_rules, run, uid};
use super::daemon::Daemon;
use super::proxy::{Proxy, Way};
use super::wait::eventually;

/// The endpoints of one daemon.
pub(super) struct Endpoints(kube::Client);

impl Endpoints {
    /// Returns the endpoints at a port of this host, for a caller with these credentials. The
    /// certificate is self-signed, so it is not verified.
    pub(super) fn at(port: u16, caller: AuthInfo) -> Self {
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.accept_invalid_certs = true;
        config.default_retry = false;
        config.auth_info = caller;
        Self(kube::Client::try_from(config).unwrap())
    }

    /// Returns the endpoints for a caller without credentials that trusts one authority only.
    pub(super) fn verified(port: u16, authority: &[u8]) -> Self {
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.root_cert = Some(vec![authority.to_vec()]);
        config.default_retry = false;
        Self(kube::Client::try_from(config).unwrap())
    }

    /// Returns the answer; none if there is no connection.
    pub(super) async fn get(&self, path: &str) -> Option<(StatusCode, String)> {
        self.ask(Method::GET, path, "").await
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> Option<(StatusCode, String)> {
        let request = Request::builder().method(method).uri(path);
        self.send(request.body(Body::from(body.as_bytes().to_vec())).unwrap()).await
    }

    /// Returns the answer to a request; none if there is no connection.
    pub(super) async fn send(&self, request: Request<Body>) -> Option<(StatusCode, String)> {
        let answer = self.0.send(request).await.ok()?;
        let (status, body) = (answer.status(), answer.into_body().collect().await.ok()?);
        Some((status, String::from_utf8(body.to_bytes().to_vec()).unwrap()))
    }

    /// Whether a probe would succeed.
    pub(super) async fn is_ready(&self) -> bool {
        self.get("/readyz").await.is_some_and(|(status, _)| status == StatusCode::OK)
    }

    /// Returns the text of an answer that must have status 200.
    async fn text(&self, path: &str) -> String {
        let (status, text) = self.get(path).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        text
    }

    /// Returns the value of a metric with exactly these labels, in the notation of the text format.
    pub(super) async fn metric(&self, series: &str) -> Option<f64> {
        let metrics = self.text("/metrics").await;
        let mut lines = metrics.lines();
        let line = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }
}

#[test]
fn live_at_once_and_ready_when_watches_have_synced() {
    run(async |cluster| {
        let proxy = Proxy::start(&cluster.scheduler_kubeconfig().await, Way::Cut).await;
        let daemon = Daemon::spawn(cluster, &proxy.kubeconfig).await;
        daemon.log.line("Cannot reach the API server").await;
        assert_eq!(daemon.probes.text("/livez").await, "ok");
        let (status, text) = daemon.probes.get("/readyz").await.unwrap();
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(text.contains("[-]sched-handler-sync failed"), "{text}");

        proxy.set(Way::Open);
        daemon.ready().await;
        let text = daemon.endpoints.text("/readyz?verbose").await;
        assert!(text.contains("[+]sched-handler-sync ok\n"), "{text}");
    });
}

#[test]
fn missing_permission_to_bind_is_named_before_the_first_pod() {
    run(async |cluster| {
        let all = chart_rules();
        let mut without_writes = all.clone();
        let is_missing = |rule: &PolicyRule| {
            let mut resources = rule.resources.iter().flatten();
            resources.any(|resource| resource == "pods/binding" || resource == "events")
        };
        without_writes.retain(|rule| !is_missing(rule));
        assert_eq!(without_writes.len(), all.len() - 2);
        cluster.permit(&without_writes).await;
        let daemon = Daemon::spawn(cluster, &cluster.scheduler_kubeconfig().await).await;
        let line = daemon.log.line("Missing permissions").await;
        let missing =
            "cannot create pods/binding, create events.events.k8s.io, patch events.events.k8s.io";
        assert!(line.contains(missing), "{line}");
        let line = daemon.log.line("Not ready: ").await;
        assert!(line.contains("cannot create pods/binding: grant it"), "{line}");

        cluster.permit(&all).await;
        daemon.ready().await;
        daemon.log.line("All permissions are granted").await;
    });
}

#[test]
fn probes_are_counted() {
    run(async |cluster| {
        let daemon = Daemon::start(cluster).await;
        daemon.endpoints.text("/livez").await;
        let text = daemon.endpoints.text("/metrics/slis").await;
        assert!(
            text.contains("\nkubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1\n"),
            "{text}"
        );
        assert!(text.contains("name=\"sched-handler-sync\",status=\"success\""), "{text}");
    });
}

#[test]
fn attempts_are_counted_by_result() {
    run(async |cluster| {
        cluster.add_node("a", 2).await;
        let daemon = Daemon::start(cluster).await;
        cluster.create_pods("fits", 2).await;
        cluster.bound_pods(2).await;
        cluster.create_pod(&cluster.pod("does-not", 1)).await;
        cluster.rejected("does-not").await;
        let attempts = |result: &str| {
            let profile = &cluster.name;
            format!(
                "scheduler_schedule_attempts_total{{profile=\"{profile}\",result=\"{result}\"}}"
            )
        };
        let (scheduled, unschedulable) = (attempts("scheduled"), attempts("unschedulable"));
        daemon.counts(&scheduled, 2.0).await;
        assert!(daemon.endpoints.metric(&unschedulable).await >= Some(1.0));
    });
}

#[test]
fn configuration_in_effect_is_served() {
    run(async |cluster| {
        let daemon = Daemon::start(cluster).await;
        let text = daemon.endpoints.text("/configz").await;
        let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
        let shown = &shown["componentconfig"];
        assert_eq!(shown["profiles"][0]["schedulerName"], cluster.name);
        assert_eq!(shown["podMaxBackoffSeconds"], 10, "defaults are shown too");
    });
}

#[test]
fn resources_of_pods_of_every_scheduler_are_served() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let daemon = Daemon::start(cluster).await;
        let mut other = cluster.pod("other", 1);
        other.spec.as_mut().unwrap().scheduler_name = Some("another".to_owned());
        cluster.create_pod(&other).await;
        cluster.bind("other", "a").await;
        let mut limited = cluster.pod("limited", 2);
        let container = &mut limited.spec.as_mut().unwrap().containers[0];
        let limits = [("cpu".to_owned(), Quantity("2500m".to_owned()))].into();
        container.resources.as_mut().unwrap().limits = Some(limits);
        cluster.create_pod(&limited).await;
        let node = cluster.bound("limited").await;
        cluster.create_pod(&cluster.pod("too-big", 9)).await;
        let series = |family: &str, pod: &str, node: &str, scheduler: &str, value: &str| {
            let namespace = &cluster.name;
            format!(
                "kube_pod_resource_{family}{{namespace=\"{namespace}\",node=\"{node}\",\
                 pod=\"{pod}\",priority=\"0\",resource=\"cpu\",scheduler=\"{scheduler}\",\
                 unit=\"cores\"}} {value}\n"
            )
        };
        let expected = [
            series("request", "limited", &node, &cluster.name, "2"),
            series("limit", "limited", &node, &cluster.name, "2.5"),
            series("request", "other", &node, "another", "1"),
            series("request", "too-big", "", &cluster.name, "9"),
        ];
        eventually("all pods are listed", async || {
            let text = daemon.endpoints.text("/metrics/resources").await;
            expected.iter().all(|line| text.contains(line)).then_some(())
        })
        .await;
    });
}

#[test]
fn status_and_flags_are_served() {
    run(async |cluster| {
        let daemon = Daemon::start(cluster).await;
        let text = daemon.endpoints.text("/statusz").await;
        assert!(text.contains("\nEmulation version: 1.36\n"), "{text}");
        let text = daemon.endpoints.text("/flagz").await;
        assert!(text.contains("\nv:2\n"), "{text}");
        assert!(text.contains("\nleader-elect-lease-duration:15s\n"), "defaults too: {text}");
    });
}

#[test]
fn signal_compares_the_cache_with_the_api_server_and_dumps_it() {
    run(async |cluster| {
        cluster.add_node("a", 4).await;
        let daemon = Daemon::start(cluster).await;
        let bound = cluster.create_pod(&cluster.pod("fits", 1)).await;
        let node = cluster.bound("fits").await;
        cluster.create_pod(&cluster.pod("too-big", 9)).await;
        cluster.rejected("too-big").await;
        let mut other = cluster.pod("other", 1);
        other.spec.as_mut().unwrap().scheduler_name = Some("another".to_owned());
        cluster.create_pod(&other).await;
        daemon.signal("USR2");
        daemon.log.line("Dump of scheduling queue").await;
        daemon.log.line("Cache comparer finished").await;
        let dumped = |text: &str| !daemon.log.lines(text).is_empty();
        assert!(dumped(&format!("Node name: {node}")));
        assert!(dumped(&format!("name: fits, namespace: {}, uid: {}", cluster.name, uid(&bound))));
        assert!(dumped("activeQ:0; backoffQ:0; unschedulablePods:1"));
        assert!(dumped("name: too-big, ") && !dumped("name: other, "));
        assert!(!dumped("Cache mismatch"));
        for kind in ["nodes", "pods"] {
            let series = format!("loadmaster_cache_mismatches{{kind=\"{kind}\"}}");
            assert_eq!(daemon.endpoints.metric(&series).await, Some(0.0));
        }
    });
}

#[test]
fn log_verbosity_changes_at_run_time() {
    run(async |cluster| {
        let daemon = Daemon::start(cluster).await;
        daemon.endpoints.text("/livez").await;
        assert!(daemon.log.lines("\"HTTP\"").is_empty(), "requests are told from level 4 on");
        let put = async |level| daemon.endpoints.ask(Method::PUT, "/debug/flags/v", level).await;
        let (status, text) = put("4").await.unwrap();
        assert_eq!(status, StatusCode::OK, "{text}");
        assert_eq!(text, "successfully set klog.logging.verbosity to 4");
        daemon.endpoints.text("/livez").await;
        daemon.log.line("\"HTTP\" verb=\"GET\" path=\"/livez\"").await;
        assert_eq!(put("many").await.unwrap().0, StatusCode::BAD_REQUEST);
    });
}
