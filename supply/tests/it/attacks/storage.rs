//! What lies on the disk of the victim.

use std::{fs, os::unix::fs::symlink};

use fettle_model::digest::Digest;
use fettle_supply::{ArtifactKind, mutation::Protection};

use super::{
    support::{WASM, World},
    world::{Outcome, Refusal, attack},
};

/// Gets a step once, changes the store, and asks again without a registry. The attack gets through when
/// something else than the signed bytes is used, or a file that the attacker named was read.
async fn tampered(tamper: impl Fn(&World)) -> Outcome {
    let mut world = World::new().await;
    let reference = world.publish().await;
    world.get(&reference).await?;
    tamper(&world);
    world.registry.stop();
    match world.supplier().artifact(ArtifactKind::Step, &reference).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Refusal::NotUsed),
    }
}

#[tokio::test]
async fn a_changed_blob_in_the_local_store() {
    attack(Protection::StoreIsHashed, Refusal::NotUsed, async || {
        tampered(|world| {
            let path = world.stored(&Digest::of(WASM));
            let mut content = fs::read(&path).unwrap();
            *content.last_mut().unwrap() ^= 1;
            fs::write(&path, content).unwrap();
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_symlink_in_the_store() {
    attack(Protection::StoreFollowsNoLink, Refusal::NotUsed, async || {
        tampered(|world| {
            let (path, elsewhere) = (world.stored(&Digest::of(WASM)), world.home.path().join("elsewhere"));
            fs::rename(&path, &elsewhere).unwrap();
            symlink(&elsewhere, &path).unwrap();
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_file_that_changes_between_verifying_and_using() {
    let world = World::new().await;
    let reference = world.publish().await;
    world.get(&reference).await.unwrap();
    let artifact = world.get(&reference).await.unwrap();
    fs::write(world.stored(&Digest::of(WASM)), vec![0; WASM.len()]).unwrap();
    assert_eq!(Digest::of(&artifact.content), Digest::of(WASM), "what was verified is still looked at on disk");
}
