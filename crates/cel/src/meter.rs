//! The cost of an evaluation.

use crate::value::{Fault, Outcome, Value};

/// Maximum cost of one evaluation (`CELSelectorExpressionMaxCost` of Kubernetes).
pub(crate) const COST_LIMIT: u64 = 1_000_000;
/// Maximum number of elements and keys that one evaluation copies or compares, and of 16 bytes of
/// text that it makes, for each unit of its limit. The cost of CEL does not count all of these.
const WORK_PER_COST: u64 = 4;
/// Bytes of text that count as one unit of work.
const BYTES_PER_WORK: u64 = 16;

/// Counts the cost of one evaluation.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: u64,
    work: u64,
    limit: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self::limited_to(COST_LIMIT)
    }
}

impl Meter {
    /// Returns a meter with a limit of its own.
    pub(crate) const fn limited_to(limit: u64) -> Self {
        Self { cost: 0, work: 0, limit }
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the cost so far with the work that it does not count. A unit of either takes about
    /// as long.
    pub(crate) fn effort(&self) -> u64 {
        self.cost.saturating_add(self.work)
    }

    /// Adds to the cost.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Fault::TooExpensive) } else { Ok(()) }
    }

    /// Counts elements that are copied or compared.
    pub(crate) fn work(&mut self, elements: usize) -> Result<(), Fault> {
        self.work = self.work.saturating_add(elements as u64);
        if self.work > self.limit.saturating_mul(WORK_PER_COST) {
            Err(Fault::TooExpensive)
        } else {
            Ok(())
        }
    }

    /// Counts the bytes of a text before it is made.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Fault> {
        self.work((bytes as u64 / BYTES_PER_WORK) as usize)
    }
}

/// How the cost of a call is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CostRule {
    Fixed(u64),
    /// The size of the first argument, times the factor.
    First(f64),
    /// The size of the result, times the factor.
    Result(f64),
    /// The number of elements of the second argument.
    InList,
    /// The smaller size of both arguments.
    Smaller,
    /// The sum of the sizes.
    Sum,
    /// The product of text and pattern.
    Regex,
    /// The product of text and part.
    Contains,
    /// A traversal of the first argument with all its parts.
    Traversal,
    /// Bytes of an address, and of the text to parse.
    ContainsIp {
        parses: bool,
    },
    ContainsCidr {
        parses: bool,
    },
    /// Text times the length of the regular expression of a format.
    Validate,
    /// One per element of the result, and a new list.
    NewList,
    /// Elements times depth, and a new list.
    Flatten,
    /// Each element of the argument with this index compared with all others, and a new list.
    SelfCompare(usize),
    /// Each element of one list compared with all of the other.
    Sets(f64),
}

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;
const LIST: u64 = 10;

impl CostRule {
    /// Returns the rule of a function; the overload is known if the type checker left only one.
    pub(crate) fn of(function: &str, overload: Option<&str>) -> Self {
        match overload.unwrap_or_default() {
            "list_slice" | "lists_range" | "list_reverse" => return Self::NewList,
            "list_flatten" | "list_flatten_int" => return Self::Flatten,
            "list_distinct" => return Self::SelfCompare(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Sets(1.0),
            "list_sets_equivalent_list" => return Self::Sets(2.0),
            sort if sort.ends_with("_sort") => return Self::SelfCompare(0),
            sort if sort.ends_with("_sortByAssociatedKeys") => return Self::SelfCompare(1),
            _ => {}
        }
        match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Traversal,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" => Self::First(TRAVERSAL),
            "replace" | "split" | "ip.isCanonical" => Self::First(2.0 * TRAVERSAL),
            "join" => Self::Result(2.0 * TRAVERSAL),
            "find" | "findAll" => Self::Regex,
            "ip" if overload == Some("cidr_ip") => Self::Fixed(1),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver"
            | "isSemver" => Self::First(TRAVERSAL),
            "containsIP" => {
                Self::ContainsIp { parses: overload == Some("cidr_contains_ip_string") }
            }
            "containsCIDR" => {
                Self::ContainsCidr { parses: overload == Some("cidr_contains_cidr_string") }
            }
            "validate" => Self::Validate,
            _ => Self::of_overload(overload.unwrap_or_default()),
        }
    }

    fn of_overload(overload: &str) -> Self {
        match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" => {
                Self::First(TRAVERSAL)
            }
            "in_list" => Self::InList,
            "equals"
            | "not_equals"
            | "less_string"
            | "less_bytes"
            | "less_equals_string"
            | "less_equals_bytes"
            | "greater_string"
            | "greater_bytes"
            | "greater_equals_string"
            | "greater_equals_bytes" => Self::Smaller,
            "add_string" | "add_bytes" => Self::Sum,
            "matches_string" => Self::Regex,
            "contains_string" => Self::Contains,
            _ => Self::Fixed(1),
        }
    }

    /// Returns the cost of a call.
    pub(crate) fn cost(
        self,
        args: &[Value<'_>],
        result: &Outcome<'_>,
        meter: &mut Meter,
    ) -> Result<u64, Fault> {
        let first = || args.first().map_or(1, size);
        let second = || args.get(1).map_or(1, size);
        Ok(match self {
            Self::Fixed(cost) => cost,
            Self::First(factor) => scaled(first(), factor),
            Self::Result(factor) => scaled(result.as_ref().map_or(1, size), factor),
            Self::InList => second(),
            Self::Smaller => match args.first() {
                Some(
                    Value::Quantity(_)
                    | Value::Version(_)
                    | Value::Url(_)
                    | Value::Ip(_)
                    | Value::Cidr(_)
                    | Value::Format(_),
                ) => 1,
                _ => scaled(first().min(second()), TRAVERSAL),
            },
            Self::Sum => scaled(first().saturating_add(second()), TRAVERSAL),
            Self::Regex => {
                scaled(first().saturating_add(1), TRAVERSAL).saturating_mul(scaled(second(), REGEX))
            }
            Self::Contains => {
                scaled(first(), TRAVERSAL).saturating_mul(scaled(second(), TRAVERSAL))
            }
            Self::Traversal => match args.first() {
                Some(value) => traversal(value, meter)?,
                None => 0,
            },
            Self::ContainsIp { parses } => {
                let parsing = if parses { scaled(second(), TRAVERSAL) } else { 0 };
                scaled(2 * first(), TRAVERSAL) + parsing
            }
            Self::ContainsCidr { parses } => {
                let parsing = if parses { scaled(second(), TRAVERSAL) } else { 0 };
                scaled(2 * first(), TRAVERSAL) + scaled(first(), TRAVERSAL) + 1 + parsing
            }
            Self::Validate => match args.first() {
                Some(Value::Format(format)) => {
                    scaled(second() + 1, TRAVERSAL).saturating_mul(scaled(format.regex_size, REGEX))
                }
                _ => 1,
            },
            Self::NewList => result.as_ref().map_or(1, size).saturating_add(1 + LIST),
            Self::Flatten => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => (*depth).max(0).unsigned_abs(),
                    _ => 1,
                };
                first().saturating_mul(depth).saturating_add(1 + LIST)
            }
            Self::SelfCompare(index) => self_compare(args.get(index)),
            Self::Sets(factor) => (first().saturating_mul(second()) as f64 * factor) as u64 + 1,
        })
    }
}

fn self_compare(list: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(values)) = list else { return 1 + LIST };
    let factor = match values.first() {
        Some(Value::String(_) | Value::Bytes(_)) => 2.0 + TRAVERSAL,
        _ => 2.0,
    };
    let length = values.len() as f64;
    ((length * length) * factor) as u64 + 1 + LIST
}

fn size(value: &Value<'_>) -> u64 {
    value.size().unwrap_or(1)
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn traversal(value: &Value<'_>, meter: &mut Meter) -> Result<u64, Fault> {
    meter.work(1)?;
    Ok(match value {
        Value::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        Value::List(values) => {
            let mut cost = 0_u64;
            for value in values.iter() {
                cost = cost.saturating_add(traversal(value, meter)?);
            }
            cost
        }
        Value::Map(_)
        | Value::Facts(_)
        | Value::Device(_)
        | Value::Domains(..)
        | Value::Domain(..) => {
            let mut cost = 0_u64;
            for (key, value) in value.entries() {
                cost = cost.saturating_add(traversal(&key, meter)?);
                cost = cost.saturating_add(traversal(&value, meter)?);
            }
            cost
        }
        _ => 1,
    })
}
