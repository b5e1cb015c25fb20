//! Expressions as trees.

use cel_parser::Env;
use cel_parser::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, SourceInfo};

use crate::macros;
use crate::nesting;
use crate::source::{self, Issue};

/// A part of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The number of the part in its expression.
    pub(crate) id: usize,
    /// The byte at which it begins.
    pub(crate) offset: usize,
    pub(crate) kind: Kind,
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// The kind of a part of an expression.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        operand: Box<Node>,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Node>>,
        args: Vec<Node>,
    },
    /// Elements; an optional element is left out if it has no value.
    List(Vec<(Node, bool)>),
    /// Keys, values and whether the entry is optional.
    Map(Vec<(Node, Node, bool)>),
    /// `name{…}`, which no type of the environment supports.
    Struct(String),
    Fold(Box<Fold>),
    /// `target.optMap(variable, body)`, or `optFlatMap`.
    OptMap {
        target: Box<Node>,
        variable: String,
        body: Box<Node>,
        flat: bool,
    },
}

/// A loop over a list or a map, which all other macros become.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) variable: String,
    pub(crate) second_variable: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) initial: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// An expression whose macros are expanded.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Node,
    /// The number of parts.
    pub(crate) size: usize,
}

/// Parses an expression, which [`nesting::check`] has accepted, and expands its macros.
pub(crate) fn parse(text: &str) -> Result<Tree, Vec<Issue>> {
    let parsed =
        Env::default().parser().max_recursion_depth(PARSER_DEPTH).parse_with_source_info(text);
    let (expression, positions) = parsed.map_err(|errors| {
        let issue = |error: cel_parser::ParseError| Issue {
            place: Some((error.pos.0.max(1) as usize, error.pos.1.max(1) as usize)),
            message: error.msg,
        };
        let mut issues: Vec<_> = errors.errors.into_iter().map(issue).collect();
        // Errors that follow from an error of the syntax are not reported.
        if issues.iter().any(is_syntax_error) {
            issues.retain(is_syntax_error);
        }
        issues
    })?;
    let mut builder = Builder { text, positions, next: 0, depth: 0, issues: Vec::new() };
    let root = builder.convert(expression);
    if builder.issues.is_empty() {
        Ok(Tree { root, size: builder.next })
    } else {
        Err(builder.issues)
    }
}

fn is_syntax_error(issue: &Issue) -> bool {
    issue.message.starts_with("Syntax error")
}

/// The limit of the parser, above our own.
const PARSER_DEPTH: u16 = 1000;

/// Makes nodes.
pub(crate) struct Builder<'t> {
    text: &'t str,
    positions: SourceInfo,
    next: usize,
    /// How many parts that the reference counts are around the current one.
    depth: usize,
    issues: Vec<Issue>,
}

impl Builder<'_> {
    /// Returns a node at a place of the text.
    pub(crate) fn node(&mut self, offset: usize, kind: Kind) -> Node {
        let id = self.next;
        self.next += 1;
        Node { id, offset, kind }
    }

    /// Notes an error.
    pub(crate) fn error(&mut self, offset: usize, message: impl Into<String>) {
        let place = Some(source::place(self.text, offset));
        self.issues.push(Issue { place, message: message.into() });
    }

    fn convert(&mut self, expression: IdedExpr) -> Node {
        let is_counted = is_counted(&expression.expr);
        self.depth += usize::from(is_counted);
        let node = if self.depth > nesting::MOST_NESTED {
            let is_known = self.issues.iter().any(|issue| issue.message == nesting::TOO_DEEP);
            if !is_known {
                let message = nesting::TOO_DEEP.to_owned();
                self.issues.push(Issue { place: None, message });
            }
            self.node(0, Kind::Literal(Literal::Null))
        } else {
            self.convert_part(expression)
        };
        self.depth -= usize::from(is_counted);
        node
    }

    fn convert_part(&mut self, expression: IdedExpr) -> Node {
        let offset =
            self.positions.offset_for(expression.id).map_or(0, |(start, _)| start as usize);
        let kind = match expression.expr {
            Expr::Literal(literal) => Kind::Literal(convert_literal(&literal)),
            Expr::Ident(name) => Kind::Ident(name),
            Expr::Select(select) => Kind::Select {
                operand: Box::new(self.convert(*select.operand)),
                field: select.field,
                test: select.test,
            },
            Expr::Call(call) => {
                let target = call.target.map(|target| self.convert(*target));
                let args = call.args.into_iter().map(|arg| self.convert(arg)).collect();
                return macros::expand(self, offset, call.func_name, target, args);
            }
            Expr::List(list) => {
                let optional = list.optional_indices;
                let elements = list.elements.into_iter().enumerate();
                Kind::List(
                    elements
                        .map(|(index, element)| (self.convert(element), optional.contains(&index)))
                        .collect(),
                )
            }
            Expr::Map(map) => {
                Kind::Map(map.entries.into_iter().filter_map(|it| self.entry(it)).collect())
            }
            Expr::Struct(message) => Kind::Struct(message.type_name),
            // The parser reports an error for each of the first, and makes none of the second
            // without macros.
            Expr::Unspecified | Expr::Comprehension(_) => Kind::Literal(Literal::Null),
        };
        self.node(offset, kind)
    }

    fn entry(&mut self, entry: IdedEntryExpr) -> Option<(Node, Node, bool)> {
        match entry.expr {
            EntryExpr::MapEntry(entry) => {
                Some((self.convert(entry.key), self.convert(entry.value), entry.optional))
            }
            EntryExpr::StructField(_) => None,
        }
    }
}

/// Whether the reference counts a part when it limits how deep parts are nested: members, calls of
/// members, conditionals, relations and calculations.
fn is_counted(expression: &Expr) -> bool {
    match expression {
        Expr::Select(_) => true,
        Expr::Call(call) if call.target.is_some() => true,
        Expr::Call(call) => match call.func_name.as_str() {
            "@in" => true,
            "_&&_" | "_||_" => false,
            // The names of operators with two operands or more.
            name => {
                let mut behind = name.chars().skip_while(|char| *char == '_');
                name.starts_with('_') && behind.next().is_some_and(|char| !char.is_alphanumeric())
            }
        },
        _ => false,
    }
}

fn convert_literal(literal: &LiteralValue) -> Literal {
    match literal {
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Literal::Bytes(value.inner().to_vec()),
        LiteralValue::Double(value) => Literal::Double(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::Null => Literal::Null,
        LiteralValue::String(value) => Literal::String(value.inner().to_owned()),
        LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
    }
}
