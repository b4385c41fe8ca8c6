//! What `wit-bindgen` makes of the world. The only bindings in the repository.
#![allow(missing_docs, reason = "the WIT files are the documentation")]
#![allow(unsafe_code, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated code")]

wit_bindgen::generate!({
    path: "../../wit",
    world: "fettle:step/component",
    additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
    generate_all,
    generate_unused_types: true,
    pub_export_macro: true,
    default_bindings_module: "fettle_step::bindings",
});
