//! `docs/reference/capabilities.md`, written from the contract.

use std::fmt::Write as _;

use fettle_model::grant::Capability;
use wit_parser::{Function, FunctionKind, Interface, Resolve, Type, TypeDefKind};

use crate::{contract::contract, source::root};

const PATH: &str = "docs/reference/capabilities.md";

/// The interfaces in the order of the reference.
fn capabilities(resolve: &Resolve) -> Vec<&Interface> {
    let names = Capability::ALL.map(Capability::name);
    let of = |name: &str| {
        let found = resolve.interfaces.iter().find(|(_, interface)| interface.name.as_deref() == Some(name));
        found.map(|(_, interface)| interface)
    };
    names.into_iter().chain(["report"]).filter_map(of).collect()
}

/// A type as it is written in WIT.
fn type_text(resolve: &Resolve, kind: &Type) -> String {
    let Type::Id(id) = kind else {
        return match kind {
            Type::String => "string".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::U8 => "u8".to_owned(),
            Type::U32 => "u32".to_owned(),
            Type::U64 => "u64".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        };
    };
    let definition = &resolve.types[*id];
    if let Some(name) = &definition.name {
        return name.clone();
    }
    let optional = |kind: &Option<Type>| kind.as_ref().map_or_else(|| "_".to_owned(), |kind| type_text(resolve, kind));
    match &definition.kind {
        TypeDefKind::List(inner) => format!("list<{}>", type_text(resolve, inner)),
        TypeDefKind::Option(inner) => format!("option<{}>", type_text(resolve, inner)),
        TypeDefKind::Result(result) => format!("result<{}, {}>", optional(&result.ok), optional(&result.err)),
        TypeDefKind::Tuple(tuple) => {
            format!("tuple<{}>", tuple.types.iter().map(|kind| type_text(resolve, kind)).collect::<Vec<_>>().join(", "))
        }
        other => other.as_str().to_owned(),
    }
}

fn signature(resolve: &Resolve, function: &Function) -> String {
    assert_eq!(
        function.kind,
        FunctionKind::Freestanding,
        "{}: the reference knows plain functions only",
        function.name
    );
    let parameters: Vec<String> = function
        .params
        .iter()
        .map(|parameter| format!("{}: {}", parameter.name, type_text(resolve, &parameter.ty)))
        .collect();
    let answer = function.result.as_ref().map(|kind| format!(" -> {}", type_text(resolve, kind))).unwrap_or_default();
    format!("{}({}){answer}", function.name, parameters.join(", "))
}

fn errors(resolve: &Resolve, interface: &Interface) -> String {
    let Some(id) = interface.types.get("error") else { return String::new() };
    let TypeDefKind::Variant(variant) = &resolve.types[*id].kind else { return String::new() };
    let mut text = String::from("\nErrors:\n\n");
    for case in &variant.cases {
        let words = case.docs.contents.as_deref().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "{}", format!("- `{}` {words}", case.name).trim_end());
    }
    text
}

fn document() -> String {
    let resolve = contract();
    let mut text = String::from(
        "# Capabilities\n\nWhat a step can be given. This page is written from `wit/` by\n\
         `tests/invariants/src/reference.rs`; change the contract, then run `UPDATE_DOCS=1 cargo test -p fettle-invariants`.\n",
    );
    for interface in capabilities(&resolve) {
        let name = interface.name.as_deref().unwrap_or_default();
        let _ = write!(text, "\n## {name}\n\n{}\n", interface.docs.contents.as_deref().unwrap_or_default().trim());
        if let Some(capability) = Capability::ALL.iter().find(|capability| capability.name() == name) {
            let _ = write!(text, "\nGranted in a definition with `{}`.\n", capability.example());
        }
        for function in interface.functions.values() {
            let words = function.docs.contents.as_deref().unwrap_or_default().trim();
            let _ = write!(
                text,
                "\n### {name}.{}\n\n```wit\n{}\n```\n\n{words}\n",
                function.name,
                signature(&resolve, function)
            );
        }
        text.push_str(&errors(&resolve, interface));
    }
    text
}

#[test]
fn the_reference_of_capabilities_is_what_the_contract_says() {
    let path = root().join(PATH);
    let expected = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{PATH} is stale; run `UPDATE_DOCS=1 cargo test -p fettle-invariants`, and commit it");
}
