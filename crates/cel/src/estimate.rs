//! The worst cost that an evaluation can have, as the API server estimates it when an object is
//! written.
//!
//! The estimate knows how large the parts of a device can be, the sizes of literals, and what
//! functions do to sizes. A part of unknown size makes nearly every function on it too expensive.
//!
//! Facts have no such bounds. Their sizes are assumed, so that the estimate finds the expressions
//! that exceed a limit for usual objects already.

use crate::checker::{Checked, qualified_name};
use crate::declarations::Overload;
use crate::environment::{FactType, Names, ObjectType};
use crate::macros::ACCUMULATOR;
use crate::syntax::{Fold, Kind, Literal, Node};
use crate::types::Type;

/// Cost of reading a name, a field or an entry.
const SELECT: u64 = 1;
const NEW_LIST: u64 = 10;
const NEW_MAP: u64 = 30;
const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;
/// Length of the longest regular expression of a named format.
const FORMAT_REGEX: f64 = 128.0;
/// Size of the largest named format.
const FORMAT: u64 = 64;
/// Maximum number of values of an attribute that is a list, over all attributes of a device.
const LIST_VALUES: u64 = 48;
/// Bytes of the longest address.
const ADDRESS: u64 = 16;
/// The assumed size of a text among facts, and of a value of unknown size.
const FACT_TEXT: Size = Size::at_most(64);
/// The assumed size of a list or map among facts.
const FACT_ELEMENTS: Size = Size::at_most(16);

/// An estimate of a checked expression.
pub(crate) struct Estimate {
    /// The worst cost.
    pub(crate) cost: u64,
    /// Where the innermost part begins whose cost exceeds the limit.
    pub(crate) exceeds_at: Option<usize>,
}

/// Estimates the worst cost of a checked expression.
pub(crate) fn estimate(
    checked: &Checked,
    root: &Node,
    nodes: usize,
    names: Names,
    limit: u64,
) -> Estimate {
    let mut estimator = Estimator {
        checked,
        names,
        unknown: match names {
            Names::Device { .. } => Size::UNKNOWN,
            Names::Facts(_) => FACT_TEXT,
        },
        limit,
        exceeds_at: None,
        places: vec![None; nodes],
        sizes: vec![None; nodes],
        entries: vec![None; nodes],
        variables: Vec::new(),
    };
    let cost = estimator.cost(root);
    Estimate { cost, exceeds_at: estimator.exceeds_at }
}

/// How large a text, list or map can be: characters, elements or entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    const fn at_most(max: u64) -> Self {
        Self { min: 0, max }
    }

    fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Returns the cost of reading all of it.
    fn traversal(self) -> u64 {
        scaled(self.max, TRAVERSAL)
    }
}

fn scaled(size: u64, factor: f64) -> u64 {
    // A float that is too large becomes the largest number.
    (size as f64 * factor).ceil() as u64
}

/// The sizes of keys, or positions, and values of a container.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Size,
    value: Size,
}

/// A part of the variable `device`, or of a fact.
#[derive(Debug, Clone, Copy)]
enum Place {
    Fact(FactType),
    /// An object in a list that is a fact.
    Object(&'static ObjectType),
    Device,
    Driver,
    /// The map from domains.
    Attributes,
    Capacities,
    /// The map from identifiers.
    AttributesOfDomain,
    CapacitiesOfDomain,
    Attribute,
    /// A scalar whose size is not used.
    Scalar,
    Domain,
    Identifier,
}

impl Place {
    fn field(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Device, "driver") => Some(Self::Driver),
            (Self::Device, "attributes") => Some(Self::Attributes),
            (Self::Device, "capacity") => Some(Self::Capacities),
            (Self::Device, "allowMultipleAllocations") => Some(Self::Scalar),
            (Self::AttributesOfDomain, _) => Some(Self::Attribute),
            (Self::Object(object), _) => {
                let field = object.fields.iter().find(|(own, _)| *own == name);
                field.map(|(_, fact_type)| Self::Fact(*fact_type))
            }
            _ => None,
        }
    }

    fn value(self) -> Option<Self> {
        match self {
            Self::Attributes => Some(Self::AttributesOfDomain),
            Self::Capacities => Some(Self::CapacitiesOfDomain),
            Self::AttributesOfDomain => Some(Self::Attribute),
            Self::CapacitiesOfDomain => Some(Self::Scalar),
            Self::Fact(FactType::Objects(object)) => Some(Self::Object(object)),
            _ => None,
        }
    }

    fn key(self) -> Option<Self> {
        match self {
            Self::Attributes | Self::Capacities => Some(Self::Domain),
            Self::AttributesOfDomain | Self::CapacitiesOfDomain => Some(Self::Identifier),
            _ => None,
        }
    }

    /// Returns how large the API server allows it to be.
    fn size(self) -> Option<Size> {
        Some(Size::at_most(match self {
            Self::Fact(fact_type) => return size_of_fact(fact_type),
            Self::Device | Self::Object(_) => return None,
            Self::Driver | Self::Domain => 63,
            Self::Attribute => 64,
            Self::Scalar => 1,
            Self::Identifier
            | Self::Attributes
            | Self::Capacities
            | Self::AttributesOfDomain
            | Self::CapacitiesOfDomain => 32,
        }))
    }
}

fn size_of_fact(fact_type: FactType) -> Option<Size> {
    match fact_type {
        FactType::String => Some(FACT_TEXT),
        FactType::Strings | FactType::Texts | FactType::Quantities | FactType::Objects(_) => {
            Some(FACT_ELEMENTS)
        }
        FactType::Bool | FactType::Int | FactType::Timestamp | FactType::Quantity => None,
    }
}

/// A variable of a macro.
struct Variable {
    name: String,
    place: Option<Place>,
    size: Option<Size>,
    entry: Option<Entry>,
}

struct Estimator<'e> {
    checked: &'e Checked,
    names: Names,
    /// The size of a value of which nothing is known.
    unknown: Size,
    limit: u64,
    exceeds_at: Option<usize>,
    /// By the numbers of nodes, like the next ones.
    places: Vec<Option<Place>>,
    sizes: Vec<Option<Size>>,
    entries: Vec<Option<Entry>>,
    /// The variables of macros, the innermost last.
    variables: Vec<Variable>,
}

impl Estimator<'_> {
    fn cost(&mut self, node: &Node) -> u64 {
        let cost = self.cost_of(node);
        if cost > self.limit {
            self.exceeds_at.get_or_insert(node.offset);
        }
        cost
    }

    fn cost_of(&mut self, node: &Node) -> u64 {
        if let Some(fact_type) = self.fact(node) {
            self.places[node.id] = Some(Place::Fact(fact_type));
            return SELECT;
        }
        match &node.kind {
            Kind::Literal(_) | Kind::Struct(_) => 0,
            Kind::Ident(name) => {
                self.places[node.id] = match self.variable(name) {
                    Some(variable) => variable.place,
                    None => (name == "device").then_some(Place::Device),
                };
                SELECT
            }
            Kind::Select { operand, test: true, .. } => self.cost(operand).saturating_add(SELECT),
            Kind::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                self.places[node.id] = self.place(operand).and_then(|place| place.field(field));
                match self.checked.type_of(operand) {
                    Type::Map(..) | Type::Object(_) | Type::Variable(_) => {
                        cost.saturating_add(SELECT)
                    }
                    // A field of a value of unknown type is free in the reference.
                    _ => cost,
                }
            }
            Kind::Call { function, target, args } => {
                self.call(node, function, target.as_deref(), args)
            }
            Kind::List(elements) => {
                let elements: Vec<_> = elements.iter().map(|(element, _)| element).collect();
                let costs = self.costs(&elements);
                let value = self.largest(&elements);
                self.entries[node.id] = Some(Entry { key: Size::exactly(1), value });
                costs.saturating_add(NEW_LIST)
            }
            Kind::Map(entries) => {
                let keys: Vec<_> = entries.iter().map(|(key, ..)| key).collect();
                let values: Vec<_> = entries.iter().map(|(_, value, _)| value).collect();
                let costs = self.costs(&keys).saturating_add(self.costs(&values));
                let entry = Entry { key: self.largest(&keys), value: self.largest(&values) };
                self.entries[node.id] = Some(entry);
                costs.saturating_add(NEW_MAP)
            }
            Kind::Fold(fold) => self.fold(node, fold),
            Kind::OptMap { target, variable, body, flat } => {
                // `target.hasValue() ? optional.of(cel.bind(variable, target.value(), body)) :
                // optional.none()`
                let target = self.cost(target).saturating_add(SELECT);
                self.push(variable, None, None, None);
                let bound = self.cost(body).saturating_add(target).saturating_add(NEW_LIST);
                self.variables.pop();
                target.saturating_add(bound).saturating_add(u64::from(!flat))
            }
        }
    }

    /// Returns the type of the fact that a node reads.
    fn fact(&self, node: &Node) -> Option<FactType> {
        let Names::Facts(environment) = self.names else { return None };
        let path = qualified_name(node)?;
        self.variable(path.split('.').next()?).is_none().then_some(())?;
        environment.fact(path.trim_start_matches('.')).map(|fact| environment.facts[fact].fact_type)
    }

    fn costs(&mut self, nodes: &[&Node]) -> u64 {
        nodes.iter().fold(0, |sum: u64, node| sum.saturating_add(self.cost(node)))
    }

    fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    fn push(&mut self, name: &str, place: Option<Place>, size: Option<Size>, entry: Option<Entry>) {
        self.variables.push(Variable { name: name.to_owned(), place, size, entry });
    }

    /// Returns the part of the device that the node reads.
    fn place(&self, node: &Node) -> Option<Place> {
        match &node.kind {
            Kind::Ident(name) if name == ACCUMULATOR => None,
            _ => self.places[node.id],
        }
    }

    fn entry(&self, node: &Node) -> Option<Entry> {
        let variable = || match &node.kind {
            Kind::Ident(name) => self.variable(name)?.entry,
            _ => None,
        };
        self.entries[node.id].or_else(variable)
    }

    /// Returns the size, if anything is known of it.
    fn known_size(&self, node: &Node) -> Option<Size> {
        let of_variable = || match &node.kind {
            Kind::Ident(name) => self.variable(name)?.size,
            _ => None,
        };
        self.sizes[node.id]
            .or_else(|| size_of_literal(node))
            .or_else(|| self.place(node)?.size())
            .or_else(|| is_scalar(self.checked.type_of(node)).then_some(Size::exactly(1)))
            .or_else(of_variable)
    }

    fn size(&self, node: &Node) -> Size {
        self.known_size(node).unwrap_or(self.unknown)
    }

    fn largest(&self, nodes: &[&Node]) -> Size {
        let sizes = nodes.iter().map(|node| self.size(node));
        sizes.reduce(Size::union).unwrap_or(Size::exactly(0))
    }

    fn fold(&mut self, node: &Node, fold: &Fold) -> u64 {
        let range = self.cost(&fold.range);
        let initial = self.cost(&fold.initial);
        let before = self.variables.len();
        let (place, size) = (self.place(&fold.initial), self.known_size(&fold.initial));
        let entry = self.entry(&fold.initial);
        self.push(&fold.accumulator, place, size, entry);
        if is_bind(fold) {
            let result = self.cost(&fold.result);
            self.variables.truncate(before);
            self.sizes[node.id] = self.known_size(&fold.result);
            self.entries[node.id] = self.entry(&fold.result);
            return range.saturating_add(initial).saturating_add(result);
        }
        self.push_elements(fold);
        let step = self.cost(&fold.condition).saturating_add(self.cost(&fold.step));
        self.variables.truncate(before + 1);
        let result = self.cost(&fold.result);
        self.variables.truncate(before);
        let count = self.size(&fold.range);
        match &fold.initial.kind {
            Kind::Literal(_) => self.sizes[node.id] = self.known_size(&fold.initial),
            Kind::List(_) | Kind::Map(_) => {
                self.sizes[node.id] = Some(count);
                self.entries[node.id] = self.entry(&fold.step);
            }
            _ => {}
        }
        let steps = count.max.saturating_mul(step);
        range.saturating_add(initial).saturating_add(result).saturating_add(steps)
    }

    /// Adds the variables for the elements of the range.
    fn push_elements(&mut self, fold: &Fold) {
        let range = self.place(&fold.range);
        let entry = self.entry(&fold.range);
        let is_list = matches!(self.checked.type_of(&fold.range), Type::List(_));
        let key = (range.and_then(Place::key), entry.map(|entry| entry.key));
        let value = (range.and_then(Place::value), entry.map(|entry| entry.value));
        let first = if is_list && fold.second_variable.is_none() { value } else { key };
        self.push(&fold.variable, first.0, first.1, None);
        if let Some(second) = &fold.second_variable {
            self.push(second, value.0, value.1, None);
        }
    }

    fn call(&mut self, node: &Node, function: &str, target: Option<&Node>, args: &[Node]) -> u64 {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg);
            self.sizes[node.id] = self.known_size(arg);
            self.entries[node.id] = self.entry(arg);
            return cost.saturating_add(1);
        }
        let arg_costs: Vec<u64> = args.iter().map(|arg| self.cost(arg)).collect();
        let sum = |costs: &[u64]| costs.iter().fold(0, |sum: u64, cost| sum.saturating_add(*cost));
        let resolved = self.checked.call(node);
        let (name, is_qualified) =
            resolved.map_or((function, false), |own| (own.function.name, own.is_qualified));
        let target = target.filter(|_| !is_qualified);
        let of_target = target.map_or(0, |target| self.cost(target));
        match (name, args) {
            ("_&&_" | "_||_", _) => return sum(&arg_costs),
            ("_?:_" | "_?_:_", [_, yes, no]) => {
                self.sizes[node.id] = Some(self.size(yes).union(self.size(no)));
                let entries = self.entry(yes).zip(self.entry(no));
                self.entries[node.id] = entries.map(|(yes, no)| Entry {
                    key: yes.key.union(no.key),
                    value: yes.value.union(no.value),
                });
                return arg_costs[0].saturating_add(arg_costs[1].max(arg_costs[2]));
            }
            ("_[_]", [operand, _]) => {
                self.places[node.id] = self.place(operand).and_then(Place::value);
                let known = self.entry(operand).map(|entry| entry.value);
                self.sizes[node.id] = known.or_else(|| self.known_size(node));
            }
            ("_+_", [left, right]) => {
                let entries = self.entry(left).zip(self.entry(right));
                self.entries[node.id] = entries.map(|(left, right)| Entry {
                    key: left.key.union(right.key),
                    value: left.value.union(right.value),
                });
            }
            _ => {}
        }
        let call = Call { name, target, args };
        let mut own: Option<u64> = None;
        let mut size: Option<Size> = None;
        for overload in self.checked.overloads(node) {
            let (cost, result) = self.overload(&call, overload);
            own = Some(own.map_or(cost, |own| own.max(cost)));
            size = match (size, result) {
                (Some(one), Some(other)) => Some(one.union(other)),
                (one, other) => one.or(other),
            };
        }
        self.sizes[node.id] = self.sizes[node.id].or(size).or_else(|| self.known_size(node));
        sum(&arg_costs).saturating_add(of_target).saturating_add(own.unwrap_or(1))
    }

    /// Returns the cost of a call without its arguments, and the size of the result if it is known.
    fn overload(&self, call: &Call<'_>, overload: &Overload) -> (u64, Option<Size>) {
        self.of_kubernetes(call, overload).unwrap_or_else(|| self.of_cel(call, &overload.id))
    }

    /// Returns the estimate of Kubernetes for its functions and for functions of strings and lists.
    fn of_kubernetes(&self, call: &Call<'_>, overload: &Overload) -> Option<(u64, Option<Size>)> {
        let arg = |number: usize| call.args.get(number).map(|arg| self.size(arg));
        let target = call.target.map(|target| self.size(target));
        Some(match call.name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let (node, size) = (call.target?, target?);
                match self.checked.type_of(node) {
                    Type::List(element) | Type::Map(element, _) => {
                        let texts = matches!(**element, Type::String | Type::Bytes);
                        // No part of a device is a list, so nothing is known of its elements.
                        let each = 1 + if texts { self.unknown.traversal() - 1 } else { 0 };
                        (size.max.saturating_mul(each), None)
                    }
                    _ => (size.traversal(), None),
                }
            }
            "url" => (arg(0)?.traversal(), arg(0)),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => (target?.traversal(), target),
            "replace" => {
                let size = target?;
                let result = replaced(size, arg(0)?, arg(1)?);
                (scaled(size.max, 2.0 * TRAVERSAL), Some(result))
            }
            "split" => {
                let size = target?;
                let limit = match call.args.get(1).map(|arg| &arg.kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => limit.cast_unsigned(),
                    _ => size.max,
                };
                (scaled(size.max, 2.0 * TRAVERSAL), Some(Size::at_most(limit)))
            }
            "join" => {
                let list = target?;
                let texts = list.multiply(self.unknown);
                let separators = arg(0).map(|separator| {
                    let [min, max] = [list.min, list.max].map(|size| size.saturating_sub(1));
                    separator.multiply(Size { min, max })
                });
                let size = separators.map_or(texts, |separators| texts.add(separators));
                (size.traversal(), Some(size))
            }
            "find" | "findAll" => {
                let size = target?;
                (regex_cost(size, arg(0)?), Some(Size::at_most(size.max)))
            }
            "ip" if call.target.is_some() => (1, None),
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => (1, None),
            "containsIP" | "containsCIDR" => {
                call.target?;
                let both = scaled(2 * ADDRESS, TRAVERSAL);
                let masked = match call.name {
                    "containsCIDR" => scaled(ADDRESS, TRAVERSAL) + 1,
                    _ => 0,
                };
                let parsed = match overload.id.ends_with("_string") {
                    true => arg(0)?.traversal(),
                    false => 0,
                };
                (parsed.saturating_add(both + masked), None)
            }
            "validate" => {
                call.target?;
                (scaled(arg(0)?.traversal(), FORMAT_REGEX * REGEX), None)
            }
            "_==_" => {
                let [left, right] = call.args else { return None };
                let known = self.checked.type_of(left);
                if known != self.checked.type_of(right) {
                    return None;
                }
                match known {
                    Type::Opaque("net.IP" | "net.CIDR", _)
                    | Type::Object("kubernetes.Quantity" | "kubernetes.Semver") => (1, None),
                    Type::Object("kubernetes.NamedFormat") => (scaled(FORMAT, TRAVERSAL), None),
                    Type::Object("kubernetes.URL") => {
                        let size = self.known_size(right).map_or(1, |size| size.max);
                        (scaled(size, TRAVERSAL), None)
                    }
                    _ => return None,
                }
            }
            "includes" => (LIST_VALUES, None),
            _ => return None,
        })
    }

    /// Returns the estimate of CEL for its operators and functions.
    fn of_cel(&self, call: &Call<'_>, overload: &str) -> (u64, Option<Size>) {
        let arg = |number: usize| call.args.get(number).map_or(self.unknown, |arg| self.size(arg));
        let target = || call.target.map_or(self.unknown, |target| self.size(target));
        let new_list = |cost: u64, size: Size| (cost.saturating_add(1 + NEW_LIST), Some(size));
        match overload {
            "string_format" => (target().traversal(), None),
            "string_to_bytes" => {
                let size = arg(0);
                let bytes = Size { min: size.min, max: size.max.saturating_mul(4) };
                (size.traversal(), Some(bytes))
            }
            "bytes_to_string" => {
                let size = arg(0);
                (size.traversal(), Some(Size { min: size.min / 4, max: size.max }))
            }
            "strings_quote" => {
                let size = arg(0);
                let max = size.max.saturating_mul(2).saturating_add(2);
                (size.traversal(), Some(Size { min: size.min.saturating_add(2), max }))
            }
            "starts_with_string" | "ends_with_string" => (arg(0).traversal(), None),
            "in_list" => (arg(1).max, None),
            "matches_string" => (regex_cost(target(), arg(0)), None),
            "contains_string" => (target().traversal().saturating_mul(arg(0).traversal()), None),
            "add_list" => (1, Some(arg(0).add(arg(1)))),
            "add_string" | "add_bytes" => {
                let size = arg(0).add(arg(1));
                (size.traversal(), Some(size))
            }
            "equals"
            | "not_equals"
            | "less_string"
            | "less_bytes"
            | "less_equals_string"
            | "less_equals_bytes"
            | "greater_string"
            | "greater_bytes"
            | "greater_equals_string"
            | "greater_equals_bytes" => (scaled(arg(0).max.min(arg(1).max), TRAVERSAL), None),
            "list_slice" | "list_reverse" => new_list(target().max, target()),
            "lists_range" => {
                let size = match call.args.first().map(|arg| &arg.kind) {
                    Some(Kind::Literal(Literal::Int(count))) => {
                        Size::exactly(count.cast_unsigned())
                    }
                    _ => self.unknown,
                };
                new_list(size.max, size)
            }
            "list_flatten" | "list_flatten_int" => {
                let depth = match call.args.first().map(|arg| &arg.kind) {
                    Some(Kind::Literal(Literal::Int(depth))) => depth.cast_unsigned(),
                    _ => 1,
                };
                new_list(target().max.saturating_mul(depth), self.unknown)
            }
            "list_sets_contains_list" | "list_sets_intersects_list" => {
                (arg(0).max.saturating_mul(arg(1).max).saturating_add(1), None)
            }
            "list_sets_equivalent_list" => {
                let pairs = arg(0).max.saturating_mul(arg(1).max);
                (pairs.saturating_mul(2).saturating_add(1), None)
            }
            sorting
                if sorting == "list_distinct"
                    || sorting.ends_with("_sort")
                    || sorting.ends_with("_sortByAssociatedKeys") =>
            {
                let size = target();
                new_list(size.max.saturating_mul(size.max).saturating_mul(2), size)
            }
            _ => (1, None),
        }
    }
}

/// A call whose arguments are estimated.
struct Call<'n> {
    name: &'n str,
    target: Option<&'n Node>,
    args: &'n [Node],
}

fn regex_cost(text: Size, pattern: Size) -> u64 {
    let text = scaled(text.max.saturating_add(1), TRAVERSAL);
    text.saturating_mul(scaled(pattern.max, REGEX))
}

/// Returns the size of a text after replacements.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let (longest, kept) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (text.max.div_ceil(old.min), 0)
    };
    let (shortest, kept_min) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (text.min.div_ceil(old.max), 0)
    };
    Size { min: shortest, max: longest }.multiply(new).add(Size { min: kept_min, max: kept })
}

/// Whether the fold is what `cel.bind` becomes.
fn is_bind(fold: &Fold) -> bool {
    matches!(&fold.range.kind, Kind::List(elements) if elements.is_empty())
        && matches!(fold.condition.kind, Kind::Literal(Literal::Bool(false)))
        && fold.accumulator != ACCUMULATOR
}

fn size_of_literal(node: &Node) -> Option<Size> {
    let size = match &node.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List(elements) => elements.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Size::exactly(size as u64))
}

fn is_scalar(known: &Type) -> bool {
    match known {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        other => other.unwrap_optional().is_some_and(is_scalar),
    }
}
