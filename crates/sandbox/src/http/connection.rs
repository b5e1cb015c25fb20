//! Connections: client certificates, and connections that faults break.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::cluster::Cluster;
use super::request;

/// The state shared by the requests of one connection.
#[derive(Clone)]
pub(super) struct Connection {
    /// The cluster.
    pub(super) cluster: Arc<Cluster>,
    /// The certificates of the client, its own first; empty if it presented none.
    pub(super) certificates: Arc<[CertificateDer<'static>]>,
    /// Breaks the connection.
    pub(super) cut: Arc<Cut>,
}

/// Accepts TLS connections, each with its own router.
#[derive(Clone)]
pub(super) struct Acceptor {
    cluster: Arc<Cluster>,
    tls: RustlsAcceptor<Plain>,
}

impl Acceptor {
    pub(super) fn new(cluster: Arc<Cluster>, config: RustlsConfig) -> Self {
        let plain = Plain { cluster: cluster.clone() };
        let tls = RustlsAcceptor::new(config).acceptor(plain);
        Self { cluster, tls }
    }
}

impl Accept<TcpStream, Router> for Acceptor {
    type Stream = <RustlsAcceptor<Plain> as Accept<TcpStream, Router>>::Stream;
    type Service = Router;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Router)>>;

    fn accept(&self, stream: TcpStream, router: Router) -> Self::Future {
        let cluster = self.cluster.clone();
        let handshake = self.tls.accept(stream, router);
        async move {
            let (stream, _) = handshake.await?;
            let (line, tls) = stream.get_ref();
            let certificates = tls.peer_certificates().unwrap_or_default();
            let certificates = certificates.iter().map(|one| one.clone().into_owned()).collect();
            let connection = Connection { cluster, certificates, cut: line.cut.clone() };
            let router = Router::new().fallback(request::answer).with_state(connection);
            Ok((stream, router))
        }
        .boxed()
    }
}

/// Accepts TCP connections, below TLS.
#[derive(Clone)]
pub(super) struct Plain {
    cluster: Arc<Cluster>,
}

impl<S> Accept<TcpStream, S> for Plain {
    type Stream = Line;
    type Service = S;
    type Future = std::future::Ready<io::Result<(Line, S)>>;

    fn accept(&self, tcp: TcpStream, service: S) -> Self::Future {
        let accepted = match self.cluster.faults().refuses_connection() {
            true => Err(io::ErrorKind::ConnectionRefused.into()),
            false => tcp.set_nodelay(true),
        };
        std::future::ready(accepted.map(|()| (Line { tcp, cut: Arc::default() }, service)))
    }
}

/// A TCP connection that a fault can break.
pub(super) struct Line {
    tcp: TcpStream,
    cut: Arc<Cut>,
}

/// Breaks a connection in both directions.
#[derive(Default)]
pub(super) struct Cut {
    done: AtomicBool,
    reader: AtomicWaker,
}

impl Cut {
    pub(super) fn cut(&self) {
        self.done.store(true, Ordering::Release);
        self.reader.wake();
    }

    pub(super) fn is_cut(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn check(&self) -> io::Result<()> {
        match self.is_cut() {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.cut.reader.register(context.waker());
        self.cut.check()?;
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
