//! The limits of connections: their number, and the time without use.
//!
//! A connection is in use while a handler works on one of its requests, and when a byte passes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Maximum number of open connections. One more closes the connection that was idle for the longest
/// time, so that idle connections keep no probe out.
const MAX_CONNECTIONS: usize = 256;
/// Time without use after which a connection is closed, as in kube-scheduler.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The open connections.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<Mutex<Vec<Arc<Activity>>>>);

impl Connections {
    /// Adds a connection, and closes another one if there are too many.
    pub(super) fn open<S>(&self, stream: S) -> Connection<S> {
        let activity = Arc::new(Activity {
            last_use: Mutex::new(Some(Instant::now())),
            requests: AtomicUsize::new(0),
            task: AtomicWaker::new(),
        });
        let mut open = lock(&self.0);
        if open.len() >= MAX_CONNECTIONS
            && let Some(idle) = (0..open.len()).min_by_key(|&index| open[index].priority())
        {
            open.swap_remove(idle).evict();
        }
        open.push(activity.clone());
        drop(open);
        let timer = Box::pin(tokio::time::sleep(IDLE_TIMEOUT));
        Connection { stream, activity, timer, open: self.clone() }
    }
}

/// The use of one connection.
struct Activity {
    /// Time of the last byte; `None` if another connection took the place of this one.
    last_use: Mutex<Option<Instant>>,
    /// Number of requests that handlers work on.
    requests: AtomicUsize,
    /// The task of the connection.
    task: AtomicWaker,
}

impl Activity {
    fn touch(&self) {
        if let Some(last_use) = &mut *lock(&self.last_use) {
            *last_use = Instant::now();
        }
    }

    fn last_use(&self) -> Option<Instant> {
        *lock(&self.last_use)
    }

    fn is_handling(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// The connection with the lowest priority is closed if there are too many.
    fn priority(&self) -> (bool, Option<Instant>) {
        (self.is_handling(), self.last_use())
    }

    fn evict(&self) {
        *lock(&self.last_use) = None;
        self.task.wake();
    }
}

/// The use of a connection by the handlers of its requests.
#[derive(Clone)]
pub(super) struct Handling(Arc<Activity>);

impl Handling {
    /// Keeps the connection open while a handler works.
    pub(super) async fn during<T>(&self, handler: impl Future<Output = T>) -> T {
        let handled = Handled::new(&self.0);
        let answer = handler.await;
        drop(handled);
        answer
    }
}

/// A request that a handler works on.
struct Handled<'a>(&'a Activity);

impl<'a> Handled<'a> {
    fn new(activity: &'a Activity) -> Self {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }
}

impl Drop for Handled<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that closes itself when it was idle for too long, or when its place is needed.
pub(super) struct Connection<S> {
    stream: S,
    activity: Arc<Activity>,
    timer: Pin<Box<Sleep>>,
    open: Connections,
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        lock(&self.open.0).retain(|other| !Arc::ptr_eq(other, &self.activity));
    }
}

impl<S> Connection<S> {
    /// Returns the use of this connection by the handlers of its requests.
    pub(super) fn handling(&self) -> Handling {
        Handling(self.activity.clone())
    }
}

impl<S: Unpin> Connection<S> {
    /// Reads or writes, unless the connection has to be closed.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        work: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.activity.task.register(context.waker());
        let Some(last_use) = self.activity.last_use() else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        };
        let outcome = work(Pin::new(&mut self.stream), context);
        if outcome.is_ready() {
            self.activity.touch();
            return outcome;
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let last_use = if self.activity.is_handling() { Instant::now() } else { last_use };
            let deadline = last_use + IDLE_TIMEOUT;
            if deadline <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(context, |stream, context| stream.poll_read(context, buffer))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn open(connections: &Connections) -> (Connection<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(64);
        (connections.open(server), client)
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_is_closed() {
        let connections = Connections::default();
        let (mut server, mut client) = open(&connections);
        let started = Instant::now();
        let mut byte = [0];
        for _ in 0..3 {
            tokio::time::sleep(IDLE_TIMEOUT / 2).await;
            client.write_all(b"a").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
        }
        let error = server.read_exact(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed(), IDLE_TIMEOUT / 2 * 3 + IDLE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_read_is_idle() {
        let connections = Connections::default();
        let (mut server, _client) = open(&connections);
        let error = server.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn one_connection_too_many_replaces_the_one_that_was_idle_longest() {
        let connections = Connections::default();
        let mut all = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            all.push(open(&connections));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (server, client) = &mut all[0];
        client.write_all(b"a").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        let (mut second, _client) = all.remove(1);
        let waiting =
            tokio::spawn(async move { second.read_exact(&mut [0]).await.unwrap_err().kind() });
        tokio::task::yield_now().await;
        let (mut newest, mut client) = open(&connections);
        assert_eq!(waiting.await.unwrap(), io::ErrorKind::ConnectionAborted);
        client.write_all(b"a").await.unwrap();
        newest.read_exact(&mut [0]).await.unwrap();
        assert_eq!(lock(&connections.0).len(), MAX_CONNECTIONS);
        drop((all, newest));
        assert!(lock(&connections.0).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_in_use_is_not_replaced() {
        let connections = Connections::default();
        let (busy, _client) = open(&connections);
        let handling = busy.handling();
        let mut working = Box::pin(handling.during(std::future::pending::<()>()));
        assert!(futures::poll!(&mut working).is_pending());
        let mut others = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            tokio::time::sleep(Duration::from_millis(1)).await;
            others.push(open(&connections));
        }
        let is_open = |one: &Connection<_>| {
            lock(&connections.0).iter().any(|other| Arc::ptr_eq(other, &one.activity))
        };
        assert!(is_open(&busy) && !is_open(&others[0].0) && is_open(&others[1].0));
    }
}
