//! The body of a watch: frames as they come, several in one chunk if they come fast.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::stream;
use tokio::sync::watch::Receiver;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::cluster::Cluster;
use crate::api::WatchId;
use crate::faults::WatchFate;

/// Time between two looks into the store. Under load, one look then serves many changes.
const PACE: Duration = Duration::from_millis(2);

/// Bookmarks, timeouts and faults come by time, with this resolution.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Frames are joined to chunks of about this size.
const CHUNK: usize = 64 * 1024;

/// The body that says what a watch of the store has to say. The watch is closed with it.
pub(super) fn body(cluster: Arc<Cluster>, id: WatchId) -> Body {
    let watch = Watch::new(cluster, id);
    Body::from_stream(stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    }))
}

struct Watch {
    cluster: Arc<Cluster>,
    id: WatchId,
    /// Frames not written yet.
    frames: VecDeque<Bytes>,
    /// Whether nothing comes after them.
    ended: bool,
    changes: Receiver<u64>,
    pace: Interval,
    heartbeat: Interval,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cluster.with_store(|store, _| store.close(self.id));
    }
}

impl Watch {
    fn new(cluster: Arc<Cluster>, id: WatchId) -> Self {
        let mut changes = cluster.changes();
        // The first look needs no change.
        changes.mark_changed();
        let mut heartbeat = every(HEARTBEAT);
        heartbeat.reset();
        let (frames, pace) = (VecDeque::new(), every(PACE));
        Self { cluster, id, frames, ended: false, changes, pace, heartbeat }
    }

    /// The next chunk, or nothing at the end; an error breaks the body off.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.frames.is_empty() {
            if self.ended {
                return None;
            }
            match self.wait().await? {
                WatchFate::Goes => self.look(),
                WatchFate::Breaks => return Some(Err(io::ErrorKind::ConnectionAborted.into())),
                WatchFate::Stalls => {
                    self.cluster.stopping.cancelled().await;
                    return None;
                }
            }
        }
        Some(Ok(chunk(&mut self.frames)))
    }

    /// Waits until the store has changed or a second is over; nothing if the server stops.
    async fn wait(&mut self) -> Option<WatchFate> {
        self.pace.tick().await;
        tokio::select! {
            () = self.cluster.stopping.cancelled() => None,
            changed = self.changes.changed() => changed.ok().map(|()| WatchFate::Goes),
            _ = self.heartbeat.tick() => Some(self.cluster.faults().watch_fate(HEARTBEAT)),
        }
    }

    fn look(&mut self) {
        match self.cluster.guarded(|store, now| store.frames(self.id, now)) {
            Some(news) => {
                self.frames.extend(news.lines);
                self.ended = news.ended;
            }
            None => self.ended = true,
        }
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Takes about as many frames as fit one chunk.
fn chunk(frames: &mut VecDeque<Bytes>) -> Bytes {
    let mut chunk = BytesMut::new();
    while let Some(frame) = frames.pop_front() {
        if chunk.is_empty() && frames.is_empty() {
            return frame;
        }
        chunk.extend_from_slice(&frame);
        if chunk.len() >= CHUNK {
            break;
        }
    }
    chunk.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(frames: &[&'static [u8]]) -> Vec<usize> {
        let mut frames: VecDeque<Bytes> = frames.iter().copied().map(Bytes::from_static).collect();
        std::iter::from_fn(|| (!frames.is_empty()).then(|| chunk(&mut frames).len())).collect()
    }

    #[test]
    fn small_frames_share_a_chunk() {
        assert_eq!(chunks(&[b"a\n", b"b\n", b"c\n"]), [6]);
    }

    #[test]
    fn many_frames_take_several_chunks() {
        const FRAME: &[u8] = &[b'x'; CHUNK / 2];
        assert_eq!(chunks(&[FRAME; 5]), [CHUNK, CHUNK, CHUNK / 2]);
    }
}
