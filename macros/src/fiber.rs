//! `#[wo::fiber]`: `fn f(..) -> R { .. }` becomes `fn f(..) -> Call<impl Future<Output = R>> { .. }`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, Pat, PatIdent, Result, ReturnType, Token};

use crate::args::FiberArgs;
use crate::body::{allowed, async_block, output_type};
use crate::function::{Function, Refusals, refused};
use crate::names;
use crate::rewrite;
use crate::spans::generated_at;

/// Expands the attribute with `args` over `item`. A function that could be one but for its name or the attribute's
/// arguments becomes one all the same, so that its callers are not blamed, too.
pub fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = Function::under("fiber", item.clone()).and_then(|function| {
        check(&function)?;
        Ok(function)
    });
    let function = match function {
        Ok(function) => function,
        Err(error) => return refused(&error, item),
    };
    let mut refusals = check_name(&function.sig.ident);
    let args = syn::parse2(args).unwrap_or_else(|error| {
        refusals.combine(error);
        FiberArgs::default()
    });
    let fiber = fiber(&args, function);
    match refusals.into_result() {
        Ok(()) => fiber,
        Err(error) => refused(&error, fiber),
    }
}

fn check(function: &Function) -> Result<()> {
    function.check()?;
    let name = &function.sig.ident;
    if name == "main" {
        return Err(Error::new_spanned(name, "the program's main function takes `#[wo::main]`"));
    }
    Ok(())
}

fn check_name(name: &Ident) -> Refusals {
    let mut refusals = Refusals::default();
    if names::passes_by(name) {
        refusals.add(
            name,
            format!(
                "a call of `{name}` is never waited for, since its type is often still open where it stands; give this \
                 function another name"
            ),
        );
    }
    if names::is_constructor(name) {
        refusals.add(name, "a name with a capital letter is taken for a constructor, which is never waited for");
    }
    refusals
}

fn fiber(args: &FiberArgs, function: Function) -> TokenStream {
    let Function { attrs, vis, mut sig, body } = function;
    let opening = take_parameters(sig.inputs.iter_mut());
    let body = body.map(|mut body| {
        rewrite::body(&mut body, &sig);
        let place = generated_at(body.brace_token.span.open());
        let future = async_block(&sig.output, &opening, body);
        let future = if args.boxed {
            quote_spanned! {place=> ::std::boxed::Box::pin(#future) }
        } else {
            future
        };
        quote_spanned! {place=> { ::wo::__rt::Call::new(#future) } }
    });
    let end = if body.is_none() { Some(quote! { ; }) } else { None };
    sig.output = call_of(&sig.output, sig.paren_token.span.close());
    let allowed = allowed();
    quote! {
        #(#attrs)*
        #allowed
        #vis #sig #body #end
    }
}

/// `-> Call<impl Future<Output = R>>` for the `-> R` of the user; `end` is where the parameters end. The tokens stand
/// with the user's, so that the signature as a whole does; but `impl` is ours, and of our edition, in which it captures
/// every lifetime there is.
fn call_of(output: &ReturnType, end: Span) -> ReturnType {
    let place = match output {
        ReturnType::Default => end,
        ReturnType::Type(_, output) => output.span(),
    };
    let output = output_type(output);
    let capturing = Token![impl](generated_at(place));
    syn::parse_quote_spanned! {place=>
        -> ::wo::__rt::Call<#capturing ::core::future::Future<Output = #output>>
    }
}

/// Moves every parameter into the future, used there or not, so that they are dropped when a function drops them: at
/// its end, the last one first. Patterns are matched in the future; the signature is left with plain names.
fn take_parameters<'a>(parameters: impl Iterator<Item = &'a mut FnArg>) -> TokenStream {
    let mut opening = TokenStream::new();
    for (index, parameter) in parameters.enumerate() {
        match parameter {
            FnArg::Receiver(receiver) if receiver.reference.is_none() => {
                let this = &receiver.self_token;
                opening.extend(quote! { let _ = &#this; });
            }
            FnArg::Receiver(_) => {}
            FnArg::Typed(typed) => {
                let attrs = &typed.attrs;
                let pattern = &*typed.pat;
                let name = plain_name(pattern).unwrap_or_else(|| {
                    let name = Ident::new(&format!("__wo_parameter_{index}"), generated_at(pattern.span()));
                    opening.extend(quote! { #(#attrs)* let #name = #name; });
                    name
                });
                opening.extend(quote! { #(#attrs)* let #pattern = #name; });
                *typed.pat = Pat::Ident(PatIdent {
                    attrs: Vec::new(),
                    by_ref: None,
                    mutability: None,
                    ident: name,
                    subpat: None,
                });
            }
        }
    }
    opening
}

/// The name a parameter goes by, if it is nothing but a name.
fn plain_name(pattern: &Pat) -> Option<Ident> {
    match pattern {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => Some(ident.clone()),
        _ => None,
    }
}
