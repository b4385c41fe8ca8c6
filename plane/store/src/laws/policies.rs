//! Laws of overlays and decisions.

use fettle_model::{
    name::OperationType,
    overlay::{Level, Overlay},
};
use serde_json::json;

use super::fixture::{all, new_operation, node, project, submit, when};
use crate::{
    Store, StoreError,
    operation::NewOperation,
    page::Page,
    policy::{CHANGED, PolicyDocument, PolicyScope, Precondition},
};

fn kind(name: &str) -> OperationType {
    name.parse().unwrap()
}

fn at_most(number: u32) -> Overlay {
    Overlay { max_concurrency: number.try_into().ok(), ..Overlay::default() }
}

async fn put(
    store: &dyn Store,
    scope: &PolicyScope,
    name: &str,
    number: u32,
    precondition: Precondition,
) -> Result<PolicyDocument, StoreError> {
    store.put_policy(scope.clone(), kind(name), at_most(number), precondition, when(i64::from(number))).await
}

fn scopes() -> [PolicyScope; 3] {
    let project = project("demo");
    [PolicyScope::Global, PolicyScope::Tenant(project.org_id.clone()), PolicyScope::Project(project)]
}

/// Whoever writes says what was read; another state is refused, and nothing changes.
pub async fn an_overlay_is_changed_only_as_it_was_read(store: &dyn Store) {
    let [global, ..] = scopes();
    let missing = put(store, &global, "a", 1, Precondition::Present).await.unwrap_err();
    assert!(matches!(missing, StoreError::Conflict { code: CHANGED, .. }), "{missing}");
    let first = put(store, &global, "a", 1, Precondition::Absent).await.unwrap();
    assert_eq!((first.revision, &first.overlay, first.scope.level()), (1, &at_most(1), Level::Global));
    for late in [Precondition::Absent, Precondition::OneOf(vec!["1-0000000000000000".to_owned()])] {
        let error = put(store, &global, "a", 9, late).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict { code: CHANGED, .. }), "{error}");
        assert!(error.to_string().contains(&first.tag()), "{error}");
    }
    let second = put(store, &global, "a", 2, Precondition::OneOf(vec![first.tag()])).await.unwrap();
    assert_eq!(second.revision, 2);
    assert_eq!(store.policy(&global, &kind("a")).await.unwrap(), Some(second.clone()));
    assert!(put(store, &global, "a", 3, Precondition::OneOf(vec![first.tag()])).await.is_err());
    put(store, &global, "a", 3, Precondition::Present).await.unwrap();
}

/// Of two that read the same, one writes.
pub async fn of_two_changes_at_once_one_is_refused(store: &dyn Store) {
    let [global, ..] = scopes();
    let first = put(store, &global, "a", 1, Precondition::Absent).await.unwrap();
    let read = || Precondition::OneOf(vec![first.tag()]);
    let (one, other) = futures::join!(put(store, &global, "a", 2, read()), put(store, &global, "a", 3, read()));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    assert_eq!(store.policy(&global, &kind("a")).await.unwrap().unwrap().revision, 2);
}

/// A scope's overlays are its own.
pub async fn scopes_do_not_see_each_other(store: &dyn Store) {
    for (number, scope) in (1..).zip(&scopes()) {
        put(store, scope, "a", number, Precondition::Absent).await.unwrap();
    }
    let others = [PolicyScope::Tenant("other".parse().unwrap()), PolicyScope::Project(project("other"))];
    for scope in &others {
        assert_eq!(store.policy(scope, &kind("a")).await.unwrap(), None);
        assert_eq!(store.policies(scope, all()).await.unwrap(), []);
    }
    for (number, scope) in (1..).zip(&scopes()) {
        let found = store.policies(scope, all()).await.unwrap();
        assert_eq!(found.iter().map(|one| &one.overlay).collect::<Vec<_>>(), [&at_most(number)]);
    }
}

/// The chain of a project is what the three scopes say of one type, the platform first.
pub async fn a_chain_is_of_one_project_and_one_type(store: &dyn Store) {
    let foreign = [PolicyScope::Tenant("other".parse().unwrap()), PolicyScope::Project(project("other"))];
    for (number, scope) in (1..).zip(scopes().iter().chain(&foreign)) {
        put(store, scope, "a", number, Precondition::Absent).await.unwrap();
        put(store, scope, "b", number, Precondition::Absent).await.unwrap();
    }
    let chain = store.policy_chain(&project("demo"), &kind("a")).await.unwrap();
    let found: Vec<_> = chain.iter().map(|one| (one.scope.clone(), one.operation_type.as_str())).collect();
    assert_eq!(found, scopes().map(|scope| (scope, "a")));
    assert_eq!(store.policy_chain(&project("demo"), &kind("c")).await.unwrap(), []);
}

/// What was deleted says nothing; what is written after it is a first revision again.
pub async fn a_deleted_overlay_says_nothing(store: &dyn Store) {
    let [_, tenant, _] = scopes();
    let first = put(store, &tenant, "a", 1, Precondition::Absent).await.unwrap();
    let delete = |precondition| store.delete_policy(tenant.clone(), kind("a"), precondition, when(5));
    let late = delete(Precondition::OneOf(vec!["7-0000000000000000".to_owned()])).await.unwrap_err();
    assert!(matches!(late, StoreError::Conflict { code: CHANGED, .. }), "{late}");
    delete(Precondition::OneOf(vec![first.tag()])).await.unwrap();
    assert_eq!(store.policy(&tenant, &kind("a")).await.unwrap(), None);
    assert!(delete(Precondition::Present).await.is_err());
    let again = put(store, &tenant, "a", 2, Precondition::Absent).await.unwrap();
    assert_eq!(again.revision, 1);
    assert_ne!(again.tag(), first.tag());
}

/// Every change leaves a row that says what was before and after it.
pub async fn changes_of_overlays_are_audited(store: &dyn Store) {
    let [_, _, project] = scopes();
    put(store, &project, "a", 1, Precondition::Absent).await.unwrap();
    put(store, &project, "a", 2, Precondition::Present).await.unwrap();
    store.delete_policy(project.clone(), kind("a"), Precondition::Present, when(5)).await.unwrap();
    let _ = put(store, &project, "a", 9, Precondition::Present).await.unwrap_err();
    let rows = store.audit(all()).await.unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.action.as_str(), row.scope.as_str())).collect();
    let scope = "default/demo";
    let (put, delete) = ("project_policy.put", "project_policy.delete");
    assert_eq!(told, [(put, scope), (put, scope), (delete, scope)]);
    assert!(rows.iter().all(|row| row.resource_name == "operation-policies/a"));
    let changed = rows[1].details.as_ref().unwrap();
    assert_eq!(changed["before"], json!({ "revision": 1, "policy": { "max_concurrency": 1 } }));
    assert_eq!(changed["after"], json!({ "revision": 2, "policy": { "max_concurrency": 2 } }));
    assert_eq!(rows[2].details.as_ref().unwrap()["after"], json!(null));
}

/// A list continues where the page before it ended.
pub async fn overlays_are_paged(store: &dyn Store) {
    let [global, ..] = scopes();
    for name in ["b", "a", "c"] {
        put(store, &global, name, 1, Precondition::Absent).await.unwrap();
    }
    let page = store.policies(&global, Page { after: None, size: 2 }).await.unwrap();
    assert_eq!(page.iter().map(|one| one.operation_type.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let rest = store.policies(&global, Page { after: Some(kind("b")), size: 2 }).await.unwrap();
    assert_eq!(rest.iter().map(|one| one.operation_type.as_str()).collect::<Vec<_>>(), ["c"]);
}

/// What was decided is kept with the operation, and another project does not see it.
pub async fn a_decision_is_kept_with_its_operation(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let without = submit(store, 1, &node).await;
    let new = NewOperation { decision: Some(json!({ "allowed": true })), ..new_operation(2, &node, None) };
    let (id, demo) = (new.id, new.project.project_id.clone());
    store.create_operation(new, when(2)).await.unwrap();
    assert_eq!(store.decision(&demo, id).await.unwrap(), Some(json!({ "allowed": true })));
    assert_eq!(store.decision(&"other".parse().unwrap(), id).await.unwrap(), None);
    assert_eq!(store.decision(&demo, without.id).await.unwrap(), None);
}
