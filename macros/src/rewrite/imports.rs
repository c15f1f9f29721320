//! Whose function a plain name is, as far as its body tells: `wo`'s, so that a closure given to it becomes a fiber or a
//! part of this one, or another's.
//!
//! A macro sees the body it stands on and nothing else: a `use`, a nested function, a variable or a parameter in there
//! says what a name means from then on, until its block ends. Of what is imported outside it goes by the name alone,
//! where [`names`] takes that for enough.

use syn::{Block, Ident, Item, Pat, Path, Stmt, UseTree};

use crate::names::{self, Takes};

/// The names told of where the walk stands, the innermost last, and what the functions take.
#[derive(Default)]
pub(super) struct Imports(Vec<(Ident, Option<Takes>)>);

impl Imports {
    /// A block or a closure begins.
    pub(super) fn enter(&self) -> usize {
        self.0.len()
    }

    /// It ends.
    pub(super) fn leave(&mut self, outside: usize) {
        self.0.truncate(outside);
    }

    /// The items of a block, which have their names in all of it.
    pub(super) fn items(&mut self, block: &Block) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Item(Item::Use(item)) => self.import(&item.tree, &mut Vec::new()),
                Stmt::Item(Item::Fn(item)) => self.others(&item.sig.ident),
                _ => {}
            }
        }
    }

    /// A variable or a parameter; only a plain name can be called.
    pub(super) fn variable(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Ident(pattern) => self.others(&pattern.ident),
            Pat::Type(typed) => self.variable(&typed.pat),
            _ => {}
        }
    }

    /// What becomes of closures given to this function; nothing where it is none of wo's.
    pub(super) fn takes(&self, function: &Path) -> Option<Takes> {
        let mut segments = function.segments.iter().map(|segment| &segment.ident);
        match (segments.next(), segments.next(), segments.next()) {
            (Some(krate), Some(name), None) if krate == "wo" => names::takes(name),
            (Some(name), None, None) => match self.0.iter().rev().find(|(known, _)| known == name) {
                Some((_, takes)) => *takes,
                None => names::takes_unprefixed(name),
            },
            _ => None,
        }
    }

    fn import<'a>(&mut self, tree: &'a UseTree, path: &mut Vec<&'a Ident>) {
        match tree {
            UseTree::Path(part) => {
                path.push(&part.ident);
                self.import(&part.tree, path);
                path.pop();
            }
            UseTree::Name(name) => self.imported(&name.ident, &name.ident, path),
            UseTree::Rename(renamed) => self.imported(&renamed.ident, &renamed.rename, path),
            UseTree::Group(group) => group.items.iter().for_each(|one| self.import(one, path)),
            // What it brings in is not to be seen here.
            UseTree::Glob(_) => {}
        }
    }

    fn imported(&mut self, name: &Ident, called: &Ident, path: &[&Ident]) {
        match path {
            [krate] if *krate == "wo" => match names::takes(name) {
                Some(takes) => self.0.push((called.clone(), Some(takes))),
                None => self.others(called),
            },
            _ => self.others(called),
        }
    }

    /// One that is none of wo's matters only where its name is.
    fn others(&mut self, name: &Ident) {
        if names::takes_unprefixed(name).is_some() || self.0.iter().any(|(known, _)| known == name) {
            self.0.push((name.clone(), None));
        }
    }
}
