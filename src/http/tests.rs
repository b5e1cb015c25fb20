//! Tests of the responses, which equal those of kube-scheduler.

use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use framework::Level;
use jiff::Timestamp;
use serde_json::json;
use testkit::pod;
use tower::ServiceExt;
use tracing_subscriber::{Layer, Registry};

use super::acceptor::PeerCertificates;
use super::testing::{Authority, access, self_signed};
use super::*;
use crate::logs;
use crate::metrics::Pending;
use crate::scheduling_loop::{EventReceiver, LoopEvent, Snapshot, channel};

mod explain;
mod fuzz;
mod what_if;

/// Returns the configuration of an engine with the default plugins.
fn engine_config() -> Result<engine::EngineConfig, String> {
    let config = crate::config::defaults(&crate::config::Gates::default());
    let profiles =
        config.build_profiles(&plugins::registry()).map_err(|error| error.to_string())?;
    Ok(engine::EngineConfig::new(profiles))
}

/// The caller of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// With a certificate of the group system:masters.
    Admin,
    /// Without credentials.
    Anonymous,
}

use Caller::{Admin, Anonymous};

/// The endpoints of a scheduler that has just started.
struct Server {
    router: Router,
    metrics: Arc<Metrics>,
    authority: Authority,
    health: Arc<Health>,
    verbosity: logs::Verbosity,
    /// The end of the channel that the scheduling loop has.
    loop_events: EventReceiver,
    /// Keeps the log layer, without which the verbosity cannot be changed.
    _logs: Box<dyn Layer<Registry>>,
}

impl Server {
    fn new() -> Self {
        Self::with(Health::default(), true)
    }

    fn of(health: Health) -> Self {
        Self::with(health, true)
    }

    fn with(health: Health, profiling: bool) -> Self {
        let (authority, metrics) = (Authority::new("users"), Arc::<Metrics>::default());
        let access = access(&authority, &metrics);
        Self { authority, ..Self::with_access(health, profiling, &access, metrics) }
    }

    fn with_access(
        health: Health,
        profiling: bool,
        access: &Access,
        metrics: Arc<Metrics>,
    ) -> Self {
        let explainer = Explainer::new(engine_config, Vec::new());
        Self::of_parts(health, profiling, access, metrics, explainer)
    }

    /// A server that tries changes, if there is a trial.
    fn answering(
        health: Health,
        access: &Access,
        metrics: Arc<Metrics>,
        trial: Option<crate::what_if::Trial>,
    ) -> Self {
        let explainer = Explainer::new(engine_config, Vec::new());
        let explainer = trial.into_iter().fold(explainer, Explainer::with_trial);
        Self::of_parts(health, true, access, metrics, explainer)
    }

    fn of_parts(
        health: Health,
        profiling: bool,
        access: &Access,
        metrics: Arc<Metrics>,
        explainer: Explainer,
    ) -> Self {
        let (channel, health) = (channel(), Arc::new(health));
        let (logs, verbosity) = logs::layer(logs::Format::Text, 0, std::io::sink);
        let app = App {
            metrics: metrics.clone(),
            health: health.clone(),
            configz: json!({"kind": "KubeSchedulerConfiguration", "token": "secret"}),
            level: json!({"emulatedVersion": "1.36"}),
            flagz: Some([("v", "2")].into_iter().collect()),
            statusz: Some(Started { at: Timestamp::now(), level: Level::V1_36 }),
            events: Some(channel.0),
            explainer,
            verbosity: profiling.then(|| verbosity.clone()),
            routes: Router::new(),
        };
        let authority = Authority::new("users");
        let router = router::router(app, access);
        let _logs = Box::new(logs);
        Self { router, metrics, authority, health, verbosity, loop_events: channel.1, _logs }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        caller: Caller,
        body: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let certificates = match caller {
            Admin => self.authority.issue("admin", &["system:masters"]),
            Anonymous => Vec::new(),
        };
        self.request_as(method, path, certificates, body).await
    }

    async fn request_as(
        &self,
        method: Method,
        path: &str,
        certificates: Vec<rustls::pki_types::CertificateDer<'static>>,
        body: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::new(Body::from(body.to_owned()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        request.extensions_mut().insert(PeerCertificates(certificates.into()));
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Returns the next event for the scheduling loop.
    async fn next_event(&self) -> LoopEvent {
        loop {
            match self.loop_events.try_recv() {
                Ok(event) => return event,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let (status, headers, body) = self.request(Method::GET, path, Admin, "").await;
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache, private", "{path}");
        (status.as_u16(), body)
    }
}

#[tokio::test]
async fn scheduler_is_live_at_the_start_and_ready_once_synced() {
    let server = Server::new();
    let not_synced = "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\n\
                      [+]api-server ok\n[+]scheduling-loop ok\nreadyz check failed\n";
    assert_eq!(server.get("/livez").await, (200, "ok".into()));
    assert_eq!(server.get("/healthz").await, (200, "ok".into()));
    assert_eq!(server.get("/readyz").await, (500, not_synced.into()));
    server.health.set_handlers_synced();
    assert_eq!(server.get("/readyz").await, (200, "ok".into()));
    server.health.set_shutting_down();
    let shutdown = "[-]shutdown failed: reason withheld\n[+]sched-handler-sync ok\n\
                    [+]api-server ok\n[+]scheduling-loop ok\nreadyz check failed\n";
    assert_eq!(server.get("/readyz").await, (500, shutdown.into()));
    assert_eq!(server.get("/livez").await, (200, "ok".into()));
}

#[tokio::test]
async fn health_endpoints_list_and_exclude_checks() {
    let server = Server::new();
    for (path, status, body) in [
        ("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"),
        ("/livez?verbose=true", 200, "[+]ping ok\n[+]scheduling-loop ok\nlivez check passed\n"),
        ("/livez/ping", 200, "ok"),
        ("/livez/scheduling-loop", 200, "ok"),
        ("/livez?exclude=ping", 200, "ok"),
        (
            "/livez?verbose&exclude=ping",
            200,
            "[+]ping excluded: ok\n[+]scheduling-loop ok\nlivez check passed\n",
        ),
        (
            "/livez?verbose&exclude=b&exclude=a&exclude=b",
            200,
            "[+]ping ok\n[+]scheduling-loop ok\nwarn: some health checks cannot be excluded: no matches for \"a\", \"b\"\n\
             livez check passed\n",
        ),
        ("/readyz?exclude=sched-handler-sync", 200, "ok"),
        (
            "/readyz/sched-handler-sync",
            500,
            "internal server error: handlers are not fully synchronized\n",
        ),
        ("/readyz/shutdown", 200, "ok"),
        ("/readyz/api-server", 200, "ok"),
        ("/readyz/ping", 404, "404 page not found\n"),
        ("/readyz/leaderElection", 404, "404 page not found\n"),
        ("/nope", 404, "404 page not found\n"),
        ("/", 404, "404 page not found\n"),
    ] {
        assert_eq!(server.get(path).await, (status, body.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn leader_election_can_only_fail_readiness() {
    let server = Server::of(Health::with_leader_election());
    server.health.set_handlers_synced();
    let passed = "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\n\
                  [+]api-server ok\n[+]scheduling-loop ok\nreadyz check passed\n";
    assert_eq!(server.get("/readyz?verbose").await, (200, passed.into()));
    server.health.set_leader_election(Err("cannot get leases".to_owned()));
    let (status, body) = server.get("/readyz").await;
    assert_eq!(status, 500);
    assert!(body.starts_with("[-]leaderElection failed: reason withheld\n"), "{body}");
    let reason = "internal server error: cannot get leases\n";
    assert_eq!(server.get("/readyz/leaderElection").await, (500, reason.into()));
    let alive = "[+]leaderElection ok\nhealthz check passed\n";
    assert_eq!(server.get("/healthz?verbose").await, (200, alive.into()));
    let alive = "[+]ping ok\n[+]scheduling-loop ok\nlivez check passed\n";
    assert_eq!(server.get("/livez?verbose").await.1, alive);
    server.health.set_leader_election(Ok(()));
    assert_eq!(server.get("/readyz").await, (200, "ok".into()));
}

#[tokio::test]
async fn trouble_with_the_api_server_can_only_fail_readiness() {
    let server = Server::new();
    server.health.set_handlers_synced();
    server.health.server_status().permitted(Some("cannot create pods/binding".to_owned()));
    let (status, body) = server.get("/readyz").await;
    assert_eq!(status, 500);
    assert!(body.contains("\n[-]api-server failed: reason withheld\n"), "{body}");
    let reason = "internal server error: cannot create pods/binding\n";
    assert_eq!(server.get("/readyz/api-server").await, (500, reason.into()));
    for path in ["/livez", "/healthz"] {
        assert_eq!(server.get(path).await, (200, "ok".into()), "{path}");
    }
}

#[tokio::test]
async fn source_that_is_not_read_is_listed_and_fails_no_check() {
    let server = Server::new();
    server.health.set_handlers_synced();
    let status = server.health.server_status();
    status.reads(&"nodes.metrics.k8s.io".into(), Some("no response"));
    assert_eq!(server.get("/readyz").await, (200, "ok".into()));
    let (code, text) = server.get("/readyz?verbose").await;
    let line = "[+]source nodes.metrics.k8s.io is not read, pods are scheduled: ok\n";
    assert!(code == 200 && text.contains(line), "{code} {text}");
    assert!(!server.get("/livez?verbose").await.1.contains("source"));
    status.reads(&"nodes.metrics.k8s.io".into(), None);
    assert!(!server.get("/readyz?verbose").await.1.contains("source"));
}

#[tokio::test(start_paused = true)]
async fn stuck_scheduling_loop_is_neither_live_nor_ready() {
    let server = Server::new();
    server.health.set_handlers_synced();
    let heartbeat = server.health.heartbeat();
    tokio::spawn(async move { heartbeat.watch().await });
    tokio::time::sleep(Duration::from_secs(62)).await;
    let stuck = "[+]ping ok\n[-]scheduling-loop failed: reason withheld\nlivez check failed\n";
    assert_eq!(server.get("/livez").await, (500, stuck.into()));
    assert_eq!(server.get("/readyz").await.0, 500);
    assert_eq!(server.get("/healthz").await, (200, "ok".into()));
    let (_, reason) = server.get("/livez/scheduling-loop").await;
    assert!(reason.contains("has made no turn for 6"), "{reason}");
}

#[tokio::test]
async fn results_of_health_checks_are_metrics() {
    let server = Server::new();
    server.get("/readyz").await;
    server.get("/readyz?exclude=shutdown").await;
    let (status, text) = server.get("/metrics/slis").await;
    assert_eq!(status, 200);
    for line in [
        "\nkubernetes_healthcheck{name=\"sched-handler-sync\",type=\"readyz\"} 0\n",
        "\nkubernetes_healthchecks_total{name=\"shutdown\",status=\"success\",type=\"readyz\"} 1\n",
        "\nkubernetes_healthchecks_total{name=\"api-server\",status=\"success\",type=\"readyz\"} 2\n",
        "\nprocess_start_time_seconds ",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let (status, _, body) = server.request(Method::DELETE, "/metrics/slis", Admin, "").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "metrics reset\n"));
    assert!(!server.get("/metrics/slis").await.1.contains("kubernetes_"));
}

#[tokio::test]
async fn delete_resets_counters_and_keeps_gauges() {
    let server = Server::new();
    server.metrics.rest_client().requested("GET", "server", Some(200));
    server.metrics.set_pending(Pending { active: 7, ..Pending::default() });
    let counted = "rest_client_requests_total{code=\"200\",host=\"server\",method=\"GET\"} 1\n";
    assert!(server.get("/metrics").await.1.contains(counted));
    let (status, _, body) = server.request(Method::DELETE, "/metrics", Admin, "").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "metrics reset\n"));
    let (_, text) = server.get("/metrics").await;
    assert!(!text.contains("rest_client_requests_total{"), "{text}");
    assert!(text.contains("scheduler_pending_pods{queue=\"active\"} 7\n"), "{text}");
}

#[tokio::test]
async fn metrics_and_configz_are_served() {
    let server = Server::new();
    let (status, headers, body) = server.request(Method::GET, "/metrics", Admin, "").await;
    assert_eq!(status, StatusCode::OK);
    let content_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    assert_eq!(headers[header::CONTENT_TYPE], content_type);
    assert!(body.contains("\nscheduler_pending_pods{queue=\"active\"} 0\n"));
    let (status, headers, body) = server.request(Method::GET, "/configz", Admin, "").await;
    assert_eq!(
        (status, &headers[header::CONTENT_TYPE].to_str().unwrap()),
        (StatusCode::OK, &"application/json")
    );
    assert_eq!(
        body,
        r#"{"componentconfig":{"kind":"KubeSchedulerConfiguration","token":"REDACTED"},"level":{"emulatedVersion":"1.36"}}"#
    );
}

#[tokio::test]
async fn resources_are_those_of_a_snapshot_once_synced() {
    let server = Server::new();
    assert_eq!(server.get("/metrics/resources").await, (200, String::new()), "not synced");
    server.health.set_handlers_synced();
    let answer = async |leads| {
        let LoopEvent::Snapshot(receiver) = server.next_event().await else { panic!() };
        let pending = vec![Arc::new(pod("web").cpu("2").build())];
        receiver.send(Arc::new(Snapshot { pending, leads, ..Snapshot::default() })).unwrap();
    };
    let scrape = || server.request(Method::GET, "/metrics/resources", Admin, "");
    let ((_, _, text), ()) = tokio::join!(scrape(), answer(false));
    assert_eq!(text, "", "not leading");
    let ((status, headers, text), ()) = tokio::join!(scrape(), answer(true));
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_TYPE], crate::metrics::CONTENT_TYPE);
    assert!(text.contains("pod=\"web\",priority=\"0\",resource=\"cpu\""), "{text}");
}

#[tokio::test]
async fn resources_are_empty_when_the_scheduling_loop_has_ended() {
    let mut server = Server::new();
    server.health.set_handlers_synced();
    server.loop_events = channel().1;
    assert_eq!(server.get("/metrics/resources").await, (200, String::new()));
}

#[tokio::test]
async fn statusz_and_flagz_are_text_or_objects() {
    let server = Server::new();
    let (status, text) = server.get("/statusz").await;
    assert_eq!(status, 200);
    let start = "\nloadmaster statusz\nWarning: This endpoint is not meant to be machine parseable";
    assert!(text.starts_with(start), "{text}");
    let paths = "\nPaths: /configz /flagz /healthz /livez /metrics /readyz\n";
    assert!(text.contains("only.\n\nStarted: ") && text.ends_with(paths), "{text}");
    assert!(server.get("/flagz").await.1.ends_with("debugging purposes only.\nv:2\n"));

    let ask = async |path: &str, accept: &'static str| {
        let mut request = Request::get(path).body(Body::empty()).unwrap();
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        let certificates = server.authority.issue("admin", &["system:masters"]);
        request.extensions_mut().insert(PeerCertificates(certificates.into()));
        let response = server.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    };
    let accept = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    let (_, headers, body) = ask("/flagz", accept).await;
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(
        body,
        "{\"kind\":\"Flagz\",\"apiVersion\":\"config.k8s.io/v1beta1\",\
         \"metadata\":{\"name\":\"loadmaster\"},\"flags\":{\"v\":\"2\"}}\n"
    );
    let (_, headers, body) =
        ask("/statusz", "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz").await;
    assert_eq!(headers[header::CONTENT_TYPE], "application/yaml");
    assert!(headers[header::WARNING].to_str().unwrap().starts_with("299 - \"This version of the"));
    assert!(body.contains("apiVersion: config.k8s.io/v1alpha1\n"), "{body}");
    assert!(body.contains("uptimeSeconds: "), "{body}");
    let (status, _, body) = ask("/statusz", "application/json").await;
    assert_eq!(status, StatusCode::NOT_ACCEPTABLE);
    assert!(body.contains("\"reason\":\"NotAcceptable\""), "{body}");
}

#[tokio::test]
async fn anonymous_callers_can_only_access_always_allowed_paths() {
    let server = Server::new();
    server.health.set_handlers_synced();
    for path in ["/healthz", "/livez?verbose", "/readyz"] {
        let (status, ..) = server.request(Method::GET, path, Anonymous, "").await;
        assert_eq!(status, StatusCode::OK, "{path}");
    }
    for path in ["/metrics", "/readyz/shutdown", "/configz", "/nope", "/debug/flags/v"] {
        let (status, headers, body) = server.request(Method::GET, path, Anonymous, "").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/json");
        let body: Value = serde_json::from_str(&body).unwrap();
        let message = format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
        assert_eq!(body["message"], message.as_str());
        assert_eq!((&body["kind"], &body["code"]), (&json!("Status"), &json!(403)));
    }
    let (status, _, body) = server.request(Method::PUT, "/debug/flags/v", Anonymous, "5").await;
    assert_eq!((status, server.verbosity.get()), (StatusCode::FORBIDDEN, 0));
    assert!(body.contains("cannot put path"), "{body}");
}

#[tokio::test]
async fn metrics_are_compressed_for_callers_that_accept_it() {
    let server = Server::new();
    for (path, accepted) in [("/metrics", "gzip"), ("/metrics/slis", "zstd, gzip;q=0.5")] {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = path.parse().unwrap();
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        let admin = server.authority.issue("admin", &["system:masters"]);
        request.extensions_mut().insert(PeerCertificates(admin.into()));
        let response = server.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip", "{path}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], crate::metrics::CONTENT_TYPE);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
        let (_, headers, plain) = server.request(Method::GET, path, Admin, "").await;
        assert_eq!(headers.get(header::CONTENT_ENCODING), None, "{path}");
        assert_eq!(text.lines().next(), plain.lines().next());
        assert!(body.len() < text.len(), "{path}: {} of {}", body.len(), text.len());
    }
}

#[tokio::test]
async fn callers_and_reviews_are_counted() {
    let server = Server::new();
    server.request(Method::GET, "/livez", Anonymous, "").await;
    server.request(Method::GET, "/configz", Anonymous, "").await;
    let (_, text) = server.get("/metrics").await;
    for sample in [
        "authentication_attempts{result=\"success\"} 3",
        "authenticated_user_requests{username=\"admin\"} 1",
        "authenticated_user_requests{username=\"other\"} 2",
        "authorization_attempts_total{result=\"allowed\"} 2",
        "authorization_attempts_total{result=\"no-opinion\"} 1",
        "apiserver_delegated_authz_request_total{code=\"201\"} 1",
    ] {
        assert!(text.contains(&format!("{sample}\n")), "{sample}: {text}");
    }
    assert!(!text.contains("apiserver_delegated_authn_request_total{"), "{text}");
}

#[tokio::test]
async fn put_changes_the_log_level() {
    let server = Server::new();
    let put = async |body| {
        let (status, _, text) = server.request(Method::PUT, "/debug/flags/v", Admin, body).await;
        (status.as_u16(), text, server.verbosity.get())
    };
    let done = "successfully set klog.logging.verbosity to 5";
    assert_eq!(put("5").await, (200, done.into(), 5));
    let (status, text, level) = put("much").await;
    assert_eq!((status, level), (400, 5));
    assert!(text.starts_with("failed set klog.logging.verbosity much: "), "{text}");
    assert_eq!(server.get("/debug/flags/v").await, (406, "unsupported http method".into()));
    let without = Server::with(Health::default(), false);
    assert_eq!(without.get("/debug/flags/v").await, (404, "404 page not found\n".into()));
}

#[tokio::test]
async fn pprof_paths_exist_only_while_profiling_is_on() {
    let server = Server::new();
    let (status, headers, _) = server.request(Method::GET, "/debug/pprof", Admin, "").await;
    assert_eq!(
        (status.as_u16(), headers[header::LOCATION].to_str().unwrap()),
        (302, "/debug/pprof/")
    );
    assert!(server.get("/debug/pprof/").await.1.contains("profile?seconds=30"));
    let (status, text) = server.get("/debug/pprof/cmdline").await;
    assert!(status == 200 && text.contains("loadmaster"), "{text}");
    let (status, text) = server.get("/debug/pprof/allocs").await;
    assert!(status == 501 && text.contains("/debug/pprof/heap"), "{text}");
    assert_eq!(server.get("/debug/pprof/mutex").await, (404, "Unknown profile\n".into()));
    if cfg!(not(feature = "profiling")) {
        for path in ["/debug/pprof/profile", "/debug/pprof/heap"] {
            let (status, text) = server.get(path).await;
            assert!(status == 501 && text.contains("--features profiling"), "{path}: {text}");
            assert!(text.contains("--build-arg VARIANT=debug"), "{path}: {text}");
        }
    }
    let without = Server::with(Health::default(), false);
    for path in ["", "/", "/profile", "/heap"].map(|path| format!("/debug/pprof{path}")) {
        assert_eq!(without.get(&path).await, (404, "404 page not found\n".into()), "{path}");
    }
}

fn serving(address: SocketAddr) -> Serving {
    Serving { address, share_port: false, tls: self_signed(), max_streams: Some(100) }
}

#[test]
fn port_in_use_is_reported() {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let first = bind(serving(any)).unwrap();
    let address = first.address().unwrap();
    let error = bind(serving(address)).unwrap_err();
    let expected = format!(
        "failed to create listener: failed to listen on {address}: listen tcp {address}: bind: \
         address already in use"
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn port_can_be_shared() {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let first = bind(Serving { share_port: true, ..serving(any) }).unwrap();
    let address = first.address().unwrap();
    bind(Serving { share_port: true, ..serving(address) }).unwrap();
    bind(serving(address)).unwrap_err();
}

#[test]
fn unspecified_address_stands_for_ipv4_and_ipv6() {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let listener = bind(serving(any)).unwrap();
    let port = listener.address().unwrap().port();
    std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        std::net::TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
    }
}
