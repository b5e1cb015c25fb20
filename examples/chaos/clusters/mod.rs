//! Schedulers over many clusters, with agents in members, as real processes.
//!
//! ```text
//! cargo run --example chaos -- --clusters 3 --minutes 3 --seed 1
//! ```
//!
//! Two schedulers serve one scheduler name, and a third one another. Each member has two agents, of
//! which one leads, and a scheduler that takes the room of nodes that were just chosen. Watches of
//! all clusters check after each change that no pod runs twice and no node is overcommitted. At the
//! end all trouble ceases: every pod has to be placed or to say why not, and to have the status of
//! its delegate. Then all pods are deleted, and nothing may be left in the members.

mod fleet;
mod foreign;
mod load;
mod rules;
mod trouble;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::Client;

use self::fleet::Fleet;
use self::foreign::Foreign;
use self::load::Load;
use self::rules::Rules;
use self::trouble::Trouble;
use super::{Args, SETTLING, SHOWN, now};

/// Largest number of pods for each node of all members. Half of the nodes have a taint that few
/// pods tolerate, and pods of a lost member need room elsewhere.
const PODS_PER_NODE: usize = 5;
const NODES: usize = 4;
/// Time until all pods and delegates are gone.
const DELETION: Duration = Duration::from_secs(90);

struct Run {
    fleet: Fleet,
    load: Load,
    rules: Rules,
    trouble: Trouble,
    started: Instant,
}

/// Runs the trouble, and checks what comes of it.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let duration = Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?;
    let nodes = args.nodes.unwrap_or(NODES);
    let fleet = Fleet::start(args.seed, args.clusters, args.agents.max(1), nodes).await?;
    let management = fleet.management.client().await?;
    let mut members: Vec<(String, Client)> = Vec::new();
    for member in &fleet.members {
        members.push((member.name.clone(), member.server.client().await?));
    }
    let foreign: Vec<Foreign> = (args.seed..)
        .zip(&members)
        .map(|(seed, (_, client))| Foreign::start(client.clone(), seed))
        .collect();
    let rules = Rules::start(management.clone(), &members).await?;
    let most_pods = PODS_PER_NODE * nodes * args.clusters;
    let load = Load::start(management, members, most_pods, args.seed).await?;
    let trouble = Trouble::new(args.seed, args.clusters);
    let mut run = Run { fleet, load, rules, trouble, started: now() };
    let outcome = run.all(duration).await;
    if outcome.is_err() {
        run.fleet.show_logs();
    }
    let (settled, deleted) = outcome?;
    let counts = run.rules.counts()?;
    let foreign: u64 = foreign.iter().map(Foreign::created).sum();
    println!(
        "{} pods created, {} bound: {} not by the first candidate, {} placed anew, {} of them beside a delegate that its \
         agent could not end; {foreign} pods of another scheduler; {} delegates deleted in members",
        run.load.created(),
        counts.bound,
        counts.tried_again,
        counts.moved,
        counts.beside,
        run.load.deleted().len(),
    );
    println!("{}", run.trouble.summary());
    println!(
        "every pod was placed or explained {:.1} s after the trouble, and all were gone {:.1} s after their deletion; \
         no rule was broken",
        settled.as_secs_f64(),
        deleted.as_secs_f64()
    );
    Ok(())
}

impl Run {
    /// Returns the times after which everything was settled, and gone.
    async fn all(&mut self, duration: Duration) -> anyhow::Result<(Duration, Duration)> {
        while self.started.elapsed() < duration {
            self.trouble.go_on(&mut self.fleet, self.started.elapsed())?;
            self.load.go_on().await;
            self.turn().await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.trouble.cease(&mut self.fleet, self.started.elapsed());
        eprintln!("[{:>6.1} s] all trouble ceases", self.started.elapsed().as_secs_f64());
        let settled = self
            .until(SETTLING, "are not settled", async |run| run.rules.unsettled().await)
            .await?;
        self.load.delete_all().await?;
        let deleted = self.until(DELETION, "are left", async |run| run.rules.left().await).await?;
        let copies = self
            .until(DELETION, "have a copy", async |run| {
                let members = run.load.members_with_copy().await?;
                Ok(members.into_iter().map(str::to_owned).collect())
            })
            .await?;
        Ok((settled, deleted.max(copies)))
    }

    async fn turn(&mut self) -> anyhow::Result<()> {
        self.fleet.restart_ended()?;
        let elapsed = self.started.elapsed();
        self.rules.check(self.load.deleted(), &self.trouble, elapsed).await
    }

    /// Waits until nothing is found any more.
    async fn until(
        &mut self,
        patience: Duration,
        what: &str,
        look: impl AsyncFn(&Self) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<Duration> {
        let began = now();
        loop {
            self.turn().await?;
            let found = look(self).await?;
            if found.is_empty() {
                return Ok(began.elapsed());
            }
            if began.elapsed() > patience {
                let first = found[..found.len().min(SHOWN)].join("; ");
                bail!("{} {what}, for example: {first}", found.len());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}
