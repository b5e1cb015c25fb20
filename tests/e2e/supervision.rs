//! Parts of the daemon that panic.

use control::scheduler::Scheduler;
use engine::ports::Probe;
use framework::Time;
use loadmaster::runtime;
use loadmaster::scheduling_loop::Observer;
use sandbox::http::{Options, Server};
use tokio_util::sync::CancellationToken;

use super::custom_resources::setup;

/// An observer that panics at its first look.
struct Careless;

impl Probe for Careless {}

impl Observer for Careless {
    fn observe(&mut self, _: &Scheduler, _: Time, _: usize) {
        panic!("the gauge is broken");
    }

    fn synced(&mut self) {}
}

#[tokio::test]
async fn panic_of_the_scheduling_loop_ends_the_scheduler_with_a_sentence() {
    let server = Server::start(Options::default()).await.unwrap();
    let (stop, setup) = (CancellationToken::new(), setup(&server).await);
    let failed = runtime::run_scheduler(setup, Careless, &stop).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the scheduling loop panicked: the gauge is broken. The process ends, because a new one can work \
         where a part of this one cannot. If this happens again, report it with the log as a defect of \
         Loadmaster"
    );
    server.stop().await;
}
