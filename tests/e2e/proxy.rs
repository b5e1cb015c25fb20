//! A proxy in front of any API server that tests can stall and cut.

use std::net::SocketAddr;
use std::time::Duration;

use http::Uri;
use kube::config::Kubeconfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::{self, Receiver, Sender};
use tokio_util::task::AbortOnDropHandle;

/// Size of the buffer in bytes.
const CHUNK: usize = 16 * 1024;

/// State of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Bytes pass in both directions.
    Open,
    /// Connections are accepted, requests are held back, responses pass.
    Mute,
    /// Connections are cut and refused.
    Cut,
    /// Bytes arrive after this time, in both directions.
    Slow(Duration),
}

/// A TCP proxy. It ends when dropped.
pub(super) struct Proxy {
    link: Link,
    /// A kubeconfig with the address of the proxy.
    pub(super) kubeconfig: Kubeconfig,
}

impl Proxy {
    /// Starts a proxy in front of the API server of this kubeconfig.
    pub(super) async fn start(kubeconfig: &Kubeconfig, way: Way) -> Self {
        let (server, known) = watch::channel(String::new());
        let (link, address) = Link::start(known, way).await;
        let mut kubeconfig = kubeconfig.clone();
        server.send_replace(redirect(&mut kubeconfig, address));
        Self { link, kubeconfig }
    }

    /// Changes the state of the connections.
    pub(super) fn set(&self, way: Way) {
        self.link.set(way);
    }
}

/// A TCP proxy in front of any server. It ends when dropped.
pub(super) struct Link {
    way: Sender<Way>,
    _accepting: AbortOnDropHandle<()>,
}

impl Link {
    /// Starts a proxy, and returns its address. A connection goes to the server that has this host
    /// and port when it is accepted.
    pub(super) async fn start(server: Receiver<String>, way: Way) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (way, ways) = watch::channel(way);
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, server, ways)));
        (Self { way, _accepting: accepting }, address)
    }

    /// Changes the state of the connections.
    pub(super) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

/// Replaces the address of the server by that of the proxy, and returns host and port of the
/// server.
fn redirect(kubeconfig: &mut Kubeconfig, address: SocketAddr) -> String {
    let current = kubeconfig.current_context.as_deref().unwrap();
    let context = kubeconfig.contexts.iter().find(|context| context.name == current).unwrap();
    let name = &context.context.as_ref().unwrap().cluster;
    let cluster = kubeconfig.clusters.iter_mut().find(|cluster| cluster.name == *name).unwrap();
    let cluster = cluster.cluster.as_mut().unwrap();
    let server: Uri = cluster.server.as_deref().unwrap().parse().unwrap();
    let host = server.host().unwrap();
    cluster.server = Some(format!("https://{address}{}", server.path().trim_end_matches('/')));
    cluster.tls_server_name.get_or_insert(host.trim_matches(['[', ']']).to_owned());
    format!("{host}:{}", server.port_u16().unwrap_or(443))
}

async fn accept(listener: TcpListener, server: Receiver<String>, ways: Receiver<Way>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if *ways.borrow() != Way::Cut {
            let server = server.borrow().clone();
            tokio::spawn(forward(client, server, ways.clone()));
        }
    }
}

async fn forward(client: TcpStream, server: String, mut ways: Receiver<Way>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pass_on(from_client, to_server, ways.clone(), Some(Way::Mute)) => {}
        () = pass_on(from_server, to_client, ways.clone(), None) => {}
        _ = ways.wait_for(|way| *way == Way::Cut) => {}
    }
}

/// Copies bytes until one side closes; copies nothing while the state is `held_up_by`.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut ways: Receiver<Way>,
    held_up_by: Option<Way>,
) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        // An error means that the proxy was dropped, so the copy ends.
        let _ = ways.wait_for(|way| Some(*way) != held_up_by).await;
        let way = *ways.borrow();
        if let Way::Slow(delay) = way {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&chunk[..length]).await.is_err() {
            return;
        }
    }
}
