//! `#[derive(wo::Record)]` and `#[derive(wo::Field)]`: rows of a table, and what may stand in their fields.
//!
//! Both only write down, field by field, what the traits ask for. Everything that is wrong is told where it stands, all
//! of it at once; what only types can tell is left to bounds whose messages are worded for people.

mod attributes;
mod field;
mod generate;

use proc_macro2::TokenStream;
use syn::{Data, DeriveInput, Error, Fields, Result};

use crate::function::Refusals;
use crate::record::attributes::{Marks, RecordArgs};

/// Expands `#[derive(wo::Record)]` for `item`.
pub fn expand(item: TokenStream) -> TokenStream {
    syn::parse2(item).and_then(|input| record(&input)).unwrap_or_else(|error| error.to_compile_error())
}

/// Expands `#[derive(wo::Field)]` for `item`.
pub fn expand_field(item: TokenStream) -> TokenStream {
    syn::parse2(item).and_then(|input| field::implementation(&input)).unwrap_or_else(|error| error.to_compile_error())
}

fn record(input: &DeriveInput) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            return Err(Error::new_spanned(
                data.enum_token,
                "a record is a struct with named fields; an enum may be the type of one, with `#[derive(wo::Field)]`",
            ));
        }
        Data::Union(data) => {
            return Err(Error::new_spanned(data.union_token, "a record is a struct with named fields"));
        }
    };
    let named = match fields {
        Fields::Named(named) => &named.named,
        Fields::Unnamed(_) | Fields::Unit => {
            return Err(Error::new_spanned(
                &input.ident,
                "a record's fields have names: stored rows are told apart by them",
            ));
        }
    };
    let mut refusals = Refusals::default();
    if !input.generics.params.is_empty() {
        refusals.add(&input.generics.params, "a record is of one type: a table's rows are all alike");
    }
    let args = RecordArgs::of(&input.attrs, &mut refusals);
    let columns: Vec<Marks<'_>> = named.iter().map(|field| Marks::of(field, &mut refusals)).collect();
    attributes::check_together(&input.ident, &columns, &mut refusals);
    refusals.into_result()?;
    Ok(generate::record(input, &args, &columns))
}
