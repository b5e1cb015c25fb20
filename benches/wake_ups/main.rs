//! Work after events that may help many waiting pods: `cargo bench --bench wake_ups`.
//!
//! The workload deletes blockers one by one, 200 a second of virtual time, under 3,000 pods that
//! six plugins reject. It runs with shared answers, with pods of different templates, and with
//! every pod of a template tried for itself.

mod workload;

use std::time::Instant;

use workload::{Answers, Replay};

const NODES: usize = 50;

fn main() {
    println!("{NODES} nodes, {} waiting pods, {} blockers", NODES * 60, NODES * 20);
    println!("answers    failed attempts    most of one pod    looks    virtual time    CPU time");
    let mut times = Vec::new();
    for answers in Answers::ALL {
        let mut replay = Replay::new(NODES, answers);
        let start = now();
        let took = replay.run();
        let cpu = start.elapsed();
        times.push(cpu);
        println!(
            "{:<10} {:>15} {:>18} {:>8} {:>13.2} s {:>8.0} ms",
            format!("{answers:?}"),
            replay.failed,
            replay.most_of_one_pod,
            replay.looks,
            took.as_secs_f64(),
            cpu.as_secs_f64() * 1e3,
        );
    }
    println!("CPU, own to shared: {:.1}", times[2].as_secs_f64() / times[0].as_secs_f64());
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}
