//! Writes that plugins ask for outside PreBind ([`Command::Write`](framework::Command::Write)).

use std::collections::BTreeMap;

use framework::{Answer, PodKey, Uid, Write};

use crate::context::Context;
use crate::effect::{EffectId, EffectKind};

/// Maximum number of requests of one write. Only a write whose answer was lost is repeated.
const MAX_TRIES: u32 = 4;

/// The writes that are not answered.
#[derive(Debug, Default)]
pub(crate) struct PluginWrites(BTreeMap<EffectId, PluginWrite>);

#[derive(Debug)]
struct PluginWrite {
    pod: PodKey,
    uid: Uid,
    write: Write,
    tries: u32,
}

impl PluginWrites {
    /// Requests a write for a pod.
    pub(crate) fn request(&mut self, pod: PodKey, uid: Uid, write: Write, cx: &mut Context<'_>) {
        self.emit(PluginWrite { pod, uid, write, tries: 0 }, cx);
    }

    fn emit(&mut self, mut write: PluginWrite, cx: &mut Context<'_>) {
        write.tries += 1;
        let effect = cx.effects.emit(EffectKind::Write(write.write.clone()));
        self.0.insert(effect, write);
    }

    /// Handles the answer to an effect. Returns the pod of a write that has failed. An object that
    /// is gone needs no write.
    pub(crate) fn answer(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        cx: &mut Context<'_>,
    ) -> Option<(PodKey, Uid)> {
        let write = self.0.remove(&effect)?;
        match answer {
            Answer::Ok(_) | Answer::Gone(_) => None,
            Answer::Unknown(_) if write.tries < MAX_TRIES => {
                self.emit(write, cx);
                None
            }
            _ => Some((write.pod, write.uid)),
        }
    }
}
