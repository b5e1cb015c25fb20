//! Supervision of tasks: a panic is reported, and a task that the process needs takes it down.
//!
//! A panic of a call that is repeated anyway, such as a watch, counts as a failure of that call
//! ([`catch_panic`]). Any other panic ends the process with a sentence ([`Tasks`]): a process that
//! lacks a part would look healthy and do nothing, while a new process, or another replica, works.

use std::any::Any;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::{JoinError, JoinSet};

/// The panic of a task.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("panicked: {0}")]
pub struct Panic(String);

impl Panic {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let owned = payload.downcast_ref::<String>().map(String::as_str);
        let message = owned.or_else(|| payload.downcast_ref::<&str>().copied());
        Self(message.unwrap_or("no message").to_owned())
    }
}

/// Runs a future to its end or its panic. Data that it shares with other tasks may be half-changed
/// after a panic; the future must not leave such state behind.
///
/// # Errors
/// The future panicked.
pub async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, Panic> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| Panic::of(&*payload))
}

/// The failure of a task that the process needs.
#[derive(Debug, Error)]
#[error(
    "{task} {panic}. The process ends, because a new one can work where a part of this one cannot. If \
     this happens again, report it with the log as a defect of Loadmaster"
)]
pub struct TaskFailed {
    task: Cow<'static, str>,
    panic: Panic,
}

impl TaskFailed {
    /// Returns the failure of a task whose handle returned this error.
    pub fn joined(task: impl Into<Cow<'static, str>>, error: JoinError) -> Self {
        let panic = match error.try_into_panic() {
            Ok(payload) => Panic::of(&*payload),
            Err(error) => Panic(error.to_string()),
        };
        Self { task: task.into(), panic }
    }
}

/// The tasks that the process needs. Dropping them aborts them.
///
/// The output of a task that must not end is [`Infallible`](std::convert::Infallible), so that it
/// can only panic.
#[derive(Debug, Default)]
pub struct Tasks(JoinSet<Result<(), TaskFailed>>);

impl Tasks {
    /// Spawns a task. The name completes a sentence: "the watch of pods panicked".
    pub fn spawn<T>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        let task_name = name.into();
        self.0.spawn(async move {
            let ended = catch_panic(task).await;
            ended.map(drop).map_err(|panic| TaskFailed { task: task_name, panic })
        });
    }

    /// Returns what spawns further tasks that the process needs, on the runtime of the caller.
    pub fn spawner(&mut self) -> Spawner {
        let (failed, mut receiver) = mpsc::unbounded_channel();
        self.0.spawn(async move { receiver.recv().await.map_or(Ok(()), Err) });
        Spawner { runtime: Handle::current(), failed }
    }

    /// Waits until a task panics; without end while none does.
    pub async fn failure(&mut self) -> TaskFailed {
        loop {
            match self.0.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(failed))) => return failed,
                Some(Err(error)) => return TaskFailed::joined("a task", error),
                None => std::future::pending().await,
            }
        }
    }
}

/// Spawns tasks that the process needs while it runs. Unlike [`Tasks`], it does not abort them when
/// it is dropped.
#[derive(Debug, Clone)]
pub struct Spawner {
    runtime: Handle,
    failed: UnboundedSender<TaskFailed>,
}

impl Spawner {
    /// Spawns a task. The name completes a sentence, as in [`Tasks::spawn`].
    pub fn spawn<T>(
        &self,
        name: impl Into<Cow<'static, str>>,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        let (task_name, failed) = (name.into(), self.failed.clone());
        self.runtime.spawn(async move {
            if let Err(panic) = catch_panic(task).await {
                // The receiver is only gone if the process ends.
                let _ = failed.send(TaskFailed { task: task_name, panic });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    async fn panics(message: String) {
        tokio::task::yield_now().await;
        panic!("{message}");
    }

    #[tokio::test]
    async fn panic_of_a_task_is_reported_with_its_name_and_the_remedy() {
        let mut tasks = Tasks::default();
        tasks.spawn("the announcement", ready(()));
        tasks.spawn("the watch of nodes", pending::<()>());
        assert!(tasks.failure().now_or_never().is_none(), "no task has failed");
        tasks.spawn("the watch of pods", panics("index 7".to_owned()));
        assert_eq!(
            tasks.failure().await.to_string(),
            "the watch of pods panicked: index 7. The process ends, because a new one can work where a \
             part of this one cannot. If this happens again, report it with the log as a defect of \
             Loadmaster"
        );
    }

    #[tokio::test]
    async fn panic_of_a_task_that_was_spawned_later_is_reported() {
        let mut tasks = Tasks::default();
        let spawner = tasks.spawner();
        spawner.spawn("the list", ready(()));
        tokio::task::yield_now().await;
        assert!(tasks.failure().now_or_never().is_none(), "no task has failed");
        spawner.spawn("the mirror", panics("odd".to_owned()));
        let failed = tasks.failure().await.to_string();
        assert!(failed.starts_with("the mirror panicked: odd. The process ends"), "{failed}");
    }

    #[tokio::test]
    async fn panic_of_a_thread_is_reported_like_one_of_a_task() {
        let thread = tokio::task::spawn_blocking(|| panic!("the loop broke"));
        let failed = TaskFailed::joined("the scheduling loop", thread.await.unwrap_err());
        assert!(failed.to_string().starts_with("the scheduling loop panicked: the loop broke."));
    }

    #[tokio::test]
    async fn caught_panic_is_an_error() {
        let panic = catch_panic(panics("odd".to_owned())).await.unwrap_err();
        assert_eq!(panic.to_string(), "panicked: odd");
        assert_eq!(catch_panic(ready(7)).await, Ok(7));
    }
}
