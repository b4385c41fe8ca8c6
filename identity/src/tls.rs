//! The TLS between hosts and planes: version 1.3 only, and a certificate at both ends.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier},
    version::TLS13,
};

use crate::{Certificate, Fingerprint, Key, Peer, PeerError, Roots, RootsError};

/// The name that every plane's certificate has, whatever its address: a plane is recognised by its authority.
pub const PLANE_NAME: &str = "plane.fettle.internal";

/// What is spoken inside: gRPC needs HTTP/2.
const SPOKEN: &[u8] = b"h2";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Nobody would be trusted.
    #[error(transparent)]
    Roots(#[from] RootsError),
    /// Key and certificate do not go together, or are of a kind that is not spoken.
    #[error("the certificate and its key cannot be used")]
    Own(#[source] rustls::Error),
    /// Certificates cannot be checked with these roots.
    #[error("certificates cannot be checked")]
    Check(#[source] VerifierBuilderError),
}

/// What one end shows of itself: its certificate, those that lead from it to its authority, and its key.
pub struct Own<'a> {
    /// Its own first. A plane adds the authority's, for those that know no more than a fingerprint.
    pub chain: Vec<Certificate>,
    /// The key of the first.
    pub key: &'a Key,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The plane's end. Who calls without a certificate is let in, and finds that only joining is open to it; one whose
/// certificate does not count is not.
///
/// # Errors
/// When the plane's own certificate or the roots cannot be used.
pub fn server(roots: &Roots, own: &Own<'_>) -> Result<ServerConfig, TlsError> {
    let clients = Check::verifier(roots, true)?;
    let versions = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let mut config = versions
        .map_err(TlsError::Own)?
        .with_client_cert_verifier(clients)
        .with_single_cert(own.chain.clone(), own.key.for_tls())
        .map_err(TlsError::Own)?;
    config.alpn_protocols = vec![SPOKEN.to_vec()];
    // A resumed session is let in for the certificate of the first one, without another look at it.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The end of one that knows the authorities: a host, or a plane that calls another. Without a certificate of its own
/// it can only join.
///
/// # Errors
/// When its own certificate or the roots cannot be used.
pub fn client(roots: &Roots, own: Option<&Own<'_>>) -> Result<ClientConfig, TlsError> {
    let store = roots.store()?;
    let verifier = WebPkiServerVerifier::builder_with_provider(store, provider()).build().map_err(TlsError::Check)?;
    client_with(verifier, own)
}

/// The end of one that knows its authority by the fingerprint only that came with its join token.
///
/// # Errors
/// When the cryptographic library lacks what is spoken.
pub fn joining(authority: Fingerprint) -> Result<ClientConfig, TlsError> {
    client_with(Arc::new(Pinned { authority, provider: provider() }), None)
}

fn client_with(planes: Arc<dyn ServerCertVerifier>, own: Option<&Own<'_>>) -> Result<ClientConfig, TlsError> {
    let versions = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let config = versions.map_err(TlsError::Own)?.dangerous().with_custom_certificate_verifier(planes);
    let mut config = match own {
        Some(own) => config.with_client_auth_cert(own.chain.clone(), own.key.for_tls()).map_err(TlsError::Own)?,
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![SPOKEN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Looks at certificates that did not come by a connection.
pub struct Check(Arc<dyn ClientCertVerifier>);

/// Why a certificate does not count.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It is not signed by an authority that counts, or it did not count then.
    #[error("the certificate does not count")]
    Certificate(#[source] rustls::Error),
    /// It says nothing about its holder.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

impl Check {
    /// By these authorities.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(roots: &Roots) -> Result<Self, TlsError> {
        Self::verifier(roots, false).map(Self)
    }

    fn verifier(roots: &Roots, optional: bool) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let builder = WebPkiClientVerifier::builder_with_provider(roots.store()?, provider());
        let builder = if optional { builder.allow_unauthenticated() } else { builder };
        builder.build().map_err(TlsError::Check)
    }

    /// Whether a certificate counted at this time, and whose it is.
    ///
    /// # Errors
    /// When it did not.
    pub fn at(&self, certificate: &Certificate, at: Timestamp) -> Result<Peer, CheckError> {
        let seconds = u64::try_from(at.as_second()).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        self.0.verify_client_cert(certificate, &[], at).map_err(CheckError::Certificate)?;
        Ok(Peer::read(certificate)?)
    }
}

/// Takes a plane whose chain ends with the authority of this fingerprint.
#[derive(Debug)]
struct Pinned {
    authority: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let unknown = || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let root = intermediates.iter().find(|shown| Fingerprint::of(shown) == self.authority).ok_or_else(unknown)?;
        let mut roots = RootCertStore::empty();
        roots.add(root.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider)).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
