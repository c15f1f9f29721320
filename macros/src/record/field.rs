//! The code of a struct or an enum that may stand in a record's field.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Member, Result};

use crate::record::generate::function;

pub fn implementation(input: &DeriveInput) -> Result<TokenStream> {
    let rt = quote! { ::wo::__rt::db };
    let name = &input.ident;
    let shown = name.unraw().to_string();
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(syn::parse_quote!(#rt::Field));
    }
    let (described, encoded, decoded) = match &input.data {
        Data::Struct(data) => {
            let described = described(&rt, &data.fields);
            let members = bound(&data.fields);
            let pattern = pattern(&data.fields);
            let encoded = encoded(&rt, &data.fields);
            let decoded = decoded(&rt, &data.fields);
            (
                quote! { #rt::Type::Struct(#shown.into(), #described) },
                quote! { let #name #pattern = self; let _ = (#(&#members,)*); #encoded },
                quote! { ::core::result::Result::Ok(#name #decoded) },
            )
        }
        Data::Enum(data) => {
            if data.variants.is_empty() {
                return Err(Error::new_spanned(name, "an enum without variants has no values to store"));
            }
            let variants = data.variants.iter().map(|variant| {
                let (shown, fields) = (variant.ident.unraw().to_string(), described(&rt, &variant.fields));
                quote! { (#shown.into(), #fields) }
            });
            let encoded = data.variants.iter().enumerate().map(|(number, variant)| {
                let (ident, pattern, fields) =
                    (&variant.ident, pattern(&variant.fields), encoded(&rt, &variant.fields));
                let number = number as u64;
                quote! { #name::#ident #pattern => { output.unsigned(#number); #fields } }
            });
            let decoded = data.variants.iter().enumerate().map(|(number, variant)| {
                let (ident, fields) = (&variant.ident, decoded(&rt, &variant.fields));
                let number = number as u64;
                quote! { #number => #name::#ident #fields }
            });
            let unknown = format!("a variant of `{shown}` whose number is unknown");
            (
                quote! { #rt::Type::Enum(#shown.into(), ::std::vec![#(#variants),*]) },
                quote! { match self { #(#encoded)* } },
                quote! {
                    ::core::result::Result::Ok(match input.unsigned()? {
                        #(#decoded,)*
                        _ => return ::core::result::Result::Err(#rt::Undecodable::new(#unknown)),
                    })
                },
            )
        }
        Data::Union(data) => {
            return Err(Error::new_spanned(data.union_token, "a field's type is a struct or an enum"));
        }
    };
    let (parameters, applied, conditions) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic)]
        impl #parameters #rt::Field for #name #applied #conditions {
            fn describe(naming: &mut #rt::Naming) -> #rt::Type {
                naming.named(::core::any::type_name::<Self>(), |naming| {
                    let _ = &naming;
                    #described
                })
            }

            fn encode(&self, output: &mut #rt::Output) {
                output.nested(|output| {
                    let _ = &output;
                    #encoded
                });
            }

            fn decode(input: &mut #rt::Input<'_>) -> ::core::result::Result<Self, #rt::Undecodable> {
                input.nested(|input| {
                    let _ = &input;
                    #decoded
                })
            }
        }
    })
}

/// What the fields are called in the catalogue: the unnamed ones by their number.
fn names(fields: &Fields) -> Vec<String> {
    let name = |member: Member| match member {
        Member::Named(name) => name.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    fields.members().map(name).collect()
}

/// The variables a pattern binds the fields to.
fn bound(fields: &Fields) -> Vec<Ident> {
    (0..fields.len()).map(|index| format_ident!("field_{}", index)).collect()
}

fn pattern(fields: &Fields) -> TokenStream {
    let (members, bound) = (fields.members(), bound(fields));
    if matches!(fields, Fields::Unit) {
        return TokenStream::new();
    }
    quote! { { #(#members: #bound),* } }
}

fn described(rt: &TokenStream, fields: &Fields) -> TokenStream {
    let parts = fields.iter().zip(names(fields)).map(|(field, name)| {
        let function = function(rt, &field.ty, "describe");
        quote! { (#name.into(), #function(naming)) }
    });
    quote! { ::std::vec![#(#parts),*] }
}

fn encoded(rt: &TokenStream, fields: &Fields) -> TokenStream {
    let parts = fields.iter().zip(bound(fields)).map(|(field, bound)| {
        let function = function(rt, &field.ty, "encode");
        quote! { ({ #function })(#bound, output); }
    });
    quote! { #(#parts)* }
}

fn decoded(rt: &TokenStream, fields: &Fields) -> TokenStream {
    if matches!(fields, Fields::Unit) {
        return TokenStream::new();
    }
    let members = fields.members();
    let parts = fields.iter().zip(names(fields)).map(|(field, name)| {
        let function = function(rt, &field.ty, "decode");
        quote! { input.field(#name, |input| #function(input))? }
    });
    quote! { { #(#members: #parts),* } }
}
