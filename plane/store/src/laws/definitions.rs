//! Laws of definitions.

use ulid::Ulid;

use super::fixture::{catalog, definition, sources, when};
use crate::{
    Store, StoreError,
    definition::{NewDefinitionVersion, Registered},
    id::DefinitionVersionId,
};

fn version(number: u128, place: &str, content: &str) -> NewDefinitionVersion {
    NewDefinitionVersion {
        id: DefinitionVersionId::new(Ulid::from_parts(1, number)),
        sources: sources(place, content),
        definition: definition(),
        catalog: catalog(),
    }
}

/// The same name with another content is refused.
pub async fn a_version_never_changes(store: &dyn Store) {
    store.register_definition(version(1, "localhost:1", "a"), when(0)).await.unwrap();
    let error = store.register_definition(version(2, "localhost:1", "b"), when(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "definition.exists", .. }), "{error}");
    assert_eq!(store.definitions().await.unwrap().len(), 1);
}

/// The same content again answers the first.
pub async fn registering_again_is_the_same_version(store: &dyn Store) {
    let Registered::New(first) = store.register_definition(version(1, "localhost:1", "a"), when(0)).await.unwrap()
    else {
        panic!("it was there already");
    };
    let again = store.register_definition(version(2, "localhost:1", "a"), when(1)).await.unwrap();
    assert_eq!(again, Registered::Same(first.clone()));
    let definition = definition();
    let found = store.definition_version(&definition.operation_type, &definition.version).await.unwrap();
    assert_eq!(found.as_ref(), Some(&first));
    assert_eq!(store.definition(first.id).await.unwrap(), found);
}

/// The same content from another registry is the same version, fetched from there from now on.
pub async fn places_may_move(store: &dyn Store) {
    store.register_definition(version(1, "localhost:1", "a"), when(0)).await.unwrap();
    store.register_definition(version(2, "localhost:2", "a"), when(1)).await.unwrap();
    let found = store.definitions().await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].sources, sources("localhost:2", "a"));
    assert_eq!(found[0].id, version(1, "localhost:1", "a").id);
}
