//! A function wherever one may stand: free, in an `impl`, or in a `trait`, with or without a body. The same tokens
//! mean a function in all three, and an attribute is not told which it is in.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{AttrStyle, Attribute, Block, Error, Item, Result, Signature, Token, Visibility, braced, token};

/// The parts of a function.
pub struct Function {
    pub attrs: Vec<Attribute>,
    pub vis: Visibility,
    pub sig: Signature,
    /// A method required by a trait has none.
    pub body: Option<Block>,
}

impl Function {
    /// Parses what stands under `#[wo::attribute]`, or says what should stand there.
    pub fn under(attribute: &str, item: TokenStream) -> Result<Function> {
        syn::parse2(item.clone()).map_err(|error| match syn::parse2(item) {
            Ok(Item::Fn(_)) | Err(_) => error,
            Ok(other) => Error::new_spanned(
                head(&other),
                format!(
                    "`#[wo::{attribute}]` goes on a function; of an `impl` or a `trait`, on each method that parks"
                ),
            ),
        })
    }

    /// What no function that parks can be, wherever it stands. Every reason is reported, not the first alone.
    pub fn check(&self) -> Result<()> {
        let sig = &self.sig;
        let mut refusals = Refusals::default();
        if let Some(keyword) = &sig.asyncness {
            refusals.add(keyword, "drop `async`: here a function is plain, and its calls wait by themselves");
        }
        if let Some(keyword) = &sig.constness {
            refusals.add(keyword, "a `const fn` runs in the compiler too, where nothing can park");
        }
        if let Some(abi) = &sig.abi {
            refusals.add(abi, "a function with a foreign ABI is called from where nothing can wait for it");
        }
        if let Some(variadic) = &sig.variadic {
            refusals.add(variadic, "a function that parks cannot be variadic");
        }
        refusals.into_result()
    }
}

impl Parse for Function {
    fn parse(input: ParseStream) -> Result<Function> {
        let mut attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig = input.parse()?;
        if input.parse::<Option<Token![;]>>()?.is_some() {
            return Ok(Function { attrs, vis, sig, body: None });
        }
        let content;
        let brace_token: token::Brace = braced!(content in input);
        let inner = content.call(Attribute::parse_inner)?;
        attrs.extend(inner.into_iter().map(|attr| Attribute { style: AttrStyle::Outer, ..attr }));
        let stmts = content.call(Block::parse_within)?;
        Ok(Function { attrs, vis, sig, body: Some(Block { brace_token, stmts }) })
    }
}

/// Errors gathered to be reported together.
#[derive(Default)]
pub struct Refusals(Option<Error>);

impl Refusals {
    /// Reports `message` at `place`.
    pub fn add(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.combine(Error::new_spanned(place, message));
    }

    /// Reports `error`, which may hold several.
    pub fn combine(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Fine if nothing was reported.
    pub fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// The tokens of `item` that say what it is, which make a shorter mark than the whole of it.
pub fn head(item: &Item) -> TokenStream {
    match item {
        Item::Const(item) => item.const_token.into_token_stream(),
        Item::Enum(item) => item.enum_token.into_token_stream(),
        Item::ExternCrate(item) => item.extern_token.into_token_stream(),
        Item::ForeignMod(item) => item.abi.to_token_stream(),
        Item::Impl(item) => item.impl_token.into_token_stream(),
        Item::Macro(item) => item.mac.path.to_token_stream(),
        Item::Mod(item) => item.mod_token.into_token_stream(),
        Item::Static(item) => item.static_token.into_token_stream(),
        Item::Struct(item) => item.struct_token.into_token_stream(),
        Item::Trait(item) => item.trait_token.into_token_stream(),
        Item::Type(item) => item.type_token.into_token_stream(),
        Item::Union(item) => item.union_token.into_token_stream(),
        Item::Use(item) => item.use_token.into_token_stream(),
        other => quote! { #other },
    }
}

/// What an attribute gives when it refuses its function: the reasons, and a function nevertheless, as it was or as it
/// would be, so that the rest of the program is not told that it is missing.
pub fn refused(error: &Error, item: TokenStream) -> TokenStream {
    let reasons = error.to_compile_error();
    quote! { #reasons #item }
}
