//! Laws of definitions.

use ulid::Ulid;

use super::fixture::{all, catalog, definition, new_operation, node, project, sources, when};
use crate::{
    Store, StoreError,
    definition::{DefinitionChange, DefinitionStatus, NewDefinitionVersion, Registered},
    id::DefinitionVersionId,
    operation::Created,
};

fn version(number: u128, place: &str, content: &str) -> NewDefinitionVersion {
    NewDefinitionVersion {
        id: DefinitionVersionId::new(Ulid::from_parts(1, number)),
        sources: sources(place, content),
        definition: definition(),
        catalog: catalog(),
        status: DefinitionStatus::Published,
    }
}

async fn status(store: &dyn Store, id: DefinitionVersionId) -> DefinitionStatus {
    store.definition(id).await.unwrap().unwrap().status
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

/// A draft can be changed until it is published, and then never again.
pub async fn a_draft_is_amended_until_it_is_published(store: &dyn Store) {
    let draft = NewDefinitionVersion { status: DefinitionStatus::Draft, ..version(1, "localhost:1", "a") };
    let id = draft.id;
    store.register_definition(draft, when(0)).await.unwrap();
    let amend = |content: &str, status| {
        DefinitionChange::Amend(Box::new(NewDefinitionVersion { status, ..version(9, "localhost:1", content) }))
    };
    let changed = store.change_definition(id, amend("b", DefinitionStatus::Draft), when(1)).await.unwrap();
    assert_eq!((changed.id, changed.status), (id, DefinitionStatus::Draft));
    assert_eq!(changed.sources, sources("localhost:1", "b"));
    let published = store.change_definition(id, amend("c", DefinitionStatus::Published), when(2)).await.unwrap();
    assert_eq!(store.definition(id).await.unwrap(), Some(published));
    let error = store.change_definition(id, amend("d", DefinitionStatus::Published), when(3)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "definition.status", .. }), "{error}");
    assert_eq!(store.definition(id).await.unwrap().unwrap().sources, sources("localhost:1", "c"));
}

/// A draft of one version does not become another one.
pub async fn a_draft_stays_the_version_that_it_is(store: &dyn Store) {
    let draft = NewDefinitionVersion { status: DefinitionStatus::Draft, ..version(1, "localhost:1", "a") };
    let id = draft.id;
    store.register_definition(draft.clone(), when(0)).await.unwrap();
    let mut other = draft;
    other.definition.version = "v9".parse().unwrap();
    let error = store.change_definition(id, DefinitionChange::Amend(Box::new(other)), when(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "definition.other", .. }), "{error}");
}

/// Life goes in one direction; each move is audited once, and made again it changes nothing.
pub async fn a_version_is_deprecated_then_retired(store: &dyn Store) {
    let new = version(1, "localhost:1", "a");
    let id = new.id;
    store.register_definition(new, when(0)).await.unwrap();
    for _ in 0..2 {
        store.change_definition(id, DefinitionChange::Deprecate, when(1)).await.unwrap();
        assert_eq!(status(store, id).await, DefinitionStatus::Deprecated);
    }
    for _ in 0..2 {
        store.change_definition(id, DefinitionChange::Retire, when(2)).await.unwrap();
        assert_eq!(status(store, id).await, DefinitionStatus::Retired);
    }
    for (action, at) in
        [("definition.deprecate", Some(when(1).at)), ("definition.retire", Some(when(2).at)), ("x", None)]
    {
        assert_eq!(store.definition_moved(id, action).await.unwrap(), at, "{action}");
    }
    let back = store.change_definition(id, DefinitionChange::Deprecate, when(3)).await.unwrap_err();
    assert!(matches!(back, StoreError::Conflict { code: "definition.status", .. }), "{back}");
    let rows = store.audit(all()).await.unwrap();
    let actions: Vec<&str> = rows.iter().map(|row| row.action.as_str()).collect();
    assert_eq!(actions, ["definition.register", "definition.deprecate", "definition.retire"]);
    let nobody = DefinitionVersionId::new(Ulid::from_parts(1, 99));
    let missing = store.change_definition(nobody, DefinitionChange::Retire, when(4)).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
}

/// Whoever read a version before it was retired comes too late.
pub async fn no_operation_is_made_of_a_retired_version(store: &dyn Store) {
    let new = version(1, "localhost:1", "a");
    let id = new.id;
    store.register_definition(new, when(0)).await.unwrap();
    let node = node(store, 1, 1).await;
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    let Created::New(before) = store.create_operation(new_operation(1, &node, None), when(1)).await.unwrap() else {
        panic!("it was there already");
    };
    store.change_definition(id, DefinitionChange::Retire, when(1)).await.unwrap();
    let error = store.create_operation(new_operation(2, &node, None), when(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "definition.status", .. }), "{error}");
    assert!(store.operation(&before.project.project_id, before.id).await.unwrap().is_some());
}
