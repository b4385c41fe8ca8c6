//! The supply chain: artifacts are pushed, signed, fetched by digest, verified and kept.
//!
//! This is the only crate that knows OCI registries and Sigstore's formats. What it does for others:
//!
//! | who | what | where |
//! |---|---|---|
//! | an author | push and sign a step or a document | [`RegistryClient::push`], [`RegistryClient::sign`], [`SigningKey`] |
//! | a host, a plane | get a verified artifact | [`Supplier::artifact`] |
//! | a host's `transfer` | any artifact's manifest, any blob to a file | [`RegistryClient::fetch_manifest`], [`RegistryClient::download_blob`] |
//! | an author | sign in one format or both, attest | [`RegistryClient::sign_as`], [`RegistryClient::attest`] |
//! | an air-gapped site | take it all along as a directory | [`RegistryClient::copy`], [`RegistryOptions::layouts`] |
//! | an administrator | say whose signatures count | [`TrustPolicy`] |
//!
//! ```no_run
//! # use fettle_supply::*;
//! # async fn example(key: SigningKey, component: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
//! let client = RegistryClient::new(RegistryOptions::default())?;
//! let repository = "registry.internal:5000/steps/file.render".parse()?;
//! let reference = client.push(ArtifactKind::Step, &repository, component, None).await?;
//! client.sign(&reference, &key).await?;
//!
//! let store = ContentStore::open("/var/lib/fettle/content".as_ref())?;
//! let trust = TrustPolicy::any_of([("platform-team".to_owned(), key.public().clone())])?;
//! let supplier = Supplier::new(store, client, trust);
//! let step = supplier.artifact(ArtifactKind::Step, &reference).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! - [`Supplier::artifact`] is the only way to an artifact's content, and returns nothing that is not
//!   signed as the trust policy in force demands for its kind. Signatures are verified before the
//!   manifest is parsed, also for what is in the store. A good verdict is kept in memory for exactly
//!   this manifest, kind, policy and trusted root; a changed policy is seen by the next request.
//! - The bytes returned are the bytes that were hashed: one buffer, never read again.
//! - A new trust policy takes effect only if the current one's `trust_policy` rule accepts it.
//! - `UNSIGNED`, `UNTRUSTED`, `UNAVAILABLE` and `MALFORMED` are never reported for one another: a
//!   registry that fails is never taken for one that says no.
//! - Nothing is read to memory without a limit, and nothing waits without one.
//! - No redirect is followed, no proxy variable obeyed, no credential sent.

pub mod attestation;
mod copy;
mod download;
mod error;
mod key;
mod kind;
mod layout;
mod manifest;
#[cfg(not(feature = "mutations"))]
mod mutation;
#[cfg(feature = "mutations")]
pub mod mutation;
mod registry;
mod signature;
mod store;
mod supplier;
#[cfg(feature = "testing")]
pub mod testing;
mod trust;

pub use attestation::{Attestation, AttestationEvidence};
pub use copy::{Copied, CopySource, CopyTarget};
pub use download::{BlobDownload, DownloadError, Downloaded};
pub use error::{Cause, Defect, Distrust, Outage, SupplyError, Verdict};
pub use fettle_egress::ClientError;
pub use key::{KeyError, KeyId, KeyType, PublicKey, SigningKey};
pub use kind::{ArtifactKind, MANIFEST_LIMIT, MANIFEST_MEDIA_TYPE};
pub use layout::{Layout, LayoutError};
pub use manifest::{Descriptor, Manifest, RawManifest};
pub use registry::{Authorization, FILES_ARTIFACT_TYPE, RegistryClient, RegistryOptions, SignatureFormat};
pub use signature::{Evidence, Rejection, Signed, Signer, TrustedRoot, TrustedRootError, Workflow};
pub use store::{ContentStore, StoreError};
pub use supplier::{Artifact, Supplier};
pub use trust::{
    Activation, Chain, Finding, NAME_ANNOTATION, ParseVersionError, Quorum, Replaced, RotationError, Trust, TrustError,
    TrustFiles, TrustPolicy, TrustPolicyError, TrustSource, VERSION_ANNOTATION, Version,
};
