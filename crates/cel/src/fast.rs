//! A form of plans for scalars, which makes no values on the heap.
//!
//! It has the common parts of rules: facts, entries of maps, comparisons, arithmetic, and loops
//! over lists. Whatever it cannot tell is left to the plan, so that it needs few texts of errors.

use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::Arc;

use regex::Regex;

use crate::environment::{Environment, FactType, FactValue, Facts, Quantity};
use crate::error::EvalError;
use crate::eval::ABSENT;
use crate::expression::{FactRead, Verdict};
use crate::functions::time;
use crate::plan::{Attribute, Call, FoldPlan, Plan, Qualifier, Root};
use crate::value::Value;

/// Maximum number of parts.
const MOST_PARTS: u64 = 200;
/// Maximum number of loops in each other.
const MOST_LOOPS: usize = 3;
/// Maximum length of a text that is searched. The plan knows the cost of longer ones.
const LONGEST_TEXT: usize = 256;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A plan over scalars.
#[derive(Debug)]
pub(crate) struct Fast {
    root: Part,
    parts: u64,
}

/// A part of a plan.
#[derive(Debug)]
enum Part {
    Constant(Constant),
    Prepared(usize),
    Read(Read),
    /// What is read, or the other value if it is absent.
    ReadOr(Read, Box<Part>),
    Has(Read),
    /// The number of elements of a list.
    Size(usize),
    /// The element of a loop, or one of its fields.
    Element(Element),
    /// Whether the body has the value `deciding` for an element of a list: `exists`, or the
    /// opposite of `all`.
    Loop(Box<Loop>),
    Bound(usize),
    And(Box<[Part; 2]>),
    Or(Box<[Part; 2]>),
    Conditional(Box<[Part; 3]>),
    Not(Box<Part>),
    Unary(Unary, Box<Part>),
    Binary(Binary, Box<[Part; 2]>),
    /// Whether a constant list has the value.
    In(Box<Part>, Box<[Constant]>),
    Matches(Box<Part>, Regex),
}

/// A fact, or an entry of a map with a constant key.
#[derive(Debug)]
struct Read {
    fact: usize,
    key: Option<Box<str>>,
    /// The place among the reads of the expression, unless that has the whole map.
    place: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Element {
    fact: usize,
    /// The number of loops around the loop.
    depth: usize,
    field: usize,
    /// The name of the field.
    name: &'static str,
}

#[derive(Debug)]
struct Loop {
    fact: usize,
    depth: usize,
    deciding: bool,
    body: Part,
    /// The cost of the body.
    cost: u64,
}

/// A scalar that is the same for all subjects.
#[derive(Debug, Clone)]
pub(crate) enum Constant {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Arc<str>),
    Nanos(i64),
    Time(i64),
    Quantity(Quantity),
}

#[derive(Debug, Clone, Copy)]
enum Unary {
    ToInt,
    ToDouble,
    ToTime,
    AsInteger,
    AsFloat,
    Sign,
    /// The length of a span in units of so many nanoseconds.
    Span(i64),
    Negate,
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
    Divide,
    IsGreater,
    IsLess,
    CompareTo,
    AddQuantity,
    SubtractQuantity,
    StartsWith,
    EndsWith,
    Contains,
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
    Time(i64),
    Quantity(Quantity),
}

/// The reason a part has no value.
#[derive(Debug, Clone, Copy)]
enum Miss<'a> {
    /// The plan knows.
    Unknown,
    /// An entry or a field is absent.
    NoKey(&'a str),
    /// A fact is absent.
    NoFact,
}

type Found<'a> = Result<Scalar<'a>, Miss<'a>>;

impl Fast {
    /// Returns the form of a plan; `None` if a part of it has none.
    pub(crate) fn of(plan: &Plan, environment: &Environment, reads: &[FactRead]) -> Option<Self> {
        let mut maker = Maker { environment, reads, parts: 0, total: 0, loops: Vec::new() };
        let root = maker.part(plan)?;
        Some(Self { root, parts: maker.parts })
    }

    /// Evaluates the plan. Returns the result with the cost: one for each part, and for each part
    /// of a loop and element. Returns `None` if there is no result in this form.
    pub(crate) fn evaluate(
        &self,
        facts: &dyn Facts,
        prepared: &[Option<Constant>],
        limit: u64,
    ) -> Option<(Result<Verdict, EvalError>, u64)> {
        let left = Cell::new(limit.checked_sub(self.parts)?);
        let evaluation = Evaluation { facts, prepared, left: &left, places: [0; MOST_LOOPS] };
        let result = match evaluation.of(&self.root) {
            Ok(Scalar::Bool(value)) => Ok(Verdict::Bool(value)),
            Ok(Scalar::Int(value)) => Ok(Verdict::Int(value)),
            Ok(Scalar::Double(value)) => Ok(Verdict::Double(value)),
            Err(Miss::NoKey(key)) => Err(EvalError::new(format!("no such key: {key}"))),
            Err(Miss::NoFact) => Err(EvalError::new(ABSENT)),
            Ok(_) | Err(Miss::Unknown) => return None,
        };
        Some((result, limit - left.get()))
    }
}

struct Maker<'e> {
    environment: &'e Environment,
    reads: &'e [FactRead],
    /// The parts outside of loops, or of the loop that is being made.
    parts: u64,
    total: u64,
    /// The loops around a part: the fact, and the slot of the element.
    loops: Vec<(usize, usize)>,
}

impl Maker<'_> {
    fn part(&mut self, plan: &Plan) -> Option<Part> {
        self.parts += 1;
        self.total += 1;
        if self.total > MOST_PARTS {
            return None;
        }
        let mut boxed = |plan: &Plan| self.part(plan).map(Box::new);
        Some(match plan {
            Plan::Const(value) | Plan::Known { value, .. } => Part::Constant(Constant::of(value)?),
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
                let other = boxed(other)?;
                Part::ReadOr(self.optional(attribute)?, other)
            }
            Plan::Attribute(attribute) => self.attribute(attribute)?,
            Plan::InConstants { value, list } => {
                let list = list.iter().map(Constant::of).collect::<Option<_>>()?;
                Part::In(boxed(value)?, list)
            }
            Plan::Fold(fold) => self.fold(fold)?,
            Plan::Call(call) => self.call(call)?,
            _ => return None,
        })
    }

    fn call(&mut self, call: &Call) -> Option<Part> {
        let name = call.function.name;
        if let Some(regex) = &call.regex {
            let text = self.part(call.args.first()?)?;
            return (name == "matches").then(|| Part::Matches(Box::new(text), regex.clone()));
        }
        Some(match (name, &call.args[..]) {
            ("!_", [arg]) => Part::Not(Box::new(self.part(arg)?)),
            ("size", [Plan::Attribute(list)]) => Part::Size(self.list(list)?),
            ("hasValue", [Plan::Attribute(attribute)]) => Part::Has(self.optional(attribute)?),
            ("@in", [Plan::Const(Value::String(key)), Plan::Attribute(map)]) => {
                let fact = whole(map).filter(|fact| self.is_map(*fact))?;
                Part::Has(self.read(fact, Some(&**key)))
            }
            (name, [arg]) => Part::Unary(unary(name)?, Box::new(self.part(arg)?)),
            (name, [left, right]) => Part::Binary(binary(name)?, self.two(left, right)?),
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

    /// Returns the fact that an attribute is, if it is a list.
    fn list(&self, attribute: &Attribute) -> Option<usize> {
        let is_list = |fact: &usize| {
            let fact_type = self.environment.facts[*fact].fact_type;
            matches!(fact_type, FactType::Strings | FactType::Objects(_))
        };
        whole(attribute).filter(is_list)
    }

    /// Returns the form of `exists` and `all` over a fact.
    fn fold(&mut self, fold: &FoldPlan) -> Option<Part> {
        let Plan::Attribute(range) = &fold.range else { return None };
        let fact = self.list(range)?;
        let (before, body) = match (&fold.step, &fold.initial) {
            (Plan::Or(before, body), Plan::Const(Value::Bool(false)))
            | (Plan::And(before, body), Plan::Const(Value::Bool(true))) => (before, body),
            _ => return None,
        };
        let is_accumulator = |plan: &Plan| {
            matches!(plan, Plan::Attribute(attribute)
                if matches!(attribute.root, Root::Variable(slot) if slot == fold.slot)
                    && attribute.qualifiers.is_empty())
        };
        let depth = self.loops.len();
        if !is_accumulator(before)
            || !is_accumulator(&fold.result)
            || fold.has_two
            || depth == MOST_LOOPS
        {
            return None;
        }
        self.loops.push((fact, fold.slot + 1));
        let outside = std::mem::take(&mut self.parts);
        let body = self.part(body)?;
        let cost = std::mem::replace(&mut self.parts, outside);
        self.loops.pop();
        let deciding = matches!(fold.step, Plan::Or(..));
        Some(Part::Loop(Box::new(Loop { fact, depth, deciding, body, cost })))
    }

    fn attribute(&self, attribute: &Attribute) -> Option<Part> {
        if let Root::Variable(slot) = attribute.root {
            return self.element(slot, attribute);
        }
        let Root::Fact { fact, optional: false } = attribute.root else { return None };
        match (&attribute.qualifiers[..], attribute.test) {
            ([], true) => Some(Part::Has(self.read(fact, None))),
            ([], false) if !self.is_map(fact) => Some(Part::Read(self.read(fact, None))),
            ([only], test) if self.is_map(fact) && !only.optional => {
                let read = self.read(fact, Some(constant_key(only)?));
                Some(if test { Part::Has(read) } else { Part::Read(read) })
            }
            _ => None,
        }
    }

    /// Returns the fact or entry that an attribute reads as an optional.
    fn optional(&self, attribute: &Attribute) -> Option<Read> {
        match (&attribute.root, &attribute.qualifiers[..]) {
            (Root::Fact { fact, optional: true }, []) => Some(self.read(*fact, None)),
            (Root::Fact { fact, optional: false }, [only]) if only.optional => {
                Some(self.read(*fact, Some(constant_key(only)?)))
            }
            _ => None,
        }
    }

    fn read(&self, fact: usize, key: Option<&str>) -> Read {
        let read = FactRead { fact, key: key.map(Box::from) };
        let place = self.reads.binary_search(&read).ok();
        Read { fact, key: read.key, place }
    }

    fn element(&self, slot: usize, attribute: &Attribute) -> Option<Part> {
        let depth = self.loops.iter().rposition(|(_, own)| *own == slot)?;
        let (fact, _) = self.loops[depth];
        let fact_type = self.environment.facts[fact].fact_type;
        let (field, name) = match (fact_type, &attribute.qualifiers[..]) {
            (FactType::Strings, []) => (0, ""),
            (FactType::Objects(object), [only]) if !only.optional && !attribute.test => {
                let Plan::Const(Value::String(key)) = &only.key else { return None };
                let mut fields = object.fields.iter().enumerate();
                let (place, (name, _)) = fields.find(|(_, (name, _))| *name == &**key)?;
                (place, *name)
            }
            _ => return None,
        };
        Some(Part::Element(Element { fact, depth, field, name }))
    }
}

/// Returns the fact that an attribute is.
fn whole(attribute: &Attribute) -> Option<usize> {
    match attribute.root {
        Root::Fact { fact, optional: false } if attribute.qualifiers.is_empty() => {
            (!attribute.test).then_some(fact)
        }
        _ => None,
    }
}

fn constant_key(qualifier: &Qualifier) -> Option<&str> {
    match &qualifier.key {
        Plan::Const(Value::String(key)) => Some(key),
        _ => None,
    }
}

impl Constant {
    /// Returns the scalar that a value is.
    pub(crate) fn of(value: &Value<'static>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Double(value) => Self::Double(*value),
            Value::String(text) => Self::Text(text.clone().shared()),
            Value::Duration(value) => Self::Nanos(value.0),
            Value::Timestamp(at) => Self::Time(i64::try_from(at.as_nanosecond()).ok()?),
            Value::Quantity(amount) => {
                Self::Quantity(Quantity::of_nanos(amount.nanos, amount.whole)?)
            }
            _ => return None,
        })
    }

    fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Bool(value) => Scalar::Bool(*value),
            Self::Int(value) => Scalar::Int(*value),
            Self::Double(value) => Scalar::Double(*value),
            Self::Text(text) => Scalar::Text(text),
            Self::Nanos(nanos) => Scalar::Nanos(*nanos),
            Self::Time(nanos) => Scalar::Time(*nanos),
            Self::Quantity(quantity) => Scalar::Quantity(*quantity),
        }
    }
}

fn unary(function: &str) -> Option<Unary> {
    Some(match function {
        "int" => Unary::ToInt,
        "double" => Unary::ToDouble,
        "timestamp" => Unary::ToTime,
        "asInteger" => Unary::AsInteger,
        "asApproximateFloat" => Unary::AsFloat,
        "sign" => Unary::Sign,
        "getHours" => Unary::Span(3600 * NANOS_PER_SECOND),
        "getMinutes" => Unary::Span(60 * NANOS_PER_SECOND),
        "getSeconds" => Unary::Span(NANOS_PER_SECOND),
        "-_" => Unary::Negate,
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
        "_/_" => Binary::Divide,
        "isGreaterThan" => Binary::IsGreater,
        "isLessThan" => Binary::IsLess,
        "compareTo" => Binary::CompareTo,
        "add" => Binary::AddQuantity,
        "sub" => Binary::SubtractQuantity,
        "startsWith" => Binary::StartsWith,
        "endsWith" => Binary::EndsWith,
        "contains" => Binary::Contains,
        _ => return None,
    })
}

/// An evaluation. Each loop has a copy, which knows the element that the loop is at.
#[derive(Clone, Copy)]
struct Evaluation<'a> {
    facts: &'a dyn Facts,
    prepared: &'a [Option<Constant>],
    /// The cost that is left.
    left: &'a Cell<u64>,
    /// The elements that the loops are at, the outermost first.
    places: [usize; MOST_LOOPS],
}

impl<'a> Evaluation<'a> {
    fn of(&self, part: &'a Part) -> Found<'a> {
        match part {
            Part::Constant(constant) => Ok(constant.scalar()),
            Part::Prepared(place) => match &self.prepared[*place] {
                Some(constant) => Ok(constant.scalar()),
                None => Err(Miss::Unknown),
            },
            Part::Read(read) => {
                let absent = read.key.as_deref().map_or(Miss::NoFact, Miss::NoKey);
                scalar(self.read(read), absent)
            }
            Part::ReadOr(read, other) => match self.read(read) {
                FactValue::Absent => self.of(other),
                found => scalar(found, Miss::Unknown),
            },
            Part::Has(read) => Ok(Scalar::Bool(!matches!(self.read(read), FactValue::Absent))),
            Part::Size(fact) => match self.facts.fact(*fact) {
                FactValue::List { len, .. } => Ok(Scalar::Int(len as i64)),
                _ => Err(Miss::Unknown),
            },
            Part::Element(Element { fact, depth, field, name }) => {
                let found = self.facts.element(*fact, self.places[*depth], *field);
                scalar(found, Miss::NoKey(name))
            }
            Part::Loop(own) => self.each(own),
            Part::Bound(call) => match self.facts.bound(*call) {
                Ok(value) => scalar(value, Miss::Unknown),
                Err(_) => Err(Miss::Unknown),
            },
            Part::And(sides) => self.logic(sides, false),
            Part::Or(sides) => self.logic(sides, true),
            Part::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                match self.of(condition)? {
                    Scalar::Bool(true) => self.of(yes),
                    Scalar::Bool(false) => self.of(no),
                    _ => Err(Miss::Unknown),
                }
            }
            Part::Not(arg) => match self.of(arg)? {
                Scalar::Bool(value) => Ok(Scalar::Bool(!value)),
                _ => Err(Miss::Unknown),
            },
            Part::Unary(function, arg) => apply(*function, self.of(arg)?).ok_or(Miss::Unknown),
            Part::Binary(function, args) => {
                let [left, right] = &**args;
                combine(*function, self.of(left)?, self.of(right)?).ok_or(Miss::Unknown)
            }
            Part::In(value, list) => {
                let value = self.of(value)?;
                let mut found = false;
                for constant in list {
                    found |= equal(value, constant.scalar()).ok_or(Miss::Unknown)?;
                }
                Ok(Scalar::Bool(found))
            }
            Part::Matches(text, regex) => match self.of(text)? {
                Scalar::Text(text) if text.len() <= LONGEST_TEXT => {
                    Ok(Scalar::Bool(regex.is_match(text)))
                }
                _ => Err(Miss::Unknown),
            },
        }
    }

    fn read(&self, read: &'a Read) -> FactValue<'a> {
        match (read.place, &read.key) {
            (Some(place), _) => self.facts.read(place),
            (None, Some(key)) => self.facts.entry(read.fact, key),
            (None, None) => self.facts.fact(read.fact),
        }
    }

    /// A side that decides hides an error of the other.
    fn logic(&self, [left, right]: &'a [Part; 2], deciding: bool) -> Found<'a> {
        let left = self.of(left);
        match left {
            Ok(Scalar::Bool(value)) if value == deciding => return left,
            Ok(Scalar::Bool(_)) | Err(_) => {}
            Ok(_) => return Err(Miss::Unknown),
        }
        match (left, self.of(right)) {
            (_, Ok(Scalar::Bool(value))) if value == deciding => Ok(Scalar::Bool(deciding)),
            (Err(Miss::Unknown), _) | (_, Err(Miss::Unknown)) => Err(Miss::Unknown),
            (Err(miss), Ok(Scalar::Bool(_)) | Err(_)) | (Ok(_), Err(miss)) => Err(miss),
            (Ok(_), Ok(Scalar::Bool(_))) => Ok(Scalar::Bool(!deciding)),
            (_, Ok(_)) => Err(Miss::Unknown),
        }
    }

    /// Evaluates the body of a loop for each element, until one decides.
    fn each(&self, own: &'a Loop) -> Found<'a> {
        let FactValue::List { len, .. } = self.facts.fact(own.fact) else {
            return Err(Miss::Unknown);
        };
        let left = self.left.get().checked_sub(own.cost.saturating_mul(len as u64));
        self.left.set(left.ok_or(Miss::Unknown)?);
        let mut missed = None;
        for place in 0..len {
            let mut evaluation = *self;
            evaluation.places[own.depth] = place;
            match evaluation.of(&own.body) {
                Ok(Scalar::Bool(value)) if value == own.deciding => {
                    return Ok(Scalar::Bool(own.deciding));
                }
                Ok(Scalar::Bool(_)) => {}
                Err(miss @ (Miss::NoKey(_) | Miss::NoFact)) => missed = missed.or(Some(miss)),
                Ok(_) | Err(Miss::Unknown) => return Err(Miss::Unknown),
            }
        }
        missed.map_or(Ok(Scalar::Bool(!own.deciding)), Err)
    }
}

/// Returns the scalar that a fact is; `absent` if it is absent.
fn scalar<'a>(value: FactValue<'a>, absent: Miss<'a>) -> Found<'a> {
    Ok(match value {
        FactValue::Bool(value) => Scalar::Bool(value),
        FactValue::Int(value) => Scalar::Int(value),
        FactValue::Text(text) => Scalar::Text(text),
        FactValue::Seconds(seconds) => {
            Scalar::Time(seconds.checked_mul(NANOS_PER_SECOND).ok_or(Miss::Unknown)?)
        }
        FactValue::Quantity(quantity) => Scalar::Quantity(quantity),
        FactValue::Absent => return Err(absent),
        FactValue::Map | FactValue::List { .. } => return Err(Miss::Unknown),
    })
}

fn apply(function: Unary, arg: Scalar<'_>) -> Option<Scalar<'_>> {
    Some(match (function, arg) {
        (Unary::ToInt, Scalar::Int(value)) => Scalar::Int(value),
        (Unary::ToInt, Scalar::Text(text)) => Scalar::Int(text.parse().ok()?),
        (Unary::ToDouble, Scalar::Int(value)) => Scalar::Double(value as f64),
        (Unary::ToTime, Scalar::Text(text)) => {
            let at = time::parse_timestamp(text)?;
            Scalar::Time(i64::try_from(at.as_nanosecond()).ok()?)
        }
        (Unary::AsInteger, Scalar::Quantity(Quantity { units, is_whole: true, .. })) => {
            Scalar::Int(units)
        }
        (Unary::AsFloat, Scalar::Quantity(Quantity { units, nanos: 0, .. })) => {
            Scalar::Double(units as f64)
        }
        (Unary::AsFloat, Scalar::Quantity(quantity)) => {
            Scalar::Double(quantity.total_nanos() as f64 / NANOS_PER_SECOND as f64)
        }
        (Unary::Sign, Scalar::Quantity(Quantity { units, nanos, .. })) => {
            Scalar::Int(if units == 0 { i64::from(nanos > 0) } else { units.signum() })
        }
        (Unary::Span(unit), Scalar::Nanos(nanos)) => Scalar::Int(nanos / unit),
        (Unary::Negate, Scalar::Int(value)) => Scalar::Int(value.checked_neg()?),
        (Unary::Negate, Scalar::Double(value)) => Scalar::Double(-value),
        _ => return None,
    })
}

fn combine<'a>(function: Binary, left: Scalar<'a>, right: Scalar<'a>) -> Option<Scalar<'a>> {
    use Scalar::{Bool, Double, Int, Nanos, Text, Time};
    let ordered = |holds: fn(Ordering) -> bool| Some(Bool(holds(compare(left, right)?)));
    let sizes = |holds: fn(Ordering) -> bool| Some(Bool(holds(quantities(left, right)?)));
    match function {
        Binary::Equal => equal(left, right).map(Bool),
        Binary::Unequal => equal(left, right).map(|equal| Bool(!equal)),
        Binary::Less => ordered(Ordering::is_lt),
        Binary::LessOrEqual => ordered(Ordering::is_le),
        Binary::Greater => ordered(Ordering::is_gt),
        Binary::GreaterOrEqual => ordered(Ordering::is_ge),
        Binary::IsGreater => sizes(Ordering::is_gt),
        Binary::IsLess => sizes(Ordering::is_lt),
        Binary::CompareTo => quantities(left, right).map(|order| Int(order as i64)),
        Binary::AddQuantity => sum(left, right, i64::checked_add, 1),
        Binary::SubtractQuantity => sum(left, right, i64::checked_sub, -1),
        Binary::Add => match (left, right) {
            (Int(left), Int(right)) => left.checked_add(right).map(Int),
            (Double(left), Double(right)) => Some(Double(left + right)),
            _ => None,
        },
        Binary::Subtract => match (left, right) {
            (Int(left), Int(right)) => left.checked_sub(right).map(Int),
            (Double(left), Double(right)) => Some(Double(left - right)),
            (Time(left), Time(right)) => left.checked_sub(right).map(Nanos),
            _ => None,
        },
        Binary::Multiply => match (left, right) {
            (Int(left), Int(right)) => left.checked_mul(right).map(Int),
            (Double(left), Double(right)) => Some(Double(left * right)),
            _ => None,
        },
        Binary::Divide => match (left, right) {
            (Int(left), Int(right)) => left.checked_div(right).map(Int),
            (Double(left), Double(right)) => Some(Double(left / right)),
            _ => None,
        },
        Binary::StartsWith | Binary::EndsWith | Binary::Contains => match (left, right) {
            (Text(text), Text(part)) if text.len() <= LONGEST_TEXT => Some(Bool(match function {
                Binary::StartsWith => text.starts_with(part),
                Binary::EndsWith => text.ends_with(part),
                _ => text.contains(part),
            })),
            _ => None,
        },
    }
}

/// Compares values of one type. Numbers of different types are left to the plan.
fn equal(left: Scalar<'_>, right: Scalar<'_>) -> Option<bool> {
    match (left, right) {
        (Scalar::Bool(left), Scalar::Bool(right)) => Some(left == right),
        (Scalar::Text(left), Scalar::Text(right)) => Some(left == right),
        (Scalar::Quantity(_), _) => quantities(left, right).map(Ordering::is_eq),
        _ => compare(left, right).map(Ordering::is_eq),
    }
}

fn compare(left: Scalar<'_>, right: Scalar<'_>) -> Option<Ordering> {
    match (left, right) {
        (Scalar::Int(left), Scalar::Int(right)) => Some(left.cmp(&right)),
        (Scalar::Double(left), Scalar::Double(right)) => left.partial_cmp(&right),
        (Scalar::Text(left), Scalar::Text(right)) => Some(left.cmp(right)),
        (Scalar::Nanos(left), Scalar::Nanos(right)) | (Scalar::Time(left), Scalar::Time(right)) => {
            Some(left.cmp(&right))
        }
        _ => None,
    }
}

/// Compares quantities.
fn quantities(left: Scalar<'_>, right: Scalar<'_>) -> Option<Ordering> {
    let (Scalar::Quantity(left), Scalar::Quantity(right)) = (left, right) else { return None };
    Some((left.units, left.nanos).cmp(&(right.units, right.nanos)))
}

/// Adds a quantity, or subtracts it if the sign is negative.
fn sum<'a>(
    left: Scalar<'a>,
    right: Scalar<'a>,
    combined: fn(i64, i64) -> Option<i64>,
    sign: i64,
) -> Option<Scalar<'a>> {
    let (Scalar::Quantity(left), Scalar::Quantity(right)) = (left, right) else { return None };
    let nanos = i64::from(left.nanos) + sign * i64::from(right.nanos);
    let units = combined(left.units, right.units)?;
    Some(Scalar::Quantity(Quantity {
        units: units.checked_add(nanos.div_euclid(NANOS_PER_SECOND))?,
        nanos: nanos.rem_euclid(NANOS_PER_SECOND) as u32,
        is_whole: left.is_whole && right.is_whole,
    }))
}
