//! Extenders over HTTP, each verb of which a small server answers in its own way.

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
use framework::testing::{node, pod};
use framework::{Pod, Uid};
use futures::stream::{self, StreamExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, mpsc};

use super::*;
use crate::config::{self, Gates};

/// Somebody who runs servers, and asks extenders as the scheduling loop does: outside of tasks.
struct Rig {
    runtime: Runtime,
}

fn rig() -> Rig {
    Rig { runtime: Runtime::new().unwrap() }
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

impl Rig {
    /// The address of a server.
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

    /// The extenders of this configuration, that know of two nodes and the pod [`asked`] for.
    fn extenders(&self, extenders: &Value) -> Result<Extenders, ExtenderError> {
        let text = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": extenders,
        });
        let loaded = config::load(&text.to_string(), &Gates::default()).unwrap();
        let runtime = self.runtime.handle().clone();
        let mut extenders =
            Extenders::new(&loaded.config, runtime, Clock::start(), Arc::default())?;
        let object = |name: &str| Some(to_raw_value(&json!({"metadata": {"name": name}})).unwrap());
        for name in ["a", "b"] {
            let change = Change::Node(node(name).build());
            extenders.take(Update { change, object: object(name) });
        }
        let change = Change::Pod(Box::new(asked()));
        extenders.take(Update { change, object: object("p") });
        Ok(extenders)
    }

    fn filter(&self, extender: &Value) -> Result<Filtered, String> {
        let mut extenders = self.extenders(&json!([extender])).unwrap();
        extenders.filter(&about(&asked(), 0), Time::ZERO).0
    }
}

fn asked() -> Pod {
    pod("p").build()
}

fn about(pod: &Pod, extender: usize) -> ExtenderCall<'_> {
    ExtenderCall { extender, pod, nodes: vec!["a", "b"] }
}

/// A server that passes on what it is sent and answers everything with this.
fn echo(answer: &Value) -> (Router, mpsc::UnboundedReceiver<Value>) {
    let (sender, asked) = mpsc::unbounded_channel();
    let answer = answer.to_string();
    let note = async move |State(sender): State<mpsc::UnboundedSender<Value>>, body: String| {
        sender.send(serde_json::from_str(&body).unwrap()).unwrap();
        answer
    };
    (Router::new().route("/v1/{verb}", post(note)).with_state(sender), asked)
}

#[test]
fn nodes_are_sent_whole_or_by_name() {
    let pod = json!({"metadata": {"name": "p"}});
    let items = ["a", "b"].map(|name| json!({"metadata": {"name": name}}));
    let rows = [
        (false, json!({"metadata": {}, "items": items}), Value::Null),
        (true, Value::Null, json!(["a", "b"])),
    ];
    for (node_cache_capable, nodes, names) in rows {
        let rig = rig();
        let (router, mut asked) = echo(&json!({"Nodes": {"items": [items[1]]}}));
        let extender = json!({
            "urlPrefix": format!("{}/v1/", rig.serve(router)),
            "filterVerb": "filter",
            "nodeCacheCapable": node_cache_capable,
        });
        assert_eq!(rig.filter(&extender).unwrap().nodes, ["b"]);
        let expected = json!({"Pod": pod, "Nodes": nodes, "NodeNames": names});
        assert_eq!(asked.try_recv(), Ok(expected));
    }
}

#[test]
fn only_what_extenders_are_sent_is_kept() {
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
        let extenders = rig().extenders(&json!([extender])).unwrap();
        assert_eq!(extenders.needs(), expected, "{extender}");
    }
}

#[test]
fn what_is_gone_is_not_sent() {
    let rig = rig();
    let extender = json!({"urlPrefix": "http://extender", "filterVerb": "filter"});
    let mut extenders = rig.extenders(&json!([extender])).unwrap();
    extenders.take(Change::NodeDeleted("b".into()).into());
    let (answer, _) = extenders.filter(&about(&asked(), 0), Time::ZERO);
    assert_eq!(answer, Err("node \"b\" is gone".to_owned()));
    let pod = asked();
    let deleted = Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() };
    extenders.take(deleted.into());
    let (answer, _) = extenders.filter(&about(&pod, 0), Time::ZERO);
    assert_eq!(answer, Err("pod default/p is gone".to_owned()));
}

#[test]
fn who_hangs_or_answers_nonsense_is_told_of_in_one_line() {
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
    let rig = rig();
    let url = rig.serve(router);
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
        ("garbage", "0s", "the answer is no ExtenderFilterResult: expected value".to_owned()),
        ("silent", "0s", "the answer is no ExtenderFilterResult: EOF".to_owned()),
    ];
    for (verb, timeout, expected) in rows {
        let extender = json!({"urlPrefix": url, "filterVerb": verb, "httpTimeout": timeout});
        let text = rig.filter(&extender).unwrap_err();
        assert!(text.contains(&expected), "{verb}: {text}");
    }
}

#[test]
fn who_is_not_there_has_bound_nothing() {
    let rig = rig();
    let (closed, address) = listener();
    drop(closed);
    let extender = json!({"urlPrefix": format!("http://{address}"), "bindVerb": "bind"});
    let extenders = rig.extenders(&json!([extender])).unwrap();
    let reply = rig.runtime.block_on(extenders.all()[0].bind(b"{}".to_vec()));
    let Reply::NotSent(text) = reply else { panic!("{reply:?}") };
    assert!(text.starts_with(&format!("Post \"http://{address}/bind\": ")), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[test]
fn extenders_rate_nodes_at_the_same_time() {
    let both = Arc::new(Barrier::new(2));
    let rate = async |State(both): State<Arc<Barrier>>| {
        both.wait().await;
        r#"[{"Host":"a","Score":3}]"#
    };
    let rig = rig();
    let url = rig.serve(Router::new().route("/rate", post(rate)).with_state(both));
    let extender = json!({
        "urlPrefix": url, "prioritizeVerb": "rate", "weight": 1, "httpTimeout": "1m",
    });
    let mut extenders = rig.extenders(&json!([extender, extender])).unwrap();
    let pod = asked();
    let (answers, _) = extenders.prioritize(&[about(&pod, 0), about(&pod, 1)], Time::ZERO);
    let scores = || Ok(vec![("a".to_owned(), 3)]);
    assert_eq!(answers, [scores(), scores()]);
}

#[test]
fn victims_are_sent_whole_or_by_uid() {
    let victim = pod("victim").on("a").build();
    let uid = victim.uid.to_string();
    let whole = json!({"metadata": {"name": "victim"}});
    let rows = [
        (false, "NodeNameToVictims", json!({"Pods": [whole], "NumPDBViolations": 1})),
        (true, "NodeNameToMetaVictims", json!({"Pods": [{"UID": uid}], "NumPDBViolations": 1})),
    ];
    for (node_cache_capable, field, expected) in rows {
        let rig = rig();
        let accepted = json!({"b": {"Pods": [{"UID": "other"}], "NumPDBViolations": 0}});
        let (router, mut questions) = echo(&json!({"NodeNameToMetaVictims": accepted}));
        let mut extenders = rig
            .extenders(&json!([{
                "urlPrefix": format!("{}/v1", rig.serve(router)),
                "preemptVerb": "preempt",
                "nodeCacheCapable": node_cache_capable,
            }]))
            .unwrap();
        let change = Change::Pod(Box::new(victim.clone()));
        let object = to_raw_value(&whole).unwrap();
        extenders.take(Update { change, object: Some(object) });
        let (preemptor, victims) =
            (asked(), Victims { pods: vec![&victim], num_pdb_violations: 1 });
        let call =
            PreemptionCall { extender: 0, pod: &preemptor, victims: [("a", victims)].into() };
        let (answer, _) = extenders.process_preemption(&call, Time::ZERO);
        let left = MetaVictims { pods: vec![Uid::from("other")], num_pdb_violations: 0 };
        assert_eq!(answer, Ok([("b".to_owned(), left)].into()));
        assert_eq!(questions.try_recv().unwrap()[field], json!({"a": expected}));
    }
}

/// An authority, and a certificate with its key that it has signed.
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

    /// A server with a certificate for `extender.test` that asks for one of this authority.
    fn server(&self, asks: bool) -> ServerConfig {
        let (certificate, key) = self.sign("extender.test");
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let callers =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match asks {
            true => builder.with_client_cert_verifier(callers.build().unwrap()),
            false => builder.with_no_client_auth(),
        };
        builder.with_single_cert(vec![certificate.der().clone()], key.into()).unwrap()
    }
}

#[test]
fn tls_is_spoken_as_the_configuration_says() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.sign("loadmaster");
    let own = json!({
        "insecure": true,
        "certData": BASE64_STANDARD.encode(certificate.pem()),
        "keyData": BASE64_STANDARD.encode(key.serialize_pem()),
    });
    let named =
        |authority: &Authority| json!({"caData": authority.data(), "serverName": "extender.test"});
    // Whether the server asks who is calling, `enableHTTPS`, `tlsConfig`, and whether it works.
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
    for (asks, enable_https, tls, works) in rows {
        let rig = rig();
        let (router, _asked) = echo(&json!({}));
        let url = rig.serve_tls(router, authority.server(asks));
        let extender = json!({
            "urlPrefix": format!("{url}/v1"), "filterVerb": "filter", "nodeCacheCapable": true,
            "enableHTTPS": enable_https, "tlsConfig": tls,
        });
        let answer = rig.filter(&extender);
        assert_eq!(answer.is_ok(), works, "{asks} {enable_https} {tls}: {answer:?}");
    }
}

#[test]
fn extenders_that_cannot_be_used_are_refused_at_once() {
    let rows = [
        (json!({"urlPrefix": ""}), "urlPrefix \"\" is not the address of a server"),
        (json!({"urlPrefix": "extender:80"}), "urlPrefix \"extender:80\" is not the address"),
        (json!({"urlPrefix": "http://me:secret@host/"}), "take it out of the one for host"),
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
        let refused = rig().extenders(&json!([extender]));
        let text = refused.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(expected), "{extender}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn keys_do_not_show() {
    let (certificate, key) = Authority::new().sign("loadmaster");
    let key_data = BASE64_STANDARD.encode(key.serialize_pem());
    let certificate = BASE64_STANDARD.encode(certificate.pem());
    let extender = json!({
        "urlPrefix": "https://extender",
        "tlsConfig": {"insecure": true, "certData": certificate, "keyData": key_data},
    });
    let extenders = rig().extenders(&json!([extender])).unwrap();
    let shown = format!("{:?}", extenders.all());
    assert!(shown.contains("https://extender") && !shown.contains(&key_data), "{shown}");
}
