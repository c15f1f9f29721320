//! Which names stand for a scope, so that a closure given to `s.spawn(..)` can be told from one given to another type's
//! `spawn`.
//!
//! A macro sees no types, so it goes by where a name comes from: the parameter of a closure that is given to
//! `wo::scope`, a parameter or a `let` whose written type is called `Scope`, and a `let` that is a clone of such a name
//! or a reference to it. Names are forgotten where their block ends.

use syn::{Expr, Ident, Local, Pat, Type};

/// The names known where the walk stands, the innermost last.
#[derive(Default)]
pub(super) struct Scopes(Vec<(Ident, bool)>);

impl Scopes {
    /// A block begins.
    pub(super) fn enter(&self) -> usize {
        self.0.len()
    }

    /// It ends.
    pub(super) fn leave(&mut self, outside: usize) {
        self.0.truncate(outside);
    }

    /// This is a scope's name.
    pub(super) fn name(&mut self, pattern: &Pat) {
        if let Some(name) = plain(pattern) {
            self.0.push((name.clone(), true));
        }
    }

    /// A parameter is one if its type says so.
    pub(super) fn parameter(&mut self, pattern: &Pat) {
        if let Some(name) = plain(pattern) {
            let is_scope = matches!(pattern, Pat::Type(typed) if is_scope(&typed.ty));
            self.add(name.clone(), is_scope);
        }
    }

    /// What a parameter of a function is called, and its type.
    pub(super) fn typed(&mut self, pattern: &Pat, of_type: &Type) {
        if let Some(name) = plain(pattern) {
            self.add(name.clone(), is_scope(of_type));
        }
    }

    /// A variable is one if its type says so, or what it is made of, which is to be asked before that is rewritten.
    pub(super) fn variable(&self, local: &Local) -> Option<(Ident, bool)> {
        let name = plain(&local.pat)?.clone();
        let typed = matches!(&local.pat, Pat::Type(typed) if is_scope(&typed.ty));
        let made = local.init.as_ref().is_some_and(|init| self.gives(&init.expr));
        Some((name, typed || made))
    }

    /// Whether this expression is a scope: a name of one, a reference to it, or its clone.
    pub(super) fn gives(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| self.knows(name)),
            Expr::Reference(reference) => self.gives(&reference.expr),
            Expr::Paren(inner) => self.gives(&inner.expr),
            Expr::MethodCall(call) => call.method == "clone" && call.args.is_empty() && self.gives(&call.receiver),
            _ => false,
        }
    }

    fn knows(&self, name: &Ident) -> bool {
        self.0.iter().rev().find(|(known, _)| known == name).is_some_and(|(_, is_scope)| *is_scope)
    }

    /// A name that is none matters only where it hides one.
    pub(super) fn add(&mut self, name: Ident, is_scope: bool) {
        if is_scope || self.knows(&name) {
            self.0.push((name, is_scope));
        }
    }
}

fn plain(pattern: &Pat) -> Option<&Ident> {
    match pattern {
        Pat::Ident(pattern) if pattern.subpat.is_none() => Some(&pattern.ident),
        Pat::Type(typed) => plain(&typed.pat),
        _ => None,
    }
}

/// `Scope`, `wo::Scope<E>`, `&Scope`; but not `std::thread::Scope`.
fn is_scope(of_type: &Type) -> bool {
    match of_type {
        Type::Path(path) => {
            let segments = &path.path.segments;
            segments.last().is_some_and(|last| last.ident == "Scope")
                && segments.first().is_some_and(|first| segments.len() == 1 || first.ident == "wo")
        }
        Type::Reference(reference) => is_scope(&reference.elem),
        Type::Paren(inner) => is_scope(&inner.elem),
        Type::Group(inner) => is_scope(&inner.elem),
        _ => false,
    }
}
