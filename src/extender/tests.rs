//! Tests of extenders against small HTTP servers.

use std::future::pending;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::post;
use axum_server::tls_rustls::{RustlsConfig, from_tcp_rustls};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use framework::{Pod, Uid};
use futures::stream::{self, StreamExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use testkit::{node, pod};
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, mpsc};

use super::*;
use crate::config::{self, Gates};
use crate::scheduling_loop::channel;

/// A runtime for the servers. The tests call extenders outside of it, like the scheduling loop.
struct Harness {
    runtime: Runtime,
    stop: CancellationToken,
}

fn harness() -> Harness {
    Harness { runtime: Runtime::new().unwrap(), stop: CancellationToken::new() }
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

impl Harness {
    /// Starts a server and returns its URL.
    fn serve(&self, router: Router) -> String {
        let (listener, address) = listener();
        self.runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
        format!("http://{address}")
    }

    fn serve_tls(&self, router: Router, config: ServerConfig) -> String {
        let (listener, address) = listener();
        self.runtime.spawn(async move {
            let config = RustlsConfig::from_config(Arc::new(config));
            let server = from_tcp_rustls(listener, config).unwrap();
            server.serve(router.into_make_service()).await.unwrap();
        });
        format!("https://{address}")
    }

    /// Creates the extenders of this configuration and stores two nodes and the pod of [`new_pod`].
    fn extenders(&self, extenders: &Value) -> Result<Extenders, ExtenderError> {
        let text = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": extenders,
        });
        let loaded = config::load(&text.to_string(), &Gates::default()).unwrap();
        let (runtime, stop) = (self.runtime.handle().clone(), self.stop.clone());
        let (events, _) = channel();
        let wait = LoopWait { runtime, heartbeat: Arc::default(), stop, events };
        let mut extenders = Extenders::new(&loaded.config, wait, Clock::start(), Arc::default())?;
        let object = |name: &str| Some(to_raw_value(&json!({"metadata": {"name": name}})).unwrap());
        for name in ["a", "b"] {
            let change = Change::Node(node(name).build());
            extenders.see(&change, object(name));
        }
        let change = Change::Pod(Box::new(new_pod()));
        extenders.see(&change, object("p"));
        Ok(extenders)
    }

    fn filter(&self, extender: &Value) -> Result<Filtered, CallError> {
        let mut extenders = self.extenders(&json!([extender])).unwrap();
        extenders.filter(&call(&new_pod(), 0), Time::ZERO).0
    }
}

fn new_pod() -> Pod {
    pod("p").build()
}

fn call(pod: &Pod, extender: usize) -> ExtenderCall<'_> {
    ExtenderCall { extender, pod, nodes: vec!["a", "b"] }
}

/// A server that forwards the bodies it receives and always sends this response.
fn echo(answer: &Value) -> (Router, mpsc::UnboundedReceiver<Value>) {
    let (sender, received) = mpsc::unbounded_channel();
    let answer = answer.to_string();
    let record = async move |State(sender): State<mpsc::UnboundedSender<Value>>, body: String| {
        sender.send(serde_json::from_str(&body).unwrap()).unwrap();
        answer
    };
    (Router::new().route("/v1/{verb}", post(record)).with_state(sender), received)
}

#[test]
fn filter_call_sends_node_objects_or_names() {
    let pod = json!({"metadata": {"name": "p"}});
    let items = ["a", "b"].map(|name| json!({"metadata": {"name": name}}));
    let rows = [
        (false, json!({"metadata": {}, "items": items}), Value::Null),
        (true, Value::Null, json!(["a", "b"])),
    ];
    for (node_cache_capable, nodes, names) in rows {
        let harness = harness();
        let (router, mut received) = echo(&json!({"Nodes": {"items": [items[1]]}}));
        let extender = json!({
            "urlPrefix": format!("{}/v1/", harness.serve(router)),
            "filterVerb": "filter",
            "nodeCacheCapable": node_cache_capable,
        });
        assert_eq!(harness.filter(&extender).unwrap().nodes, ["b"]);
        let expected = json!({"Pod": pod, "Nodes": nodes, "NodeNames": names});
        assert_eq!(received.try_recv(), Ok(expected));
    }
}

#[test]
fn only_objects_sent_to_extenders_are_kept() {
    let none = Whole::NONE;
    let pods = Whole { pending_pods: true, ..none };
    let rows = [
        (json!({"bindVerb": "bind"}), none),
        (json!({"filterVerb": "filter", "nodeCacheCapable": true}), pods),
        (json!({"filterVerb": "filter"}), Whole { nodes: true, ..pods }),
        (json!({"prioritizeVerb": "rate", "weight": 1}), Whole { nodes: true, ..pods }),
        (json!({"preemptVerb": "preempt", "nodeCacheCapable": true}), pods),
        (json!({"preemptVerb": "preempt"}), Whole { placed_pods: true, ..pods }),
    ];
    for (mut extender, expected) in rows {
        extender["urlPrefix"] = json!("http://extender");
        let extenders = harness().extenders(&json!([extender])).unwrap();
        assert_eq!(extenders.needs(), expected, "{extender}");
    }
}

#[test]
fn deleted_objects_fail_the_call() {
    let harness = harness();
    let extender = json!({"urlPrefix": "http://extender", "filterVerb": "filter"});
    let mut extenders = harness.extenders(&json!([extender])).unwrap();
    extenders.see(&Change::NodeDeleted("b".into()), None);
    let (answer, _) = extenders.filter(&call(&new_pod(), 0), Time::ZERO);
    assert_eq!(answer, Err(CallError::Failed("node \"b\" does not exist".to_owned())));
    let pod = new_pod();
    let deleted = Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() };
    extenders.see(&deleted, None);
    let (answer, _) = extenders.filter(&call(&pod, 0), Time::ZERO);
    assert_eq!(answer, Err(CallError::Failed("pod default/p does not exist".to_owned())));
}

#[test]
fn stop_cancels_the_calls_that_the_loop_waits_for() {
    let harness = harness();
    let stop = harness.stop.clone();
    let hanging = post(async move || {
        stop.cancel();
        pending::<()>().await
    });
    let url = harness.serve(Router::new().route("/filter", hanging));
    let verbs = json!({"filterVerb": "filter", "prioritizeVerb": "filter", "weight": 1});
    let mut extender = json!({"urlPrefix": url, "httpTimeout": "1h", "nodeCacheCapable": true});
    extender.as_object_mut().unwrap().extend(verbs.as_object().unwrap().clone());
    let mut extenders = harness.extenders(&json!([extender])).unwrap();
    let pod = new_pod();
    let stopped = CallError::Failed("context canceled: the scheduler stops".to_owned());
    let (filtered, _) = extenders.filter(&call(&pod, 0), Time::ZERO);
    assert_eq!(filtered, Err(stopped.clone()));
    let (scores, _) = extenders.prioritize(&[call(&pod, 0)], Time::ZERO);
    assert_eq!(scores, [Err(stopped)]);
}

#[test]
fn timeouts_and_invalid_responses_are_described() {
    let endless = || {
        let start = stream::once(async { Ok::<_, std::io::Error>("{\"NodeNames\":") });
        Body::from_stream(start.chain(stream::pending()))
    };
    let router = Router::new()
        .route("/hang", post(async || pending::<()>().await))
        .route("/endless", post(async move || endless()))
        .route("/broken", post(async || StatusCode::INTERNAL_SERVER_ERROR))
        .route("/moved", post(async || Redirect::temporary("/broken")))
        .route("/garbage", post(async || "<html>"))
        .route("/silent", post(async || ""));
    let harness = harness();
    let url = harness.serve(router);
    let late = format!("Post \"{url}/hang\": context deadline exceeded");
    let failed = |verb: &str, code: u16| {
        format!("failed {verb} with extender at URL {url}/{verb}, code {code}")
    };
    let rows = [
        ("hang", "100ms", format!("{late} (Client.Timeout exceeded while awaiting headers)")),
        ("endless", "1s", "(Client.Timeout or context cancellation while reading body)".to_owned()),
        ("broken", "0s", failed("broken", 500)),
        ("moved", "0s", failed("moved", 307)),
        ("nowhere", "0s", failed("nowhere", 404)),
        ("garbage", "0s", "cannot decode ExtenderFilterResult: expected value".to_owned()),
        ("silent", "0s", "cannot decode ExtenderFilterResult: EOF".to_owned()),
    ];
    for (verb, timeout, expected) in rows {
        let extender = json!({"urlPrefix": url, "filterVerb": verb, "httpTimeout": timeout});
        let error = harness.filter(&extender).unwrap_err();
        let is_hanging = matches!(verb, "hang" | "endless");
        assert_eq!(matches!(error, CallError::NoAnswer(_)), is_hanging, "{verb}: {error:?}");
        let text = error.into_text();
        assert!(text.contains(&expected), "{verb}: {text}");
    }
}

#[test]
fn longest_attempt_filters_and_then_scores_or_preempts() {
    for (scoring, expected) in [("2s", 5), ("6s", 7)] {
        let url = "http://127.0.0.1:1";
        let config = json!([
            {"urlPrefix": url, "filterVerb": "f", "httpTimeout": "1s"},
            {"urlPrefix": url, "prioritizeVerb": "p", "weight": 1, "httpTimeout": scoring},
            {"urlPrefix": url, "preemptVerb": "x", "httpTimeout": "3s"},
            {"urlPrefix": url, "preemptVerb": "x", "httpTimeout": "1s"},
        ]);
        let extenders = harness().extenders(&config).unwrap();
        assert_eq!(extenders.longest_attempt(), Duration::from_secs(expected));
    }
}

#[test]
fn bind_without_connection_is_not_sent() {
    let harness = harness();
    let (closed, address) = listener();
    drop(closed);
    let extender = json!({"urlPrefix": format!("http://{address}"), "bindVerb": "bind"});
    let extenders = harness.extenders(&json!([extender])).unwrap();
    let reply = harness.runtime.block_on(extenders.all()[0].bind(b"{}".to_vec()));
    let Reply::NotSent(text) = reply else { panic!("{reply:?}") };
    assert!(text.starts_with(&format!("Post \"http://{address}/bind\": ")), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
    let filtering = json!({"urlPrefix": format!("http://{address}"), "filterVerb": "filter"});
    let error = harness.filter(&filtering).unwrap_err();
    assert!(matches!(error, CallError::Failed(_)), "it held up no pod: {error:?}");
}

#[test]
fn extenders_prioritize_concurrently() {
    let both = Arc::new(Barrier::new(2));
    let rate = async |State(both): State<Arc<Barrier>>| {
        both.wait().await;
        r#"[{"Host":"a","Score":3}]"#
    };
    let harness = harness();
    let url = harness.serve(Router::new().route("/rate", post(rate)).with_state(both));
    let extender = json!({
        "urlPrefix": url, "prioritizeVerb": "rate", "weight": 1, "httpTimeout": "1m",
    });
    let mut extenders = harness.extenders(&json!([extender, extender])).unwrap();
    let pod = new_pod();
    let (answers, _) = extenders.prioritize(&[call(&pod, 0), call(&pod, 1)], Time::ZERO);
    let scores = || Ok(vec![("a".to_owned(), 3)]);
    assert_eq!(answers, [scores(), scores()]);
}

#[test]
fn preempt_call_sends_pod_objects_or_uids() {
    let victim = pod("victim").on("a").build();
    let uid = victim.uid.to_string();
    let whole = json!({"metadata": {"name": "victim"}});
    let rows = [
        (false, "NodeNameToVictims", json!({"Pods": [whole], "NumPDBViolations": 1})),
        (true, "NodeNameToMetaVictims", json!({"Pods": [{"UID": uid}], "NumPDBViolations": 1})),
    ];
    for (node_cache_capable, field, expected) in rows {
        let harness = harness();
        let accepted = json!({"b": {"Pods": [{"UID": "other"}], "NumPDBViolations": 0}});
        let (router, mut received) = echo(&json!({"NodeNameToMetaVictims": accepted}));
        let mut extenders = harness
            .extenders(&json!([{
                "urlPrefix": format!("{}/v1", harness.serve(router)),
                "preemptVerb": "preempt",
                "nodeCacheCapable": node_cache_capable,
            }]))
            .unwrap();
        let change = Change::Pod(Box::new(victim.clone()));
        let object = to_raw_value(&whole).unwrap();
        extenders.see(&change, Some(object));
        let (preemptor, victims) =
            (new_pod(), Victims { pods: vec![&victim], num_pdb_violations: 1 });
        let call =
            PreemptionCall { extender: 0, pod: &preemptor, victims: [("a", victims)].into() };
        let (answer, _) = extenders.process_preemption(&call, Time::ZERO);
        let left = MetaVictims { pods: vec![Uid::from("other")], num_pdb_violations: 0 };
        assert_eq!(answer, Ok([("b".to_owned(), left)].into()));
        assert_eq!(received.try_recv().unwrap()[field], json!({"a": expected}));
    }
}

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    fn data(&self) -> String {
        BASE64_STANDARD.encode(self.0.pem())
    }

    /// The TLS settings of a server with a certificate for `extender.test`, which may require a
    /// client certificate of this authority.
    fn server(&self, verifies_clients: bool) -> ServerConfig {
        let (certificate, key) = self.sign("extender.test");
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let callers =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match verifies_clients {
            true => builder.with_client_cert_verifier(callers.build().unwrap()),
            false => builder.with_no_client_auth(),
        };
        builder.with_single_cert(vec![certificate.der().clone()], key.into()).unwrap()
    }
}

#[test]
fn tls_follows_the_configuration() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.sign("loadmaster");
    let own = json!({
        "insecure": true,
        "certData": BASE64_STANDARD.encode(certificate.pem()),
        "keyData": BASE64_STANDARD.encode(key.serialize_pem()),
    });
    let named =
        |authority: &Authority| json!({"caData": authority.data(), "serverName": "extender.test"});
    // Whether the server requires a client certificate, `enableHTTPS`, `tlsConfig`, and whether the
    // call succeeds.
    let rows = [
        (false, false, named(&authority), true),
        (false, true, named(&authority), true),
        (false, false, named(&stranger), false),
        (false, false, json!({"caData": authority.data()}), false),
        (false, false, json!({"insecure": true}), true),
        (false, true, json!({}), true),
        (true, false, json!({"insecure": true}), false),
        (true, false, own, true),
    ];
    for (verifies_clients, enable_https, tls, works) in rows {
        let harness = harness();
        let (router, _received) = echo(&json!({}));
        let url = harness.serve_tls(router, authority.server(verifies_clients));
        let extender = json!({
            "urlPrefix": format!("{url}/v1"), "filterVerb": "filter", "nodeCacheCapable": true,
            "enableHTTPS": enable_https, "tlsConfig": tls,
        });
        let answer = harness.filter(&extender);
        assert_eq!(answer.is_ok(), works, "{verifies_clients} {enable_https} {tls}: {answer:?}");
    }
}

#[test]
fn invalid_extenders_are_rejected_at_the_start() {
    let rows = [
        (json!({"urlPrefix": ""}), "urlPrefix \"\" is not the address of a server"),
        (json!({"urlPrefix": "extender:80"}), "urlPrefix \"extender:80\" is not the address"),
        (json!({"urlPrefix": "http://me:secret@host/"}), "remove it from the address of host"),
        (json!({"urlPrefix": "me:secret@host"}), "urlPrefix \"(not shown)\" is not"),
        (json!({"tlsConfig": {"caFile": "/nonexistent/ca.crt"}}), "open /nonexistent/ca.crt: "),
        (json!({"tlsConfig": {"caData": "AAAA"}}), "no PEM certificate in caData"),
        (
            json!({"tlsConfig": {"insecure": true, "caData": Authority::new().data()}}),
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            json!({"tlsConfig": {"insecure": true, "certData": "AAAA", "keyData": "AAAA"}}),
            "tlsConfig: ",
        ),
        (json!({"tlsConfig": {"insecure": true, "serverName": "a b"}}), "\"a b\""),
    ];
    for (mut extender, expected) in rows {
        if extender.get("urlPrefix").is_none() {
            extender["urlPrefix"] = json!("https://extender");
        }
        let refused = harness().extenders(&json!([extender]));
        let text = refused.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(expected), "{extender}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn debug_output_hides_keys() {
    let (certificate, key) = Authority::new().sign("loadmaster");
    let key_data = BASE64_STANDARD.encode(key.serialize_pem());
    let certificate = BASE64_STANDARD.encode(certificate.pem());
    let extender = json!({
        "urlPrefix": "https://extender",
        "tlsConfig": {"insecure": true, "certData": certificate, "keyData": key_data},
    });
    let extenders = harness().extenders(&json!([extender])).unwrap();
    let shown = format!("{:?}", extenders.all());
    assert!(shown.contains("https://extender") && !shown.contains(&key_data), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn loop_that_waits_for_an_extender_is_not_stuck() {
    let heartbeat = Arc::<Heartbeat>::default();
    let watching = heartbeat.clone();
    tokio::spawn(async move { watching.watch().await });
    let (runtime, stop) = (Handle::current(), CancellationToken::new());
    let wait = LoopWait { runtime, heartbeat: heartbeat.clone(), stop, events: channel().0 };
    wait.beating(tokio::time::sleep(Duration::from_mins(5))).await;
    assert_eq!(heartbeat.check(), Ok(()));
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(heartbeat.check().is_err(), "the loop neither waits nor turns");
}
