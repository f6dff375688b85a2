//! `#[derive(Parameters)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Expr, ExprPath, Field, Fields, GenericArgument, LitStr, PathArguments, Type,
};

use crate::errors::Errors;

pub(crate) const NAMESPACED: &str = "parameters are cluster-scoped: an AdmissionCheck refers to them without a namespace; remove `namespaced`";

pub(crate) const NO_TYPE: &str = r#"the name of a type is expected, such as `kind = "Window"`"#;

/// The options in `#[kube(...)]` and `#[parameters(...)]`.
#[derive(Default)]
struct Options {
    /// Whether there is a `#[kube(...)]` at all.
    is_resource: bool,
    kind: Option<LitStr>,
    /// The name of the generated struct, where it is not the kind.
    object: Option<LitStr>,
    validate: Option<ExprPath>,
}

pub(crate) fn expand(spec: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let input: DeriveInput = match syn::parse2(spec) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let options = options(&input, &mut errors);
    let policy = policy_field(&input, &mut errors);
    if !options.is_resource {
        errors.at(
            &input.ident,
            "parameters are a custom resource: add `#[derive(CustomResource)]` and `#[kube(group = \"...\", version = \"...\", kind = \"...\")]`",
        );
    } else if options.kind.is_none() {
        errors.at(&input.ident, "`#[kube(...)]` names no `kind`");
    }
    let object = options.object.or(options.kind).and_then(|name| {
        let object = name.parse::<Ident>().ok();
        if object.is_none() {
            errors.at(&name, NO_TYPE);
        }
        object
    });
    if let Some(errors) = errors.into_tokens() {
        return errors;
    }
    let object = object.unwrap_or_else(|| Ident::new("_", Span::call_site()));
    generate(&object, options.validate.as_ref(), policy.as_ref())
}

fn options(input: &DeriveInput, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    for attribute in &input.attrs {
        if attribute.path().is_ident("kube") {
            options.is_resource = true;
            errors.take(attribute.parse_nested_meta(|meta| read_kube(&meta, &mut options)));
        } else if attribute.path().is_ident("parameters") {
            errors.take(attribute.parse_nested_meta(|meta| read_own(&meta, &mut options)));
        }
    }
    options
}

/// Reads the needed arguments of kube's attribute; kube validates the rest.
fn read_kube(meta: &ParseNestedMeta<'_>, options: &mut Options) -> syn::Result<()> {
    if meta.path.is_ident("namespaced") {
        return Err(meta.error(NAMESPACED));
    }
    if meta.path.is_ident("kind") {
        options.kind = Some(meta.value()?.parse()?);
    } else if meta.path.is_ident("struct") {
        options.object = Some(meta.value()?.parse()?);
    } else {
        skip_value(meta)?;
    }
    Ok(())
}

/// Skips what follows an argument's name.
fn skip_value(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(syn::Token![=]) {
        meta.value()?.parse::<Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        content.parse::<TokenStream>()?;
    }
    Ok(())
}

fn read_own(meta: &ParseNestedMeta<'_>, options: &mut Options) -> syn::Result<()> {
    if meta.path.is_ident("validate") {
        options.validate = Some(meta.value()?.parse()?);
        return Ok(());
    }
    Err(meta.error("unknown argument: the only one is `validate = path::to::function`"))
}

/// Returns the field of type `Policy`.
pub(crate) fn policy_field(input: &DeriveInput, errors: &mut Errors) -> Option<Ident> {
    let Data::Struct(data) = &input.data else {
        errors.at(&input.ident, "parameters are a struct with named fields");
        return None;
    };
    let Fields::Named(fields) = &data.fields else {
        errors.at(&input.ident, "parameters are a struct with named fields");
        return None;
    };
    for field in fields
        .named
        .iter()
        .filter(|field| contains_policy(&field.ty))
    {
        errors.at(
            &field.ty,
            "the policy would have no effect: write `Policy`, whose fields are all optional",
        );
    }
    let policies: Vec<&Field> = fields
        .named
        .iter()
        .filter(|field| is_policy(&field.ty))
        .collect();
    if let [_, second, ..] = policies[..] {
        errors.at(second, "a check has one policy");
    }
    let field = policies.first()?;
    let flattened = field
        .attrs
        .iter()
        .any(|attribute| attribute.path().is_ident("serde") && mentions_flatten(attribute));
    if !flattened {
        errors.at(field, "the policy's fields stand among the others: add `#[serde(flatten)]`, so that administrators find them in the same place in each check");
    }
    field.ident.clone()
}

fn mentions_flatten(attribute: &syn::Attribute) -> bool {
    let mut found = false;
    let _ = attribute.parse_nested_meta(|meta| {
        found |= meta.path.is_ident("flatten");
        skip_value(&meta)
    });
    found
}

fn is_policy(field: &Type) -> bool {
    matches!(field, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Policy"))
}

/// Returns true for `Option<Policy>` and `Box<Policy>`.
fn contains_policy(field: &Type) -> bool {
    let Type::Path(path) = field else {
        return false;
    };
    let last = path.path.segments.last();
    let last = last.filter(|last| last.ident == "Option" || last.ident == "Box");
    let last = last.map(|last| &last.arguments);
    let Some(PathArguments::AngleBracketed(arguments)) = last else {
        return false;
    };
    let mut inside = arguments.args.iter();
    inside.any(|argument| matches!(argument, GenericArgument::Type(inner) if is_policy(inner)))
}

pub(crate) fn generate(
    object: &Ident,
    validate: Option<&ExprPath>,
    policy: Option<&Ident>,
) -> TokenStream {
    let validate = validate.map(|function| {
        quote_spanned! {function.span()=>
            fn validate(&self) -> ::core::result::Result<(), ::std::string::String> {
                ::kueue_check::Validation::into_result(#function(&self.spec))
            }
        }
    });
    let policy = policy.map(|field| {
        quote! {
            fn policy(&self) -> ::core::option::Option<&::kueue_check::Policy> {
                ::core::option::Option::Some(&self.spec.#field)
            }
        }
    });
    quote! {
        impl ::kueue_check::Parameters for #object {
            fn kind() -> ::core::option::Option<::kueue_check::ParametersKind> {
                ::core::option::Option::Some(::kueue_check::ParametersKind::of::<Self>())
            }

            fn decode(object: ::kueue_check::JsonValue) -> ::core::result::Result<Self, ::std::string::String> {
                ::kueue_check::ParametersKind::decode(object)
            }

            fn custom_resource_definition() -> ::core::option::Option<::kueue_check::CustomResourceDefinition> {
                ::core::option::Option::Some(<Self as ::kueue_check::CustomResourceExt>::crd())
            }

            #validate
            #policy
        }
    }
}
