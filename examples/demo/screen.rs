//! The output: a picture that is redrawn on a terminal, lines elsewhere.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Duration;

use dry_run::table::{Cell, Colour, Column, Table, Tone};

use crate::script::{END, Scene};
use crate::snapshot::{NodeState, PodState, Snapshot};

/// Number of visible decisions.
const DECISIONS: usize = 6;
/// Long lines are cut off: wrapped lines would change the height of the picture.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
/// Characters of a full bar.
const BAR: usize = 24;

pub(crate) struct Screen {
    in_place: bool,
    /// Height of the picture on the terminal, in lines.
    height: usize,
    last: Snapshot,
    decisions: VecDeque<String>,
    scene: String,
    bound: usize,
}

impl Screen {
    pub(crate) fn new(in_place: bool) -> Self {
        Self {
            in_place,
            height: 0,
            last: Snapshot::default(),
            decisions: VecDeque::new(),
            scene: String::new(),
            bound: 0,
        }
    }

    /// Prints the introduction, with the address of the page if there is one.
    pub(crate) fn open(&self, url: &str, page: Option<&str>) -> io::Result<()> {
        let seconds = END.as_secs();
        let end = match page {
            Some(page) => format!(
                "Nodes, pending pods and decisions are on a page:\n  {page}\nThe script takes \
                 {seconds} seconds; the cluster and the page stay until Ctrl-C."
            ),
            None => format!("Ends by itself after {seconds} seconds, or with Ctrl-C."),
        };
        write(&format!(
            "A Kubernetes API at {url}, and `loadmaster run` connected to it.\n{end}\n\n"
        ))
    }

    /// Shows an action on the cluster.
    pub(crate) fn announce(&mut self, scene: &Scene, elapsed: Duration) -> io::Result<()> {
        let Scene { deed, remark, .. } = scene;
        if self.in_place {
            self.scene = format!("$ {deed}\n  {remark}\n");
            return Ok(());
        }
        write(&format!("{} $ {deed}\n        {remark}\n", clock(elapsed)))
    }

    /// Shows the present cluster and the decisions since the last frame.
    pub(crate) fn show(&mut self, now: Snapshot, elapsed: Duration) -> io::Result<()> {
        let decisions = self.decisions_since(&now);
        self.last = now;
        if !self.in_place {
            let line = |decision| format!("{} {decision}\n", clock(elapsed));
            return write(&decisions.into_iter().map(line).collect::<String>());
        }
        self.decisions.extend(decisions);
        let surplus = self.decisions.len().saturating_sub(DECISIONS);
        self.decisions.drain(..surplus);
        self.draw(elapsed)
    }

    /// Prints the summary: claims and their devices, the explanation of the pending pod, and
    /// counts.
    pub(crate) fn close(
        &self,
        claims: &str,
        explanation: &str,
        page: Option<&str>,
    ) -> io::Result<()> {
        let (bound, counts) = (self.bound, counts(&self.last));
        let stay = page.map_or_else(String::new, |page| {
            format!(
                "\nThe cluster, the scheduler and the page keep running until Ctrl-C:\n  {page}\n"
            )
        });
        write(&format!("\n{claims}\n{explanation}\n{bound} bindings; {counts}.\n{stay}"))
    }

    fn decisions_since(&mut self, now: &Snapshot) -> Vec<String> {
        let mut decisions = Vec::new();
        for (claim, bound) in &now.claims {
            if !self.last.claims.contains_key(claim) {
                decisions.push(format!("{claim} is bound to a volume in {}", bound.zone));
            }
        }
        for (pod, state) in &now.pods {
            let before = self.last.pods.get(pod);
            let had_node = matches!(before, Some(PodState::Bound { .. } | PodState::Ended));
            match state {
                PodState::Bound { node, .. } if !had_node => {
                    self.bound += 1;
                    decisions.push(format!("{pod} -> {node}"));
                }
                PodState::Unschedulable if before != Some(state) => {
                    decisions.push(format!("{pod} fits on no node, stays pending"));
                }
                _ => {}
            }
        }
        decisions
    }

    /// Redraws the picture.
    fn draw(&mut self, elapsed: Duration) -> io::Result<()> {
        let decisions: String = self.decisions.iter().map(|line| format!("  {line}\n")).collect();
        let picture = format!(
            "{}{}\n{}  {}\n\nLAST DECISIONS\n{decisions}",
            self.scene,
            nodes(&self.last).render(Colour::of_stdout()),
            clock(elapsed),
            counts(&self.last),
        );
        let back = match self.height {
            0 => String::new(),
            height => format!("\x1b[{height}A\x1b[J"),
        };
        self.height = picture.lines().count();
        write(&format!("{back}{NO_WRAP}{picture}{WRAP}"))
    }
}

fn nodes(snapshot: &Snapshot) -> Table {
    let mut table = Table::new([
        Column::words("NODE"),
        Column::numbers("PODS"),
        Column::words("CPU REQUESTED"),
        Column::numbers("CORES"),
        Column::words(""),
    ]);
    for (name, node) in &snapshot.nodes {
        let cores = |milli: i64| milli as f64 / 1000.0;
        let used = format!("{:.1}/{}", cores(node.requested_milli_cpu), cores(node.milli_cpu));
        table.row([
            Cell::from(name),
            Cell::from(node.pods.to_string()),
            Cell::toned(bar(node), Tone::Good),
            Cell::from(used),
            Cell::toned(remark(node), Tone::Odd),
        ]);
    }
    table
}

fn bar(node: &NodeState) -> String {
    let share = node.requested_milli_cpu as f64 / node.milli_cpu.max(1) as f64;
    let full = (share * BAR as f64).round() as usize;
    format!("{:░<BAR$}", "█".repeat(full.min(BAR)))
}

fn remark(node: &NodeState) -> &'static str {
    match (node.cordoned, node.tainted) {
        (true, _) => "cordoned",
        (false, true) => "tainted",
        (false, false) => "",
    }
}

fn counts(snapshot: &Snapshot) -> String {
    let count = |is: fn(&PodState) -> bool| snapshot.count(is);
    format!(
        "pods: {} pending, {} gated, {} starting, {} running, {} ended",
        count(|pod| matches!(pod, PodState::New | PodState::Unschedulable)),
        count(|pod| matches!(pod, PodState::Gated)),
        count(|pod| matches!(pod, PodState::Bound { running: false, .. })),
        count(|pod| matches!(pod, PodState::Bound { running: true, .. })),
        count(|pod| matches!(pod, PodState::Ended)),
    )
}

fn clock(elapsed: Duration) -> String {
    format!("{:5.1} s", elapsed.as_secs_f64())
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
