//! What stands in `#[record(..)]` and on a record's fields, and what of it does not go together.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Field, Lit, LitInt, LitStr, Meta, Path, Result, Token};

use crate::function::Refusals;
use crate::spans::generated_at;

/// The arguments of `#[record(..)]`.
#[derive(Default)]
pub struct RecordArgs {
    pub table: Option<LitStr>,
    pub version: Option<LitInt>,
    /// `upgrade(1 = function, ..)`, by version.
    pub upgrades: Vec<(LitInt, Path)>,
}

impl RecordArgs {
    pub fn of(attrs: &[Attribute], refusals: &mut Refusals) -> RecordArgs {
        let mut args = RecordArgs::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("record")) {
            let read = attr.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                match name.as_str() {
                    "table" => {
                        let table: LitStr = meta.value()?.parse()?;
                        if table.value().is_empty() {
                            return Err(Error::new_spanned(table, "a table has a name"));
                        }
                        once(&mut args.table, table)
                    }
                    "version" => {
                        let version: LitInt = meta.value()?.parse()?;
                        number(&version)?;
                        once(&mut args.version, version)
                    }
                    "upgrade" => meta.parse_nested_meta_by_number(&mut args.upgrades),
                    _ => Err(meta.error("unknown argument; `#[record]` takes `table`, `version` and `upgrade`")),
                }
            });
            if let Err(error) = read {
                refusals.combine(error);
            }
        }
        args.check(refusals);
        args
    }

    /// The version, 1 when none is given.
    pub fn version(&self) -> u32 {
        self.version.as_ref().and_then(|version| number(version).ok()).unwrap_or(1)
    }

    fn check(&self, refusals: &mut Refusals) {
        let mut seen = Vec::new();
        for (from, _) in &self.upgrades {
            match number(from) {
                Err(error) => refusals.combine(error),
                Ok(version) if version >= self.version() => refusals.add(
                    from,
                    format!("an upgrade is from an earlier version; this record is version {}", self.version()),
                ),
                Ok(version) if seen.contains(&version) => refusals.add(from, "this version has an upgrade already"),
                Ok(version) => seen.push(version),
            }
        }
    }
}

/// `upgrade(1 = f, 2 = g)`: numbers are no names, so the usual reader of lists does not take them.
trait ByNumber {
    fn parse_nested_meta_by_number(&self, into: &mut Vec<(LitInt, Path)>) -> Result<()>;
}

impl ByNumber for syn::meta::ParseNestedMeta<'_> {
    fn parse_nested_meta_by_number(&self, into: &mut Vec<(LitInt, Path)>) -> Result<()> {
        let content;
        syn::parenthesized!(content in self.input);
        let pair = |input: syn::parse::ParseStream<'_>| {
            let version = input.parse()?;
            input.parse::<Token![=]>()?;
            Ok((version, input.parse()?))
        };
        into.extend(content.parse_terminated(pair, Token![,])?);
        Ok(())
    }
}

fn once<T: ToTokens>(place: &mut Option<T>, value: T) -> Result<()> {
    if place.is_some() {
        return Err(Error::new_spanned(value, "it is given twice"));
    }
    *place = Some(value);
    Ok(())
}

fn number(literal: &LitInt) -> Result<u32> {
    match literal.base10_parse::<u32>() {
        Ok(version) if version > 0 && literal.suffix().is_empty() => Ok(version),
        _ => Err(Error::new_spanned(literal, "versions are whole numbers, 1 and up, without a suffix")),
    }
}

/// A field, and what its attributes say.
pub struct Marks<'a> {
    pub field: &'a Field,
    pub key: Option<Span>,
    pub automatic: bool,
    pub unique: Option<Span>,
    pub index: Option<Span>,
    /// The expression of its default.
    pub default: Option<TokenStream>,
    pub was: Option<LitStr>,
}

/// The default of a field's type, whose lack is told of at the attribute that asks for it.
fn of_its_type(asked: &Path) -> TokenStream {
    let place = generated_at(asked.span());
    quote_spanned! {place=> ::core::default::Default::default() }
}

const KNOWN: [&str; 5] = ["key", "unique", "index", "default", "renamed"];

impl<'a> Marks<'a> {
    pub fn of(field: &'a Field, refusals: &mut Refusals) -> Marks<'a> {
        let mut marks =
            Marks { field, key: None, automatic: false, unique: None, index: None, default: None, was: None };
        let mut seen: Vec<&Ident> = Vec::new();
        for attr in &field.attrs {
            if attr.path().is_ident("record") {
                if let Err(error) = marks.take_default(attr) {
                    refusals.combine(error);
                }
                continue;
            }
            let Some(name) = attr.path().get_ident().filter(|name| KNOWN.iter().any(|known| name == known)) else {
                continue;
            };
            if seen.contains(&name) {
                refusals.add(attr, format!("`{name}` is said twice"));
                continue;
            }
            seen.push(name);
            if let Err(error) = marks.take(name, attr) {
                refusals.combine(error);
            }
        }
        if let (Some(place), Some(_)) = (marks.index, marks.unique) {
            refusals.combine(Error::new(place, "a unique field is an index already"));
        }
        marks
    }

    /// `#[record(default)]`, `#[record(default = value)]`: for records that derive `Default`, which takes `#[default]`
    /// for itself.
    fn take_default(&mut self, attr: &Attribute) -> Result<()> {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("default") {
                return Err(meta.error("a field's `#[record]` takes `default` alone"));
            }
            let default = if meta.input.peek(Token![=]) {
                meta.value()?.parse::<Expr>()?.into_token_stream()
            } else {
                of_its_type(&meta.path)
            };
            if self.default.is_some() {
                return Err(meta.error("`default` is said twice"));
            }
            self.default = Some(default);
            Ok(())
        })
    }

    fn take(&mut self, name: &Ident, attr: &Attribute) -> Result<()> {
        match name.to_string().as_str() {
            "key" => {
                self.key = Some(name.span());
                match &attr.meta {
                    Meta::Path(_) => {}
                    Meta::List(list) => {
                        let words = list.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated)?;
                        match words.first() {
                            Some(word) if words.len() == 1 && word == "auto" => self.automatic = true,
                            _ => return Err(Error::new_spanned(&list.tokens, "a key is `#[key]` or `#[key(auto)]`")),
                        }
                    }
                    Meta::NameValue(value) => {
                        return Err(Error::new_spanned(&value.value, "a key is `#[key]` or `#[key(auto)]`"));
                    }
                }
            }
            "unique" => {
                attr.meta.require_path_only()?;
                self.unique = Some(name.span());
            }
            "index" => {
                attr.meta.require_path_only()?;
                self.index = Some(name.span());
            }
            "default" => {
                self.default = Some(match &attr.meta {
                    Meta::Path(path) => of_its_type(path),
                    Meta::NameValue(value) => value.value.to_token_stream(),
                    Meta::List(list) => list.parse_args::<Expr>()?.into_token_stream(),
                });
            }
            _ => {
                let was = match &attr.meta {
                    Meta::List(list) => list.parse_args::<LitStr>()?,
                    Meta::NameValue(value) => match &value.value {
                        Expr::Lit(ExprLit { lit: Lit::Str(was), .. }) => was.clone(),
                        other => return Err(Error::new_spanned(other, "the former name is a string")),
                    },
                    Meta::Path(path) => {
                        return Err(Error::new_spanned(path, "say the former name: `#[renamed(\"..\")]`"));
                    }
                };
                if was.value() == self.name() {
                    return Err(Error::new_spanned(was, "this is the name it has"));
                }
                self.was = Some(was);
            }
        }
        Ok(())
    }

    /// Its name, without what makes a keyword a name.
    pub fn name(&self) -> String {
        self.field.ident.as_ref().map(|name| name.unraw().to_string()).unwrap_or_default()
    }
}

/// What of several fields does not go together.
pub fn check_together(record: &Ident, columns: &[Marks<'_>], refusals: &mut Refusals) {
    let keys: Vec<&Marks<'_>> = columns.iter().filter(|marks| marks.key.is_some()).collect();
    if keys.is_empty() {
        refusals.add(record, "a record has a key: mark a field `#[key]`, or `#[key(auto)]` to be given one");
    }
    if keys.len() > 6 {
        refusals.add(record, "a key has six fields at most");
    }
    for marks in &keys {
        if marks.automatic && keys.len() > 1 {
            refusals.add(&marks.field.ident, "an automatic key has one field");
        }
        if let (1, Some(place)) = (keys.len(), marks.unique.or(marks.index)) {
            refusals.combine(Error::new(place, "the key is unique, and rows are found by it, as it is"));
        }
        if marks.default.is_some() {
            refusals.add(&marks.field.ident, "stored rows always have their key: it has no default");
        }
    }
    for (at, marks) in columns.iter().enumerate() {
        let Some(was) = &marks.was else { continue };
        let taken = |other: &Marks<'_>| {
            other.name() == was.value() || other.was.as_ref().is_some_and(|other| other.value() == was.value())
        };
        let others = columns.iter().enumerate().filter(|(other, _)| *other != at);
        if others.clone().any(|(other, marks)| marks.name() == was.value() || other < at && taken(marks)) {
            refusals.add(was, "another field has this name, or had it");
        }
    }
}
