//! Inputs and outputs: the one way into the engine, and what it returns beside effects.

use std::sync::Arc;

use framework::{Answer, Pod, PodKey, WallOffset};

use crate::attempt::Attempt;
use crate::change::Change;
use crate::cycle::Form;
use crate::decide::Evaluation;
use crate::effect::EffectId;

/// An input of the engine. Equal inputs in equal order at equal times lead to equal effects.
#[derive(Debug, Clone)]
pub enum Input {
    /// An object was added, changed or deleted.
    Change(Change),
    /// The answer to an effect. An answer that no machine waits for is ignored.
    Answer {
        /// The effect.
        effect: EffectId,
        /// The answer.
        answer: Answer,
    },
    /// The outcome of a [probe](crate::ports::ExtenderClient::probe). Pods that need the extender
    /// are tried again when their backoff has ended.
    ExtenderProbed {
        /// Index of the extender.
        extender: usize,
        /// Whether the extender answered.
        outcome: Result<(), String>,
    },
    /// Time has passed. Backoffs, timeouts, pauses and timers that have ended take effect.
    Tick,
    /// The offset of the wall clock, for plugins that compare the time with time stamps of objects.
    WallOffset(WallOffset),
    /// Asks for a change of the resourceVersion of a pending pod
    /// ([`EffectKind::TouchPod`](crate::EffectKind::TouchPod)). The caller handles the answer.
    Touch(PodKey),
    /// Takes the next pod from the queue and tries to schedule it.
    Schedule,
    /// Evaluates a pod against the cluster as it is. This changes the state of an extender that
    /// does not answer: the evaluation may be the call that tries it again.
    Evaluate {
        /// The pod.
        pod: Arc<Pod>,
        /// The form of the plugins.
        form: Form,
        /// Where a sampled search starts.
        start: Option<usize>,
    },
}

/// The outcome of an input, beside effects.
#[derive(Debug)]
pub enum Output {
    /// Effects only. This is also the outcome of [`Input::Touch`] for a pod that is not pending, of
    /// [`Input::Schedule`] if no pod is ready, and of [`Input::Evaluate`] if no profile is
    /// responsible for the pod.
    Nothing,
    /// The attempt of [`Input::Schedule`].
    Attempt(Attempt),
    /// The effect of [`Input::Touch`].
    Touch(EffectId),
    /// The answer to [`Input::Evaluate`].
    Evaluation(Box<Evaluation>),
}

impl Output {
    /// Returns the attempt, if one was made.
    pub fn attempt(self) -> Option<Attempt> {
        match self {
            Self::Attempt(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// Returns the effect that touches the pod, if there is one.
    pub fn touch(self) -> Option<EffectId> {
        match self {
            Self::Touch(effect) => Some(effect),
            _ => None,
        }
    }

    /// Returns the evaluation, if there is one.
    pub fn evaluation(self) -> Option<Evaluation> {
        match self {
            Self::Evaluation(evaluation) => Some(*evaluation),
            _ => None,
        }
    }
}
