//! Expressions over facts.

use std::fmt;
use std::sync::Arc;

use crate::checker;
use crate::environment::{Environment, Facts, Names};
use crate::error::{CompileError, EvalError};
use crate::estimate;
use crate::eval;
use crate::fast::{Constant, Fast};
use crate::meter::Meter;
use crate::nesting;
use crate::plan::{self, Plan, Refusal};
use crate::preparing::{self, Binding, ComparedText, Comparison, Parts};
use crate::source::{self, Issue};
use crate::syntax;
use crate::types::Type;
use crate::value::{Fault, Outcome, Value};

/// A compiled expression over the facts of an [`Environment`].
///
/// The parts that do not vary between subjects are evaluated [once](Self::prepare).
#[derive(Debug)]
pub struct Expression {
    plan: Plan,
    /// The plan in a form for scalars, if it has one.
    fast: Option<Fast>,
    parts: Vec<Plan>,
    bindings: Vec<Binding>,
    reads: Vec<FactRead>,
    calls: Vec<usize>,
    comparisons: Vec<Comparison>,
    is_deep: bool,
}

/// The type that the result of an expression must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    /// A bool.
    Bool,
    /// An int, uint or double.
    Number,
}

/// A fact that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FactRead {
    /// The place of the fact in the environment.
    pub fact: usize,
    /// The key, if the fact is a map of which one key is read.
    pub key: Option<Box<str>>,
}

/// A text with which an expression compares what it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// What is read. For a field of an element of a list, the list.
    pub read: FactRead,
    /// The text.
    pub text: Arc<str>,
}

/// The values of the parts of an expression that do not vary.
#[derive(Debug, Clone)]
pub struct Prepared {
    values: Box<[Outcome<'static>]>,
    /// The values that are scalars.
    scalars: Box<[Option<Constant>]>,
    calls: Box<[Result<BoundCall, EvalError>]>,
    /// The cost of the parts.
    pub cost: u64,
}

/// A call of a function that varies, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundCall {
    /// The place of the function in the environment.
    pub function: usize,
    /// The arguments.
    pub args: Vec<Arc<str>>,
}

impl Prepared {
    /// Returns the calls of functions that vary; for each the reason if an argument has no value.
    pub fn calls(&self) -> &[Result<BoundCall, EvalError>] {
        &self.calls
    }
}

/// The result of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// A bool.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
        }
    }
}

/// The outcome of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// The result, or the reason there is none.
    pub result: Result<Verdict, EvalError>,
    /// The cost in the units of CEL.
    pub cost: u64,
}

impl Expression {
    /// Compiles an expression and checks its types.
    ///
    /// # Errors
    /// The expression cannot be parsed, does not fit its types, reads what is no fact, has another
    /// type, or may cost more than `limit` for a subject of usual size: texts of 64 characters,
    /// lists and maps of 16 elements.
    pub fn compile(
        text: &str,
        environment: &'static Environment,
        result: ResultType,
        limit: u64,
    ) -> Result<Self, CompileError> {
        let failed = |issues| CompileError::new(source::print(text, issues));
        let is_deep =
            nesting::check(text).map_err(|message| failed(vec![Issue { place: None, message }]))?;
        nesting::on_stack(is_deep, || {
            let names = Names::Facts(environment);
            let tree = syntax::parse(text).map_err(failed)?;
            let checked = checker::check(text, &tree.root, tree.size, names).map_err(failed)?;
            if !result.accepts(&checked.result) {
                let message =
                    format!("must evaluate to {result}, not {}", checked.result.declared_name());
                return Err(failed(vec![Issue { place: Some((1, 1)), message }]));
            }
            let estimate = estimate::estimate(&checked, &tree.root, tree.size, names, limit);
            if let Some(offset) = estimate.exceeds_at {
                let message = format!(
                    "costs up to {} for usual objects, and the limit is {limit}",
                    estimate.cost
                );
                let place = Some(source::place(text, offset));
                return Err(failed(vec![Issue { place, message }]));
            }
            let plan = plan::plan(text, &checked, &tree.root, names);
            let plan = plan.map_err(|refusal| match refusal {
                Refusal::Issues(issues) => failed(issues),
                Refusal::Planning(message) => failed(vec![Issue { place: Some((1, 1)), message }]),
            })?;
            let (reads, calls) = preparing::reads(&plan);
            let parts = preparing::split(plan, environment).map_err(|function| {
                let message = format!(
                    "the arguments of {function} must be the same for all nodes, and {function} \
                     must not be called in a loop"
                );
                failed(vec![Issue { place: Some((1, 1)), message }])
            })?;
            let Parts { plan, parts, calls: bindings } = parts;
            let fast = Fast::of(&plan, environment, &reads);
            let comparisons = preparing::comparisons(&plan);
            Ok(Self { plan, fast, parts, bindings, reads, calls, comparisons, is_deep })
        })
    }

    /// Returns the facts that the expression reads, sorted and each once.
    pub fn reads(&self) -> &[FactRead] {
        &self.reads
    }

    /// Returns the functions of the environment that the expression calls, sorted and each once.
    pub fn calls(&self) -> &[usize] {
        &self.calls
    }

    /// Returns the texts with which the expression compares what it reads of a subject.
    pub fn compared(&self, prepared: &Prepared) -> Vec<Compared> {
        let text = |own: &Comparison| match &own.text {
            ComparedText::Constant(text) => Some(text.clone()),
            ComparedText::Prepared(place) => match &prepared.values[*place] {
                Ok(Value::String(text)) => Some(text.clone().shared()),
                _ => None,
            },
        };
        let compared =
            |own: &Comparison| Some(Compared { read: own.read.clone(), text: text(own)? });
        self.comparisons.iter().filter_map(compared).collect()
    }

    /// Evaluates the parts that do not vary.
    pub fn prepare(&self, facts: &dyn Facts, limit: u64) -> Prepared {
        let mut cost = 0;
        let mut value = |part| {
            nesting::on_stack(self.is_deep, || {
                let meter = Meter::limited_to(limit);
                let (outcome, meter) = eval::evaluate_facts(part, facts, &[], meter);
                cost += meter.cost();
                outcome.map(Value::into_owned)
            })
        };
        let values: Box<[_]> = self.parts.iter().map(&mut value).collect();
        let scalar = |value: &Outcome<'static>| Constant::of(value.as_ref().ok()?);
        let scalars = values.iter().map(scalar).collect();
        let calls = self.bindings.iter().map(|binding| {
            let args = binding.args.iter().map(|arg| match value(arg) {
                Ok(Value::String(text)) => Ok(text.shared()),
                other => Err(verdict(&other).err().unwrap_or_else(|| EvalError::new("no text"))),
            });
            Ok(BoundCall { function: binding.function, args: args.collect::<Result<_, _>>()? })
        });
        let calls = calls.collect();
        Prepared { values, scalars, calls, cost }
    }

    /// Evaluates the expression for a subject.
    pub fn evaluate(&self, facts: &dyn Facts, prepared: &Prepared, limit: u64) -> Evaluated {
        let fast = self.fast.as_ref();
        let found = fast.and_then(|fast| fast.evaluate(facts, &prepared.scalars, limit));
        if let Some((result, cost)) = found {
            if cfg!(debug_assertions) {
                let planned = self.evaluate_plan(facts, prepared, limit);
                assert!(planned.result == result || planned.cost > limit, "{result:?} {planned:?}");
            }
            return Evaluated { result, cost };
        }
        self.evaluate_plan(facts, prepared, limit)
    }

    fn evaluate_plan(&self, facts: &dyn Facts, prepared: &Prepared, limit: u64) -> Evaluated {
        nesting::on_stack(self.is_deep, || {
            let meter = Meter::limited_to(limit);
            let (outcome, meter) = eval::evaluate_facts(&self.plan, facts, &prepared.values, meter);
            Evaluated { result: verdict(&outcome), cost: meter.cost() }
        })
    }
}

impl ResultType {
    fn accepts(self, found: &Type) -> bool {
        match self {
            Self::Bool => matches!(found, Type::Bool | Type::Dyn),
            Self::Number => matches!(found, Type::Int | Type::Uint | Type::Double | Type::Dyn),
        }
    }
}

impl fmt::Display for ResultType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Number => "a number (int, uint or double)",
        })
    }
}

fn verdict(outcome: &Outcome<'_>) -> Result<Verdict, EvalError> {
    match outcome {
        Ok(Value::Bool(value)) => Ok(Verdict::Bool(*value)),
        Ok(Value::Int(value)) => Ok(Verdict::Int(*value)),
        Ok(Value::Uint(value)) => Ok(Verdict::Int(i64::try_from(*value).unwrap_or(i64::MAX))),
        Ok(Value::Double(value)) => Ok(Verdict::Double(*value)),
        Ok(other) => Err(EvalError::new(format!("the result is of type {}", other.type_name()))),
        Err(Fault::Error(text)) => Err(EvalError::new(text.clone())),
        Err(Fault::TooExpensive) => Err(EvalError::new("the cost limit is exceeded")),
    }
}
