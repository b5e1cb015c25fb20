//! The evaluation of plans.

use std::sync::Arc;

use crate::device::DeviceView;
use crate::environment::{Facts, to_value};
use crate::functions::{self, maps};
use crate::meter::Meter;
use crate::plan::{Attribute, Call, FoldPlan, Plan, Qualifier, Root};
use crate::value::{Entries, Fault, Outcome, Value, same_key};

/// The cost of a list that is made.
const LIST_COST: u64 = 10;
/// The text of an error about a fact that is absent.
pub(crate) const ABSENT: &str = "no such field";
/// The cost of a map that is made.
const MAP_COST: u64 = 30;
/// The cost of the name of a variable and of each field or index behind it.
const NAME_COST: u64 = 1;

/// Evaluates a plan for a device. Returns the outcome and what it took.
pub(crate) fn evaluate<'a>(plan: &'a Plan, device: &'a DeviceView<'a>) -> (Outcome<'a>, Meter) {
    let subject = Subject::Device(device);
    let mut evaluation = Evaluation { subject, meter: Meter::default(), slots: Vec::new() };
    let outcome = evaluation.eval(plan);
    (outcome, evaluation.meter)
}

/// Evaluates a plan for facts. `prepared` has the values of the parts that do not vary.
pub(crate) fn evaluate_facts<'a>(
    plan: &'a Plan,
    facts: &'a dyn Facts,
    prepared: &'a [Outcome<'static>],
    meter: Meter,
) -> (Outcome<'a>, Meter) {
    let mut evaluation =
        Evaluation { subject: Subject::Facts(facts, prepared), meter, slots: Vec::new() };
    let outcome = evaluation.eval(plan);
    (outcome, evaluation.meter)
}

/// What the variables of an expression belong to.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Device(&'a DeviceView<'a>),
    /// The facts, and the values of the parts that were prepared.
    Facts(&'a dyn Facts, &'a [Outcome<'static>]),
}

struct Evaluation<'a> {
    subject: Subject<'a>,
    meter: Meter,
    /// The variables of loops. An accumulator may be an error.
    slots: Vec<Outcome<'a>>,
}

impl<'a> Evaluation<'a> {
    fn eval(&mut self, plan: &'a Plan) -> Outcome<'a> {
        match plan {
            Plan::Const(value) => Ok(value.borrow()),
            Plan::Known { value, cost } => {
                self.meter.charge(*cost)?;
                Ok(value.borrow())
            }
            Plan::Attribute(attribute) => self.attribute(attribute, true),
            Plan::And(left, right) => self.logic(left, right, false),
            Plan::Or(left, right) => self.logic(left, right, true),
            Plan::Conditional(parts) => self.conditional(parts, &[], false),
            Plan::NotStrictlyFalse(arg) => {
                let outcome = match self.eval(arg) {
                    Err(Fault::TooExpensive) => return Err(Fault::TooExpensive),
                    Ok(Value::Bool(value)) => value,
                    _ => true,
                };
                self.meter.charge(1)?;
                Ok(Value::Bool(outcome))
            }
            Plan::Call(call) => self.call(call),
            Plan::External { function, args } => self.external(*function, args),
            Plan::Bound(call) => self.bound(*call),
            Plan::Prepared(place) => match self.subject {
                Subject::Facts(_, prepared) => {
                    self.meter.charge(1)?;
                    match &prepared[*place] {
                        Ok(value) => Ok(value.borrow()),
                        Err(fault) => Err(fault.clone()),
                    }
                }
                Subject::Device(_) => Err(Fault::no_such_overload()),
            },
            Plan::InConstants { value, list } => {
                let value = self.eval(value)?;
                for element in list.iter() {
                    if same_key(element, &value, &mut self.meter)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            Plan::List(elements) => self.list(elements),
            Plan::Map(entries) => self.map(entries),
            Plan::Fold(fold) => self.fold(fold),
            Plan::Append { slot, element, cost } => self.append(*slot, element, *cost),
            Plan::OptMap { target, slot, body, flat } => self.opt_map(target, *slot, body, *flat),
            Plan::OptionalOr { target, other, value } => match self.eval(target)? {
                Value::Optional(Some(found)) if *value => Ok((*found).clone()),
                found @ Value::Optional(Some(_)) => Ok(found),
                Value::Optional(None) => self.eval(other),
                found => Ok(found),
            },
        }
    }

    /// Evaluates `&&` or `||`: a side that decides hides an error of the other.
    fn logic(&mut self, left: &'a Plan, right: &'a Plan, deciding: bool) -> Outcome<'a> {
        let left = self.eval(left);
        match &left {
            Ok(Value::Bool(value)) if *value == deciding => return left,
            Err(Fault::TooExpensive) => return left,
            _ => {}
        }
        let right = self.eval(right);
        match (left, right) {
            (_, Ok(Value::Bool(value))) if value == deciding => Ok(Value::Bool(deciding)),
            (_, Err(Fault::TooExpensive)) => Err(Fault::TooExpensive),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!deciding)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Err(Fault::no_such_overload()),
        }
    }

    /// Evaluates a conditional and selects from its result.
    fn conditional(
        &mut self,
        [condition, yes, no]: &'a [Plan; 3],
        qualifiers: &'a [Qualifier],
        test: bool,
    ) -> Outcome<'a> {
        let Value::Bool(chosen) = self.eval(condition)? else {
            return Err(Fault::no_such_overload());
        };
        let branch = match if chosen { yes } else { no } {
            Plan::Attribute(attribute) => self.attribute(attribute, false)?,
            other => self.eval(other)?,
        };
        self.select(branch, qualifiers, test)
    }

    /// Resolves an attribute. Its own name is free as a branch of a conditional.
    fn attribute(&mut self, attribute: &'a Attribute, charged: bool) -> Outcome<'a> {
        let Attribute { root, qualifiers, test } = attribute;
        let outcome = match root {
            Root::Device => match self.subject {
                Subject::Device(device) => Ok(Value::Device(device)),
                Subject::Facts(..) => Err(Fault::new("no such attribute(s)")),
            },
            Root::Fact { fact, optional } => {
                let value = self.fact(*fact);
                if *test && qualifiers.is_empty() {
                    self.meter.charge(NAME_COST)?;
                    return Ok(Value::Bool(value.is_some()));
                }
                match value {
                    Some(value) if *optional => Ok(Value::some(value)),
                    Some(value) => Ok(value),
                    None if *optional => Ok(Value::Optional(None)),
                    None => Err(Fault::new(ABSENT)),
                }
            }
            Root::Variable(slot) => match self.slots.get(*slot) {
                Some(value) => value.clone(),
                None => Err(Fault::new("no such attribute(s)")),
            },
            Root::Value(plan) => self.eval(plan),
            Root::Conditional(Plan::Conditional(parts)) => {
                return self.conditional(parts, qualifiers, *test);
            }
            Root::Conditional(plan) => return self.eval(plan),
        };
        let outcome = outcome.and_then(|value| self.select(value, qualifiers, *test));
        self.charge_name(outcome, charged && !test)
    }

    fn fact(&self, fact: usize) -> Option<Value<'a>> {
        match self.subject {
            Subject::Facts(facts, _) => to_value(facts, fact, facts.fact(fact)),
            Subject::Device(_) => None,
        }
    }

    /// Calls a function that the facts answer.
    fn external(&mut self, function: usize, args: &'a [Plan]) -> Outcome<'a> {
        let Subject::Facts(facts, _) = self.subject else {
            return Err(Fault::no_such_overload());
        };
        let values: Result<Vec<_>, _> = args.iter().map(|arg| self.eval(arg)).collect();
        let values = values?;
        let texts = values.iter().map(|value| match value {
            Value::String(text) => Some(&**text),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect::<Option<_>>().ok_or_else(Fault::no_such_overload)?;
        self.meter.charge(1)?;
        let result = facts.call(function, &texts).map_err(Fault::new)?;
        to_value(facts, 0, result).ok_or_else(|| Fault::new(ABSENT))
    }

    fn bound(&mut self, call: usize) -> Outcome<'a> {
        let Subject::Facts(facts, _) = self.subject else {
            return Err(Fault::no_such_overload());
        };
        self.meter.charge(1)?;
        let result = facts.bound(call).map_err(Fault::new)?;
        to_value(facts, 0, result).ok_or_else(|| Fault::new(ABSENT))
    }

    fn charge_name(&mut self, outcome: Outcome<'a>, charged: bool) -> Outcome<'a> {
        if charged && !is_final(&outcome) {
            self.meter.charge(NAME_COST)?;
        }
        outcome
    }

    /// Applies fields and indices one after the other.
    fn select(
        &mut self,
        mut value: Value<'a>,
        qualifiers: &'a [Qualifier],
        test: bool,
    ) -> Outcome<'a> {
        if qualifiers.is_empty() {
            return Ok(value);
        }
        let mut is_optional = false;
        if let Value::Optional(inner) = &value {
            match inner {
                Some(inner) => value = (**inner).clone(),
                None if test => return Ok(Value::Bool(false)),
                None => return Ok(value),
            }
            is_optional = true;
        }
        let last = qualifiers.len() - 1;
        for (index, qualifier) in qualifiers.iter().enumerate() {
            is_optional |= qualifier.optional;
            let key = self.eval(&qualifier.key)?;
            let tested = test && index == last;
            let found = self.find(&value, &key)?;
            if tested {
                self.meter.charge(NAME_COST)?;
                return Ok(Value::Bool(found.is_some()));
            }
            match found {
                Some(found) => {
                    self.meter.charge(NAME_COST)?;
                    value = found;
                }
                None if is_optional => return Ok(Value::Optional(None)),
                None => {
                    self.meter.charge(NAME_COST)?;
                    return Err(missing(&value, &key));
                }
            }
        }
        Ok(if is_optional { Value::some(value) } else { value })
    }

    /// Returns a field or element. A value without fields has none.
    fn find(&mut self, value: &Value<'a>, key: &Value<'a>) -> Result<Option<Value<'a>>, Fault> {
        match value {
            Value::List(values) => {
                let index = list_index(key)?;
                Ok(usize::try_from(index).ok().and_then(|index| values.get(index).cloned()))
            }
            Value::Optional(Some(inner)) => {
                let found = self.find(&inner.clone(), key)?;
                Ok(found.map(Value::some))
            }
            _ => value.find(key, &mut self.meter),
        }
    }

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        let mut values: [Value<'a>; 3] = [Value::Null, Value::Null, Value::Null];
        let many;
        let args: &[Value<'a>] = if call.args.len() <= values.len() {
            let mut failed = None;
            for (place, arg) in values.iter_mut().zip(&call.args) {
                match self.eval(arg) {
                    Ok(value) => *place = value,
                    // Two arguments are both evaluated, even if the first is an error.
                    Err(fault) if call.args.len() == 2 && fault != Fault::TooExpensive => {
                        failed = failed.or(Some(fault));
                    }
                    Err(fault) => return Err(fault),
                }
            }
            if let Some(fault) = failed {
                self.meter.charge(1)?;
                return Err(fault);
            }
            &values[..call.args.len()]
        } else {
            let evaluated: Result<Vec<_>, _> = call.args.iter().map(|it| self.eval(it)).collect();
            many = evaluated?;
            &many
        };
        let result = match &call.regex {
            Some(regex) => {
                functions::regex::apply(&mut self.meter, call.function.name, regex, args)
            }
            None => (call.function.implementation)(&mut self.meter, args),
        };
        if is_final(&result) {
            return result;
        }
        let cost = call.rule.cost(args, &result, &mut self.meter)?;
        self.meter.charge(cost)?;
        result
    }

    fn list(&mut self, elements: &'a [(Plan, bool)]) -> Outcome<'a> {
        self.meter.work(elements.len())?;
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            match self.eval(element)? {
                Value::Optional(inner) if *optional => {
                    values.extend(inner.map(|inner| (*inner).clone()));
                }
                value if *optional => return Err(not_optional(&value)),
                value => values.push(value),
            }
        }
        self.meter.charge(LIST_COST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, planned: &'a [(Plan, Plan, bool)]) -> Outcome<'a> {
        self.meter.work(planned.len())?;
        let mut entries: Entries<'a> = Vec::with_capacity(planned.len());
        for (key, value, optional) in planned {
            let key = self.eval(key)?;
            let value = match self.eval(value)? {
                Value::Optional(None) if *optional => continue,
                Value::Optional(Some(inner)) if *optional => (*inner).clone(),
                value if *optional => return Err(not_optional(&value)),
                value => value,
            };
            maps::insert(&mut self.meter, &mut entries, key, value)?;
        }
        self.meter.charge(MAP_COST)?;
        Ok(Value::Map(Arc::new(entries)))
    }

    fn fold(&mut self, fold: &'a FoldPlan) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let initial = self.eval(&fold.initial);
        self.slots.truncate(fold.slot);
        self.slots.push(initial);
        let looped = self.repeat(fold, &range);
        self.slots.truncate(fold.slot + 1);
        let result = looped.and_then(|()| self.eval(&fold.result));
        self.slots.truncate(fold.slot);
        result
    }

    fn repeat(&mut self, fold: &'a FoldPlan, range: &Value<'a>) -> Result<(), Fault> {
        match range {
            Value::List(values) => {
                for (index, value) in values.iter().enumerate() {
                    let index = Value::Int(index as i64);
                    let goes_on = if fold.has_two {
                        self.step(fold, index, Some(value.clone()))?
                    } else {
                        self.step(fold, value.clone(), None)?
                    };
                    if !goes_on {
                        return Ok(());
                    }
                }
            }
            Value::Map(_)
            | Value::Facts(_)
            | Value::Device(_)
            | Value::Domains(..)
            | Value::Domain(..) => {
                let entries = range.entries();
                self.meter.work(entries.len())?;
                for (key, value) in entries {
                    if !self.step(fold, key, Some(value).filter(|_| fold.has_two))? {
                        return Ok(());
                    }
                }
            }
            other => {
                let name = other.go_type_name();
                return Err(Fault::new(format!("got '{name}', expected iterable type")));
            }
        }
        Ok(())
    }

    /// Runs one round of a loop. Returns whether there may be another.
    fn step(
        &mut self,
        fold: &'a FoldPlan,
        first: Value<'a>,
        second: Option<Value<'a>>,
    ) -> Result<bool, Fault> {
        self.slots.truncate(fold.slot + 1);
        self.slots.push(Ok(first));
        self.slots.extend(second.map(Ok));
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(Fault::TooExpensive) => return Err(Fault::TooExpensive),
            _ => {}
        }
        let accumulated = self.eval(&fold.step);
        if is_final(&accumulated) {
            return Err(Fault::TooExpensive);
        }
        if let Some(slot) = self.slots.get_mut(fold.slot) {
            *slot = accumulated;
        }
        Ok(true)
    }

    /// Appends to the list in a slot, which is moved out of it.
    fn append(&mut self, slot: usize, element: &'a Plan, cost: u64) -> Outcome<'a> {
        let element = self.eval(element);
        if is_final(&element) {
            return element;
        }
        self.meter.charge(cost)?;
        let Some(place) = self.slots.get_mut(slot) else {
            return Err(Fault::no_such_overload());
        };
        let (list, element) = match (std::mem::replace(place, Ok(Value::Null)), element) {
            (Ok(Value::List(list)), Ok(element)) => (list, element),
            (Err(error), _) | (_, Err(error)) => return Err(error),
            _ => return Err(Fault::no_such_overload()),
        };
        let mut values = Arc::try_unwrap(list).or_else(|shared| {
            self.meter.work(shared.len())?;
            Ok((*shared).clone())
        })?;
        self.meter.work(1)?;
        values.push(element);
        Ok(Value::list(values))
    }

    /// Evaluates `target.hasValue() ? optional.of(body) : optional.none()`. The reference evaluates
    /// the target twice, so it costs twice.
    fn opt_map(
        &mut self,
        target: &'a Plan,
        slot: usize,
        body: &'a Plan,
        flat: bool,
    ) -> Outcome<'a> {
        let before = self.meter.cost();
        let target = self.eval(target)?;
        let cost = self.meter.cost() - before;
        let Value::Optional(inner) = target else {
            return Err(Fault::no_overload_of("hasValue", &[target]));
        };
        self.meter.charge(1)?;
        let Some(inner) = inner else {
            self.meter.charge(1)?;
            return Ok(Value::Optional(None));
        };
        self.meter.charge(cost + 1)?;
        self.slots.truncate(slot);
        self.slots.push(Ok((*inner).clone()));
        let result = self.eval(body);
        self.slots.truncate(slot);
        let result = result?;
        if flat {
            return Ok(result);
        }
        self.meter.charge(1)?;
        Ok(Value::some(result))
    }
}

/// Returns whether an outcome ends the whole evaluation.
fn is_final(outcome: &Outcome<'_>) -> bool {
    matches!(outcome, Err(Fault::TooExpensive))
}

fn not_optional(value: &Value<'_>) -> Fault {
    Fault::new(format!(
        "cannot initialize optional list element from non-optional value {}",
        value.type_name()
    ))
}

/// Returns the index that a value stands for.
fn list_index(key: &Value<'_>) -> Result<i64, Fault> {
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => Ok(i64::try_from(*index).unwrap_or(i64::MAX)),
        Value::Double(index) if index.fract() == 0.0 => Ok(*index as i64),
        Value::Double(index) => Err(Fault::new(format!("unsupported index value {index} in list"))),
        other => Err(Fault::new(format!("unsupported index type '{}' in list", other.type_name()))),
    }
}

fn missing(value: &Value<'_>, key: &Value<'_>) -> Fault {
    let key = match key {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Double(number) => number.to_string(),
        other => other.type_name().to_owned(),
    };
    match value {
        Value::List(_) => Fault::new(format!("index out of bounds: {key}")),
        _ => Fault::new(format!("no such key: {key}")),
    }
}
