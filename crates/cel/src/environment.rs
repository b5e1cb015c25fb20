//! The environment of an [`Expression`](crate::Expression): the facts that it can read, and the
//! functions beside those of CEL and Kubernetes.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::declarations::{self, Function, Overload};
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Amount, Fault, Held, Outcome, Value};

/// The type of a fact.
#[derive(Debug, Clone, Copy)]
pub enum FactType {
    /// A bool.
    Bool,
    /// A whole number.
    Int,
    /// A text.
    String,
    /// A point in time.
    Timestamp,
    /// A quantity of Kubernetes.
    Quantity,
    /// A list of texts.
    Strings,
    /// A map of texts by text. It is never absent.
    Texts,
    /// A map of quantities by text. It is never absent.
    Quantities,
    /// A list of objects.
    Objects(&'static ObjectType),
}

/// The type of the objects in a list.
#[derive(Debug)]
pub struct ObjectType {
    /// The name of the type in errors.
    pub name: &'static str,
    /// The fields with their types.
    pub fields: &'static [(&'static str, FactType)],
}

/// Something that an expression can read.
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    /// The variable and its fields, for example `node.metadata.labels`.
    pub path: &'static str,
    /// The type.
    pub fact_type: FactType,
    /// Whether the fact differs between the subjects for which an expression is evaluated, and is
    /// not [prepared](crate::Expression::prepare).
    pub varies: bool,
}

/// A function that the facts answer.
#[derive(Debug, Clone, Copy)]
pub struct FactFunction {
    /// The name.
    pub name: &'static str,
    /// The signatures, for example `pods_on_node (string) -> int`. All arguments are strings.
    pub signatures: &'static [&'static str],
    /// Whether the result differs between the subjects.
    pub varies: bool,
}

/// The facts and functions of an environment.
pub struct Environment {
    pub(crate) facts: &'static [Fact],
    functions: Vec<Function>,
    varying_functions: Vec<bool>,
}

/// The values of the facts.
pub trait Facts: Sync {
    /// Returns the value of the fact with this place in the environment. A map is
    /// [`FactValue::Map`], a list [`FactValue::List`].
    fn fact(&self, fact: usize) -> FactValue<'_>;

    /// Returns an element of a fact that is a list, or the field with this place in the
    /// [`ObjectType`] if the elements are objects.
    fn element(&self, fact: usize, index: usize, field: usize) -> FactValue<'_>;

    /// Returns the value of a key in a fact that is a map.
    fn entry(&self, fact: usize, key: &str) -> FactValue<'_>;

    /// Returns the value of the read with this place in
    /// [`Expression::reads`](crate::Expression::reads).
    fn read(&self, place: usize) -> FactValue<'_>;

    /// Returns all keys of a fact that is a map, in ascending order.
    fn entries(&self, fact: usize) -> Vec<(Arc<str>, FactValue<'_>)>;

    /// Calls the function with this place in the environment, which does not vary.
    ///
    /// # Errors
    /// The reason the function has no result.
    fn call(&self, function: usize, args: &[&str]) -> Result<FactValue<'_>, String>;

    /// Answers the call with this place among those of [`Prepared::calls`](crate::Prepared::calls).
    ///
    /// # Errors
    /// The reason the function has no result.
    fn bound(&self, call: usize) -> Result<FactValue<'_>, String>;
}

/// A value of a fact.
#[derive(Debug, Clone, Copy)]
pub enum FactValue<'a> {
    /// The subject does not have the fact.
    Absent,
    /// A bool.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(&'a str),
    /// A point in time, in seconds since the epoch.
    Seconds(i64),
    /// A quantity.
    Quantity(Quantity),
    /// A map, whose entries are asked for one by one.
    Map,
    /// A list, whose elements are asked for one by one.
    List {
        /// The number of elements.
        len: usize,
        /// The type of the elements; none for texts.
        object: Option<&'static ObjectType>,
    },
}

/// A quantity of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// The whole units, rounded down.
    pub units: i64,
    /// The billionths above them.
    pub nanos: u32,
    /// Whether Kubernetes converts it to an integer.
    pub is_whole: bool,
}

impl Quantity {
    const NANOS_PER_UNIT: i128 = 1_000_000_000;

    /// Returns a whole number of units.
    pub const fn of_units(units: i64) -> Self {
        Self { units, nanos: 0, is_whole: true }
    }

    /// Returns a number of thousandths.
    pub const fn of_millis(millis: i64) -> Self {
        let above = millis.rem_euclid(1000);
        Self {
            units: millis.div_euclid(1000),
            nanos: above as u32 * 1_000_000,
            is_whole: above == 0,
        }
    }

    /// Returns a number of billionths; `None` if it has more units than fit.
    pub fn of_nanos(nanos: i128, is_whole: bool) -> Option<Self> {
        let units = i64::try_from(nanos.div_euclid(Self::NANOS_PER_UNIT)).ok()?;
        Some(Self { units, nanos: nanos.rem_euclid(Self::NANOS_PER_UNIT) as u32, is_whole })
    }

    /// Returns the number of billionths.
    pub fn total_nanos(self) -> i128 {
        i128::from(self.units) * Self::NANOS_PER_UNIT + i128::from(self.nanos)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Environment {
    /// Declares an environment.
    pub fn new(facts: &'static [Fact], functions: &'static [FactFunction]) -> Self {
        let declared = |function: &FactFunction| Function {
            name: function.name,
            overloads: function.signatures.iter().flat_map(|text| Overload::parse(text)).collect(),
            implementation: not_called,
        };
        Self {
            facts,
            functions: functions.iter().map(declared).collect(),
            varying_functions: functions.iter().map(|function| function.varies).collect(),
        }
    }

    /// Returns the fact with exactly this path.
    pub(crate) fn fact(&self, path: &str) -> Option<usize> {
        self.facts.iter().position(|fact| fact.path == path)
    }

    /// Returns the type of a fact, or of the object that holds facts with this path.
    pub(crate) fn type_of(&self, path: &str) -> Option<Type> {
        if let Some(fact) = self.facts.iter().find(|fact| fact.path == path) {
            return Some(fact.fact_type.to_type());
        }
        let holds =
            |fact: &&Fact| fact.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        let found = self.facts.iter().find(holds)?;
        Some(Type::Object(&found.path[..path.len()]))
    }

    /// Returns the type of a field of an object, or the reason there is none.
    pub(crate) fn field(&self, object: &str, field: &str) -> Result<Type, String> {
        if let Some(known) = self.object_type(object) {
            let found = known.fields.iter().find(|(name, _)| *name == field);
            let names =
                || known.fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return found.map(|(_, fact_type)| fact_type.to_type()).ok_or_else(|| {
                format!("undefined field '{field}': the fields of {object} are {}", names())
            });
        }
        let path = format!("{object}.{field}");
        self.type_of(&path).ok_or_else(|| {
            let mut names: Vec<&str> = self
                .facts
                .iter()
                .filter_map(|fact| {
                    let rest = fact.path.strip_prefix(object)?.strip_prefix('.')?;
                    rest.split('.').next()
                })
                .collect();
            names.dedup();
            format!(
                "'{path}' is not readable: the readable fields of '{object}' are {}",
                names.join(", ")
            )
        })
    }

    fn object_type(&self, name: &str) -> Option<&'static ObjectType> {
        fn find(fact_type: FactType, name: &str) -> Option<&'static ObjectType> {
            let FactType::Objects(object) = fact_type else { return None };
            if object.name == name {
                return Some(object);
            }
            object.fields.iter().find_map(|(_, inner)| find(*inner, name))
        }
        self.facts.iter().find_map(|fact| find(fact.fact_type, name))
    }

    pub(crate) fn function(&'static self, name: &str) -> Option<&'static Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    pub(crate) fn place_of(&self, function: &Function) -> Option<usize> {
        self.functions.iter().position(|own| own.name == function.name)
    }

    pub(crate) fn function_name(&self, function: usize) -> &'static str {
        self.functions[function].name
    }

    pub(crate) fn function_varies(&self, function: usize) -> bool {
        self.varying_functions[function]
    }
}

/// What the names of an expression stand for.
#[derive(Clone, Copy)]
pub(crate) enum Names {
    /// The variable `device`. Attributes may be lists, for which there is a function of its own
    /// (gate DRAListTypeAttributes).
    Device { has_lists: bool },
    /// Facts.
    Facts(&'static Environment),
}

impl Names {
    pub(crate) fn function(self, name: &str) -> Option<&'static Function> {
        match self {
            Self::Device { has_lists } => {
                declarations::find(name).filter(|found| has_lists || found.name != "includes")
            }
            Self::Facts(environment) => environment
                .function(name)
                .or_else(|| declarations::find(name).filter(|found| found.name != "includes")),
        }
    }

    pub(crate) fn variable(self, name: &str) -> Option<Type> {
        match self {
            Self::Device { .. } => (name == "device").then_some(Type::Object(crate::types::DEVICE)),
            Self::Facts(environment) => environment.type_of(name).filter(|_| !name.contains('.')),
        }
    }
}

fn not_called<'a>(_: &mut Meter, _: &[Value<'a>]) -> Outcome<'a> {
    Err(Fault::no_such_overload())
}

impl FactType {
    fn to_type(self) -> Type {
        const QUANTITY: Type = Type::Object("kubernetes.Quantity");
        match self {
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::String => Type::String,
            Self::Timestamp => Type::Timestamp,
            Self::Quantity => QUANTITY,
            Self::Strings => Type::list(Type::String),
            Self::Texts => Type::map(Type::String, Type::String),
            Self::Quantities => Type::map(Type::String, QUANTITY),
            Self::Objects(object) => Type::list(Type::Object(object.name)),
        }
    }
}

/// A fact that is a map.
#[derive(Clone, Copy)]
pub(crate) struct FactMap<'a> {
    pub(crate) facts: &'a dyn Facts,
    pub(crate) fact: usize,
}

impl fmt::Debug for FactMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactMap").field("fact", &self.fact).finish_non_exhaustive()
    }
}

impl<'a> FactMap<'a> {
    pub(crate) fn find(self, key: &str) -> Option<Value<'a>> {
        to_value(self.facts, self.fact, self.facts.entry(self.fact, key))
    }

    pub(crate) fn entries(self) -> Vec<(Value<'a>, Value<'a>)> {
        let entries = self.facts.entries(self.fact).into_iter();
        let entry = |(key, value): (Arc<str>, _)| {
            Some((Value::String(Held::Shared(key)), to_value(self.facts, self.fact, value)?))
        };
        entries.filter_map(entry).collect()
    }
}

/// Returns the value of a fact, `None` if it is absent.
pub(crate) fn to_value<'a>(
    facts: &'a dyn Facts,
    fact: usize,
    value: FactValue<'a>,
) -> Option<Value<'a>> {
    Some(match value {
        FactValue::Absent => return None,
        FactValue::Bool(value) => Value::Bool(value),
        FactValue::Int(value) => Value::Int(value),
        FactValue::Text(text) => Value::String(Held::Borrowed(text)),
        FactValue::Seconds(seconds) => Value::Timestamp(Timestamp::from_second(seconds).ok()?),
        FactValue::Quantity(quantity) => {
            Value::Quantity(Amount { nanos: quantity.total_nanos(), whole: quantity.is_whole })
        }
        FactValue::Map => Value::Facts(FactMap { facts, fact }),
        FactValue::List { len, object } => {
            let part = |index, field| to_value(facts, fact, facts.element(fact, index, field));
            let element = |index| match object {
                None => part(index, 0),
                Some(object) => {
                    let fields = object.fields.iter().enumerate();
                    let entry = |(place, (name, _)): (usize, &(&'static str, FactType))| {
                        Some((Value::String(Held::Borrowed(name)), part(index, place)?))
                    };
                    Some(Value::Map(Arc::new(fields.filter_map(entry).collect())))
                }
            };
            Value::list((0..len).filter_map(element).collect())
        }
    })
}
