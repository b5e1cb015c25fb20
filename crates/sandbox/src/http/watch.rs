//! The body of a watch: new frames, several in one chunk under load.

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

/// Time between two reads of the store. Under load, one read serves many changes.
const PACE: Duration = Duration::from_millis(2);

/// Resolution of bookmarks, timeouts and faults.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Approximate size of a chunk.
const CHUNK: usize = 64 * 1024;

/// Returns the body of a watch. Dropping the body closes the watch.
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
    /// Frames that are not sent yet.
    frames: VecDeque<Bytes>,
    /// Whether these are the last frames.
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
        // The first read does not wait for a change.
        changes.mark_changed();
        let mut heartbeat = every(HEARTBEAT);
        heartbeat.reset();
        let (frames, pace) = (VecDeque::new(), every(PACE));
        Self { cluster, id, frames, ended: false, changes, pace, heartbeat }
    }

    /// Returns the next chunk, `None` at the end; an error breaks the body.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.frames.is_empty() {
            if self.ended {
                return None;
            }
            match self.wait().await? {
                WatchFate::Continues => self.look(),
                WatchFate::Breaks => return Some(Err(io::ErrorKind::ConnectionAborted.into())),
                WatchFate::Stalls => {
                    self.cluster.stopping.cancelled().await;
                    return None;
                }
            }
        }
        Some(Ok(chunk(&mut self.frames)))
    }

    /// Waits for a change of the store, at most a second; `None` if the server stops.
    async fn wait(&mut self) -> Option<WatchFate> {
        self.pace.tick().await;
        tokio::select! {
            () = self.cluster.stopping.cancelled() => None,
            changed = self.changes.changed() => changed.ok().map(|()| WatchFate::Continues),
            _ = self.heartbeat.tick() => Some(self.cluster.faults().watch_fate(HEARTBEAT)),
        }
    }

    fn look(&mut self) {
        match self.cluster.guarded(|store, now| store.frames(self.id, now)) {
            Some(event) => {
                self.frames.extend(event.lines);
                self.ended = event.ended;
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

/// Joins frames to a chunk.
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
