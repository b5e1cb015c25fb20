//! A form of plans for scalars, which makes no values on the heap.
//!
//! It has the common parts of rules: facts, entries of maps, comparisons and arithmetic. Whatever
//! it cannot tell, errors included, is left to the plan, so that it needs no texts of errors and no
//! meter: each part is evaluated at most once.

use std::cmp::Ordering;

use crate::environment::{Environment, FactType, FactValue, Facts};
use crate::expression::Verdict;
use crate::plan::{Attribute, Plan, Root};
use crate::value::{Outcome, Value};

/// Maximum number of parts.
const MOST_PARTS: usize = 200;
const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// A plan over scalars.
#[derive(Debug)]
pub(crate) struct Fast {
    root: Part,
    parts: usize,
}

/// A part of a plan.
#[derive(Debug)]
enum Part {
    Constant(Constant),
    Prepared(usize),
    Fact(usize),
    Has(usize),
    Entry {
        fact: usize,
        key: Box<str>,
    },
    /// The entry, or the other value if there is none.
    EntryOr {
        fact: usize,
        key: Box<str>,
        other: Box<Part>,
    },
    HasEntry {
        fact: usize,
        key: Box<str>,
    },
    Bound(usize),
    And(Box<[Part; 2]>),
    Or(Box<[Part; 2]>),
    Conditional(Box<[Part; 3]>),
    Not(Box<Part>),
    Unary(Unary, Box<Part>),
    Binary(Binary, Box<[Part; 2]>),
}

#[derive(Debug)]
enum Constant {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    Nanos(i64),
    Time(jiff::Timestamp),
    Quantity { nanos: i128, is_whole: bool },
}

#[derive(Debug, Clone, Copy)]
enum Unary {
    ToInt,
    AsInteger,
    AsFloat,
}

#[derive(Debug, Clone, Copy)]
enum Binary {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    IsGreater,
    IsLess,
    AddQuantity,
    SubtractQuantity,
    StartsWith,
    EndsWith,
}

/// A value on the stack.
#[derive(Debug, Clone, Copy)]
enum Scalar<'a> {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
    /// A span of time in nanoseconds.
    Nanos(i64),
    /// A point in time in nanoseconds.
    Time(i128),
    Quantity {
        nanos: i128,
        is_whole: bool,
    },
}

impl Fast {
    /// Returns the form of a plan; `None` if a part of it has none.
    pub(crate) fn of(plan: &Plan, environment: &Environment) -> Option<Self> {
        let mut maker = Maker { environment, parts: 0 };
        let root = maker.part(plan)?;
        Some(Self { root, parts: maker.parts })
    }

    /// Returns the cost of an evaluation: one for each part.
    pub(crate) fn cost(&self) -> u64 {
        self.parts as u64
    }

    /// Evaluates the plan; `None` if it has no result in this form.
    pub(crate) fn evaluate(
        &self,
        facts: &dyn Facts,
        prepared: &[Outcome<'static>],
    ) -> Option<Verdict> {
        let evaluation = Evaluation { facts, prepared };
        match evaluation.of(&self.root)? {
            Scalar::Bool(value) => Some(Verdict::Bool(value)),
            Scalar::Int(value) => Some(Verdict::Int(value)),
            Scalar::Double(value) => Some(Verdict::Double(value)),
            _ => None,
        }
    }
}

struct Maker<'e> {
    environment: &'e Environment,
    parts: usize,
}

impl Maker<'_> {
    fn part(&mut self, plan: &Plan) -> Option<Part> {
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return None;
        }
        let mut boxed = |plan: &Plan| self.part(plan).map(Box::new);
        Some(match plan {
            Plan::Const(value) | Plan::Known { value, .. } => Part::Constant(constant(value)?),
            Plan::Prepared(place) => Part::Prepared(*place),
            Plan::Bound(call) => Part::Bound(*call),
            Plan::And(left, right) => Part::And(self.two(left, right)?),
            Plan::Or(left, right) => Part::Or(self.two(left, right)?),
            Plan::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                Part::Conditional(Box::new([
                    self.part(condition)?,
                    self.part(yes)?,
                    self.part(no)?,
                ]))
            }
            Plan::OptionalOr { target, other, value: true } => {
                let Plan::Attribute(attribute) = &**target else { return None };
                let (fact, key) = entry(attribute, true)?;
                Part::EntryOr { fact, key, other: boxed(other)? }
            }
            Plan::Attribute(attribute) => self.attribute(attribute)?,
            Plan::Call(call) if call.regex.is_none() => {
                match (call.function.name, &call.args[..]) {
                    ("!_", [arg]) => Part::Not(boxed(arg)?),
                    ("@in", [Plan::Const(Value::String(key)), Plan::Attribute(map)])
                        if map.qualifiers.is_empty() && !map.test =>
                    {
                        let Root::Fact { fact, optional: false } = map.root else { return None };
                        self.is_map(fact).then(|| Part::HasEntry { fact, key: (**key).into() })?
                    }
                    (name, [arg]) => Part::Unary(unary(name)?, boxed(arg)?),
                    (name, [left, right]) => Part::Binary(binary(name)?, self.two(left, right)?),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    fn two(&mut self, left: &Plan, right: &Plan) -> Option<Box<[Part; 2]>> {
        Some(Box::new([self.part(left)?, self.part(right)?]))
    }

    fn is_map(&self, fact: usize) -> bool {
        let fact_type = self.environment.facts[fact].fact_type;
        matches!(fact_type, FactType::Texts | FactType::Quantities)
    }

    fn attribute(&self, attribute: &Attribute) -> Option<Part> {
        let Root::Fact { fact, optional: false } = attribute.root else { return None };
        match (&attribute.qualifiers[..], attribute.test) {
            ([], true) => Some(Part::Has(fact)),
            ([], false) if !self.is_map(fact) => Some(Part::Fact(fact)),
            ([_], test) if self.is_map(fact) => {
                let (fact, key) = entry(attribute, false)?;
                Some(if test { Part::HasEntry { fact, key } } else { Part::Entry { fact, key } })
            }
            _ => None,
        }
    }
}

/// Returns the map and the constant key that an attribute reads.
fn entry(attribute: &Attribute, optional: bool) -> Option<(usize, Box<str>)> {
    let Root::Fact { fact, optional: false } = attribute.root else { return None };
    match &attribute.qualifiers[..] {
        [only] if only.optional == optional => match &only.key {
            Plan::Const(Value::String(key)) => Some((fact, (**key).into())),
            _ => None,
        },
        _ => None,
    }
}

fn constant(value: &Value<'static>) -> Option<Constant> {
    Some(match value {
        Value::Bool(value) => Constant::Bool(*value),
        Value::Int(value) => Constant::Int(*value),
        Value::Double(value) => Constant::Double(*value),
        Value::String(text) => Constant::Text((**text).into()),
        Value::Duration(value) => Constant::Nanos(value.0),
        Value::Timestamp(at) => Constant::Time(*at),
        Value::Quantity(amount) => {
            Constant::Quantity { nanos: amount.nanos, is_whole: amount.whole }
        }
        _ => return None,
    })
}

fn unary(function: &str) -> Option<Unary> {
    Some(match function {
        "int" => Unary::ToInt,
        "asInteger" => Unary::AsInteger,
        "asApproximateFloat" => Unary::AsFloat,
        _ => return None,
    })
}

fn binary(function: &str) -> Option<Binary> {
    Some(match function {
        "_==_" => Binary::Equal,
        "_!=_" => Binary::Unequal,
        "_<_" => Binary::Less,
        "_<=_" => Binary::LessOrEqual,
        "_>_" => Binary::Greater,
        "_>=_" => Binary::GreaterOrEqual,
        "_+_" => Binary::Add,
        "_-_" => Binary::Subtract,
        "_*_" => Binary::Multiply,
        "isGreaterThan" => Binary::IsGreater,
        "isLessThan" => Binary::IsLess,
        "add" => Binary::AddQuantity,
        "sub" => Binary::SubtractQuantity,
        "startsWith" => Binary::StartsWith,
        "endsWith" => Binary::EndsWith,
        _ => return None,
    })
}

struct Evaluation<'a> {
    facts: &'a dyn Facts,
    prepared: &'a [Outcome<'static>],
}

impl<'a> Evaluation<'a> {
    fn of(&self, part: &'a Part) -> Option<Scalar<'a>> {
        match part {
            Part::Constant(constant) => Some(scalar_of_constant(constant)),
            Part::Prepared(place) => match &self.prepared[*place] {
                Ok(value) => scalar_of_value(value),
                Err(_) => None,
            },
            Part::Fact(fact) => scalar_of_fact(self.facts.fact(*fact)),
            Part::Has(fact) => {
                Some(Scalar::Bool(!matches!(self.facts.fact(*fact), FactValue::Absent)))
            }
            Part::Entry { fact, key } => scalar_of_fact(self.facts.entry(*fact, key)),
            Part::EntryOr { fact, key, other } => match self.facts.entry(*fact, key) {
                FactValue::Absent => self.of(other),
                found => scalar_of_fact(found),
            },
            Part::HasEntry { fact, key } => {
                let found = self.facts.entry(*fact, key);
                Some(Scalar::Bool(!matches!(found, FactValue::Absent)))
            }
            Part::Bound(call) => scalar_of_fact(self.facts.bound(*call).ok()?),
            Part::And(sides) => self.logic(sides, false),
            Part::Or(sides) => self.logic(sides, true),
            Part::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                match self.of(condition)? {
                    Scalar::Bool(true) => self.of(yes),
                    Scalar::Bool(false) => self.of(no),
                    _ => None,
                }
            }
            Part::Not(arg) => match self.of(arg)? {
                Scalar::Bool(value) => Some(Scalar::Bool(!value)),
                _ => None,
            },
            Part::Unary(function, arg) => apply(*function, self.of(arg)?),
            Part::Binary(function, args) => {
                let [left, right] = &**args;
                combine(*function, self.of(left)?, self.of(right)?)
            }
        }
    }

    /// A side that decides hides an error of the other.
    fn logic(&self, [left, right]: &'a [Part; 2], deciding: bool) -> Option<Scalar<'a>> {
        let left = self.of(left);
        match left {
            Some(Scalar::Bool(value)) if value == deciding => return left,
            Some(Scalar::Bool(_)) | None => {}
            Some(_) => return None,
        }
        match (left, self.of(right)?) {
            (_, Scalar::Bool(value)) if value == deciding => Some(Scalar::Bool(deciding)),
            (Some(_), Scalar::Bool(_)) => Some(Scalar::Bool(!deciding)),
            _ => None,
        }
    }
}

fn scalar_of_constant(constant: &Constant) -> Scalar<'_> {
    match constant {
        Constant::Bool(value) => Scalar::Bool(*value),
        Constant::Int(value) => Scalar::Int(*value),
        Constant::Double(value) => Scalar::Double(*value),
        Constant::Text(text) => Scalar::Text(text),
        Constant::Nanos(nanos) => Scalar::Nanos(*nanos),
        Constant::Time(at) => Scalar::Time(at.as_nanosecond()),
        Constant::Quantity { nanos, is_whole } => {
            Scalar::Quantity { nanos: *nanos, is_whole: *is_whole }
        }
    }
}

fn scalar_of_value<'a>(value: &'a Value<'static>) -> Option<Scalar<'a>> {
    Some(match value {
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Int(value) => Scalar::Int(*value),
        Value::Double(value) => Scalar::Double(*value),
        Value::String(text) => Scalar::Text(text),
        Value::Duration(value) => Scalar::Nanos(value.0),
        Value::Timestamp(at) => Scalar::Time(at.as_nanosecond()),
        Value::Quantity(amount) => Scalar::Quantity { nanos: amount.nanos, is_whole: amount.whole },
        _ => return None,
    })
}

fn scalar_of_fact(value: FactValue<'_>) -> Option<Scalar<'_>> {
    Some(match value {
        FactValue::Bool(value) => Scalar::Bool(value),
        FactValue::Int(value) => Scalar::Int(value),
        FactValue::Text(text) => Scalar::Text(text),
        FactValue::Seconds(seconds) => Scalar::Time(i128::from(seconds) * NANOS_PER_UNIT),
        FactValue::Quantity { nanos, is_whole } => Scalar::Quantity { nanos, is_whole },
        FactValue::Absent | FactValue::Map | FactValue::List(_) | FactValue::Object(_) => {
            return None;
        }
    })
}

fn apply<'a>(function: Unary, arg: Scalar<'a>) -> Option<Scalar<'a>> {
    match (function, arg) {
        (Unary::ToInt, Scalar::Int(value)) => Some(Scalar::Int(value)),
        (Unary::ToInt, Scalar::Text(text)) => text.parse().ok().map(Scalar::Int),
        (Unary::AsInteger, Scalar::Quantity { nanos, is_whole: true }) => {
            i64::try_from(nanos / NANOS_PER_UNIT).ok().map(Scalar::Int)
        }
        (Unary::AsFloat, Scalar::Quantity { nanos, .. }) => {
            Some(Scalar::Double(if nanos % NANOS_PER_UNIT == 0 {
                (nanos / NANOS_PER_UNIT) as f64
            } else {
                nanos as f64 / NANOS_PER_UNIT as f64
            }))
        }
        _ => None,
    }
}

fn combine<'a>(function: Binary, left: Scalar<'a>, right: Scalar<'a>) -> Option<Scalar<'a>> {
    let ordering = || compare(left, right);
    let ordered = |holds: fn(Ordering) -> bool| ordering().map(|order| Scalar::Bool(holds(order)));
    match function {
        Binary::Equal => equal(left, right).map(Scalar::Bool),
        Binary::Unequal => equal(left, right).map(|equal| Scalar::Bool(!equal)),
        Binary::Less => ordered(Ordering::is_lt),
        Binary::LessOrEqual => ordered(Ordering::is_le),
        Binary::Greater => ordered(Ordering::is_gt),
        Binary::GreaterOrEqual => ordered(Ordering::is_ge),
        Binary::IsGreater => quantities(left, right).map(|(l, r)| Scalar::Bool(l > r)),
        Binary::IsLess => quantities(left, right).map(|(l, r)| Scalar::Bool(l < r)),
        Binary::AddQuantity => sum(left, right, i128::checked_add),
        Binary::SubtractQuantity => sum(left, right, i128::checked_sub),
        Binary::Add => match (left, right) {
            (Scalar::Int(left), Scalar::Int(right)) => left.checked_add(right).map(Scalar::Int),
            (Scalar::Double(left), Scalar::Double(right)) => Some(Scalar::Double(left + right)),
            _ => None,
        },
        Binary::Subtract => match (left, right) {
            (Scalar::Int(left), Scalar::Int(right)) => left.checked_sub(right).map(Scalar::Int),
            (Scalar::Double(left), Scalar::Double(right)) => Some(Scalar::Double(left - right)),
            (Scalar::Time(left), Scalar::Time(right)) => {
                i64::try_from(left - right).ok().map(Scalar::Nanos)
            }
            _ => None,
        },
        Binary::Multiply => match (left, right) {
            (Scalar::Int(left), Scalar::Int(right)) => left.checked_mul(right).map(Scalar::Int),
            (Scalar::Double(left), Scalar::Double(right)) => Some(Scalar::Double(left * right)),
            _ => None,
        },
        Binary::StartsWith => match (left, right) {
            (Scalar::Text(text), Scalar::Text(part)) => Some(Scalar::Bool(text.starts_with(part))),
            _ => None,
        },
        Binary::EndsWith => match (left, right) {
            (Scalar::Text(text), Scalar::Text(part)) => Some(Scalar::Bool(text.ends_with(part))),
            _ => None,
        },
    }
}

/// Compares values of one type. Numbers of different types are left to the plan.
fn equal(left: Scalar<'_>, right: Scalar<'_>) -> Option<bool> {
    match (left, right) {
        (Scalar::Bool(left), Scalar::Bool(right)) => Some(left == right),
        (Scalar::Text(left), Scalar::Text(right)) => Some(left == right),
        (Scalar::Quantity { nanos: left, .. }, Scalar::Quantity { nanos: right, .. }) => {
            Some(left == right)
        }
        _ => compare(left, right).map(Ordering::is_eq),
    }
}

fn compare(left: Scalar<'_>, right: Scalar<'_>) -> Option<Ordering> {
    match (left, right) {
        (Scalar::Int(left), Scalar::Int(right)) => Some(left.cmp(&right)),
        (Scalar::Double(left), Scalar::Double(right)) => left.partial_cmp(&right),
        (Scalar::Text(left), Scalar::Text(right)) => Some(left.cmp(right)),
        (Scalar::Nanos(left), Scalar::Nanos(right)) => Some(left.cmp(&right)),
        (Scalar::Time(left), Scalar::Time(right)) => Some(left.cmp(&right)),
        _ => None,
    }
}

fn quantities(left: Scalar<'_>, right: Scalar<'_>) -> Option<(i128, i128)> {
    match (left, right) {
        (Scalar::Quantity { nanos: left, .. }, Scalar::Quantity { nanos: right, .. }) => {
            Some((left, right))
        }
        _ => None,
    }
}

fn sum<'a>(
    left: Scalar<'a>,
    right: Scalar<'a>,
    combined: fn(i128, i128) -> Option<i128>,
) -> Option<Scalar<'a>> {
    let (
        Scalar::Quantity { nanos: left, is_whole: left_whole },
        Scalar::Quantity { nanos: right, is_whole: right_whole },
    ) = (left, right)
    else {
        return None;
    };
    let nanos = combined(left, right)?;
    let is_whole = left_whole && right_whole && i64::try_from(nanos / NANOS_PER_UNIT).is_ok();
    Some(Scalar::Quantity { nanos, is_whole })
}
