//! The TLS handshake of connections, and the certificates of their clients.

use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tower::Layer;

use super::connection::{Connection, Connections, Handling};

/// The certificate chain of the client, its own certificate first; empty without one. The client
/// has the key. The signature of the certificate is not verified.
#[derive(Debug, Clone)]
pub(super) struct PeerCertificates(pub(super) Arc<[CertificateDer<'static>]>);

/// Accepts TLS connections and adds [`PeerCertificates`] and [`Handling`] to their requests.
#[derive(Clone)]
pub(super) struct TlsAcceptor(RustlsAcceptor<TcpAcceptor>);

impl TlsAcceptor {
    pub(super) fn new(tls: RustlsConfig) -> Self {
        Self(RustlsAcceptor::new(tls).acceptor(TcpAcceptor::default()))
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for TlsAcceptor {
    type Stream = <RustlsAcceptor<TcpAcceptor> as Accept<TcpStream, S>>::Stream;
    type Service = AddExtension<AddExtension<S, PeerCertificates>, Handling>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, tcp: TcpStream, service: S) -> Self::Future {
        let handshake = self.0.accept(tcp, service);
        async move {
            let (stream, service) = handshake.await?;
            let (connection, tls) = stream.get_ref();
            let chain = tls.peer_certificates().unwrap_or_default();
            let peer = PeerCertificates(chain.iter().cloned().collect());
            let handling = connection.handling();
            Ok((stream, Extension(handling).layer(Extension(peer).layer(service))))
        }
        .boxed()
    }
}

/// Accepts TCP connections, below TLS.
#[derive(Clone, Default)]
pub(super) struct TcpAcceptor(Connections);

impl<S> Accept<TcpStream, S> for TcpAcceptor {
    type Stream = Connection<TcpStream>;
    type Service = S;
    type Future = std::future::Ready<io::Result<(Self::Stream, S)>>;

    fn accept(&self, tcp: TcpStream, service: S) -> Self::Future {
        std::future::ready(tcp.set_nodelay(true).map(|()| (self.0.open(tcp), service)))
    }
}
