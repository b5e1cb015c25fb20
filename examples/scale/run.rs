//! The run: pods of a template come in runs of 1 to 200, and templates take turns at random.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Effect, EffectKind, Engine, EngineConfig, Input, Output};
use fastrand::Rng;
use framework::{Answer, Node, PodKey, Time};
use indicatif::{ProgressBar, ProgressStyle};
use loadmaster::parallelizer::Threads;
use perf::process::Usage;
use recording::Encoder;
use serde_json::json;

use crate::Args;
use crate::cluster::{self, SCARCE};
use crate::record::Record;
use crate::recording::{FRAME, Recording};
use crate::report::{FirstPods, Report, round};
use crate::rules::Rules;
use crate::template::{self, Template};

/// Most pods of one template that come together.
const LONGEST_RUN: u32 = 200;
/// Virtual time from one run to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// Virtual time after which pods that still wait are given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// One pod in so many preempts others.
const PREEMPTORS: u32 = 100;
/// A node is cordoned, and the one before uncordoned, after so many deleted pods.
const CORDON_EVERY: u32 = 100;

/// A pod that was created.
#[derive(Debug, Clone, Copy)]
struct Created {
    template: u16,
    node: Option<u32>,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Run {
    args: Args,
    rng: Rng,
    engine: Engine,
    recording: Option<(Encoder, Recording)>,
    rules: Rules,
    record: Record,
    /// The template of pods that fill scarce nodes comes last, that of preemptors before it.
    templates: Vec<Template>,
    /// All pods by number.
    pods: Vec<Created>,
    /// The numbers of the pods that were bound and not deleted since, in any order.
    placed: Vec<u32>,
    /// The place of each pod in `placed`.
    places: Vec<u32>,
    cordoned: Option<u32>,
    /// Number of changes that were applied.
    changes: u64,
    deleted: u32,
    evictions: usize,
    now: Time,
    times: Vec<Duration>,
    first_pods: FirstPods,
}

impl Run {
    /// Draws the templates.
    ///
    /// # Errors
    /// The file for the placements cannot be written.
    pub(crate) fn new(args: Args) -> anyhow::Result<Self> {
        let mut rng = Rng::with_seed(args.seed);
        let drawn = (0..args.templates).map(|number| Template::draw(number, args.shape, &mut rng));
        let mut templates: Vec<Template> = drawn.collect();
        templates.extend([Template::preemptor(), Template::filler()]);
        u16::try_from(templates.len()).context("at most 65,533 templates")?;
        let engine = engine(&args)?;
        let recording = args.recording.as_ref().map(|path| Recording::create(path, &args));
        let recording = recording.transpose()?;
        let recording = recording.map(|recording| (Encoder::new(usize::MAX), recording));
        Ok(Self {
            engine,
            recording,
            rules: Rules::new(args.nodes),
            record: Record::create(args.placements.as_deref())?,
            rng,
            templates,
            pods: Vec::new(),
            placed: Vec::new(),
            places: Vec::new(),
            cordoned: None,
            changes: 0,
            deleted: 0,
            evictions: 0,
            now: Time::ZERO,
            times: Vec::new(),
            first_pods: FirstPods::default(),
            args,
        })
    }

    /// Creates nodes and pods, and schedules the pods.
    ///
    /// # Errors
    /// The file for the placements cannot be written, or /proc not be read.
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    pub(crate) fn complete(mut self) -> anyhow::Result<Report> {
        let begun = Instant::now();
        self.create_nodes()?;
        self.create_pods()?;
        self.wait_for_the_rest()?;
        if let Some((encoder, recording)) = &mut self.recording {
            recording.keep(encoder, 0)?;
        }
        let decisions = self.times.len().max(1) as f64;
        let usage = Usage::of(std::process::id());
        let mut report = Report {
            nodes: self.args.nodes,
            pods: self.args.pods,
            templates: self.args.templates,
            shape: format!("{:?}", self.args.shape).to_lowercase(),
            seed: self.args.seed,
            bound: self.placed.len() - self.fillers_left(),
            ranked_share: round(self.engine.ranked_decisions() as f64 / decisions),
            evictions: self.evictions,
            wall_s: round(begun.elapsed().as_secs_f64()),
            cpu_s: round(usage.cpu()?.as_secs_f64()),
            peak_rss_mib: round(usage.peak_mib()?),
            rules_broken: self.rules.broken(),
            recorded_changes: self.recording.as_ref().map_or(0, |_| self.changes),
            recorded_bytes: self.recording.as_ref().map_or(0, |(_, recording)| recording.size()),
            ..Report::default()
        };
        report.decided(self.times);
        report.first_pods_decided(self.first_pods);
        self.record.finish()?;
        Ok(report)
    }

    fn fillers_left(&self) -> usize {
        let filler = self.templates.len() - 1;
        let left = self.placed.iter().filter(|pod| self.template_of(**pod) == filler);
        left.count()
    }

    fn template_of(&self, pod: u32) -> usize {
        usize::from(self.pods[pod as usize].template)
    }

    fn create_nodes(&mut self) -> anyhow::Result<()> {
        for template in &self.templates {
            self.record.line(|| json!({"template": template.pod}))?;
        }
        let bar = bar("nodes", u64::from(self.args.nodes));
        for number in 0..self.args.nodes {
            self.set_node(number, false)?;
            if self.args.preempt && cluster::pool(number) == SCARCE {
                self.fill(number)?;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn set_node(&mut self, number: u32, unschedulable: bool) -> anyhow::Result<()> {
        let node = cluster::node(number, unschedulable);
        self.record.line(|| json!({ "node": node }))?;
        self.apply(Change::Node(Node::from_api(&node).0));
        Ok(())
    }

    /// Puts pods that may be evicted on a node.
    fn fill(&mut self, node: u32) -> anyhow::Result<()> {
        let filler = self.templates.len() - 1;
        while self.rules.free_cpu(node) >= self.templates[filler].cpu {
            let pod = self.new_pod(filler);
            let name = cluster::name(node);
            self.record.bound(&template::name(pod), filler, &name)?;
            self.rules.place(filler, &self.templates[filler], node);
            self.set_placed(pod, node);
            let placed = self.templates[filler].pod(pod, Some(name.into()));
            self.apply(Change::Pod(Box::new(placed)));
        }
        Ok(())
    }

    fn create_pods(&mut self) -> anyhow::Result<()> {
        let bar = bar("pods", u64::from(self.args.pods));
        let mut left = self.args.pods;
        let mut owed = 0.0;
        while left > 0 {
            let run = self.rng.u32(1..=LONGEST_RUN).min(left);
            let template = self.rng.usize(..self.args.templates as usize);
            for _ in 0..run {
                let preempts = self.args.preempt && self.rng.u32(..PREEMPTORS) == 0;
                self.create(if preempts { self.templates.len() - 2 } else { template });
            }
            self.decide()?;
            owed += f64::from(run) * self.args.churn;
            while owed >= 1.0 {
                owed -= 1.0;
                self.replace_a_pod()?;
            }
            self.decide()?;
            self.pass(PAUSE);
            self.decide()?;
            left -= run;
            bar.inc(u64::from(run));
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Lets time pass for pods that back off.
    fn wait_for_the_rest(&mut self) -> anyhow::Result<()> {
        let end = self.now + PATIENCE;
        while self.now < end && self.engine.pending().next().is_some() {
            self.pass(Duration::from_secs(1));
            self.decide()?;
        }
        Ok(())
    }

    fn pass(&mut self, pause: Duration) {
        self.now = self.now + pause;
        self.step(Input::Tick);
    }

    fn new_pod(&mut self, template: usize) -> u32 {
        let number = u32::try_from(self.pods.len()).expect("there are fewer pods than numbers");
        let template = u16::try_from(template).expect("there are fewer templates than numbers");
        self.pods.push(Created { template, node: None });
        self.places.push(u32::MAX);
        number
    }

    fn create(&mut self, template: usize) {
        let number = self.new_pod(template);
        let pod = self.templates[template].pod(number, None);
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// Deletes any placed pod but those that fill scarce nodes, and creates another of its
    /// template. Sometimes moves the cordon.
    fn replace_a_pod(&mut self) -> anyhow::Result<()> {
        let Some(pod) = self.rng.choice(self.placed.iter().copied()) else { return Ok(()) };
        let template = self.template_of(pod);
        if template == self.templates.len() - 1 {
            return Ok(());
        }
        self.record.deleted(&template::name(pod))?;
        self.delete(pod);
        self.create(template);
        self.deleted += 1;
        if self.deleted.is_multiple_of(CORDON_EVERY) {
            if let Some(node) = self.cordoned.take() {
                self.rules.cordon(node, false);
                self.set_node(node, false)?;
            }
            let node = self.rng.u32(..self.args.nodes);
            self.cordoned = Some(node);
            self.rules.cordon(node, true);
            self.set_node(node, true)?;
        }
        Ok(())
    }

    fn set_placed(&mut self, pod: u32, node: u32) {
        self.pods[pod as usize].node = Some(node);
        self.places[pod as usize] = u32::try_from(self.placed.len()).expect("as above");
        self.placed.push(pod);
    }

    fn delete(&mut self, pod: u32) {
        let template = self.template_of(pod);
        if let Some(node) = self.pods[pod as usize].node.take() {
            self.rules.remove(template, &self.templates[template], node);
            let place = self.places[pod as usize] as usize;
            self.placed.swap_remove(place);
            if let Some(moved) = self.placed.get(place) {
                self.places[*moved as usize] = u32::try_from(place).expect("it was a place before");
            }
        }
        let key = PodKey::new("scale", &template::name(pod));
        self.apply(Change::PodDeleted { key, uid: template::uid(pod) });
    }

    fn apply(&mut self, change: Change) {
        self.changes += 1;
        self.step(Input::Change(change));
    }

    fn step(&mut self, input: Input) -> Output {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        match &mut self.recording {
            Some((encoder, _)) => encoder.step(&mut self.engine, input, self.now, ports),
            None => self.engine.step(input, self.now, ports),
        }
    }

    fn take_effects(&mut self) -> Vec<Effect> {
        match &mut self.recording {
            Some((encoder, _)) => encoder.take_effects(&mut self.engine),
            None => self.engine.take_effects(),
        }
    }

    /// Tries all pods that are ready.
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    fn decide(&mut self) -> anyhow::Result<()> {
        loop {
            let begun = Instant::now();
            let attempt = self.step(Input::Schedule).attempt();
            let took = begun.elapsed();
            let Some(attempt) = attempt else { return Ok(()) };
            self.times.push(took);
            let template = self.template_of(template::number(&attempt.pod.key.name));
            self.first_pods.decided(template, &self.templates[template], took);
            for effect in self.take_effects() {
                self.carry_out(effect)?;
            }
            if let Some((encoder, recording)) = &mut self.recording {
                recording.keep(encoder, FRAME)?;
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> anyhow::Result<()> {
        let answer = |answer: Answer, run: &mut Self| {
            run.step(Input::Answer { effect: effect.id, answer });
        };
        match effect.kind {
            EffectKind::Bind { binding, .. } => {
                answer(Answer::ok(), self);
                self.bind(&binding.pod, &binding.node)?;
            }
            EffectKind::Evict(eviction) => {
                answer(Answer::ok(), self);
                self.evictions += 1;
                self.record.evicted(&eviction.pod.name, &eviction.preemptor.name)?;
                self.delete(template::number(&eviction.pod.name));
            }
            _ => {}
        }
        Ok(())
    }

    fn bind(&mut self, key: &PodKey, node: &Arc<str>) -> anyhow::Result<()> {
        let pod = template::number(&key.name);
        let template = self.template_of(pod);
        self.record.bound(&key.name, template, node)?;
        let number = cluster::number(node);
        self.rules.bind(template, &self.templates[template], number);
        self.set_placed(pod, number);
        let bound = self.templates[template].pod(pod, Some(node.clone()));
        self.apply(Change::Pod(Box::new(bound)));
        Ok(())
    }
}

fn engine(args: &Args) -> anyhow::Result<Engine> {
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect();
    let profiles = Profiles::build(&[profile], &defaults, &plugins::registry(), false)?;
    let form = if args.no_rankings { Form::Set } else { Form::Ranked };
    Ok(Engine::new(EngineConfig {
        seed: args.seed,
        form,
        parallelizer: Box::new(Threads::new(args.parallelism)),
        ..EngineConfig::new(profiles)
    }))
}

fn bar(what: &'static str, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{pos}/{len} {msg} {wide_bar} {elapsed}");
    ProgressBar::new(length).with_style(style.expect("the template is fixed")).with_message(what)
}
