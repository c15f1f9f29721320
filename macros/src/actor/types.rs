//! Questions and changes to the types in a handler's signature.

use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    ExprPath, GenericArgument, Lifetime, ParenthesizedGenericArguments, Path, PathArguments, QSelf, Type, TypeBareFn,
    TypeImplTrait, TypePath, TypeReference, parse_quote,
};

/// The first borrow in `ty` that does not live for ever: it cannot move to another shard.
pub fn borrow(ty: &Type) -> Option<Type> {
    struct Finder(Option<Type>);
    impl Visit<'_> for Finder {
        fn visit_type_reference(&mut self, reference: &TypeReference) {
            match &reference.lifetime {
                Some(lifetime) if lifetime.ident == "static" => visit::visit_type_reference(self, reference),
                _ => drop(self.0.get_or_insert(Type::Reference(reference.clone()))),
            }
        }
        fn visit_type_path(&mut self, path: &TypePath) {
            let lent = |argument: &GenericArgument| matches!(argument, GenericArgument::Lifetime(l) if is_short(l));
            let lends = path.path.segments.iter().any(|segment| match &segment.arguments {
                PathArguments::AngleBracketed(arguments) => arguments.args.iter().any(lent),
                _ => false,
            });
            if lends {
                self.0.get_or_insert(Type::Path(path.clone()));
            }
            visit::visit_type_path(self, path);
        }
        // The lifetimes of a function's parameters are its callers'.
        fn visit_type_bare_fn(&mut self, _: &TypeBareFn) {}
        fn visit_parenthesized_generic_arguments(&mut self, _: &ParenthesizedGenericArguments) {}
    }
    fn is_short(lifetime: &Lifetime) -> bool {
        lifetime.ident != "static"
    }
    let mut finder = Finder(None);
    finder.visit_type(ty);
    finder.0
}

/// The first `impl Trait` in `ty`.
pub fn impl_trait(ty: &Type) -> Option<TypeImplTrait> {
    struct Finder(Option<TypeImplTrait>);
    impl Visit<'_> for Finder {
        fn visit_type_impl_trait(&mut self, found: &TypeImplTrait) {
            self.0.get_or_insert_with(|| found.clone());
        }
    }
    let mut finder = Finder(None);
    finder.visit_type(ty);
    finder.0
}

/// The `T` of a `Reply<T>`.
pub fn of_reply(ty: &Type) -> Option<&Type> {
    let Type::Path(TypePath { qself: None, path }) = ty else { return None };
    let last = path.segments.last().filter(|last| last.ident == "Reply")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(answer)) if arguments.args.len() == 1 => Some(answer),
        _ => None,
    }
}

/// `node` as it reads outside the `impl`, where `Self` has to be spelled out.
pub struct Spelled<'a>(pub &'a Type);

impl Spelled<'_> {
    fn spell(&self, qself: &mut Option<QSelf>, path: &mut Path) {
        let starts = path.segments.first().is_some_and(|first| first.ident == "Self");
        if qself.is_none() && starts && path.segments.len() > 1 {
            let this = self.0;
            let rest = path.segments.iter().skip(1);
            let spelled: TypePath = parse_quote! { <#this>::#(#rest)::* };
            *qself = spelled.qself;
            *path = spelled.path;
        }
    }
}

impl VisitMut for Spelled<'_> {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if matches!(ty, Type::Path(path) if path.qself.is_none() && path.path.is_ident("Self")) {
            *ty = self.0.clone();
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }

    fn visit_type_path_mut(&mut self, path: &mut TypePath) {
        visit_mut::visit_type_path_mut(self, path);
        self.spell(&mut path.qself, &mut path.path);
    }

    fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
        visit_mut::visit_expr_path_mut(self, path);
        self.spell(&mut path.qself, &mut path.path);
    }
}
