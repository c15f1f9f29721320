//! Bodies that end in a loop without end, as those of servers do.
//!
//! Such a body has no value, so nothing tells what type the closure around it has, although a `?` in it returns errors.
//! Where a body gives nothing or a `Result`, that `?` decides which.

use syn::visit::{self, Visit};
use syn::{Expr, ExprBreak, ExprClosure, ExprLoop, ExprTry, Item, Lifetime, ReturnType, Stmt, parse_quote};

/// What a closure gives that ends in a loop without end; nothing for any other.
pub(super) fn endless(closure: &ExprClosure) -> Option<ReturnType> {
    let turn = tail(&closure.body)?;
    let mut breaks = Breaks { label: turn.label.as_ref().map(|label| &label.name), depth: 0, found: false };
    breaks.visit_block(&turn.body);
    if breaks.found {
        return None;
    }
    let mut tries = Tries(false);
    tries.visit_expr(&closure.body);
    Some(if tries.0 { parse_quote!(-> ::core::result::Result<(), _>) } else { parse_quote!(-> ()) })
}

fn tail(body: &Expr) -> Option<&ExprLoop> {
    match body {
        Expr::Loop(turn) => Some(turn),
        Expr::Block(block) => match block.block.stmts.last()? {
            Stmt::Expr(last, None) => tail(last),
            _ => None,
        },
        _ => None,
    }
}

/// Looks for a `break` out of the loop.
struct Breaks<'a> {
    label: Option<&'a Lifetime>,
    depth: usize,
    found: bool,
}

impl<'a> Visit<'a> for Breaks<'a> {
    fn visit_expr_break(&mut self, leave: &'a ExprBreak) {
        self.found |= match &leave.label {
            Some(label) => self.label == Some(label),
            None => self.depth == 0,
        };
        visit::visit_expr_break(self, leave);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Closure(_) | Expr::Async(_) | Expr::Const(_) => {}
            Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => {
                self.depth += 1;
                visit::visit_expr(self, expr);
                self.depth -= 1;
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_item(&mut self, _: &'a Item) {}
}

/// Looks for a `?` that leaves the body.
struct Tries(bool);

impl<'a> Visit<'a> for Tries {
    fn visit_expr_try(&mut self, _: &'a ExprTry) {
        self.0 = true;
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if !matches!(expr, Expr::Closure(_) | Expr::Async(_) | Expr::Const(_)) {
            visit::visit_expr(self, expr);
        }
    }

    fn visit_item(&mut self, _: &'a Item) {}
}
