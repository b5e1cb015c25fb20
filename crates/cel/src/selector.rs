//! Selectors.

use crate::checker;
use crate::device::DeviceView;
use crate::environment::Names;
use crate::error::{CompileError, EvalError};
use crate::estimate;
use crate::eval;
use crate::nesting;
use crate::plan::{self, Plan, Refusal};
use crate::reads::Reads;
use crate::source::{self, Issue};
use crate::syntax;
use crate::total;
use crate::types::Type;
use crate::value::{Fault, Outcome, Value};

/// The text of an evaluation that exceeds the cost limit.
const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";
/// The length of expressions that cannot exceed the cost limit without loops; the API server allows
/// as much.
const TOTAL_LENGTH_MAX: usize = 10 * 1024;

/// The names of selectors.
const NAMES: Names = Names::Device { has_lists: true };

/// A compiled expression that selects devices.
#[derive(Debug)]
pub struct Selector {
    expression: Box<str>,
    plan: Plan,
    reads: Reads,
    /// Whether evaluation recurses so far that it needs a larger stack.
    is_deep: bool,
    is_total: bool,
}

/// The outcome of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether the device matches.
    pub result: Result<bool, EvalError>,
    /// The cost in the units of CEL. The limit is one million.
    pub cost: u64,
    /// The cost with what that of CEL does not count: elements that are copied or compared, and
    /// texts that are made.
    pub effort: u64,
}

impl Selector {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// The expression cannot be parsed, does not fit its types, is not a bool, or is nested too
    /// deeply.
    pub fn compile(expression: &str) -> Result<Self, CompileError> {
        let failed = |issues| printed(expression, issues);
        let is_deep = nesting::check(expression)
            .map_err(|message| failed(vec![Issue { place: None, message }]))?;
        nesting::on_stack(is_deep, || Self::compile_on_stack(expression, is_deep))
    }

    /// Checks an expression as the API server does when an object with it is written, with the
    /// features of 1.36. Returns the worst cost that its evaluation can have; the limit is one
    /// million (`CELSelectorExpressionMaxCost`).
    ///
    /// # Errors
    /// The errors of [`compile`](Self::compile), and the use of what only later versions enable.
    pub fn worst_cost(expression: &str) -> Result<u64, CompileError> {
        let selector = Self::compile(expression)?;
        nesting::on_stack(selector.is_deep, || {
            let failed = |issues| printed(expression, issues);
            let tree = syntax::parse(expression).map_err(failed)?;
            let names = Names::Device { has_lists: false };
            let checked =
                checker::check(expression, &tree.root, tree.size, names).map_err(failed)?;
            Ok(estimate::estimate(&checked, &tree.root, tree.size, names, u64::MAX).cost)
        })
    }

    fn compile_on_stack(expression: &str, is_deep: bool) -> Result<Self, CompileError> {
        let failed = |issues| printed(expression, issues);
        let tree = syntax::parse(expression).map_err(failed)?;
        let checked = checker::check(expression, &tree.root, tree.size, NAMES).map_err(failed)?;
        let plan = plan::plan(expression, &checked, &tree.root, NAMES);
        let plan = match plan {
            Err(Refusal::Issues(issues)) => return Err(failed(issues)),
            other => other,
        };
        if !matches!(checked.result, Type::Bool | Type::Dyn) {
            return Err(CompileError::new(format!(
                "must evaluate to bool or the unknown type, not {}",
                checked.result.declared_name()
            )));
        }
        let plan = plan.map_err(|refusal| match refusal {
            Refusal::Issues(issues) => failed(issues),
            Refusal::Planning(error) => {
                CompileError::new(format!("program instantiation failed: {error}"))
            }
        })?;
        let reads = Reads::of(&plan);
        let is_total = expression.len() <= TOTAL_LENGTH_MAX && total::is_total(&plan);
        Ok(Self { expression: expression.into(), plan, reads, is_deep, is_total })
    }

    /// Returns whether a device matches.
    ///
    /// # Errors
    ///
    /// The expression fails for the device, for example because it lacks an attribute, or costs too
    /// much.
    pub fn matches(&self, device: &DeviceView<'_>) -> Result<bool, EvalError> {
        self.evaluate(device).result
    }

    /// Returns whether a device matches, and the cost of finding out.
    pub fn evaluate(&self, device: &DeviceView<'_>) -> Evaluation {
        nesting::on_stack(self.is_deep, || {
            let (outcome, meter) = eval::evaluate(&self.plan, device);
            Evaluation { result: result(&outcome), cost: meter.cost(), effort: meter.effort() }
        })
    }

    /// Returns the expression as written.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns what the result depends on.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Returns whether the expression has a result for every device that has all attributes and
    /// capacities of [`reads`](Self::reads), if none of these attributes is a version. `reads` then
    /// names each of them. False if that is not known.
    pub fn is_total(&self) -> bool {
        self.is_total
    }
}

fn printed(expression: &str, issues: Vec<Issue>) -> CompileError {
    let printed = source::print(expression, issues);
    CompileError::new(format!("compilation failed: {printed}"))
}

fn result(outcome: &Outcome<'_>) -> Result<bool, EvalError> {
    match outcome {
        Ok(Value::Bool(value)) => Ok(*value),
        Ok(other) => Err(EvalError::new(format!(
            "CEL result of type {} could not be converted to bool: type conversion error from '{}' \
             to 'bool'",
            other.type_name(),
            other.type_name()
        ))),
        Err(Fault::Error(text)) => Err(EvalError::new(text.clone())),
        Err(Fault::TooExpensive) => Err(EvalError::new(TOO_EXPENSIVE)),
    }
}
