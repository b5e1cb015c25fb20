//! The parts of a plan that do not vary between the subjects of an expression, and what a plan
//! reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::environment::Environment;
use crate::expression::FactRead;
use crate::plan::{Attribute, Plan, Root};
use crate::value::Value;

/// A plan, and the parts that it takes from the [prepared](Plan::Prepared) values.
pub(crate) struct Parts {
    pub(crate) plan: Plan,
    pub(crate) parts: Vec<Plan>,
    /// The calls of varying functions.
    pub(crate) calls: Vec<Binding>,
}

/// A call of a varying function, whose arguments do not vary.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The place of the function in the environment.
    pub(crate) function: usize,
    /// The arguments.
    pub(crate) args: Vec<Plan>,
}

/// Takes the largest parts that do not vary out of a plan. The bodies of loops stay as they are.
///
/// # Errors
/// The name of a varying function whose arguments vary.
pub(crate) fn split(plan: Plan, environment: &'static Environment) -> Result<Parts, &'static str> {
    let mut splitter = Splitter { environment, parts: Vec::new(), calls: Vec::new() };
    let plan = splitter.split(plan);
    let mut loose = None;
    visit(&plan, &mut |part| {
        if let Plan::External { function, .. } = part
            && environment.function_varies(*function)
        {
            loose = Some(environment.function_name(*function));
        }
    });
    let Splitter { parts, calls, .. } = splitter;
    match loose {
        Some(function) => Err(function),
        None => Ok(Parts { plan, parts, calls }),
    }
}

struct Splitter {
    environment: &'static Environment,
    parts: Vec<Plan>,
    calls: Vec<Binding>,
}

impl Splitter {
    fn split(&mut self, plan: Plan) -> Plan {
        if matches!(plan, Plan::Const(_) | Plan::Known { .. }) {
            return plan;
        }
        if !self.varies(&plan) {
            self.parts.push(plan);
            return Plan::Prepared(self.parts.len() - 1);
        }
        let mut boxed = |plan: Box<Plan>| Box::new(self.split(*plan));
        match plan {
            Plan::And(left, right) => Plan::And(boxed(left), boxed(right)),
            Plan::Or(left, right) => Plan::Or(boxed(left), boxed(right)),
            Plan::Conditional(parts) => {
                Plan::Conditional(Box::new((*parts).map(|part| self.split(part))))
            }
            Plan::NotStrictlyFalse(arg) => Plan::NotStrictlyFalse(boxed(arg)),
            Plan::InConstants { value, list } => Plan::InConstants { value: boxed(value), list },
            Plan::OptMap { target, slot, body, flat } => {
                Plan::OptMap { target: boxed(target), slot, body, flat }
            }
            Plan::OptionalOr { target, other, value } => {
                let target = boxed(target);
                Plan::OptionalOr { target, other: boxed(other), value }
            }
            Plan::Call(mut call) => {
                call.args = self.all(call.args);
                Plan::Call(call)
            }
            Plan::External { function, args } => {
                if args.iter().any(|arg| self.varies(arg)) {
                    return Plan::External { function, args };
                }
                self.calls.push(Binding { function, args });
                Plan::Bound(self.calls.len() - 1)
            }
            Plan::List(elements) => {
                let split = |(element, optional)| (self.split(element), optional);
                Plan::List(elements.into_iter().map(split).collect())
            }
            Plan::Map(entries) => {
                let split = |(key, value, optional)| (self.split(key), self.split(value), optional);
                Plan::Map(entries.into_iter().map(split).collect())
            }
            Plan::Fold(mut fold) => {
                // A list that is a fact is asked for element by element.
                if !matches!(fold.range, Plan::Attribute(_)) {
                    fold.range = self.split(fold.range);
                }
                Plan::Fold(fold)
            }
            Plan::Attribute(mut attribute) => {
                attribute.root = match attribute.root {
                    Root::Value(plan) => Root::Value(self.split(plan)),
                    other => other,
                };
                for qualifier in &mut attribute.qualifiers {
                    let key = std::mem::replace(&mut qualifier.key, Plan::Const(Value::Null));
                    qualifier.key = self.split(key);
                }
                Plan::Attribute(attribute)
            }
            plan @ (Plan::Const(_)
            | Plan::Known { .. }
            | Plan::Append { .. }
            | Plan::Bound(_)
            | Plan::Prepared(_)) => plan,
        }
    }

    fn all(&mut self, plans: Vec<Plan>) -> Vec<Plan> {
        plans.into_iter().map(|plan| self.split(plan)).collect()
    }

    /// Returns whether the plan reads a fact that varies or calls a function that does.
    fn varies(&self, plan: &Plan) -> bool {
        let mut varies = false;
        visit(plan, &mut |part| {
            varies |= match part {
                Plan::Attribute(attribute) => match attribute.root {
                    Root::Fact { fact, .. } => self.environment.facts[fact].varies,
                    _ => false,
                },
                Plan::External { function, .. } => self.environment.function_varies(*function),
                _ => false,
            };
        });
        varies
    }
}

/// Returns the facts that a plan reads and the functions of the environment that it calls.
pub(crate) fn reads(plan: &Plan) -> (Vec<FactRead>, Vec<usize>) {
    let (mut reads, mut calls) = (BTreeSet::new(), BTreeSet::new());
    let mut read = |attribute: &Attribute, key: Option<&str>| {
        let Root::Fact { fact, .. } = attribute.root else { return };
        let first = attribute.qualifiers.first().map(|qualifier| &qualifier.key);
        let key = match first {
            Some(Plan::Const(Value::String(first))) => Some(&**first),
            Some(_) => None,
            None => key,
        };
        reads.insert(FactRead { fact, key: key.map(Box::from) });
    };
    let mut known: Vec<*const Attribute> = Vec::new();
    visit(plan, &mut |part| match part {
        Plan::External { function, .. } => {
            calls.insert(*function);
        }
        // Whether a map has a key depends on no other key.
        Plan::Call(call) if call.function.name == "@in" => {
            if let [Plan::Const(Value::String(key)), Plan::Attribute(attribute)] = &call.args[..] {
                read(attribute, Some(key));
                known.push(&raw const **attribute);
            }
        }
        Plan::Attribute(attribute) if !known.contains(&(&raw const **attribute)) => {
            read(attribute, None);
        }
        _ => {}
    });
    // A whole map includes its keys.
    let whole: Vec<usize> =
        reads.iter().filter(|read| read.key.is_none()).map(|read| read.fact).collect();
    reads.retain(|read| read.key.is_none() || !whole.contains(&read.fact));
    (reads.into_iter().collect(), calls.into_iter().collect())
}

/// A text with which a plan compares what it reads.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) read: FactRead,
    pub(crate) text: ComparedText,
}

/// Where the text of a comparison comes from.
#[derive(Debug)]
pub(crate) enum ComparedText {
    Constant(Arc<str>),
    /// The prepared value with this place.
    Prepared(usize),
}

/// Returns the texts with which a plan compares facts, their entries, and fields of their elements.
pub(crate) fn comparisons(plan: &Plan) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    // The facts over which loops run, by the slot of the element.
    let mut loops: BTreeMap<usize, usize> = BTreeMap::new();
    visit(plan, &mut |part| match part {
        Plan::Fold(fold) => {
            if let Plan::Attribute(range) = &fold.range
                && let Root::Fact { fact, .. } = range.root
            {
                loops.insert(fold.slot + 1, fact);
            }
        }
        Plan::InConstants { value, list } => {
            let texts = list.iter().filter_map(ComparedText::of_value);
            let compared = texts.filter_map(|text| Some((read_by(value, &loops)?, text)));
            comparisons.extend(compared.map(|(read, text)| Comparison { read, text }));
        }
        Plan::Call(call) if matches!(call.function.name, "_==_" | "_!=_") => {
            if let [left, right] = &call.args[..] {
                let compared = |read: &Plan, text: &Plan| {
                    let text = match text {
                        Plan::Const(value) => ComparedText::of_value(value)?,
                        Plan::Prepared(place) => ComparedText::Prepared(*place),
                        _ => return None,
                    };
                    Some(Comparison { read: read_by(read, &loops)?, text })
                };
                comparisons.extend(compared(left, right).or_else(|| compared(right, left)));
            }
        }
        _ => {}
    });
    comparisons
}

impl ComparedText {
    fn of_value(value: &Value<'static>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Constant(text.clone().shared())),
            _ => None,
        }
    }
}

/// Returns the fact or entry that a plan is. A field of an element of a loop is its list.
fn read_by(plan: &Plan, loops: &BTreeMap<usize, usize>) -> Option<FactRead> {
    match plan {
        Plan::Attribute(attribute) => match (&attribute.root, &attribute.qualifiers[..]) {
            (Root::Fact { fact, .. }, []) => Some(FactRead { fact: *fact, key: None }),
            (Root::Fact { fact, .. }, [only]) => match &only.key {
                Plan::Const(Value::String(key)) => {
                    Some(FactRead { fact: *fact, key: Some((**key).into()) })
                }
                _ => None,
            },
            (Root::Variable(slot), _) => {
                loops.get(slot).map(|fact| FactRead { fact: *fact, key: None })
            }
            _ => None,
        },
        Plan::OptionalOr { target, .. } => read_by(target, loops),
        _ => None,
    }
}

/// Visits a plan and all of its parts, each before its own parts.
fn visit(plan: &Plan, visitor: &mut dyn FnMut(&Plan)) {
    visitor(plan);
    let mut all = |plans: &[&Plan]| plans.iter().for_each(|plan| visit(plan, visitor));
    match plan {
        Plan::Const(_) | Plan::Known { .. } | Plan::Bound(_) | Plan::Prepared(_) => {}
        Plan::Attribute(attribute) => {
            if let Root::Value(plan) | Root::Conditional(plan) = &attribute.root {
                all(&[plan]);
            }
            attribute.qualifiers.iter().for_each(|qualifier| all(&[&qualifier.key]));
        }
        Plan::And(left, right) | Plan::Or(left, right) => all(&[left, right]),
        Plan::OptionalOr { target, other, .. } => all(&[target, other]),
        Plan::Conditional(parts) => parts.iter().for_each(|part| all(&[part])),
        Plan::NotStrictlyFalse(arg) => all(&[arg]),
        Plan::InConstants { value, .. } => all(&[value]),
        Plan::Append { element, .. } => all(&[element]),
        Plan::OptMap { target, body, .. } => all(&[target, body]),
        Plan::List(elements) => elements.iter().for_each(|(element, _)| all(&[element])),
        Plan::Map(entries) => entries.iter().for_each(|(key, value, _)| all(&[key, value])),
        Plan::Fold(fold) => {
            all(&[&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result]);
        }
        Plan::Call(call) => call.args.iter().for_each(|arg| all(&[arg])),
        Plan::External { args, .. } => args.iter().for_each(|arg| all(&[arg])),
    }
}
