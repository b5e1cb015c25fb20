//! Macros: calls that are replaced while parsing.

use crate::syntax::{Builder, Fold, Kind, Literal, Node};

/// The accumulator of a fold. No identifier can begin with this character.
pub(crate) const ACCUMULATOR: &str = "@result";
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";

/// Returns the call, or what replaces it if it is a macro.
pub(crate) fn expand(
    builder: &mut Builder<'_>,
    offset: usize,
    function: String,
    target: Option<Node>,
    args: Vec<Node>,
) -> Node {
    let mut call = Call { builder, offset };
    let target = match target {
        None => match (function.as_str(), <[Node; 1]>::try_from(args)) {
            ("has", Ok([operand])) => return call.has(operand),
            (_, Ok(args)) => return call.plain(function, None, args.into()),
            (_, Err(args)) => return call.plain(function, None, args),
        },
        Some(target) => target,
    };
    let Some(expansion) = Macro::find(&function, &target, args.len()) else {
        return call.plain(function, Some(target), args);
    };
    call.receiver(expansion, target, args)
}

/// A macro that is called on a target.
#[derive(Clone, Copy)]
enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    OptMap { flat: bool },
    Bind,
    SortBy,
}

impl Macro {
    fn find(function: &str, target: &Node, args: usize) -> Option<Self> {
        Some(match (function, args) {
            ("all", 2 | 3) => Self::All,
            ("exists", 2 | 3) => Self::Exists,
            ("exists_one" | "existsOne", 2 | 3) => Self::ExistsOne,
            ("map", 2 | 3) => Self::Map,
            ("filter", 2) => Self::Filter,
            ("transformList", 3 | 4) => Self::TransformList,
            ("transformMap", 3 | 4) => Self::TransformMap,
            ("transformMapEntry", 3 | 4) => Self::TransformMapEntry,
            ("optMap", 2) => Self::OptMap { flat: false },
            ("optFlatMap", 2) => Self::OptMap { flat: true },
            ("bind", 3) if matches!(&target.kind, Kind::Ident(name) if name == "cel") => Self::Bind,
            ("sortBy", 2) => Self::SortBy,
            _ => return None,
        })
    }

    /// Returns how many of the arguments are names of variables.
    fn variables(self, args: usize) -> usize {
        match self {
            Self::All | Self::Exists | Self::ExistsOne => args - 1,
            Self::TransformList | Self::TransformMap | Self::TransformMapEntry => 2,
            Self::Map | Self::Filter | Self::OptMap { .. } | Self::Bind | Self::SortBy => 1,
        }
    }

    /// Returns the error about an argument that is not a name.
    fn no_name(self) -> &'static str {
        match self {
            Self::Map | Self::Filter | Self::SortBy => "argument is not an identifier",
            Self::OptMap { flat: false } => "optMap() variable name must be a simple identifier",
            Self::OptMap { flat: true } => "optFlatMap() variable name must be a simple identifier",
            Self::Bind => "cel.bind() variable names must be simple identifiers",
            _ => "argument must be a simple name",
        }
    }
}

/// The work of a macro for each element of a range.
struct Each {
    range: Node,
    variable: String,
    second_variable: Option<String>,
    filter: Option<Node>,
    body: Node,
}

/// A call that is being replaced. The parts of the replacement are at its place.
struct Call<'b, 't> {
    builder: &'b mut Builder<'t>,
    offset: usize,
}

impl Call<'_, '_> {
    fn node(&mut self, kind: Kind) -> Node {
        self.builder.node(self.offset, kind)
    }

    fn literal(&mut self, literal: Literal) -> Node {
        self.node(Kind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Node {
        self.node(Kind::Ident(name.to_owned()))
    }

    fn accumulator(&mut self) -> Node {
        self.ident(ACCUMULATOR)
    }

    fn plain(&mut self, function: String, target: Option<Node>, args: Vec<Node>) -> Node {
        self.node(Kind::Call { function, target: target.map(Box::new), args })
    }

    fn call(&mut self, function: &str, args: Vec<Node>) -> Node {
        self.plain(function.to_owned(), None, args)
    }

    fn list(&mut self, elements: Vec<Node>) -> Node {
        self.node(Kind::List(elements.into_iter().map(|element| (element, false)).collect()))
    }

    fn has(&mut self, operand: Node) -> Node {
        match operand.kind {
            Kind::Select { operand, field, test: false } => {
                self.node(Kind::Select { operand, field, test: true })
            }
            _ => {
                self.builder.error(operand.offset, "invalid argument to has() macro");
                self.literal(Literal::Null)
            }
        }
    }

    fn receiver(&mut self, expansion: Macro, target: Node, mut args: Vec<Node>) -> Node {
        let rest = args.split_off(expansion.variables(args.len()));
        let mut names = Vec::new();
        for arg in args {
            match arg.kind {
                Kind::Ident(name) => names.push(name),
                _ => {
                    self.builder.error(arg.offset, expansion.no_name());
                    return self.literal(Literal::Null);
                }
            }
        }
        let mut names = names.into_iter();
        let variable = names.next().unwrap_or_default();
        let second = names.next();
        if second.as_ref() == Some(&variable) {
            self.builder.error(self.offset, format!("duplicate variable name: {variable}"));
        }
        let mut rest = rest.into_iter();
        let (Some(first), other) = (rest.next(), rest.next()) else {
            return self.literal(Literal::Null);
        };
        // With a filter, the transformation comes last.
        let (filter, body) = match other {
            Some(body) => (Some(first), body),
            None => (None, first),
        };
        match expansion {
            Macro::OptMap { flat } => {
                let (target, body) = (Box::new(target), Box::new(body));
                self.node(Kind::OptMap { target, variable, body, flat })
            }
            Macro::Bind => match filter {
                Some(value) => self.bind(variable, value, body),
                None => body,
            },
            Macro::SortBy => self.sort_by(variable, target, body),
            _ => {
                let second_variable = second;
                let each = Each { range: target, variable, second_variable, filter, body };
                self.fold(expansion, each)
            }
        }
    }

    fn fold(&mut self, expansion: Macro, each: Each) -> Node {
        let Each { range, variable, second_variable, filter, body } = each;
        let accumulator = self.accumulator();
        let (initial, condition, step) = match expansion {
            Macro::All => {
                let condition = self.call("@not_strictly_false", vec![accumulator]);
                let args = vec![self.accumulator(), body];
                (self.literal(Literal::Bool(true)), condition, self.call("_&&_", args))
            }
            Macro::Exists => {
                let not = self.call("!_", vec![accumulator]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let args = vec![self.accumulator(), body];
                (self.literal(Literal::Bool(false)), condition, self.call("_||_", args))
            }
            Macro::ExistsOne => {
                let one = self.literal(Literal::Int(1));
                let more = self.call("_+_", vec![accumulator, one]);
                let step = self.when(Some(body), more);
                (self.literal(Literal::Int(0)), self.literal(Literal::Bool(true)), step)
            }
            Macro::TransformMap => {
                let key = self.ident(&variable);
                let more = self.call("cel.@mapInsert", vec![accumulator, key, body]);
                let step = self.when(filter, more);
                (self.node(Kind::Map(Vec::new())), self.literal(Literal::Bool(true)), step)
            }
            Macro::TransformMapEntry => {
                let more = self.call("cel.@mapInsert", vec![accumulator, body]);
                let step = self.when(filter, more);
                (self.node(Kind::Map(Vec::new())), self.literal(Literal::Bool(true)), step)
            }
            Macro::Filter => {
                let element = self.ident(&variable);
                let element = self.list(vec![element]);
                let more = self.call("_+_", vec![accumulator, element]);
                let step = self.when(Some(body), more);
                (self.list(Vec::new()), self.literal(Literal::Bool(true)), step)
            }
            _ => {
                let element = self.list(vec![body]);
                let more = self.call("_+_", vec![accumulator, element]);
                let step = self.when(filter, more);
                (self.list(Vec::new()), self.literal(Literal::Bool(true)), step)
            }
        };
        let result = self.accumulator();
        let result = match expansion {
            Macro::ExistsOne => {
                let one = self.literal(Literal::Int(1));
                self.call("_==_", vec![result, one])
            }
            _ => result,
        };
        let accumulator = ACCUMULATOR.to_owned();
        self.node(Kind::Fold(Box::new(Fold {
            range,
            variable,
            second_variable,
            accumulator,
            initial,
            condition,
            step,
            result,
        })))
    }

    /// Returns `filter ? step : accumulator`.
    fn when(&mut self, filter: Option<Node>, step: Node) -> Node {
        match filter {
            Some(filter) => {
                let unchanged = self.accumulator();
                self.call("_?_:_", vec![filter, step, unchanged])
            }
            None => step,
        }
    }

    /// Returns a fold over nothing whose accumulator is the variable.
    fn bind(&mut self, accumulator: String, initial: Node, result: Node) -> Node {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&accumulator);
        let variable = UNUSED.to_owned();
        self.node(Kind::Fold(Box::new(Fold {
            range,
            variable,
            second_variable: None,
            accumulator,
            initial,
            condition,
            step,
            result,
        })))
    }

    fn sort_by(&mut self, variable: String, target: Node, key: Node) -> Node {
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct(_)) {
            self.builder.error(
                target.offset,
                "sortBy can only be applied to a list, identifier, comprehension, call or select \
                 expression",
            );
        }
        let input = self.ident(SORT_INPUT);
        let each = Each { range: input, variable, second_variable: None, filter: None, body: key };
        let keys = self.fold(Macro::Map, each);
        let input = self.ident(SORT_INPUT);
        let sorted = self.plain("@sortByAssociatedKeys".to_owned(), Some(input), vec![keys]);
        self.bind(SORT_INPUT.to_owned(), target, sorted)
    }
}
