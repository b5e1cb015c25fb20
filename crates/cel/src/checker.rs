//! The type checker.

use crate::declarations::{self, Function, Overload};
use crate::environment::Names;
use crate::source::{self, Issue};
use crate::syntax::{Fold, Kind, Literal, Node};
use crate::types::{DEVICE, Substitution, Type, most_general};

/// The result of the type checker.
pub(crate) struct Checked {
    /// The type of each node.
    types: Vec<Type>,
    /// The function to which each call refers.
    calls: Vec<Option<Resolved>>,
    /// The overloads that the types of each call leave.
    overloads: Vec<Vec<&'static Overload>>,
    /// The type of the whole expression.
    pub(crate) result: Type,
}

/// The function of a call.
#[derive(Clone, Copy)]
pub(crate) struct Resolved {
    pub(crate) function: &'static Function,
    /// The overload, if the types leave only one.
    pub(crate) overload: Option<&'static Overload>,
    /// Whether the target is part of the name of the function.
    pub(crate) is_qualified: bool,
}

impl Checked {
    pub(crate) fn type_of(&self, node: &Node) -> &Type {
        &self.types[node.id]
    }

    pub(crate) fn call(&self, node: &Node) -> Option<Resolved> {
        self.calls[node.id]
    }

    /// Returns the overloads that a call may have.
    pub(crate) fn overloads(&self, node: &Node) -> &[&'static Overload] {
        &self.overloads[node.id]
    }
}

/// Checks an expression with this number of nodes.
pub(crate) fn check(
    text: &str,
    root: &Node,
    size: usize,
    names: Names,
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        text,
        substitution: Substitution::default(),
        types: vec![Type::Error; size],
        calls: vec![None; size],
        overloads: vec![Vec::new(); size],
        names,
        scopes: Vec::new(),
        issues: Vec::new(),
    };
    checker.check(root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let known = &checker.substitution;
    let types: Vec<_> = checker.types.iter().map(|it| known.apply(it, true)).collect();
    let result = types[root.id].clone();
    let Checker { calls, overloads, .. } = checker;
    Ok(Checked { types, calls, overloads, result })
}

/// Returns the dotted name that an expression spells: `a.b.c`.
pub(crate) fn qualified_name(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, test: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}

struct Checker<'t> {
    text: &'t str,
    substitution: Substitution,
    types: Vec<Type>,
    calls: Vec<Option<Resolved>>,
    overloads: Vec<Vec<&'static Overload>>,
    names: Names,
    /// Variables of folds, the innermost last.
    scopes: Vec<(String, Type)>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn error(&mut self, node: &Node, message: String) {
        let place = Some(source::place(self.text, node.offset));
        self.issues.push(Issue { place, message });
    }

    fn known(&self, types: &Type) -> Type {
        self.substitution.apply(types, false)
    }

    fn type_of(&self, node: &Node) -> Type {
        self.types[node.id].clone()
    }

    fn undeclared(&mut self, node: &Node, name: &str) -> Type {
        self.error(node, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn check(&mut self, node: &Node) {
        let mut found = match &node.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Ident(name) => match self.variable(name) {
                Some(known) => known,
                None => self.undeclared(node, name),
            },
            Kind::Select { operand, field, test } => self.check_select(node, operand, field, *test),
            Kind::Call { function, target, args } => {
                self.check_call(node, function, target.as_deref(), args)
            }
            Kind::List(elements) => self.check_list(elements),
            Kind::Map(entries) => self.check_map(entries),
            Kind::Struct(name) => match self.variable(name) {
                Some(Type::Meta(Some(inner))) => {
                    let name = inner.declared_name();
                    self.error(node, format!("'{name}' is not a message type"));
                    Type::Error
                }
                Some(other) => {
                    self.error(node, format!("'{}' is not a type", other.declared_name()));
                    Type::Error
                }
                None => self.undeclared(node, name),
            },
            Kind::Fold(fold) => self.check_fold(fold),
            Kind::OptMap { target, variable, body, flat } => {
                self.check_opt_map(node, target, variable, body, *flat)
            }
        };
        if found.is_too_large() {
            self.error(node, "the type of this expression has too many parts".to_owned());
            found = Type::Error;
        }
        self.types[node.id] = found;
    }

    /// Returns the type of a variable, or of a type that is used as a value.
    fn variable(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, known)) = self.scopes.iter().rev().find(|(variable, _)| variable == name) {
            return Some(known.clone());
        }
        self.names
            .variable(name)
            .or_else(|| declarations::type_named(name).map(|named| Type::Meta(Some(named.into()))))
    }

    fn check_select(&mut self, node: &Node, operand: &Node, field: &str, test: bool) -> Type {
        if !test
            && let Some(name) = qualified_name(node)
            && let Some(known) = self.variable(&name)
        {
            return known;
        }
        let selected = self.field(node, operand, field, false);
        if test { Type::Bool } else { self.known(&selected) }
    }

    fn field(&mut self, node: &Node, operand: &Node, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.known(&self.type_of(operand));
        let unwrapped = operand.unwrap_optional();
        let is_optional = optional || unwrapped.is_some();
        let selected = match unwrapped.unwrap_or(&operand) {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(DEVICE) => match field {
                "driver" => Type::String,
                "allowMultipleAllocations" => Type::Bool,
                "attributes" => Type::map(Type::String, Type::map(Type::String, Type::Dyn)),
                "capacity" => Type::map(
                    Type::String,
                    Type::map(Type::String, Type::Object("kubernetes.Quantity")),
                ),
                _ => {
                    self.error(node, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Object(name) => {
                let found = match self.names {
                    Names::Facts(environment) if !name.starts_with("kubernetes.") => {
                        environment.field(name, field)
                    }
                    _ => Err(format!("unexpected failed resolution of '{name}'")),
                };
                found.unwrap_or_else(|message| {
                    self.error(node, message);
                    Type::Error
                })
            }
            variable @ Type::Variable(_) => {
                let variable = variable.clone();
                self.substitution.is_assignable(&Type::Dyn, &variable);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.error(node, message);
                Type::Dyn
            }
        };
        if is_optional { Type::optional(selected) } else { selected }
    }

    fn check_call(
        &mut self,
        node: &Node,
        function: &str,
        target: Option<&Node>,
        args: &[Node],
    ) -> Type {
        if let ("_?._", [operand, field]) = (function, args)
            && let Kind::Literal(Literal::String(name)) = &field.kind
        {
            self.types[field.id] = Type::String;
            let selected = self.field(node, operand, name, true);
            return self.known(&selected);
        }
        for arg in args {
            self.check(arg);
        }
        let names = self.names;
        let find = |name: &str| names.function(name);
        let Some(target) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            return match find(name) {
                Some(found) => self.resolve(node, found, None, args, false),
                None => self.undeclared(node, function),
            };
        };
        if let Some(prefix) = qualified_name(target)
            && let Some(found) = find(&format!("{prefix}.{function}"))
        {
            return self.resolve(node, found, None, args, true);
        }
        let found = find(function);
        self.check(target);
        match found {
            Some(found) => self.resolve(node, found, Some(target), args, false),
            None => self.undeclared(node, function),
        }
    }

    fn resolve(
        &mut self,
        node: &Node,
        function: &'static Function,
        target: Option<&Node>,
        args: &[Node],
        is_qualified: bool,
    ) -> Type {
        let types: Vec<Type> =
            target.into_iter().chain(args).map(|arg| self.type_of(arg)).collect();
        if matches!(function.name, "_&&_" | "_||_") {
            return self.check_logic(node, function, args, &types);
        }
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in &function.overloads {
            if overload.is_member != target.is_some() || overload.args.len() != types.len() {
                continue;
            }
            let mut parameters: Vec<(char, Type)> = Vec::new();
            let substitution = &mut self.substitution;
            let mut parameter = |name| match parameters.iter().find(|(known, _)| *known == name) {
                Some((_, variable)) => variable.clone(),
                None => {
                    let variable = substitution.fresh();
                    parameters.push((name, variable.clone()));
                    variable
                }
            };
            let candidate: Vec<_> =
                overload.args.iter().map(|arg| arg.instantiate(&mut parameter)).collect();
            let candidate_result = overload.result.instantiate(&mut parameter);
            if !self.substitution.are_assignable(&types, &candidate) {
                continue;
            }
            fitting.push(overload);
            let candidate_result = self.known(&candidate_result);
            result = Some(match result {
                None => candidate_result,
                Some(first) if first == Type::Dyn || first == candidate_result => first,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            self.no_overload(node, function.name, &types, target.is_some());
            return Type::Error;
        };
        let overload = if let [only] = fitting[..] { Some(only) } else { None };
        self.overloads[node.id] = fitting;
        self.calls[node.id] = Some(Resolved { function, overload, is_qualified });
        result
    }

    fn check_logic(
        &mut self,
        node: &Node,
        function: &'static Function,
        args: &[Node],
        types: &[Type],
    ) -> Type {
        let mut result = Type::Bool;
        for (arg, found) in args.iter().zip(types) {
            if !self.substitution.is_assignable(found, &Type::Bool) {
                self.mismatch(arg, &Type::Bool, found);
                result = Type::Error;
            }
        }
        let overload = function.overloads.first();
        self.calls[node.id] = Some(Resolved { function, overload, is_qualified: false });
        result
    }

    fn no_overload(&mut self, node: &Node, function: &str, types: &[Type], is_member: bool) {
        let mut printed = types.iter().map(|it| self.substitution.apply(it, true).to_string());
        let target = if is_member { printed.next() } else { None };
        let target = target.map_or(String::new(), |target| format!("{target}."));
        let args: Vec<_> = printed.collect();
        let signature = format!("{target}({})", args.join(", "));
        self.error(
            node,
            format!("found no matching overload for '{function}' applied to '{signature}'"),
        );
    }

    fn mismatch(&mut self, node: &Node, expected: &Type, found: &Type) {
        self.error(node, format!("expected type '{expected}' but found '{found}'"));
    }

    /// Returns the common type of elements.
    fn join(&mut self, node: &Node, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.substitution.is_assignable(&previous, &current) {
            return most_general(previous, current);
        }
        self.mismatch(node, &previous, &current);
        Type::Error
    }

    /// Returns the type of an optional element or entry.
    fn unwrapped(&mut self, node: &Node) -> Type {
        let found = self.type_of(node);
        match found.unwrap_optional() {
            Some(inner) => inner.clone(),
            None => {
                if found != Type::Dyn {
                    self.mismatch(node, &Type::optional(found.clone()), &found);
                }
                found
            }
        }
    }

    fn check_list(&mut self, elements: &[(Node, bool)]) -> Type {
        let mut joined = None;
        for (element, optional) in elements {
            self.check(element);
            let found = if *optional { self.unwrapped(element) } else { self.type_of(element) };
            joined = Some(self.join(element, joined, found));
        }
        Type::list(joined.unwrap_or_else(|| self.substitution.fresh()))
    }

    fn check_map(&mut self, entries: &[(Node, Node, bool)]) -> Type {
        let (mut keys, mut values) = (None, None);
        for (key, value, optional) in entries {
            self.check(key);
            let found = self.type_of(key);
            keys = Some(self.join(key, keys, found));
            self.check(value);
            let found = if *optional { self.unwrapped(value) } else { self.type_of(value) };
            values = Some(self.join(value, values, found));
        }
        let keys = keys.unwrap_or_else(|| self.substitution.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.substitution.fresh()))
    }

    fn check_fold(&mut self, fold: &Fold) -> Type {
        self.check(&fold.range);
        self.check(&fold.initial);
        let range = self.known(&self.type_of(&fold.range));
        let accumulator = self.type_of(&fold.initial);
        let has_two = fold.second_variable.is_some();
        let (first, second) = match &range {
            Type::List(element) if has_two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.substitution.is_assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.error(&fold.range, message);
                (Type::Error, Type::Error)
            }
        };
        let scopes = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulator.clone()));
        self.scopes.push((fold.variable.clone(), first));
        if let Some(variable) = &fold.second_variable {
            self.scopes.push((variable.clone(), second));
        }
        self.check(&fold.condition);
        self.expect(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.expect(&fold.step, &accumulator);
        self.scopes.truncate(scopes + 1);
        self.check(&fold.result);
        self.scopes.truncate(scopes);
        self.known(&self.type_of(&fold.result))
    }

    fn expect(&mut self, node: &Node, expected: &Type) {
        let found = self.type_of(node);
        if !self.substitution.is_assignable(expected, &found) {
            self.mismatch(node, expected, &found);
        }
    }

    /// Checks `target.hasValue() ? optional.of(body) : optional.none()`.
    fn check_opt_map(
        &mut self,
        node: &Node,
        target: &Node,
        variable: &str,
        body: &Node,
        flat: bool,
    ) -> Type {
        self.check(target);
        let found = self.known(&self.type_of(target));
        let inner = match &found {
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Variable(_) => {
                let inner = self.substitution.fresh();
                let optional = Type::optional(inner.clone());
                self.substitution.is_assignable(&found, &optional);
                inner
            }
            other => match other.unwrap_optional() {
                Some(inner) => inner.clone(),
                None => {
                    for function in ["hasValue", "value"] {
                        self.no_overload(node, function, std::slice::from_ref(&found), true);
                    }
                    Type::Error
                }
            },
        };
        self.scopes.push((variable.to_owned(), inner));
        self.check(body);
        self.scopes.pop();
        let found = self.type_of(body);
        if !flat {
            return Type::optional(found);
        }
        let some = Type::optional(self.substitution.fresh());
        if !self.substitution.is_assignable(&found, &some) {
            let none = self.known(&some);
            self.no_overload(node, "_?_:_", &[Type::Bool, found, none], false);
            return Type::Error;
        }
        self.known(&found)
    }
}
