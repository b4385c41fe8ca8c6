//! Which provider gives what: a document, and the desk that is made of it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use fettle_model::{
    credential::{CredentialRule, CredentialType},
    document::{self, DocumentError},
    time,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject as _};
use serde::Deserialize;
use url::Url;
use zeroize::Zeroizing;

use crate::{
    fixed::Fixed,
    issuer::Issuer,
    presigned::Presigned,
    provider::{LONGEST, Minted, Provider, ProviderError, USUAL, Wanted},
    registry_key::RegistryKey,
    sealed::{Purpose, Sealed, SealedError, SealingKey},
    token_service::TokenService,
    web::{AddressError, Service},
};

/// Where credentials are given, by providers in the order in which they are named.
#[derive(Default)]
pub struct Desk {
    providers: Vec<(CredentialRule, Box<dyn Provider>)>,
}

/// Why the document about providers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// It has another form.
    #[error("{} is no list of providers", path.display())]
    Document {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: DocumentError,
    },
    /// The key that its secrets are sealed with cannot be used.
    #[error("the secrets of {} cannot be opened", path.display())]
    Key {
        /// The document.
        path: PathBuf,
        /// Why.
        #[source]
        source: SealedError,
    },
    /// It has secrets, and no key was named.
    #[error("{} has sealed secrets; name the file of their key with `--secret-key`", .0.display())]
    NoKey(PathBuf),
    /// A provider makes no sense.
    #[error("provider {number}, of `{rule}`: {problem}")]
    Provider {
        /// 1 for the first.
        number: usize,
        /// What it gives.
        rule: CredentialRule,
        /// What is wrong, and the fix.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    providers: Vec<Entry>,
}

/// A provider, and what it gives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "type")]
    credential_type: CredentialType,
    scope: String,
    #[serde(default = "usual", with = "time")]
    lifetime: Duration,
    /// Certificates in PEM that are trusted beside the system's. Relative to the document.
    #[serde(default)]
    authority_file: Option<PathBuf>,
    from: Source,
}

const fn usual() -> Duration {
    USUAL
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    TokenService(TokenServiceEntry),
    RegistryKey(RegistryKeyEntry),
    Presigned(PresignedEntry),
    Issuer(IssuerEntry),
    Fixed(FixedEntry),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenServiceEntry {
    realm: Url,
    service: String,
    username: String,
    password: Sealed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryKeyEntry {
    issuer: String,
    service: String,
    /// PEM. Relative to the document.
    certificate_file: PathBuf,
    /// PEM (PKCS #8) of an ECDSA key on P-256.
    key: Sealed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresignedEntry {
    endpoint: Url,
    region: String,
    #[serde(default)]
    path_style: bool,
    access_key_id: String,
    secret_access_key: Sealed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerEntry {
    url: Url,
    token: Sealed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FixedEntry {
    token: Sealed,
}

/// What making a provider needs beside its entry.
struct Place<'a> {
    directory: &'a Path,
    key: &'a SealingKey,
}

impl Desk {
    /// Reads a document, and opens its secrets with the key in another file.
    ///
    /// # Errors
    /// When either cannot be used, with the provider that is wrong.
    pub fn load(path: &Path, key: Option<&Path>) -> Result<Self, DeskError> {
        let text = std::fs::read_to_string(path).map_err(|source| DeskError::File { path: path.to_owned(), source })?;
        let document: Document =
            document::read(&text).map_err(|source| DeskError::Document { path: path.to_owned(), source })?;
        let key = key.ok_or_else(|| DeskError::NoKey(path.to_owned()))?;
        let key = SealingKey::load(key).map_err(|source| DeskError::Key { path: path.to_owned(), source })?;
        let place = Place { directory: path.parent().unwrap_or_else(|| Path::new(".")), key: &key };
        let mut providers = Vec::new();
        for (number, entry) in (1..).zip(document.providers) {
            let rule = CredentialRule { credential_type: entry.credential_type, scope: entry.scope.clone() };
            let made = entry.provider(&place);
            let provider = made.map_err(|problem| DeskError::Provider { number, rule: rule.clone(), problem })?;
            providers.push((rule, provider));
        }
        Ok(Self { providers })
    }

    /// Gives a credential, by the first provider that gives such.
    ///
    /// # Errors
    /// When there is none, or it gives none.
    pub async fn mint(&self, wanted: &Wanted<'_>) -> Result<Minted, ProviderError> {
        let found = self.providers.iter().find(|(rule, _)| rule.covers(wanted.intent));
        let (_, provider) = found.ok_or_else(|| ProviderError::None(wanted.intent.to_string()))?;
        provider.mint(wanted).await
    }
}

impl Entry {
    fn provider(self, place: &Place<'_>) -> Result<Box<dyn Provider>, String> {
        if self.lifetime.is_zero() || self.lifetime > LONGEST {
            return Err("`lifetime` is more than 0s and at most 1h".to_owned());
        }
        let fits = match self.from {
            Source::TokenService(_) | Source::RegistryKey(_) => self.credential_type == CredentialType::OciPull,
            Source::Presigned(_) => {
                matches!(self.credential_type, CredentialType::S3Read | CredentialType::GcsRead)
            }
            Source::Issuer(_) => true,
            Source::Fixed(_) => {
                matches!(self.credential_type, CredentialType::HfToken | CredentialType::ClusterJoinToken)
            }
        };
        if !fits {
            return Err(format!("such a provider gives no `{}`; choose another", self.credential_type));
        }
        let authorities = self.authority_file.iter().map(|file| place.read(file)).collect::<Result<Vec<_>, _>>()?;
        let service = |url| Service::at(url, authorities).map_err(|error: AddressError| error.to_string());
        Ok(match self.from {
            Source::TokenService(entry) => Box::new(TokenService {
                service: service(entry.realm)?,
                audience: entry.service,
                username: entry.username,
                password: place.open("password", &entry.password)?,
            }),
            Source::RegistryKey(entry) => Box::new(entry.signer(place, self.lifetime)?),
            Source::Presigned(entry) => Box::new(entry.account(place, self.credential_type, self.lifetime)?),
            Source::Issuer(entry) => Box::new(Issuer {
                service: service(entry.url)?,
                token: place.open("token", &entry.token)?,
                lifetime: self.lifetime,
            }),
            Source::Fixed(entry) => {
                Box::new(Fixed { token: place.open("token", &entry.token)?, lifetime: self.lifetime })
            }
        })
    }
}

impl RegistryKeyEntry {
    fn signer(self, place: &Place<'_>, lifetime: Duration) -> Result<RegistryKey, String> {
        let pem = place.read(&self.certificate_file)?;
        let file = self.certificate_file.display();
        let certificate =
            CertificateDer::from_pem_slice(&pem).map_err(|_| format!("{file} holds no certificate in PEM"))?;
        let certificate = certificate.to_vec();
        let key = place.open("key", &self.key)?;
        let unfit = || "`key` is no ECDSA key on P-256 in PEM (PKCS #8)".to_owned();
        let der = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).map_err(|_| unfit())?;
        let key = EncodingKey::from_ec_der(der.secret_pkcs8_der());
        // What cannot sign now cannot sign later.
        jsonwebtoken::encode(&Header::new(Algorithm::ES256), &(), &key).map_err(|_| unfit())?;
        Ok(RegistryKey { key, certificate, issuer: self.issuer, audience: self.service, lifetime })
    }
}

impl PresignedEntry {
    fn account(
        self,
        place: &Place<'_>,
        credential_type: CredentialType,
        lifetime: Duration,
    ) -> Result<Presigned, String> {
        if !fettle_egress::is_confidential(&self.endpoint) {
            return Err(AddressError::Insecure(self.endpoint).to_string());
        }
        let secret = place.open("secret_access_key", &self.secret_access_key)?;
        let keys = rusty_s3::Credentials::new(self.access_key_id, secret.as_str());
        let Self { endpoint, region, path_style, .. } = self;
        Ok(Presigned { endpoint, region, path_style, keys, lifetime, credential_type })
    }
}

impl Place<'_> {
    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        let path = self.directory.join(file);
        std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    }

    fn open(&self, field: &str, sealed: &Sealed) -> Result<Zeroizing<String>, String> {
        self.key.open(Purpose::Document, sealed).map_err(|error| format!("`{field}`: {error}"))
    }
}
