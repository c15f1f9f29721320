//! Turns the body of a plain function into the body of a future.
//!
//! One walk over the syntax tree does three things: it settles every call ([`calls`]), puts the budget check at
//! the head of every loop body ([`loops`]), and makes `async` the closures that wo runs as fibers ([`closures`]).
//! Arguments of the macros of `std` are walked too ([`macros`]). The walk stops wherever an await would not
//! belong to this body, or could not stand at all: at nested items, at `async` and `const` blocks, at patterns,
//! types, paths and attributes. Other closures are plain; in them nothing is rewritten but the closures that wo runs
//! as fibers.

mod calls;
mod closures;
mod endless;
mod imports;
mod loops;
mod macros;
mod scopes;

use proc_macro2::Span;
use syn::visit_mut::{self, VisitMut};
use syn::{Arm, Attribute, Block, Expr, FnArg, Ident, Item, Local, Pat, Path, Signature, Stmt, Type};

use imports::Imports;
use scopes::Scopes;

/// Rewrites `block`, the body of the function with this signature. Calls of its own name may be recursive, so the
/// futures they give are boxed; those of `main` are not.
pub fn body(block: &mut Block, sig: &Signature) {
    let mut rewriter = Rewriter {
        own_name: if sig.ident == "main" { None } else { Some(&sig.ident) },
        settled: 0,
        plain: false,
        scopes: Scopes::default(),
        imports: Imports::default(),
    };
    for parameter in &sig.inputs {
        if let FnArg::Typed(parameter) = parameter {
            rewriter.scopes.typed(&parameter.pat, &parameter.ty);
            rewriter.imports.variable(&parameter.pat);
        }
    }
    rewriter.visit_block_mut(block);
}

/// The walk. `settled` counts the calls it has made awaitable so far, and the fibers it has made, so that whoever
/// rewrites a copy of something can tell whether anything changed.
struct Rewriter<'a> {
    own_name: Option<&'a Ident>,
    settled: usize,
    /// In a plain closure, where nothing can be awaited.
    plain: bool,
    scopes: Scopes,
    imports: Imports,
}

impl Rewriter<'_> {
    fn check_budget(&self, body: &mut Block, keyword: Span) {
        if !self.plain {
            loops::check_budget(body, keyword);
        }
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Async(_) | Expr::Const(_) => {}
            Expr::Closure(closure) => closures::leave_plain(self, closure),
            Expr::Call(call) if self.plain => self.callee_and_arguments(call),
            Expr::Call(call) => {
                if let Some(settling) = self.function_call(call) {
                    settling.apply(expr);
                }
            }
            Expr::MethodCall(call) if self.plain => self.receiver_and_arguments(call),
            Expr::MethodCall(call) => {
                if let Some(settling) = self.method_call(call) {
                    settling.apply(expr);
                }
            }
            Expr::Await(wait) => self.awaited(&mut wait.base),
            Expr::Reference(reference) if !self.plain => {
                self.visit_expr_mut(&mut reference.expr);
                calls::forget_expected_type(&mut reference.expr);
            }
            Expr::Repeat(repeat) => self.visit_expr_mut(&mut repeat.expr),
            Expr::ForLoop(turn) => {
                let outside = self.imports.enter();
                self.visit_expr_mut(&mut turn.expr);
                self.imports.variable(&turn.pat);
                self.visit_block_mut(&mut turn.body);
                self.imports.leave(outside);
                self.check_budget(&mut turn.body, turn.for_token.span);
            }
            Expr::While(turn) => {
                visit_mut::visit_expr_while_mut(self, turn);
                self.check_budget(&mut turn.body, turn.while_token.span);
            }
            Expr::Loop(turn) => {
                visit_mut::visit_expr_loop_mut(self, turn);
                self.check_budget(&mut turn.body, turn.loop_token.span);
            }
            Expr::Macro(call) => match self.shown(&call.mac) {
                Some(shown) => *expr = shown,
                None => self.std_macro(&mut call.mac),
            },
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        let outside = (self.scopes.enter(), self.imports.enter());
        self.imports.items(block);
        visit_mut::visit_block_mut(self, block);
        self.scopes.leave(outside.0);
        self.imports.leave(outside.1);
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        let variable = self.scopes.variable(local);
        visit_mut::visit_local_mut(self, local);
        if let Some((name, is_scope)) = variable {
            self.scopes.add(name, is_scope);
        }
        self.imports.variable(&local.pat);
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        match stmt {
            Stmt::Macro(call) => match self.shown(&call.mac) {
                Some(shown) => *stmt = Stmt::Expr(shown, call.semi_token),
                None => self.std_macro(&mut call.mac),
            },
            _ => visit_mut::visit_stmt_mut(self, stmt),
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        if let Some((_, guard)) = &mut arm.guard {
            self.visit_expr_mut(guard);
        }
        self.visit_expr_mut(&mut arm.body);
    }

    fn visit_attribute_mut(&mut self, _: &mut Attribute) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_path_mut(&mut self, _: &mut Path) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_angle_bracketed_generic_arguments_mut(&mut self, _: &mut syn::AngleBracketedGenericArguments) {}
}
