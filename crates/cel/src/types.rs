//! Types of expressions, and their unification.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Maximum number of parts of a type. Larger types come from hostile expressions only.
pub(crate) const LARGEST_TYPE: usize = 500;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// The type of an expression with an error, which was reported.
    Error,
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
    /// A type of Kubernetes without parameters.
    Object(&'static str),
    /// Another type with a name and parameters, such as `optional_type(int)`.
    Opaque(&'static str, Vec<Type>),
    List(Rc<Type>),
    Map(Rc<Type>, Rc<Type>),
    /// The type of a type.
    Meta(Option<Rc<Type>>),
    /// A type that is not known yet.
    Variable(u32),
}

pub(crate) const OPTIONAL: &str = "optional_type";
pub(crate) const DEVICE: &str = "kubernetes.DRADevice";

impl Type {
    pub(crate) fn list(element: Type) -> Self {
        Self::List(Rc::new(element))
    }

    pub(crate) fn map(key: Type, value: Type) -> Self {
        Self::Map(Rc::new(key), Rc::new(value))
    }

    pub(crate) fn optional(value: Type) -> Self {
        Self::Opaque(OPTIONAL, vec![value])
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns the type of the value of an optional.
    pub(crate) fn unwrap_optional(&self) -> Option<&Type> {
        match self {
            Self::Opaque(OPTIONAL, parameters) => parameters.first(),
            _ => None,
        }
    }

    fn parameters(&self) -> Vec<&Type> {
        match self {
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            Self::List(element) => vec![element],
            Self::Map(key, value) => vec![key, value],
            Self::Meta(Some(inner)) => vec![inner],
            _ => Vec::new(),
        }
    }

    /// Returns whether the type has more parts than allowed.
    pub(crate) fn is_too_large(&self) -> bool {
        fn count(types: &Type, left: &mut usize) -> bool {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            types.parameters().into_iter().all(|parameter| count(parameter, left))
        }
        !count(self, &mut LARGEST_TYPE.clone())
    }

    fn name(&self, in_errors: bool) -> &'static str {
        match self {
            Self::Error => "!error!",
            Self::Dyn => "dyn",
            Self::Null if in_errors => "null",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration if in_errors => "duration",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp if in_errors => "timestamp",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Object(name) | Self::Opaque(name, _) => name,
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Meta(_) => "type",
            Self::Variable(_) => "dyn",
        }
    }

    fn write(&self, text: &mut String, in_errors: bool) {
        text.push_str(self.name(in_errors));
        let parameters = self.parameters();
        if parameters.is_empty() {
            return;
        }
        text.push('(');
        for (index, parameter) in parameters.into_iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            parameter.write(text, in_errors);
        }
        text.push(')');
    }

    /// Returns the name of the type in errors about the result of an expression.
    pub(crate) fn declared_name(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false);
        text
    }
}

impl fmt::Display for Type {
    /// Prints the type as errors of the type checker do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text, true);
        f.write_str(&text)
    }
}

/// The known state of type variables.
#[derive(Debug, Default)]
pub(crate) struct Substitution {
    known: BTreeMap<u32, Type>,
    next: u32,
}

impl Substitution {
    /// Returns a type that is not known yet.
    pub(crate) fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Variable(self.next)
    }

    /// Returns the type with its known variables replaced, and unknown ones by dyn on demand.
    pub(crate) fn apply(&self, types: &Type, unknown_to_dyn: bool) -> Type {
        let apply = |it: &Type| self.apply(it, unknown_to_dyn);
        match types {
            Type::Variable(variable) => match self.known.get(variable) {
                Some(known) => apply(known),
                None if unknown_to_dyn => Type::Dyn,
                None => types.clone(),
            },
            Type::Opaque(name, parameters) => {
                Type::Opaque(name, parameters.iter().map(apply).collect())
            }
            Type::List(element) => Type::list(apply(element)),
            Type::Map(key, value) => Type::map(apply(key), apply(value)),
            Type::Meta(Some(inner)) => Type::Meta(Some(Rc::new(apply(inner)))),
            other => other.clone(),
        }
    }

    /// Returns whether a value of the second type can be used as the first, and learns from it.
    /// Learns nothing if not.
    pub(crate) fn is_assignable(&mut self, left: &Type, right: &Type) -> bool {
        self.are_assignable(std::slice::from_ref(left), std::slice::from_ref(right))
    }

    /// Like [`is_assignable`](Self::is_assignable) for each pair.
    pub(crate) fn are_assignable(&mut self, left: &[Type], right: &[Type]) -> bool {
        let before = self.known.clone();
        let assignable = left.len() == right.len()
            && left.iter().zip(right).all(|(left, right)| self.unify(left, right));
        if !assignable {
            self.known = before;
        }
        assignable
    }

    fn unify(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Variable(variable) = right {
            match self.substitute(*variable, left) {
                Some(fits) if fits => return true,
                Some(_) => return false,
                None => {}
            }
        }
        if let Type::Variable(variable) = left {
            return self.substitute(*variable, right).unwrap_or(false);
        }
        if left.is_dyn_or_error() || right.is_dyn_or_error() {
            return true;
        }
        match (left, right) {
            (Type::Null, Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp) => {
                true
            }
            (Type::List(left), Type::List(right)) => self.unify(left, right),
            (Type::Map(left_key, left_value), Type::Map(right_key, right_value)) => {
                self.unify(left_key, right_key) && self.unify(left_value, right_value)
            }
            (Type::Opaque(left, left_parameters), Type::Opaque(right, right_parameters)) => {
                left == right
                    && left_parameters.len() == right_parameters.len()
                    && left_parameters
                        .iter()
                        .zip(right_parameters)
                        .all(|(left, right)| self.unify(left, right))
            }
            (Type::Meta(_), Type::Meta(_)) => true,
            (left, right) => left == right,
        }
    }

    /// Uses the type for the variable. `Some(false)` if the variable is known and does not agree,
    /// `None` if it occurs in the type.
    fn substitute(&mut self, variable: u32, with: &Type) -> Option<bool> {
        if let Some(known) = self.known.get(&variable).cloned() {
            if *with == known {
                return Some(true);
            }
            let fits = self.unify(with, &known);
            if fits {
                let general =
                    if is_equal_or_less_specific(with, &known) { with.clone() } else { known };
                self.known.insert(variable, general);
            }
            return Some(fits);
        }
        if self.occurs(variable, with) {
            return None;
        }
        self.known.insert(variable, with.clone());
        Some(true)
    }

    fn occurs(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Variable(other) if *other == variable => true,
            Type::Variable(other) => {
                self.known.get(other).is_some_and(|known| self.occurs(variable, known))
            }
            other => other.parameters().into_iter().any(|it| self.occurs(variable, it)),
        }
    }
}

/// Returns the more general of two types that unify.
pub(crate) fn most_general(left: Type, right: Type) -> Type {
    if is_equal_or_less_specific(&left, &right) { left } else { right }
}

fn is_equal_or_less_specific(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::Meta(_), Type::Meta(_)) => true,
        (Type::List(_), Type::List(_))
        | (Type::Map(..), Type::Map(..))
        | (Type::Opaque(..), Type::Opaque(..)) => {
            let (left_parameters, right_parameters) = (left.parameters(), right.parameters());
            left.name(false) == right.name(false)
                && left_parameters.len() == right_parameters.len()
                && left_parameters
                    .into_iter()
                    .zip(right_parameters)
                    .all(|(left, right)| is_equal_or_less_specific(left, right))
        }
        (left, right) => left == right,
    }
}
