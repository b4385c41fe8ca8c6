//! Laws of tokens.

use ulid::Ulid;

use super::fixture::{at, project, when};
use crate::{
    Store, StoreError,
    id::TokenId,
    project::Project,
    secret::SecretHash,
    token::{Access, NewToken, ProjectRole},
};

fn token(number: u128, name: &str, project: Project) -> NewToken {
    NewToken {
        id: TokenId::new(Ulid::from_parts(1, number)),
        name: name.to_owned(),
        access: Access::Project { project, role: ProjectRole::Member },
        hash: SecretHash::of(&format!("token {number}")),
        expires_at: Some(at(100)),
    }
}

/// Two tokens of one name cannot be told apart in an audit trail.
pub async fn a_name_is_unique_until_it_is_revoked(store: &dyn Store) {
    let first = store.create_token(token(1, "ci", project("demo")), when(0)).await.unwrap();
    let error = store.create_token(token(2, "ci", project("demo")), when(0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "token.name_taken", .. }), "{error}");
    store.revoke_token(first.id, when(1)).await.unwrap();
    store.create_token(token(3, "ci", project("demo")), when(2)).await.unwrap();
    assert_eq!(store.tokens().await.unwrap().len(), 2);
}

/// Validity ends at revocation or expiry, whichever is first.
pub async fn a_revoked_or_expired_token_is_not_valid(store: &dyn Store) {
    let created = store.create_token(token(1, "ci", project("demo")), when(0)).await.unwrap();
    let found = store.token_by_hash(SecretHash::of("token 1")).await.unwrap().unwrap();
    assert_eq!(found, created);
    assert!(found.is_valid_at(at(99)) && !found.is_valid_at(at(100)));
    let revoked = store.revoke_token(created.id, when(5)).await.unwrap();
    assert_eq!(store.revoke_token(created.id, when(9)).await.unwrap().revoked_at, revoked.revoked_at);
    let found = store.token_by_hash(SecretHash::of("token 1")).await.unwrap().unwrap();
    assert!(!found.is_valid_at(at(6)));
    assert_eq!(store.token_by_hash(SecretHash::of("token 2")).await.unwrap(), None);
    let nobody = store.revoke_token(token(9, "", project("demo")).id, when(9)).await;
    assert!(matches!(nobody, Err(StoreError::NotFound { .. })));
}

/// A project does not move to another organisation by the way.
pub async fn a_project_keeps_its_organisation(store: &dyn Store) {
    store.create_token(token(1, "a", project("demo")), when(0)).await.unwrap();
    let stolen = Project { org_id: "other".parse().unwrap(), ..project("demo") };
    let error = store.create_token(token(2, "b", stolen.clone()), when(0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "project.other_organisation", .. }), "{error}");
    assert!(store.ensure_project(stolen, when(0)).await.is_err());
    let name = project("demo").project_id;
    assert_eq!(store.project(&name).await.unwrap(), Some(project("demo")));
    assert_eq!(store.tokens().await.unwrap().len(), 1, "the refused verb left nothing behind");
}

/// Both secrets open the same for a while, and only the newest two of them.
pub async fn a_rotated_secret_ends_after_its_overlap(store: &dyn Store) {
    let created = store.create_token(token(1, "ci", project("demo")), when(0)).await.unwrap();
    let by = async |secret: &str| store.token_by_hash(SecretHash::of(secret)).await.unwrap();
    store.rotate_token(created.id, SecretHash::of("second"), at(50), when(10)).await.unwrap();
    let (old, new) = (by("token 1").await.unwrap(), by("second").await.unwrap());
    assert_eq!((old.id, new.id), (created.id, created.id));
    assert!(old.is_valid_at(at(49)) && !old.is_valid_at(at(50)));
    assert!(new.is_valid_at(at(99)) && !new.is_valid_at(at(100)), "the token itself ends when it did");
    // An overlap never outlasts the token.
    store.rotate_token(created.id, SecretHash::of("third"), at(500), when(20)).await.unwrap();
    assert_eq!(by("token 1").await, None);
    assert!(!by("second").await.unwrap().is_valid_at(at(100)) && by("third").await.unwrap().is_valid_at(at(99)));
    store.revoke_token(created.id, when(30)).await.unwrap();
    for secret in ["second", "third"] {
        assert!(!by(secret).await.unwrap().is_valid_at(at(31)), "{secret}");
    }
    let error = store.rotate_token(created.id, SecretHash::of("fourth"), at(50), when(40)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "token.not_valid", .. }), "{error}");
    assert_eq!(by("fourth").await, None);
    let nobody = token(9, "", project("demo")).id;
    let error = store.rotate_token(nobody, SecretHash::of("fifth"), at(50), when(40)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
}

/// Whatever comes late changes nothing.
pub async fn the_last_use_is_remembered(store: &dyn Store) {
    let created = store.create_token(token(1, "ci", project("demo")), when(0)).await.unwrap();
    assert_eq!(created.used_at, None);
    for seconds in [20, 30, 10] {
        store.record_token_use(created.id, when(seconds)).await.unwrap();
    }
    assert_eq!(store.tokens().await.unwrap()[0].used_at, Some(at(30)));
    assert_eq!(store.token_by_hash(SecretHash::of("token 1")).await.unwrap().unwrap().used_at, Some(at(30)));
}
