//! Random requests to the port, and random answers of the API server to its reviews.

use std::sync::Mutex;

use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use self::runner::fuzz;
use super::*;
use crate::http::AuthorizationOptions;
use crate::http::serving::set_limits;
use crate::http::testing::{authentication_options, credentials};

#[path = "../../../tests/fuzz/runner/mod.rs"]
mod runner;

/// Longest virtual time that a connection may take: the time limits for heads, bodies and idle
/// connections.
const LONGEST: Duration = Duration::from_mins(10);
/// Maximum size of a response in bytes: the metrics of a scheduler without pods.
const MAX_RESPONSE: usize = 256 << 10;

fn runtime(virtual_time: bool) -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(virtual_time).build().unwrap()
}

/// Reads to the end, and returns the number of bytes.
async fn drain(mut stream: impl AsyncRead + Unpin) -> usize {
    let (mut buffer, mut total) = (vec![0; 16 << 10], 0);
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return total,
            Ok(read) => total += read,
        }
    }
}

/// Sends the input over a connection in parts of this size, and returns the size of the answer.
async fn answered(router: Router, input: &[u8], part: usize) -> usize {
    let (client, server) = tokio::io::duplex(16 << 10);
    let mut http = auto::Builder::new(TokioExecutor::new());
    set_limits(&mut http, Some(100));
    let service = TowerToHyperService::new(router);
    let serving = http.serve_connection_with_upgrades(TokioIo::new(server), service);
    let (reading, mut writing) = tokio::io::split(client);
    let sending = async move {
        for part in input.chunks(part) {
            // The server has closed the connection.
            if writing.write_all(part).await.is_err() {
                break;
            }
        }
        let _ = writing.shutdown().await;
    };
    // An invalid request is an error.
    let (_, (), answer) = tokio::join!(serving, sending, drain(reading));
    answer
}

/// Each input is what one connection carries, from a caller that may do everything and from an
/// anonymous one.
#[test]
fn requests() {
    let runtime = runtime(true);
    let server = runtime.block_on(async { Server::new() });
    server.health.set_handlers_synced();
    let admin = PeerCertificates(server.authority.issue("admin", &["system:masters"]).into());
    let anonymous = PeerCertificates(Vec::new().into());
    let routers = [admin, anonymous].map(|caller| server.router.clone().layer(Extension(caller)));
    let answer_loop = async || {
        loop {
            while let Ok(event) = server.loop_events.try_recv() {
                if let LoopEvent::Snapshot(receiver) = event {
                    let _ = receiver.send(Arc::new(Snapshot::default()));
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    fuzz("requests", |input| {
        for router in &routers {
            let part = 1 + input.len() % 100;
            let answer = runtime.block_on(async {
                let answering = answered(router.clone(), input, part);
                tokio::select! {
                    answer = tokio::time::timeout(LONGEST, answering) => answer,
                    _ = answer_loop() => unreachable!("it never ends"),
                }
            });
            let answer = answer.expect("the connection ends");
            // A request takes a line at least.
            let requests = 1 + input.iter().filter(|byte| **byte == b'\n').count();
            assert!(answer <= requests * MAX_RESPONSE, "{answer} bytes of answer");
        }
    });
}

/// The API server answers the reviews of a token and of a permission with the input. Only one that
/// says so lets the caller in.
#[test]
fn reviews() {
    let runtime = runtime(false);
    let answer = Arc::<Mutex<Vec<u8>>>::default();
    let router = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let body = answer.clone();
        let respond = async move || (StatusCode::CREATED, body.lock().unwrap().clone());
        let api_server = Router::new().fallback(respond);
        tokio::spawn(async move { axum::serve(listener, api_server).await });
        let authorization = AuthorizationOptions {
            kubeconfig: None,
            always_allow_paths: Vec::new(),
            authorized_ttl: Duration::ZERO,
            unauthorized_ttl: Duration::ZERO,
        };
        let authentication = AuthenticationOptions {
            skip_lookup: true,
            token_ttl: Duration::ZERO,
            ..authentication_options()
        };
        let server = credentials(&url);
        let metrics = Arc::<Metrics>::default();
        let access = Access::load(&authentication, &authorization, &server, &metrics).await;
        Server::with_access(Health::default(), true, &access.unwrap(), metrics).router
    });
    fuzz("reviews", |input| {
        *answer.lock().unwrap() = input.to_vec();
        let request = Request::get("/configz").header(header::AUTHORIZATION, "Bearer token");
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(PeerCertificates(Vec::new().into()));
        let response = runtime.block_on(router.clone().oneshot(request)).unwrap();
        let says = |text: &str| input.windows(text.len()).any(|part| part == text.as_bytes());
        match response.status() {
            StatusCode::OK => assert!(says("authenticated") && says("true")),
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::INTERNAL_SERVER_ERROR => {}
            status => panic!("{status}"),
        }
    });
}
