//! Finds the places of a file where a mutation can be planted.

use std::mem;

use anyhow::Context;
use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, BinOp, Block, Expr, ExprBinary, ExprCall, ExprForLoop, ExprIf, ExprMethodCall,
    ExprUnary, ExprWhile, GenericArgument, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Pat,
    PathArguments, PathSegment, ReturnType, Signature, Stmt, TraitItemFn, Type, UnOp,
};

use super::mutation::{Function, Mutation, SWITCH};

/// Methods that are replaced by another one.
const METHODS: [(&str, &str); 8] = [
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("first", "last"),
    ("last", "first"),
    ("saturating_add", "saturating_sub"),
    ("saturating_sub", "saturating_add"),
];
/// Methods with an answer that is negated.
const QUESTIONS: [&str; 9] = [
    "is_some",
    "is_none",
    "is_ok",
    "is_err",
    "is_empty",
    "contains",
    "contains_key",
    "is_some_and",
    "is_none_or",
];
/// Maximum length of a quotation, in characters.
const LONGEST_QUOTATION: usize = 60;

/// Returns the mutations of a file, numbered from `first`. Constant functions, tests, patterns,
/// macros and implementations of `Display` and `Debug` have none.
///
/// # Errors
/// The text is not Rust.
pub(crate) fn plant(text: &str, first: usize) -> anyhow::Result<Vec<Mutation>> {
    let file = syn::parse_file(text).context("cannot parse it")?;
    let function = Function { name: String::new(), lines: 1..=usize::MAX };
    let owner = String::new();
    let mut planter = Planter { text, next: first, owner, function, found: Vec::new() };
    planter.visit_file(&file);
    Ok(planter.found)
}

struct Planter<'a> {
    text: &'a str,
    next: usize,
    /// The type or trait that is visited, with two colons.
    owner: String,
    /// The function that is visited.
    function: Function,
    found: Vec<Mutation>,
}

impl Planter<'_> {
    /// Adds a mutation: the texts that `insertions` returns for its switch, before and after
    /// `span`.
    fn add(
        &mut self,
        span: Span,
        change: String,
        insertions: impl FnOnce(&str) -> (String, String),
    ) {
        let (before, after) = insertions(&format!("{SWITCH}({})", self.next));
        self.found.push(Mutation {
            number: self.next,
            lines: span.start().line..=span.end().line,
            function: self.function.clone(),
            change,
            range: span.byte_range(),
            before,
            after,
        });
        self.next += 1;
    }

    /// Replaces an expression by `mutated`.
    fn replace(&mut self, expr: &impl Spanned, mutated: &str) {
        let change = format!("`{}` becomes `{}`", self.quote(expr), shorten(mutated));
        self.add(expr.span(), change, |on| {
            (format!("(if {on} {{ {mutated} }} else {{ "), " })".to_owned())
        });
    }

    /// Negates an expression.
    fn negate(&mut self, expr: &impl Spanned) {
        let change = format!("`{}` is negated", self.quote(expr));
        self.add(expr.span(), change, |on| ("(".to_owned(), format!(" != {on})")));
    }

    /// Skips a statement.
    fn delete(&mut self, statement: &impl Spanned) {
        let change = format!("`{}` is deleted", self.quote(statement));
        self.add(statement.span(), change, |on| (format!("if !{on} {{ "), " }".to_owned()));
    }

    /// Makes a condition false.
    fn refute(&mut self, condition: &Expr) {
        let change = format!("condition `{}` is false", self.quote(condition));
        let is_chain = has_let(condition);
        self.add(condition.span(), change, |on| match is_chain {
            true => (format!("!{on} && "), String::new()),
            false => (format!("(!{on} && ("), "))".to_owned()),
        });
    }

    /// Makes a condition true, unless it binds names.
    fn affirm(&mut self, condition: &Expr) {
        if !has_let(condition) {
            let change = format!("condition `{}` is true", self.quote(condition));
            self.add(condition.span(), change, |on| (format!("({on} || ("), "))".to_owned()));
        }
    }

    /// Returns from a function at its beginning, with the plainest values of its type.
    fn visit_function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        if signature.constness.is_some() || is_test(attributes) {
            return;
        }
        let lines = signature.span().start().line..=body.span().end().line;
        let function = Function { name: format!("{}{}", self.owner, signature.ident), lines };
        let outer = mem::replace(&mut self.function, function);
        for value in plain_values(&signature.output, body) {
            let change = format!("`{}` returns{value} at once", signature.ident);
            self.add(body.brace_token.span.open(), change, |on| {
                (String::new(), format!(" if {on} {{ return{value}; }}"))
            });
        }
        self.visit_block(body);
        self.function = outer;
    }

    /// Returns the source text in one line.
    fn quote(&self, part: &impl Spanned) -> String {
        shorten(&self.text[part.span().byte_range()])
    }
}

impl<'ast> Visit<'ast> for Planter<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        let name = block.trait_.as_ref().and_then(|(path, _)| path.segments.last());
        let is_text = name.is_some_and(|name| name.ident == "Display" || name.ident == "Debug");
        if !is_text && !is_test(&block.attrs) {
            let owner = mem::replace(&mut self.owner, owner(&block.self_ty));
            visit::visit_item_impl(self, block);
            self.owner = owner;
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.visit_function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.visit_function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let owner = mem::replace(&mut self.owner, format!("{}::", item.ident));
        visit::visit_item_trait(self, item);
        self.owner = owner;
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.visit_function(&function.attrs, &function.sig, body);
        }
    }

    // What follows is not evaluated when the program runs.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, _: &'ast syn::ExprRepeat) {}
    fn visit_generic_argument(&mut self, _: &'ast GenericArgument) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_pat(&mut self, pattern: &'ast Pat) {
        if let Pat::Guard(guarded) = pattern {
            self.affirm(&guarded.guard);
            self.refute(&guarded.guard);
            self.visit_expr(&guarded.guard);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        for (number, statement) in block.stmts.iter().enumerate() {
            let is_last = number + 1 == block.stmts.len();
            match statement {
                Stmt::Expr(
                    Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Macro(_),
                    _,
                ) => {}
                Stmt::Expr(_, Some(_)) | Stmt::Expr(Expr::ForLoop(_), None) => {
                    self.delete(statement);
                }
                Stmt::Expr(Expr::Match(_), None) if !is_last => self.delete(statement),
                _ => {}
            }
            self.visit_stmt(statement);
        }
    }

    fn visit_expr_if(&mut self, branch: &'ast ExprIf) {
        self.affirm(&branch.cond);
        self.refute(&branch.cond);
        visit::visit_expr_if(self, branch);
    }

    fn visit_expr_while(&mut self, repeated: &'ast ExprWhile) {
        self.refute(&repeated.cond);
        visit::visit_expr_while(self, repeated);
    }

    fn visit_expr_for_loop(&mut self, repeated: &'ast ExprForLoop) {
        self.visit_expr(&repeated.expr);
        self.visit_block(&repeated.body);
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        if let Some(operator) = other_operator(&expr.op)
            && !has_let(&expr.left)
            && !has_let(&expr.right)
        {
            let (left, right) = (expr.left.to_token_stream(), expr.right.to_token_stream());
            let is_assignment = matches!(expr.op, BinOp::AddAssign(_) | BinOp::SubAssign(_));
            let mutated = match is_assignment {
                true => format!("{left} {operator} {right}"),
                false => format!("({left}) {operator} ({right})"),
            };
            self.replace(expr, &mutated);
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast ExprUnary) {
        if matches!(expr.op, UnOp::Not(_)) {
            self.replace(expr, &expr.expr.to_token_stream().to_string());
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if matches!(&*call.func, Expr::Path(function) if function.path.is_ident("Some")) {
            self.replace(call, "None");
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        if QUESTIONS.contains(&name.as_str()) {
            self.negate(call);
        }
        if let Some((_, other)) = METHODS.iter().find(|(method, _)| *method == name) {
            let (receiver, arguments) = (&call.receiver, &call.args);
            let (receiver, arguments) = (receiver.to_token_stream(), arguments.to_token_stream());
            self.replace(call, &format!("{receiver}.{other}({arguments})"));
        }
        visit::visit_expr_method_call(self, call);
    }
}

const fn other_operator(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        _ => return None,
    })
}

/// Returns what can follow `return` in a function of this type, with the space between.
fn plain_values(output: &ReturnType, body: &Block) -> &'static [&'static str] {
    let ReturnType::Type(_, output) = output else {
        // The deletion of a single statement is planted anyway.
        return if body.stmts.len() > 1 { &[""] } else { &[] };
    };
    let Type::Path(path) = &**output else { return &[] };
    let Some(name) = path.path.segments.last() else { return &[] };
    match name.ident.to_string().as_str() {
        "bool" => &[" true", " false"],
        "Option" => &[" None"],
        "Vec" => &[" Vec::new()"],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "i128" => &[" 0"],
        "Result" if is_unit(name) => &[" Ok(())"],
        _ => &[],
    }
}

/// Returns the name of a type, with two colons.
fn owner(owner: &Type) -> String {
    let Type::Path(path) = owner else { return String::new() };
    path.path.segments.last().map_or_else(String::new, |name| format!("{}::", name.ident))
}

/// Whether the first argument of a generic type is `()`.
fn is_unit(name: &PathSegment) -> bool {
    let PathArguments::AngleBracketed(arguments) = &name.arguments else { return false };
    let first = arguments.args.first();
    matches!(first, Some(GenericArgument::Type(Type::Tuple(tuple))) if tuple.elems.is_empty())
}

/// Whether a condition binds names.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => {
            has_let(left) || has_let(right)
        }
        _ => false,
    }
}

/// Whether an item is part of tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let condition = || attribute.meta.to_token_stream().to_string().replace(' ', "");
        path.is_ident("test") || path.is_ident("cfg") && condition() == "cfg(test)"
    })
}

/// Returns the text in one line, cut if it is long.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_QUOTATION) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::super::mutation::rewrite;
    use super::plant;

    /// Returns the text with all its mutations, and what each does.
    fn planted(text: &str) -> (String, Vec<String>) {
        let mutations = plant(text, 1).unwrap();
        let rewritten = rewrite(text, &mutations);
        syn::parse_file(&rewritten).unwrap();
        assert_eq!(rewritten.lines().count(), text.lines().count(), "lines keep their numbers");
        (rewritten, mutations.into_iter().map(|mutation| mutation.change).collect())
    }

    #[track_caller]
    fn expect(text: &str, rewritten: &str, changes: &[&str]) {
        assert_eq!(
            planted(text),
            (rewritten.to_owned(), changes.iter().map(|&s| s.to_owned()).collect())
        );
    }

    #[test]
    fn comparison_moves_its_bound() {
        expect(
            "fn f(a: u8) -> X { X(a < 3) }",
            "fn f(a: u8) -> X { X((if crate::mutant(1) { (a) <= (3) } else { a < 3 })) }",
            &["`a < 3` becomes `(a) <= (3)`"],
        );
    }

    #[test]
    fn mutations_nest() {
        expect(
            "fn f() -> X { X(a && b && !c) }",
            "fn f() -> X { X((if crate::mutant(1) { (a && b) || (! c) } else { \
             (if crate::mutant(2) { (a) || (b) } else { a && b }) \
             && (if crate::mutant(3) { c } else { !c }) })) }",
            &[
                "`a && b && !c` becomes `(a && b) || (! c)`",
                "`a && b` becomes `(a) || (b)`",
                "`!c` becomes `c`",
            ],
        );
    }

    #[test]
    fn condition_is_forced() {
        expect(
            "fn f() -> X { if g() { return h(); } h() }",
            "fn f() -> X { if (crate::mutant(1) || ((!crate::mutant(2) && (g())))) { return h(); } h() }",
            &["condition `g()` is true", "condition `g()` is false"],
        );
    }

    #[test]
    fn chain_with_let_is_only_made_false() {
        expect(
            "fn f() -> X { if let Some(x) = g() && x > 0 { h() } else { i() } }",
            "fn f() -> X { if !crate::mutant(1) && let Some(x) = g() && \
             (if crate::mutant(2) { (x) >= (0) } else { x > 0 }) { h() } else { i() } }",
            &["condition `let Some(x) = g() && x > 0` is false", "`x > 0` becomes `(x) >= (0)`"],
        );
    }

    #[test]
    fn guard_of_an_arm_is_a_condition() {
        expect(
            "fn f() -> X { match g() { 1 if h() => i(), _ => j() } }",
            "fn f() -> X { match g() { 1 if (crate::mutant(1) || ((!crate::mutant(2) && (h())))) => i(), _ => j() } }",
            &["condition `h()` is true", "condition `h()` is false"],
        );
    }

    #[test]
    fn statements_are_deleted() {
        expect(
            "fn f() -> X {\n    g(1,\n        2);\n    for x in y { h(x); }\n    x\n}\n",
            "fn f() -> X {\n    if !crate::mutant(1) { g(1,\n        2); }\n    \
             if !crate::mutant(2) { for x in y { if !crate::mutant(3) { h(x); } } }\n    x\n}\n",
            &["`g(1, 2);` is deleted", "`for x in y { h(x); }` is deleted", "`h(x);` is deleted"],
        );
    }

    #[test]
    fn sum_becomes_a_difference() {
        expect(
            "fn f() { self.x += a - b; }",
            "fn f() { if !crate::mutant(1) { (if crate::mutant(2) { self . x -= a - b } else { \
             self.x += (if crate::mutant(3) { (a) + (b) } else { a - b }) }); } }",
            &[
                "`self.x += a - b;` is deleted",
                "`self.x += a - b` becomes `self . x -= a - b`",
                "`a - b` becomes `(a) + (b)`",
            ],
        );
    }

    #[test]
    fn function_returns_plain_values_at_once() {
        expect(
            "fn f() -> bool { g() }",
            "fn f() -> bool { if crate::mutant(2) { return false; } if crate::mutant(1) { return true; } g() }",
            &["`f` returns true at once", "`f` returns false at once"],
        );
        expect(
            "fn f() -> Result<(), E> { g() }",
            "fn f() -> Result<(), E> { if crate::mutant(1) { return Ok(()); } g() }",
            &["`f` returns Ok(()) at once"],
        );
    }

    #[test]
    fn some_becomes_none() {
        expect(
            "fn f() -> X { g(Some(1)) }",
            "fn f() -> X { g((if crate::mutant(1) { None } else { Some(1) })) }",
            &["`Some(1)` becomes `None`"],
        );
    }

    #[test]
    fn questions_are_negated_and_methods_replaced() {
        expect(
            "fn f() -> X { g(a.is_empty(), b.min(c)) }",
            "fn f() -> X { g((a.is_empty() != crate::mutant(1)), \
             (if crate::mutant(2) { b.max(c) } else { b.min(c) })) }",
            &["`a.is_empty()` is negated", "`b.min(c)` becomes `b.max(c)`"],
        );
    }

    #[test]
    fn constants_tests_macros_and_patterns_are_left_alone() {
        let text = "const X: usize = 1 + 2;\n\
            const fn f(a: bool) -> bool { !a }\n\
            #[cfg(test)] mod tests { fn g() -> bool { !a } }\n\
            impl fmt::Debug for X { fn fmt(&self) -> Y { y(!a) } }\n\
            fn h(x: [u8; 1 + 1]) -> Y { assert!(a < b); match x { 0..=3 => j, _ => k } }\n";
        expect(text, text, &[]);
    }

    #[test]
    fn text_outside_ascii_keeps_its_place() {
        let text = "fn f() -> X { /* é → */ g(\"ü\", !a) }";
        let rewritten =
            "fn f() -> X { /* é → */ g(\"ü\", (if crate::mutant(1) { a } else { !a })) }";
        expect(text, rewritten, &["`!a` becomes `a`"]);
    }
}
