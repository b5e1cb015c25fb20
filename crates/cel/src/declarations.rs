//! The functions of the environment: their overloads for the type checker, and what they do.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::functions;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Outcome, Value};

/// The code of a function. It gets values that no overload accepts if their types were not known.
pub(crate) type Implementation = for<'a> fn(&mut Meter, &[Value<'a>]) -> Outcome<'a>;

/// A function or operator.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) implementation: Implementation,
}

/// One signature of a function.
pub(crate) struct Overload {
    pub(crate) id: String,
    /// Whether the first argument is the target of the call.
    pub(crate) is_member: bool,
    pub(crate) args: Vec<Template>,
    pub(crate) result: Template,
}

/// A type with parameters, as declared. Unlike `Type` it can be shared between threads.
#[derive(Debug, Clone)]
pub(crate) enum Template {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    Type,
    Object(&'static str),
    Opaque(&'static str),
    Optional(Box<Template>),
    List(Box<Template>),
    Map(Box<Template>, Box<Template>),
    Param(char),
}

impl Template {
    /// Returns the type, with the parameters of the overload replaced.
    pub(crate) fn instantiate(&self, parameter: &mut impl FnMut(char) -> Type) -> Type {
        match self {
            Self::Dyn => Type::Dyn,
            Self::Null => Type::Null,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::String => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::Type => Type::Meta(None),
            Self::Object(name) => Type::Object(name),
            Self::Opaque(name) => Type::Opaque(name, Vec::new()),
            Self::Optional(value) => Type::optional(value.instantiate(parameter)),
            Self::List(element) => Type::list(element.instantiate(parameter)),
            Self::Map(key, value) => {
                let key = key.instantiate(parameter);
                Type::map(key, value.instantiate(parameter))
            }
            Self::Param(name) => parameter(*name),
        }
    }
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Function>> = LazyLock::new(|| {
    let mut declared: BTreeMap<&'static str, Function> = BTreeMap::new();
    for library in functions::LIBRARIES {
        for (name, implementation, overloads) in *library {
            let function = declared.entry(name).or_insert_with(|| Function {
                name,
                overloads: Vec::new(),
                implementation: *implementation,
            });
            function.overloads.extend(overloads.iter().flat_map(|text| Overload::parse(text)));
        }
    }
    declared
});

/// Returns the function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

/// Names of types, which are values.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Meta(None),
        "uint" => Type::Uint,
        "net.IP" => Type::Opaque("net.IP", Vec::new()),
        "net.CIDR" => Type::Opaque("net.CIDR", Vec::new()),
        "optional_type" => Type::optional(Type::Dyn),
        _ => return None,
    })
}

impl Overload {
    /// Parses `id (types) -> type`, or `id type.(types) -> type` for a member. `#` stands for each
    /// of the types that can be compared, in the id too.
    pub(crate) fn parse(text: &str) -> Vec<Self> {
        const COMPARABLE: [&str; 8] =
            ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];
        if text.contains('#') {
            return COMPARABLE.iter().flat_map(|it| Self::parse(&text.replace('#', it))).collect();
        }
        let (id, signature) = text.split_once(' ').unwrap_or((text, ""));
        let (args, result) = signature.split_once(" -> ").unwrap_or((signature, "dyn"));
        let (target, args) = match args.split_once(".(") {
            Some((target, args)) => (Some(target), args),
            None => (None, args.trim_start_matches('(')),
        };
        let is_member = target.is_some();
        let mut types: Vec<_> =
            target.map(|mut target| parse_type(&mut target)).into_iter().collect();
        let mut rest = args;
        while !rest.is_empty() && !rest.starts_with(')') {
            types.push(parse_type(&mut rest));
            rest = rest.trim_start_matches([',', ' ']);
        }
        let mut result = result;
        let result = parse_type(&mut result);
        vec![Self { id: id.to_owned(), is_member, args: types, result }]
    }
}

/// Parses a type at the beginning of the text and removes it.
fn parse_type(text: &mut &str) -> Template {
    let end = text.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    *text = rest;
    let mut parameters = Vec::new();
    if let Some(inner) =
        text.strip_prefix('(').filter(|_| matches!(name, "list" | "map" | "optional"))
    {
        *text = inner;
        while !text.is_empty() && !text.starts_with(')') {
            parameters.push(Box::new(parse_type(text)));
            *text = text.trim_start_matches([',', ' ']);
        }
        *text = text.strip_prefix(')').unwrap_or(text);
    }
    let mut parameters = parameters.into_iter();
    let mut next = || parameters.next().unwrap_or_else(|| Box::new(Template::Dyn));
    match name {
        "null" => Template::Null,
        "bool" => Template::Bool,
        "int" => Template::Int,
        "uint" => Template::Uint,
        "double" => Template::Double,
        "string" => Template::String,
        "bytes" => Template::Bytes,
        "duration" => Template::Duration,
        "timestamp" => Template::Timestamp,
        "type" => Template::Type,
        "quantity" => Template::Object("kubernetes.Quantity"),
        "semver" => Template::Object("kubernetes.Semver"),
        "url" => Template::Object("kubernetes.URL"),
        "format" => Template::Object("kubernetes.NamedFormat"),
        "ip" => Template::Opaque("net.IP"),
        "cidr" => Template::Opaque("net.CIDR"),
        "list" => Template::List(next()),
        "map" => {
            let key = next();
            Template::Map(key, next())
        }
        "optional" => Template::Optional(next()),
        parameter => match parameter.chars().next() {
            Some(name) if name.is_ascii_uppercase() => Template::Param(name),
            _ => Template::Dyn,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_overload_has_an_id_of_its_own_and_known_types() {
        for function in FUNCTIONS.values() {
            let mut ids: Vec<_> = function.overloads.iter().map(|it| it.id.as_str()).collect();
            ids.sort_unstable();
            let count = ids.len();
            ids.dedup();
            assert_eq!(ids.len(), count, "{}", function.name);
        }
    }

    #[test]
    fn signatures_are_read_whole() {
        let [overload] = &Overload::parse("x list(map(string, A)).(optional(A), int) -> A")[..]
        else {
            panic!("one overload")
        };
        assert!(overload.is_member);
        let printed: Vec<_> = overload
            .args
            .iter()
            .map(|it| it.instantiate(&mut |_| Type::Bool).to_string())
            .collect();
        assert_eq!(printed, ["list(map(string, bool))", "optional_type(bool)", "int"]);
    }
}
