//! Answers as text for people.

use std::fmt::Write;

use dry_run::table::{Cell, Colour, Column, Table, Tone};
use explain::{
    Attempt, ClusterAnswer, GroupAnswer, NodeAnswer, Now, PendingCause, PluginScore, PodAnswer,
    PodFacts, PodGroupAnswer, PodGroupDomain, PodGroupLevel, PodGroupShare, QuotaResource,
    QuotasAnswer, Rejection, Suggestion,
};
use framework::Quantity;

/// Number of rejections, attempts and pods that the short form shows.
const SHOWN: usize = 5;

/// How the reason begins for which every API server refuses a pod.
const REFUSED: &str = "the pod is invalid, and an API server refuses it";

/// The layout of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Layout {
    /// Whether all names, scores and suggestions are shown.
    pub(super) wide: bool,
    /// Whether tables are shown in full.
    pub(super) whole: bool,
    /// Whether the summary comes last instead of first.
    pub(super) ends_with_summary: bool,
}

impl Layout {
    /// Returns the layout for standard output. Wide answers are shown in full.
    pub(super) fn of_stdout(wide: bool, all: bool) -> Self {
        Self { wide, whole: wide || all, ends_with_summary: dry_run::table::ends_in_view() }
    }

    /// Returns the number of entries that are shown of a list that the short form cuts.
    const fn shown(self, entries: usize) -> usize {
        if self.whole { entries } else { SHOWN }
    }

    /// Returns the text with the summary in its place.
    fn with_summary(self, summary: &str, text: &str) -> String {
        match self.ends_with_summary && !text.is_empty() {
            true => format!("{}\n{summary}", text.trim_start_matches('\n')),
            false => format!("{summary}{text}"),
        }
    }
}

pub(super) fn pod(answer: &PodAnswer, layout: Layout) -> String {
    let mut out = headline(&answer.facts);
    if let Some(now) = &answer.now {
        out += &now_text(now, answer.facts.node.is_some(), layout);
    } else {
        out += "\nNo profile of this scheduler is responsible for the pod.\n";
    }
    if let Some(check) = &answer.node {
        let node = &check.node;
        let verdict = match (check.exists, check.feasible) {
            (false, _) => format!("Node {node} does not exist."),
            (true, true) => match (check.total, check.better) {
                (Some(total), Some(better)) => {
                    format!(
                        "Node {node} can take the pod: total {total}, {} with more.",
                        counted(better, "node")
                    )
                }
                _ => format!("Node {node} can take the pod."),
            },
            (true, false) => format!(
                "Node {node} cannot take the pod: {}. Rejected by {}.",
                check.reasons.join(", "),
                check.rejecting.join(", ")
            ),
        };
        push(&mut out, &format!("\n{verdict} (now)"));
        for score in &check.scores {
            push(&mut out, &format!("  {} {}{}", score.plugin, score.weighted, parts(score)));
        }
    }
    let fits_nowhere = |now: &Now| now.feasible == 0 && now.preemption.is_none();
    let is_hopeless = answer.facts.node.is_none() && answer.now.as_ref().is_some_and(fits_nowhere);
    if is_hopeless && answer.help.is_empty() && !answer.help_is_incomplete {
        let is_refused = |now: &Now| {
            let mut reasons = now.rejections.iter().flat_map(|own| &own.reasons);
            reasons.any(|reason| reason.starts_with(REFUSED))
        };
        out += match answer.now.as_ref().is_some_and(is_refused) {
            true => "\nNo change of the cluster would help: the pod itself has to change.\n",
            false => {
                "\nNo change was found that would help: several things are wrong on every node.\n"
            }
        };
    }
    out += &help(&answer.help, answer.help_is_incomplete, layout);
    out += &waiting(&answer.facts, layout.wide);
    out += &history(&answer.facts.history, layout);
    out + &notes(&answer.notes)
}

/// Returns what a score consists of, in brackets.
fn parts(score: &PluginScore) -> String {
    score.parts.as_ref().map(|parts| format!(" ({parts})")).unwrap_or_default()
}

/// Adds a line. Control characters are removed, so that no name can move the cursor; tables escape
/// them.
fn push(out: &mut String, line: &str) {
    out.extend(line.chars().filter(|c| *c == '\n' || !c.is_control()));
    out.push('\n');
}

fn headline(facts: &PodFacts) -> String {
    let PodFacts { namespace, name, state, node, attempts, .. } = facts;
    let on = node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
    let mut line = match state.as_str() {
        // The scheduler does not know whether its containers run.
        "running" => format!(
            "Pod {namespace}/{name} is{on}. If it does not run there, the kubelet of that node says why."
        ),
        "assumed" => format!("Pod {namespace}/{name} is being bound{on}."),
        "waitingOnPermit" => format!("Pod {namespace}/{name} waits in Permit{on}."),
        "unschedulable" => format!("Pod {namespace}/{name} is pending: no node can take it."),
        "gated" => format!("Pod {namespace}/{name} is gated."),
        "backoff" | "errorBackoff" => format!("Pod {namespace}/{name} is pending and backs off."),
        _ => format!("Pod {namespace}/{name} is pending."),
    };
    if let Some(pending) = facts.pending_seconds.filter(|_| *attempts > 0) {
        let plural = if *attempts == 1 { "attempt" } else { "attempts" };
        let _ = write!(line, " It has waited {} over {attempts} {plural}.", duration(pending));
    }
    if let Some(seconds) = facts.backoff_seconds {
        let _ = write!(line, " Its backoff ends in {}.", duration(seconds));
    }
    if let Some(nominated) = &facts.nominated {
        let _ = write!(line, " It is nominated to node {nominated}.");
    }
    if facts.is_preempting {
        line += " Pods are being evicted for it.";
    }
    if let Some(room) = &facts.room {
        let _ = write!(line, " For it, {room}.");
    }
    let mut out = String::new();
    push(&mut out, &line);
    out
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds for people")]
fn duration(seconds: f64) -> String {
    match seconds.max(0.0) as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn now_text(now: &Now, is_placed: bool, layout: Layout) -> String {
    let wide = layout.wide;
    let mut out = String::new();
    if let Some(gate) = &now.gate {
        push(&mut out, &format!("\nGated: {gate}."));
    }
    let without = if is_placed { ", without the pod itself" } else { "" };
    let (feasible, nodes) = (now.feasible, now.nodes);
    push(&mut out, &format!("\nNow{without}, {feasible} of {nodes} nodes can take the pod."));
    if let Some(error) = &now.error {
        push(&mut out, &format!("The evaluation failed: {error}."));
    }
    if !now.best.is_empty() {
        let mut table = Table::new([
            Column::words("BEST NODES"),
            Column::numbers("TOTAL"),
            Column::words("SCORES"),
        ]);
        for best in &now.best {
            let scores = best.scores.iter().map(|own| match (wide, own.raw) {
                (true, Some(raw)) => format!("{} {} (raw {raw})", own.plugin, own.weighted),
                _ => format!("{} {}{}", own.plugin, own.weighted, parts(own)),
            });
            let total = best.total.map(|total| total.to_string()).unwrap_or_default();
            table.row([best.node.clone(), total, scores.collect::<Vec<_>>().join(", ")]);
        }
        out += &table.render(Colour::of_stdout());
    }
    for without in &now.without {
        push(&mut out, &format!("Without {}, node {} would win.", without.plugin, without.node));
    }
    out += &rejections(&now.rejections, layout);
    if wide && !now.constraints.is_empty() {
        let mut table = Table::new([
            Column::words("CONSTRAINT"),
            Column::numbers("REJECTS"),
            Column::numbers("ALONE"),
        ]);
        for own in &now.constraints {
            table.row([own.plugin.clone(), own.rejects.to_string(), own.alone.to_string()]);
        }
        out += &table.render(Colour::of_stdout());
    }
    if let Some(preemption) = &now.preemption {
        let victims = preemption.victims.join(", ");
        push(
            &mut out,
            &format!("The next attempt evicts {victims} from node {}.", preemption.node),
        );
    }
    out
}

fn rejections(rejections: &[Rejection], layout: Layout) -> String {
    if rejections.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::numbers("NODES"),
        Column::words("PLUGIN"),
        Column::words("REASON"),
        Column::words("FOR EXAMPLE"),
    ]);
    let shown = layout.shown(rejections.len());
    for own in rejections.iter().take(shown) {
        let named = if layout.wide { own.nodes.len() } else { 3 };
        let nodes = own.nodes.iter().take(named).cloned().collect::<Vec<_>>();
        let details = own.details.iter().take(named);
        let details = details.map(|own| format!("; {}: {}", own.text, counted(own.count, "node")));
        let reason = own.reasons.join(", ") + &details.collect::<String>();
        table.row([own.count.to_string(), own.plugin.clone(), reason, nodes.join(", ")]);
    }
    let mut out = table.render(Colour::of_stdout());
    if rejections.len() > shown {
        push(
            &mut out,
            &format!("and {} more; --all shows them", counted(rejections.len() - shown, "reason")),
        );
    }
    out
}

fn help(help: &[Suggestion], is_incomplete: bool, layout: Layout) -> String {
    if help.is_empty() {
        return match is_incomplete {
            true => "\nThe search for what would help took too long.\n".to_owned(),
            false => String::new(),
        };
    }
    let mut out = "\nWhat would help, each change by itself and tried:\n".to_owned();
    let shown = layout.shown(help.len());
    for (number, own) in help.iter().take(shown).enumerate() {
        push(&mut out, &format!("  {}. {}: {}", number + 1, own.text, own.effect));
        if !own.evicts.is_empty() {
            push(&mut out, &format!("     evicted: {}", own.evicts.join(", ")));
        }
        if let Some(command) = &own.command {
            push(&mut out, &format!("     {command}"));
        }
    }
    if help.len() > shown {
        push(&mut out, &format!("  and {} more; --all shows them", help.len() - shown));
    }
    out
}

fn waiting(facts: &PodFacts, wide: bool) -> String {
    if facts.waits_for.is_empty() {
        return String::new();
    }
    let mut out = "\nThe pod is tried again when one of these happens and may help:\n".to_owned();
    for own in &facts.waits_for {
        // Schedulers of other versions send event names alone.
        let reasons = if own.words.is_empty() { &own.events } else { &own.words };
        let shown = if wide { reasons.len() } else { SHOWN };
        let mut text = reasons.iter().take(shown).cloned().collect::<Vec<_>>().join(", ");
        if reasons.len() > shown {
            text += ", ...";
        }
        push(&mut out, &format!("  {}: {text}", own.plugin));
    }
    if wide {
        let times = &facts.times;
        let text = format!(
            "Time in the queue: active {}, backoff {}, waiting for events {}, gated {}.",
            duration(times.active),
            duration(times.backoff),
            duration(times.unschedulable),
            duration(times.gated),
        );
        push(&mut out, &text);
    }
    out
}

fn history(history: &[Attempt], layout: Layout) -> String {
    if history.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::numbers("ATTEMPT"),
        Column::words("AGO"),
        Column::words("OUTCOME (RECORDED)"),
    ]);
    let left_out = history.len().saturating_sub(layout.shown(history.len()));
    for own in history.iter().skip(left_out) {
        let outcome = match own.outcome.as_str() {
            "chosen" => {
                let node = own.node.as_deref().unwrap_or_default();
                let ties = own.ties.filter(|ties| *ties > 1);
                let ties = ties.map(|ties| format!(", one of {ties} equally good nodes"));
                let total = own.total.map(|total| format!(", total {total}"));
                format!("node {node}{}{}", total.unwrap_or_default(), ties.unwrap_or_default())
            }
            "rejected" => {
                let reasons = own.rejections.iter().take(if layout.wide { 6 } else { 3 });
                let reasons =
                    reasons.map(|own| format!("{} {}", own.count, own.reasons.join(", ")));
                let nominated = own.nominated.as_ref().map(|node| {
                    format!("; nominated to {node}, evicts {}", own.victims.join(", "))
                });
                reasons.collect::<Vec<_>>().join("; ") + &nominated.unwrap_or_default()
            }
            _ => own.message.clone(),
        };
        table.row([own.number.to_string(), duration(own.seconds_ago), outcome]);
    }
    format!("\n{}", table.render(Colour::of_stdout()))
}

fn causes(causes: &[PendingCause], layout: Layout) -> String {
    if causes.is_empty() {
        return String::new();
    }
    let mut columns =
        vec![Column::numbers("PODS"), Column::words("CAUSE"), Column::words("FOR EXAMPLE")];
    let has_help = causes.iter().any(|own| own.help.is_some());
    columns.extend(has_help.then(|| Column::words("WHAT WOULD HELP")));
    let mut table = Table::new(columns);
    let (shown, more) = dry_run::table::cut(causes.len(), layout.whole);
    for own in &causes[..shown] {
        let named = if layout.wide { own.pods.len() } else { 2 };
        let pods = own.pods.iter().take(named).cloned().collect::<Vec<_>>().join(", ");
        let help = has_help.then(|| own.help.clone().unwrap_or_default());
        table.row([own.count.to_string(), own.cause.clone(), pods].into_iter().chain(help));
    }
    table.render(Colour::of_stdout()) + &more
}

pub(super) fn node(answer: &NodeAnswer, layout: Layout) -> String {
    let NodeAnswer { node, pods: (pods, allowed), pending, fitting, .. } = answer;
    let mut out = String::new();
    let text = format!(
        "Node {node} runs {pods} of {allowed} pods. {fitting} of {pending} pending pods fit on it now."
    );
    push(&mut out, &text);
    if answer.unschedulable {
        out += "It is cordoned.\n";
    }
    if !answer.taints.is_empty() {
        push(&mut out, &format!("Taints: {}.", answer.taints.join(", ")));
    }
    let mut table = Table::new([
        Column::words("RESOURCE"),
        Column::numbers("REQUESTED"),
        Column::numbers("ALLOCATABLE"),
    ]);
    for (name, (requested, allocatable)) in &answer.resources {
        let [requested, allocatable] = [requested, allocatable].map(|own| readable(name, own));
        table.row([name.clone(), requested, allocatable]);
    }
    out += &table.render(Colour::of_stdout());
    out += &causes(&answer.rejections, layout);
    out += incomplete(answer.is_incomplete);
    out + &notes(&answer.notes)
}

/// Says that the causes do not cover all pending pods.
const fn incomplete(is_incomplete: bool) -> &'static str {
    if is_incomplete { "Some kinds of pending pods were not evaluated.\n" } else { "" }
}

pub(super) fn group(answer: &GroupAnswer, layout: Layout) -> String {
    let GroupAnswer { group, pods, placed, .. } = answer;
    let mut summary = String::new();
    push(&mut summary, &format!("{group}: {} of {pods} pods are pending.", pods - placed));
    let mut out = causes(&answer.causes, layout);
    if layout.wide {
        let mut table = Table::new([Column::words("NODE"), Column::numbers("PODS")]);
        for own in &answer.nodes {
            table.row([own.node.clone(), own.count.to_string()]);
        }
        out += &table.render(Colour::of_stdout());
    }
    layout.with_summary(&summary, &(out + &notes(&answer.notes)))
}

pub(super) fn pod_group(answer: &PodGroupAnswer, layout: Layout) -> String {
    let PodGroupAnswer { group, api_group, summary, condition, .. } = answer;
    let mut first = String::new();
    push(&mut first, &format!("PodGroup {group} ({api_group}): {summary}."));
    let mut out = String::new();
    if let Some(seconds) = answer.pending_seconds {
        push(&mut out, &format!("Pods of it have waited for {}.", duration(seconds)));
    }
    if let Some(condition) = condition {
        push(&mut out, &format!("Its condition: {condition}."));
    }
    if let Some(topology) = &answer.topology {
        push(&mut out, &format!("All pods have to be in one domain of {}:", topology.key));
        out += &domains(&topology.domains, answer, layout);
    }
    for PodGroupLevel { key, wish, summary, domains: own } in &answer.levels {
        push(&mut out, &format!("{key} {wish}: {summary}."));
        out += &domains(own, answer, layout);
    }
    out += &causes(&answer.causes, layout);
    out += &help(&answer.help, false, layout);
    if !answer.help.is_empty() {
        out.push('\n');
    }
    let mut table = Table::new([
        Column::words("POD"),
        Column::words("STATE"),
        Column::words("NODE"),
        Column::words("REASON"),
    ]);
    let (shown, more) = dry_run::table::cut(answer.members.len(), layout.whole);
    for own in &answer.members[..shown] {
        let state = match own.state.as_str() {
            "doesNotFit" => "does not fit",
            state => state,
        };
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        table.row([own.pod.clone(), state.to_owned(), optional(&own.node), optional(&own.reason)]);
    }
    out += &table.render(Colour::of_stdout());
    out += &more;
    layout.with_summary(&first, &(out + &notes(&answer.notes)))
}

/// Number of characters of the bar of a quota.
const BAR: i64 = 10;

pub(super) fn quotas(answer: &QuotasAnswer, layout: Layout) -> String {
    let mut first = String::new();
    push(&mut first, &format!("{}.", answer.summary));
    let mut table = Table::new([
        Column::words("QUOTA"),
        Column::words("RESOURCE"),
        Column::numbers("USED"),
        Column::numbers("MIN"),
        Column::numbers("MAX"),
        Column::numbers("SHARE"),
        Column::words("OF SHARE"),
        Column::numbers("BORROWED"),
        Column::numbers("WANTED"),
        Column::numbers("PENDING"),
    ]);
    let lines = answer.quotas.iter().flat_map(|quota| {
        let first = (quota, quota.resources.first());
        let others = quota.resources.iter().skip(1).map(move |own| (quota, Some(own)));
        std::iter::once(first).chain(others)
    });
    let lines: Vec<_> = lines.collect();
    let (shown, more) = dry_run::table::cut(lines.len(), layout.whole);
    for (place, (quota, resource)) in lines[..shown].iter().enumerate() {
        let is_first = place == 0 || lines[place - 1].0.quota != quota.quota;
        let name = format!("{}{}", "  ".repeat(quota.depth), quota.quota);
        let empty = QuotaResource::default();
        let own = resource.unwrap_or(&empty);
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        table.row([
            if is_first { name } else { String::new() },
            own.resource.clone(),
            own.used.clone(),
            optional(&own.min),
            optional(&own.max),
            own.share.clone(),
            if resource.is_some() { bar(own.percent) } else { String::new() },
            optional(&own.borrowed),
            own.wanted.clone(),
            if is_first { quota.pending.to_string() } else { String::new() },
        ]);
    }
    let mut out = if answer.quotas.is_empty() {
        String::new()
    } else {
        table.render(Colour::of_stdout()) + &more
    };
    if !answer.ignored.is_empty() {
        let ignored = answer.ignored.join(", ");
        push(
            &mut out,
            &format!("Without effect, beside an older quota of the namespace: {ignored}."),
        );
    }
    layout.with_summary(&first, &out)
}

/// A bar for a part of a share, which may be more than all of it.
fn bar(percent: i64) -> String {
    let filled = (percent * BAR / 100).clamp(0, BAR);
    let part = |count: i64, text: &str| text.repeat(usize::try_from(count).unwrap_or_default());
    format!("{}{} {percent}%", part(filled, "#"), part(BAR - filled, "."))
}

/// The domains of a topology or of a level of a PodGroup, the closest first.
fn domains(domains: &[PodGroupDomain], answer: &PodGroupAnswer, layout: Layout) -> String {
    let mut table = Table::new([
        Column::words("DOMAIN"),
        Column::numbers("NODES"),
        Column::words("PODS THAT FIT"),
        Column::words("FREE"),
        Column::words("PODS OF OTHER GROUPS"),
        Column::words("MISSING"),
    ]);
    let needed = usize::try_from(answer.min_count).unwrap_or(usize::MAX);
    let (shown, more) = dry_run::table::cut(domains.len(), layout.whole);
    for (place, own) in domains[..shown].iter().enumerate() {
        let tone = match answer.placed + own.fit >= needed {
            true if own.is_bound => Tone::Plain,
            true => Tone::Good,
            false if place == 0 => Tone::Odd,
            false => Tone::Plain,
        };
        table.row([
            Cell::from(&own.name),
            Cell::from(own.nodes.to_string()),
            Cell::toned(fitting(own, answer), tone),
            Cell::from(free(own)),
            Cell::from(held_by(own, layout)),
            Cell::from(own.missing.clone().unwrap_or_default()),
        ]);
    }
    table.render(Colour::of_stdout()) + &more + "\n"
}

/// Says how many pods of the group fit in a domain, beside those that have a node there.
fn fitting(domain: &PodGroupDomain, answer: &PodGroupAnswer) -> String {
    let waiting = answer.pods - answer.placed;
    let at_most = if domain.is_bound { "at most " } else { "" };
    let beside = match domain.placed {
        0 => String::new(),
        placed => format!(" beside {placed}"),
    };
    format!("{at_most}{} of {waiting}{beside}", domain.fit)
}

fn free(domain: &PodGroupDomain) -> String {
    let amount = |(name, (free, all)): (&String, &(String, String))| {
        format!("{name} {} of {}", readable(name, free), readable(name, all))
    };
    domain.resources.iter().map(amount).collect::<Vec<_>>().join(", ")
}

fn held_by(domain: &PodGroupDomain, layout: Layout) -> String {
    let named = if layout.wide { domain.held_by.len() } else { 2 };
    let share = |own: &PodGroupShare| format!("{} {}", own.group, own.pods);
    let mut texts: Vec<String> = domain.held_by.iter().take(named).map(share).collect();
    texts.extend((domain.held_by.len() > named).then(|| "...".to_owned()));
    texts.join(", ")
}

pub(super) fn cluster(answer: &ClusterAnswer, layout: Layout) -> String {
    let ClusterAnswer { nodes, placed, pending, .. } = answer;
    let (nodes, placed) = (counted(*nodes, "node"), counted(*placed, "pod"));
    let summary = format!("{nodes}, {placed} with a node, {pending} pending.\n");
    let mut out = causes(&answer.causes, layout);
    if !answer.stranded.is_empty() {
        let mut table = Table::new([
            Column::words("RESOURCE"),
            Column::numbers("FREE"),
            Column::numbers("STRANDED"),
            Column::numbers("PERCENT"),
        ]);
        for own in &answer.stranded {
            table.row([
                own.resource.clone(),
                readable(&own.resource, &own.free),
                readable(&own.resource, &own.stranded),
                own.percent.to_string(),
            ]);
        }
        push(&mut out, "\nFree amounts on nodes that can take no pending pod are stranded:");
        out += &table.render(Colour::of_stdout());
    }
    if !answer.constraints.is_empty() {
        let mut table = Table::new([
            Column::words("CONSTRAINT"),
            Column::numbers("REJECTS"),
            Column::numbers("ALONE"),
        ]);
        for own in &answer.constraints {
            table.row([own.plugin.clone(), own.rejects.to_string(), own.alone.to_string()]);
        }
        let text = format!(
            "\nNodes that each constraint rejects, and those that it alone rejects, summed over {} of pending pods:",
            counted(answer.templates, "kind")
        );
        push(&mut out, &text);
        out += &table.render(Colour::of_stdout());
    }
    out += incomplete(answer.is_incomplete);
    layout.with_summary(&summary, &(out + &notes(&answer.notes)))
}

/// Returns a quantity rounded for reading. The answer has it exactly.
#[expect(clippy::cast_precision_loss, reason = "the amount is rounded")]
fn readable(resource: &str, quantity: &str) -> String {
    let exact: Result<Quantity, _> = quantity.parse();
    exact.map_or_else(
        |_| quantity.to_owned(),
        |exact| dry_run::table::amount(resource, exact.nanos() as f64 / 1e9),
    )
}

/// Returns a number with its noun.
fn counted(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

fn notes(notes: &[String]) -> String {
    let mut out = String::new();
    notes.iter().for_each(|note| push(&mut out, &format!("\nNote: {note}.")));
    out
}

#[cfg(test)]
mod tests {
    use explain::Waiting;

    use super::*;

    fn causes_of(number: usize) -> Vec<PendingCause> {
        let cause = |number| PendingCause {
            cause: format!("cause-{number}"),
            count: 1,
            ..PendingCause::default()
        };
        (0..number).map(cause).collect()
    }

    #[test]
    fn causes_are_cut_after_fifty_rows_and_shown_in_full_on_request() {
        let text = |number, layout| {
            cluster(
                &ClusterAnswer { causes: causes_of(number), ..ClusterAnswer::default() },
                layout,
            )
        };
        let cut = text(52, Layout::default());
        assert!(cut.contains("cause-49") && !cut.contains("cause-50"), "{cut}");
        assert!(cut.ends_with("and 2 more; --all lists them\n"), "{cut}");
        for whole in
            [text(50, Layout::default()), text(52, Layout { whole: true, ..Layout::default() })]
        {
            assert!(whole.contains("cause-49") && !whole.contains("--all"), "{whole}");
        }
    }

    #[test]
    fn summary_comes_first_or_last() {
        let last = Layout { ends_with_summary: true, ..Layout::default() };
        let answer = ClusterAnswer { pending: 1, causes: causes_of(1), ..ClusterAnswer::default() };
        let summary = "0 nodes, 0 pods with a node, 1 pending.\n";
        assert!(cluster(&answer, Layout::default()).starts_with(summary));
        assert!(cluster(&answer, last).ends_with(&format!("\n\n{summary}")));
        let answer = GroupAnswer {
            group: "shop/Deployment/web".to_owned(),
            pods: 3,
            placed: 1,
            causes: causes_of(1),
            ..GroupAnswer::default()
        };
        let summary = "shop/Deployment/web: 2 of 3 pods are pending.\n";
        assert!(group(&answer, Layout::default()).starts_with(summary));
        assert!(group(&answer, last).ends_with(&format!("\n\n{summary}")));
        assert_eq!(group(&GroupAnswer::default(), last), ": 0 of 0 pods are pending.\n");
    }

    #[test]
    fn suggestions_and_reasons_of_a_pod_are_cut_after_five() {
        let help = Vec::from_iter((0..7).map(|number| Suggestion {
            text: format!("change {number}"),
            effect: "it fits".to_owned(),
            evicts: Vec::new(),
            kind: "request".to_owned(),
            size: 1.0,
            command: None,
            changes: Vec::new(),
        }));
        let cut = super::help(&help, false, Layout::default());
        assert!(cut.contains("change 4") && !cut.contains("change 5"), "{cut}");
        assert!(cut.ends_with("  and 2 more; --all shows them\n"), "{cut}");
        let whole = super::help(&help, false, Layout { whole: true, ..Layout::default() });
        assert!(whole.contains("change 6") && !whole.contains("--all"), "{whole}");
    }

    #[test]
    fn pod_that_no_cluster_takes_has_to_change_itself() {
        let text = |reason: &str| {
            let rejection = Rejection {
                plugin: String::new(),
                code: "Unschedulable".to_owned(),
                reasons: vec![reason.to_owned()],
                count: 1,
                nodes: Vec::new(),
                details: Vec::new(),
            };
            let now = Now { nodes: 1, rejections: vec![rejection], ..Now::default() };
            pod(
                &PodAnswer {
                    facts: PodFacts::default(),
                    now: Some(now),
                    node: None,
                    help: Vec::new(),
                    help_is_incomplete: false,
                    notes: Vec::new(),
                },
                Layout::default(),
            )
        };
        let refused = text(&format!("{REFUSED}: spec.containers"));
        assert!(refused.contains("the pod itself has to change"), "{refused}");
        assert!(text("Insufficient cpu").contains("several things are wrong on every node"));
    }

    #[test]
    fn what_a_pod_waits_for_is_said_in_words() {
        let waits = |words: &[&str]| PodFacts {
            waits_for: vec![Waiting {
                plugin: "NodeAffinity".to_owned(),
                events: vec!["Node/Add".to_owned()],
                words: words.iter().map(|own| (*own).to_owned()).collect(),
            }],
            ..PodFacts::default()
        };
        let text = waiting(&waits(&["a node is added"]), false);
        assert!(text.ends_with("\n  NodeAffinity: a node is added\n"), "{text}");
        assert!(waiting(&waits(&[]), false).ends_with("\n  NodeAffinity: Node/Add\n"));
    }
}
