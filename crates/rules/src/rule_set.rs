//! The rules of a profile, compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::{CompileError, Expression, ResultType};

use crate::args::{OnError, RulesArgs};
use crate::facts;
use crate::reading::{Keyed, Needs, Reading, keyed};

/// Maximum number of rules of a profile, so that the metrics have few series.
pub const RULES_MAX: usize = 64;

/// The rules of a profile.
#[derive(Debug)]
pub struct RuleSet {
    /// The arguments from which they were made.
    pub args: RulesArgs,
    /// The filters, in their order.
    pub filters: Vec<Rule>,
    /// The scores.
    pub scores: Vec<Rule>,
    /// The fields that are kept for the rules.
    pub needs: Needs,
    /// What the filters read, for all pods together.
    pub filter_reading: Reading,
    /// What the scores read, for all pods together.
    pub score_reading: Reading,
    pub(crate) keyed: Vec<Keyed>,
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// The name.
    pub name: Arc<str>,
    /// What the rule does to a node.
    pub effect: Effect,
    /// What the rule reads.
    pub reading: Reading,
    /// What decides whether the rule applies to a pod.
    pub(crate) applies_to: Option<Expression>,
    pub(crate) expression: Expression,
}

/// What a rule does to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Rejects the node with this reason if the expression is false.
    Filter {
        /// The reason.
        message: Arc<str>,
        /// What an error does.
        on_error: OnError,
    },
    /// Adds the number to the score with this weight.
    Score {
        /// The weight.
        weight: i64,
    },
}

impl RuleSet {
    /// Compiles the rules and checks them.
    ///
    /// # Errors
    /// All faults, each with the path of the field, and for an expression with line and column.
    pub fn compile(args: RulesArgs) -> Result<Self, String> {
        let mut faults = Faults { texts: Vec::new(), cost_limit: args.cost_limit };
        faults.check_limits(&args);
        let mut names = BTreeSet::new();
        let (mut filters, mut scores) = (Vec::new(), Vec::new());
        for (place, rule) in args.filters.iter().enumerate() {
            let path = format!("filters[{place}]");
            faults.check_name(&path, &rule.name, &mut names);
            let message: Arc<str> = match rule.message.as_deref() {
                Some(message) => message.into(),
                None => format!("node(s) didn't pass the rule {}", rule.name).into(),
            };
            if message.is_empty() || message.len() > 256 {
                faults.add(&format!("{path}.message"), "must have 1 to 256 bytes");
            }
            let effect = Effect::Filter { message, on_error: rule.on_error };
            let texts =
                Texts { applies_to: rule.applies_to.as_deref(), expression: &rule.expression };
            filters.extend(faults.rule(&path, &rule.name, texts, effect));
        }
        for (place, rule) in args.scores.iter().enumerate() {
            let path = format!("scores[{place}]");
            faults.check_name(&path, &rule.name, &mut names);
            if !(1..=100).contains(&rule.weight) {
                faults.add(&format!("{path}.weight"), "must be 1 to 100");
            }
            let effect = Effect::Score { weight: rule.weight };
            let texts =
                Texts { applies_to: rule.applies_to.as_deref(), expression: &rule.expression };
            scores.extend(faults.rule(&path, &rule.name, texts, effect));
        }
        faults.none()?;
        let mut needs = Needs::default();
        let mut keys = Vec::new();
        let rules = || filters.iter().chain(&scores);
        for expression in rules().flat_map(Rule::expressions) {
            needs.add(expression);
            keys.extend(expression.reads().iter().filter_map(keyed));
        }
        let reading = |rules: &[Rule]| {
            rules.iter().fold(Reading::default(), |all, rule| all.or(rule.reading))
        };
        Ok(Self {
            needs,
            filter_reading: reading(&filters),
            score_reading: reading(&scores),
            keyed: keys,
            args,
            filters,
            scores,
        })
    }

    /// Returns the pointer to a key of a map of which the rest is not kept.
    pub(crate) fn keyed_at(&self, fact: usize, key: &str) -> Option<&str> {
        let keyed = self.keyed.iter().find(|own| own.fact == fact && *own.key == *key);
        keyed.map(|keyed| &*keyed.pointer)
    }

    /// Returns all rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.filters.iter().chain(&self.scores)
    }
}

impl Rule {
    /// Returns whether the rule reads the requests of the pods on a node.
    pub(crate) fn reads_usage(&self) -> bool {
        let mut reads = self.expression.reads().iter();
        reads.any(|read| {
            matches!(facts::SOURCES[read.fact], facts::Source::Requested | facts::Source::Free)
        })
    }

    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.applies_to.iter().chain([&self.expression])
    }
}

/// The expressions of a rule.
struct Texts<'a> {
    applies_to: Option<&'a str>,
    expression: &'a str,
}

/// The faults of the arguments.
struct Faults {
    texts: Vec<String>,
    cost_limit: u64,
}

impl Faults {
    fn add(&mut self, path: &str, fault: &str) {
        self.texts.push(format!("{path}: {fault}"));
    }

    fn check_limits(&mut self, args: &RulesArgs) {
        if args.filters.len() + args.scores.len() > RULES_MAX {
            self.add("filters, scores", &format!("must be at most {RULES_MAX} rules together"));
        }
        if !(1..=86_400).contains(&args.now_step_seconds) {
            self.add("nowStepSeconds", "must be 1 to 86400");
        }
        if !(1..=1_000_000).contains(&args.cost_limit) {
            self.add("costLimit", "must be 1 to 1000000");
        }
        if args.pod_cost_limit == 0 {
            self.add("podCostLimit", "must be greater than 0");
        }
    }

    fn check_name(&mut self, path: &str, name: &str, known: &mut BTreeSet<String>) {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 63 || !name.bytes().all(is_name) {
            let fault = "must have 1 to 63 lower-case letters, digits and dashes";
            self.add(&format!("{path}.name"), fault);
        }
        if !known.insert(name.to_owned()) {
            self.add(&format!("{path}.name"), &format!("{name:?} is the name of another rule"));
        }
    }

    fn rule(&mut self, path: &str, name: &str, texts: Texts<'_>, effect: Effect) -> Option<Rule> {
        let result = match effect {
            Effect::Filter { .. } => ResultType::Bool,
            Effect::Score { .. } => ResultType::Number,
        };
        let applies_to = texts
            .applies_to
            .map(|text| Expression::compile(text, &facts::MATCH, ResultType::Bool, self.cost_limit))
            .map(|compiled| self.compiled(&format!("{path}.match"), compiled));
        let compiled = Expression::compile(texts.expression, &facts::RULE, result, self.cost_limit);
        let expression = self.compiled(&format!("{path}.expression"), compiled)?;
        let applies_to = match applies_to {
            None => None,
            Some(compiled) => Some(compiled?),
        };
        let reading = Reading::of(&expression)
            .or(applies_to.as_ref().map_or(Reading::default(), Reading::of));
        Some(Rule { name: name.into(), effect, reading, applies_to, expression })
    }

    fn compiled(
        &mut self,
        path: &str,
        compiled: Result<Expression, CompileError>,
    ) -> Option<Expression> {
        compiled.map_err(|error| self.add(path, &error.to_string())).ok()
    }

    fn none(self) -> Result<(), String> {
        if self.texts.is_empty() { Ok(()) } else { Err(self.texts.join("\n")) }
    }
}
