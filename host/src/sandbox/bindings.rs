//! The contract of `wit/`, as the host sees it. Generated here and nowhere else on this side.

#![expect(missing_docs, reason = "generated code; the WIT is the documentation")]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "fettle:step/component",
    imports: { default: async | trappable },
    exports: { default: async },
    require_store_data_send: true,
    additional_derives: [serde::Serialize, serde::Deserialize],
});
