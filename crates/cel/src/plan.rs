//! Plans: checked expressions in the form that is evaluated.
//!
//! The reference optimises expressions when it plans them, and the cost depends on it: constant
//! lists, maps and conversions cost nothing, and neither does a search in a constant list.

use std::sync::Arc;

use regex::Regex;

use crate::checker::{Checked, Resolved, qualified_name};
use crate::declarations::{self, Function};
use crate::environment::Names;
use crate::functions;
use crate::macros::ACCUMULATOR;
use crate::meter::{CostRule, Meter};
use crate::source::{self, Issue};
use crate::syntax::{Fold, Kind, Literal, Node};
use crate::types::Type;
use crate::value::{Fault, Held, Value};

/// A part of an expression that can be evaluated.
#[derive(Debug)]
pub(crate) enum Plan {
    Const(Value<'static>),
    /// A call that always has this result, with its cost.
    Known {
        value: Value<'static>,
        cost: u64,
    },
    Attribute(Box<Attribute>),
    And(Box<Plan>, Box<Plan>),
    Or(Box<Plan>, Box<Plan>),
    Conditional(Box<[Plan; 3]>),
    NotStrictlyFalse(Box<Plan>),
    Call(Box<Call>),
    /// A call of a function that the facts answer, with its place in the environment.
    External {
        function: usize,
        args: Vec<Plan>,
    },
    /// The call of a varying function with this place among the [bound
    /// calls](crate::Prepared::calls).
    Bound(usize),
    /// A part that does not vary, with its place among the prepared values.
    Prepared(usize),
    /// A search for a text in a constant list of texts, and the like.
    InConstants {
        value: Box<Plan>,
        list: Arc<Vec<Value<'static>>>,
    },
    List(Vec<(Plan, bool)>),
    Map(Vec<(Plan, Plan, bool)>),
    Fold(Box<FoldPlan>),
    /// `accumulator + [element]`, which appends in place.
    Append {
        slot: usize,
        element: Box<Plan>,
        cost: u64,
    },
    OptMap {
        target: Box<Plan>,
        slot: usize,
        body: Box<Plan>,
        flat: bool,
    },
    /// `target.or(other)`, or `orValue`.
    OptionalOr {
        target: Box<Plan>,
        other: Box<Plan>,
        value: bool,
    },
}

/// A variable or another value, and what is selected of it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// Whether the last qualifier is only tested: `has(…)`.
    pub(crate) test: bool,
}

/// Where an attribute begins.
#[derive(Debug)]
pub(crate) enum Root {
    Device,
    /// A fact, with its place in the environment.
    Fact {
        fact: usize,
        optional: bool,
    },
    Variable(usize),
    Value(Plan),
    /// A conditional, whose chosen branch is not charged for its name.
    Conditional(Plan),
}

/// A field or an index.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: Plan,
    pub(crate) optional: bool,
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    pub(crate) rule: CostRule,
    pub(crate) args: Vec<Plan>,
    /// The regular expression, if it is constant.
    pub(crate) regex: Option<Regex>,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct FoldPlan {
    pub(crate) range: Plan,
    /// The accumulator; the variables follow it.
    pub(crate) slot: usize,
    pub(crate) has_two: bool,
    pub(crate) initial: Plan,
    pub(crate) condition: Plan,
    pub(crate) step: Plan,
    pub(crate) result: Plan,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The reason a checked expression is refused.
pub(crate) enum Refusal {
    /// Errors of literals.
    Issues(Vec<Issue>),
    /// An error of a constant part.
    Planning(String),
}

/// Makes the plan of a checked expression.
pub(crate) fn plan(
    text: &str,
    checked: &Checked,
    root: &Node,
    names: Names,
) -> Result<Plan, Refusal> {
    let mut planner =
        Planner { text, checked, names, scopes: Vec::new(), issues: Vec::new(), error: None };
    planner.validate(root, false);
    if !planner.issues.is_empty() {
        return Err(Refusal::Issues(planner.issues));
    }
    let plan = planner.plan(root);
    if !planner.issues.is_empty() {
        return Err(Refusal::Issues(planner.issues));
    }
    match planner.error {
        Some(error) => Err(Refusal::Planning(error)),
        None => Ok(plan),
    }
}

struct Planner<'p> {
    text: &'p str,
    checked: &'p Checked,
    names: Names,
    /// Names of the variables in the slots.
    scopes: Vec<String>,
    issues: Vec<Issue>,
    error: Option<String>,
}

impl Planner<'_> {
    fn plan(&mut self, node: &Node) -> Plan {
        match &node.kind {
            Kind::Literal(literal) => Plan::Const(constant(literal)),
            Kind::Ident(name) => self.ident(node, name),
            Kind::Select { operand, field, test } => {
                if !test && let Some(named) = self.type_value(node) {
                    return named;
                }
                if let Some(fact) = self.fact(operand, field) {
                    return fact.planned(false, *test);
                }
                let key = Plan::Const(Value::string(field.as_str()));
                self.qualify(operand, Qualifier { key, optional: false }, *test)
            }
            Kind::Call { function, target, args } => {
                self.call(node, function, target.as_deref(), args)
            }
            Kind::List(elements) => {
                let planned: Vec<_> = elements
                    .iter()
                    .map(|(element, optional)| (self.plan(element), *optional))
                    .collect();
                let constants: Option<Vec<_>> = planned
                    .iter()
                    .map(|(element, optional)| element.constant().filter(|_| !optional))
                    .collect();
                match constants {
                    Some(values) => Plan::Const(Value::list(values)),
                    None => Plan::List(planned),
                }
            }
            Kind::Map(entries) => {
                let planned: Vec<_> = entries
                    .iter()
                    .map(|(key, value, optional)| (self.plan(key), self.plan(value), *optional))
                    .collect();
                self.map(planned)
            }
            // The type checker refuses all of them.
            Kind::Struct(_) => Plan::Const(Value::Null),
            Kind::Fold(fold) => self.fold(fold),
            Kind::OptMap { target, variable, body, flat } => {
                let target = Box::new(self.plan(target));
                let slot = self.scopes.len();
                self.scopes.push(variable.clone());
                let body = Box::new(self.plan(body));
                self.scopes.truncate(slot);
                Plan::OptMap { target, slot, body, flat: *flat }
            }
        }
    }

    fn slot(&self, name: &str) -> Option<usize> {
        let name = name.strip_prefix('.').unwrap_or(name);
        self.scopes.iter().rposition(|variable| variable == name)
    }

    /// Returns the fact that a field of an operand is.
    fn fact(&self, operand: &Node, field: &str) -> Option<FactIx> {
        let Names::Facts(environment) = self.names else { return None };
        let operand = qualified_name(operand)?;
        let operand = operand.trim_start_matches('.');
        if self.slot(operand.split('.').next()?).is_some() {
            return None;
        }
        environment.fact(&format!("{operand}.{field}")).map(FactIx)
    }

    fn ident(&mut self, node: &Node, name: &str) -> Plan {
        let root = match self.slot(name) {
            Some(slot) => Root::Variable(slot),
            None => match declarations::type_named(name.trim_start_matches('.')) {
                Some(named) => return Plan::Const(type_value(&named)),
                None => match self.names {
                    Names::Device { .. } => Root::Device,
                    Names::Facts(environment) => match environment.fact(name) {
                        Some(fact) => Root::Fact { fact, optional: false },
                        None => {
                            let message = format!("'{name}' is no value: select one of its fields");
                            self.issue(node, message);
                            return Plan::Const(Value::Null);
                        }
                    },
                },
            },
        };
        Plan::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test: false }))
    }

    /// Returns the type that a dotted name stands for.
    fn type_value(&self, node: &Node) -> Option<Plan> {
        let name = qualified_name(node)?;
        if self.slot(name.split('.').next()?).is_some() {
            return None;
        }
        declarations::type_named(&name).map(|named| Plan::Const(type_value(&named)))
    }

    fn qualify(&mut self, operand: &Node, qualifier: Qualifier, test: bool) -> Plan {
        let mut attribute = match self.plan(operand) {
            Plan::Attribute(attribute) if !attribute.test => attribute,
            plan @ Plan::Conditional(_) => Box::new(Attribute {
                root: Root::Conditional(plan),
                qualifiers: Vec::new(),
                test: false,
            }),
            plan => {
                Box::new(Attribute { root: Root::Value(plan), qualifiers: Vec::new(), test: false })
            }
        };
        attribute.qualifiers.push(qualifier);
        attribute.test = test;
        Plan::Attribute(attribute)
    }

    fn map(&mut self, planned: Vec<(Plan, Plan, bool)>) -> Plan {
        let constants: Option<Vec<_>> = planned
            .iter()
            .map(|(key, value, optional)| {
                Some((key.constant()?, value.constant().filter(|_| !optional)?))
            })
            .collect();
        let Some(constants) = constants else { return Plan::Map(planned) };
        let mut entries = Vec::new();
        for (key, value) in constants {
            let inserted = functions::maps::insert(&mut Meter::default(), &mut entries, key, value);
            if let Err(Fault::Error(text)) = inserted {
                self.error.get_or_insert(text.into_owned());
            }
        }
        Plan::Const(Value::Map(Arc::new(entries)))
    }

    fn fold(&mut self, fold: &Fold) -> Plan {
        let range = self.plan(&fold.range);
        let initial = self.plan(&fold.initial);
        let slot = self.scopes.len();
        self.scopes.push(fold.accumulator.clone());
        self.scopes.push(fold.variable.clone());
        self.scopes.extend(fold.second_variable.clone());
        let condition = self.plan(&fold.condition);
        let step = self.plan(&fold.step);
        self.scopes.truncate(slot + 1);
        let result = self.plan(&fold.result);
        self.scopes.truncate(slot);
        let has_two = fold.second_variable.is_some();
        Plan::Fold(Box::new(FoldPlan { range, slot, has_two, initial, condition, step, result }))
    }

    fn call(&mut self, node: &Node, function: &str, target: Option<&Node>, args: &[Node]) -> Plan {
        match (function, target, args) {
            ("_?._" | "_[_]" | "_[?_]", None, [operand, key]) => {
                if let ("_?._", Kind::Literal(Literal::String(field))) = (function, &key.kind)
                    && let Some(fact) = self.fact(operand, field)
                {
                    return fact.planned(true, false);
                }
                let optional = function != "_[_]";
                let key = self.plan(key);
                return self.qualify(operand, Qualifier { key, optional }, false);
            }
            ("_&&_", None, [left, right]) => {
                return Plan::And(Box::new(self.plan(left)), Box::new(self.plan(right)));
            }
            ("_||_", None, [left, right]) => {
                return Plan::Or(Box::new(self.plan(left)), Box::new(self.plan(right)));
            }
            ("_?_:_", None, [condition, yes, no]) => {
                let plans = [self.plan(condition), self.plan(yes), self.plan(no)];
                return Plan::Conditional(Box::new(plans));
            }
            ("@not_strictly_false", None, [arg]) => {
                return Plan::NotStrictlyFalse(Box::new(self.plan(arg)));
            }
            ("or" | "orValue", Some(target), [other]) => {
                return Plan::OptionalOr {
                    target: Box::new(self.plan(target)),
                    other: Box::new(self.plan(other)),
                    value: function == "orValue",
                };
            }
            ("_+_", None, [accumulator, list]) => {
                if let Some(append) = self.append(accumulator, list) {
                    return append;
                }
            }
            _ => {}
        }
        let Some(resolved) = self.checked.call(node) else { return Plan::Const(Value::Null) };
        let target = target.filter(|_| !resolved.is_qualified);
        let args: Vec<_> = target.into_iter().chain(args).map(|arg| self.plan(arg)).collect();
        self.resolved(resolved, args)
    }

    /// Returns the plan of `accumulator + [element]` in the innermost loop.
    fn append(&mut self, accumulator: &Node, list: &Node) -> Option<Plan> {
        let (Kind::Ident(name), Kind::List(elements)) = (&accumulator.kind, &list.kind) else {
            return None;
        };
        let [(element, false)] = &elements[..] else { return None };
        let slot = self.slot(name).filter(|_| name == ACCUMULATOR)?;
        let element = Box::new(self.plan(element));
        // The name of the accumulator, the list unless it is constant, and the call.
        let cost = if element.constant().is_some() { 2 } else { 12 };
        Some(Plan::Append { slot, element, cost })
    }

    fn resolved(&mut self, resolved: Resolved, args: Vec<Plan>) -> Plan {
        let Resolved { function, overload, .. } = resolved;
        if let Names::Facts(environment) = self.names
            && let Some(function) = environment.place_of(function)
        {
            return Plan::External { function, args };
        }
        let overload = overload.map(|overload| overload.id.as_str());
        let rule = CostRule::of(function.name, overload);
        if overload == Some("in_list")
            && let [_, Plan::Const(Value::List(list))] = &args[..]
            && list.iter().all(is_hashable)
        {
            let list = Arc::clone(list);
            let value = args.into_iter().next();
            return match value {
                Some(value) if !list.is_empty() => {
                    Plan::InConstants { value: Box::new(value), list }
                }
                _ => Plan::Const(Value::Bool(false)),
            };
        }
        let mut regex = None;
        if matches!(function.name, "matches" | "find" | "findAll")
            && let [_, Plan::Const(Value::String(pattern)), ..] = &args[..]
        {
            match functions::regex::compile(pattern) {
                Ok(compiled) => regex = Some(compiled),
                Err(text) => {
                    self.error.get_or_insert(text);
                }
            }
        }
        let constants: Option<Vec<_>> = args.iter().map(Plan::constant).collect();
        if let Some(constants) = constants {
            let mut meter = Meter::default();
            let result = (function.implementation)(&mut meter, &constants);
            if is_conversion(function.name) && constants.len() == 1 {
                match result {
                    Ok(value) => return Plan::Const(value),
                    Err(Fault::Error(text)) => {
                        self.error.get_or_insert(text.into_owned());
                    }
                    Err(Fault::TooExpensive) => {}
                }
            } else if is_parser(function.name)
                && let Ok(cost) = rule.cost(&constants, &result, &mut meter)
                && let Ok(value) = result
            {
                return Plan::Known { value, cost };
            }
        }
        Plan::Call(Box::new(Call { function, rule, args, regex }))
    }

    /// Checks literals, which the type checker does not look at.
    fn validate(&mut self, node: &Node, in_format: bool) {
        match &node.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Struct(_) => {}
            Kind::Select { operand, .. } => self.validate(operand, false),
            Kind::Call { function, target, args } => {
                if let Some(arg) = args.first()
                    && let Kind::Literal(Literal::String(text)) = &arg.kind
                    && !functions::is_valid_literal(function, text)
                {
                    self.issue(arg, format!("invalid {function} argument"));
                }
                for child in target.iter().map(|it| &**it).chain(args) {
                    self.validate(child, function == "format");
                }
            }
            Kind::List(elements) => {
                let types = elements.iter().map(|(it, optional)| (it, self.part(it, *optional)));
                let types: Vec<_> = types.collect();
                if !in_format {
                    self.homogeneous(&types, true);
                }
                for (element, _) in elements {
                    self.validate(element, in_format);
                }
            }
            Kind::Map(entries) => {
                if !in_format {
                    let keys: Vec<_> =
                        entries.iter().map(|(it, ..)| (it, self.part(it, false))).collect();
                    self.homogeneous(&keys, false);
                    let values: Vec<_> = entries
                        .iter()
                        .map(|(_, it, optional)| (it, self.part(it, *optional)))
                        .collect();
                    self.homogeneous(&values, false);
                }
                for (key, value, _) in entries {
                    self.validate(key, in_format);
                    self.validate(value, in_format);
                }
            }
            Kind::Fold(fold) => {
                for part in [&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result]
                {
                    self.validate(part, false);
                }
            }
            Kind::OptMap { target, body, .. } => {
                self.validate(target, false);
                self.validate(body, false);
            }
        }
    }

    fn part(&self, node: &Node, optional: bool) -> Type {
        let found = self.checked.type_of(node);
        match found.unwrap_optional() {
            Some(inner) if optional => inner.clone(),
            _ => found.clone(),
        }
    }

    fn homogeneous(&mut self, parts: &[(&Node, Type)], only_first: bool) {
        let Some((_, expected)) = parts.first() else { return };
        for (node, found) in parts {
            if found != expected {
                self.issue(node, format!("expected type '{expected}' but found '{found}'"));
                if only_first {
                    return;
                }
            }
        }
    }

    fn issue(&mut self, node: &Node, message: String) {
        let place = Some(source::place(self.text, node.offset));
        self.issues.push(Issue { place, message });
    }
}

/// The place of a fact in the environment.
struct FactIx(usize);

impl FactIx {
    fn planned(self, optional: bool, test: bool) -> Plan {
        let root = Root::Fact { fact: self.0, optional };
        Plan::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test }))
    }
}

impl Plan {
    fn constant(&self) -> Option<Value<'static>> {
        match self {
            Self::Const(value) => Some(value.clone()),
            _ => None,
        }
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(value) => Value::string(value.as_str()),
        Literal::Bytes(value) => Value::Bytes(Held::Shared(value.as_slice().into())),
    }
}

fn type_value(named: &Type) -> Value<'static> {
    let name = named.declared_name();
    let name = name.split('(').next().unwrap_or_default();
    Value::Type(Held::Shared(name.into()))
}

fn is_hashable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
    )
}

/// Returns whether a call with a constant is computed when the expression is planned, at no cost.
fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    )
}

/// Returns whether a call with constants always has the same result, which is worth keeping.
fn is_parser(function: &str) -> bool {
    matches!(function, "quantity" | "semver" | "ip" | "cidr" | "url")
}
