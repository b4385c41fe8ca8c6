//! Who is who between hosts and planes.
//!
//! An [`Authority`] signs short-lived X.509 certificates: one for each plane, one for each node. Both ends of a
//! connection show theirs (TLS 1.3, [`tls`]), and what a certificate says about its holder is a [`Peer`]. What a plane
//! asks of a node it signs with a key of its own ([`signing`]). A host that has no certificate yet knows the authority by its [`Fingerprint`], which came with its join token.
//!
//! Pure but for [`Directory`], which keeps authorities in files: time and serial numbers are parameters. Keys are made
//! by the cryptographic library, from its own randomness.

mod authority;
mod device;
mod directory;
mod fingerprint;
mod key;
mod peer;
mod refusal;
mod role;
mod roots;
pub mod signing;
pub mod tls;

pub use self::{
    authority::{Authority, AuthorityError, AuthorityKey, Serial, Validity, requested_key},
    device::{Device, DeviceError},
    directory::{Directory, DirectoryError, KeyPlace, Standing},
    fingerprint::{Fingerprint, ParseFingerprintError},
    key::{Key, KeyError, public_from_pem},
    peer::{Peer, PeerError},
    refusal::Refusal,
    role::Role,
    roots::{Roots, RootsError, from_pem, to_pem},
};

/// A certificate in DER.
pub type Certificate = rustls::pki_types::CertificateDer<'static>;
