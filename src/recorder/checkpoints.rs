//! Checkpoints: what the engine knows, at the start of each file but the first.

use engine::Engine;
use explain::ClusterCopy;
use framework::Time;
use recording::Encoder;
use tracing::warn;

/// Writes a checkpoint in slices, between the turns of the scheduling loop.
///
/// A checkpoint that is larger than a file is given up, and no other is tried: it would leave no
/// room for what happens.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// The copy in progress and its bytes so far.
    current: Option<(ClusterCopy, usize)>,
    is_off: bool,
}

impl Checkpoints {
    /// Begins a checkpoint, because a file begins.
    pub(super) fn begin(&mut self) {
        match self.current.take() {
            // The file ended before its checkpoint, because a recording may not define more.
            Some(_) => self.give_up(),
            None if !self.is_off => self.current = Some((ClusterCopy::default(), 0)),
            None => {}
        }
    }

    /// Whether no checkpoint is in progress.
    pub(super) const fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// Writes a slice.
    pub(super) fn advance(&mut self, engine: &Engine, encoder: &mut Encoder, now: Time) {
        let Some((copy, bytes)) = &mut self.current else { return };
        let is_complete = copy.advance(engine, now);
        let before = encoder.len();
        copy.take_changes().iter().for_each(|object| encoder.known(object));
        *bytes += encoder.len() - before;
        if is_complete {
            encoder.checkpoint();
            self.current = None;
        } else if *bytes > encoder.reset_after() {
            encoder.abandon_checkpoint();
            self.current = None;
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.is_off = true;
        warn!(
            "The state of the cluster is larger than a file of the recording: without its first files the recording \
             can be searched only. A larger --record-limit makes larger files"
        );
    }
}
