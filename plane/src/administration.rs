//! What somebody with access to the database can do, whether or not a plane runs on it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fettle_identity::Directory;
use fettle_model::name::Label;
use fettle_store::{
    Store, StoreError,
    context::{Actor, Context},
    id::{JoinTokenId, TokenId},
    page::Page,
    project::{DEFAULT_ORGANISATION, Project},
    secret::SecretHash,
    token::{NewJoinToken, NewToken},
};
use jiff::{SignedDuration, Timestamp};

pub use fettle_store::{
    audit::AuditRecord,
    token::{Access, ProjectRole, Token},
};

use crate::{
    clock::{self, Clock, NoRandomness, SystemClock},
    config::default_authorities,
    database::{Database, DatabaseError},
    identity::{
        authorities::{self, IdentityError},
        secret::{self, Purpose},
    },
};

pub use crate::identity::secret::Secret;

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum AdministrationError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}; name one that this user may write")]
    Directory {
        /// Which.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The database cannot be opened.
    #[error(transparent)]
    Database(DatabaseError),
    /// The store refused.
    #[error(transparent)]
    Store(StoreError),
    /// The authority of nodes cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No random bytes for a secret.
    #[error("the operating system gives no random bytes")]
    Random(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<StoreError> for AdministrationError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NoRandomness> for AdministrationError {
    fn from(error: NoRandomness) -> Self {
        Self::Random(Box::new(error))
    }
}

/// An open database of a plane. Safe to use beside running planes.
pub struct Administration {
    store: Arc<dyn Store>,
    clock: SystemClock,
    authorities: Directory,
}

impl Administration {
    /// Makes the data directory when it is not there.
    pub(crate) fn make_directory(path: &Path) -> Result<(), AdministrationError> {
        make_directory(path)
            .map_err(|source| AdministrationError::Directory { path: path.display().to_string(), source })
    }

    /// Opens the data directory, and makes it when it is not there.
    ///
    /// # Errors
    /// When the directory or its database cannot be used.
    pub async fn open(data_directory: &Path) -> Result<Self, AdministrationError> {
        Self::open_in(data_directory, &Database::DataDirectory).await
    }

    /// The same for a plane whose database may be elsewhere.
    ///
    /// # Errors
    /// When the directory or the database cannot be used.
    pub async fn open_in(data_directory: &Path, database: &Database) -> Result<Self, AdministrationError> {
        if matches!(database, Database::DataDirectory) {
            Self::make_directory(data_directory)?;
        }
        let store = database.open(data_directory, Arc::new(())).await.map_err(AdministrationError::Database)?;
        let authorities = Directory::new(default_authorities(data_directory));
        Ok(Self { store, clock: SystemClock, authorities })
    }

    /// The same with authorities that are elsewhere.
    #[must_use]
    pub fn with_authorities(self, directory: PathBuf) -> Self {
        Self { authorities: Directory::new(directory), ..self }
    }

    fn context(&self) -> Result<Context, NoRandomness> {
        let correlation_id = clock::ulid(&self.clock)?.to_string();
        Ok(Context { actor: Actor::CommandLine, correlation_id, at: self.clock.now() })
    }

    fn end(&self, after: Duration) -> Timestamp {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        self.clock.now().saturating_add(after).unwrap_or(Timestamp::MAX)
    }

    /// Makes sure that a project is there.
    ///
    /// # Errors
    /// When it belongs to another organisation.
    pub async fn ensure_project(&self, project: Project) -> Result<(), AdministrationError> {
        Ok(self.store.ensure_project(project, self.context()?).await?)
    }

    /// Creates a bearer token, and its project when that is new. The secret is not kept.
    ///
    /// # Errors
    /// When the name is taken, or the project belongs to another organisation.
    pub async fn create_token(
        &self,
        name: &str,
        access: Access,
        expires: Option<Duration>,
    ) -> Result<(Token, Secret), AdministrationError> {
        let secret = Secret::generate(&self.clock, Purpose::Token)?;
        let token = NewToken {
            id: TokenId::new(clock::ulid(&self.clock)?),
            name: name.to_owned(),
            access,
            hash: secret.hash(),
            expires_at: expires.map(|after| self.end(after)),
        };
        Ok((self.store.create_token(token, self.context()?).await?, secret))
    }

    /// All bearer tokens, the newest first.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn tokens(&self) -> Result<Vec<Token>, AdministrationError> {
        Ok(self.store.tokens().await?)
    }

    /// Makes a token useless, by id or by the name of one that is still valid.
    ///
    /// # Errors
    /// When there is none.
    pub async fn revoke_token(&self, id_or_name: &str) -> Result<Token, AdministrationError> {
        let id = self.token_id(id_or_name).await?;
        Ok(self.store.revoke_token(id, self.context()?).await?)
    }

    /// Gives a token another secret, by id or by the name of one that is still valid. The secret that it has stays good for
    /// `overlap`. The new one is not kept.
    ///
    /// # Errors
    /// When there is none, or it is not valid any more.
    pub async fn rotate_token(
        &self,
        id_or_name: &str,
        overlap: Duration,
    ) -> Result<(Token, Secret), AdministrationError> {
        let id = self.token_id(id_or_name).await?;
        let secret = Secret::generate(&self.clock, Purpose::Token)?;
        let rotated = self.store.rotate_token(id, secret.hash(), self.end(overlap), self.context()?).await?;
        Ok((rotated, secret))
    }

    async fn token_id(&self, id_or_name: &str) -> Result<TokenId, AdministrationError> {
        if let Ok(id) = id_or_name.parse() {
            return Ok(id);
        }
        let tokens = self.store.tokens().await?;
        let named = tokens.iter().find(|token| token.name == id_or_name && token.revoked_at.is_none());
        Ok(named.map(|token| token.id).ok_or_else(|| StoreError::not_found("token", id_or_name))?)
    }

    /// Creates a token with which `uses` nodes can join. The secret is not kept.
    ///
    /// # Errors
    /// When the project belongs to another organisation, or the authority's files cannot be used.
    pub async fn create_join_token(
        &self,
        uses: u32,
        owner: Option<Project>,
        expires: Duration,
    ) -> Result<Secret, AdministrationError> {
        self.create_labelling_join_token(uses, owner, expires, BTreeMap::new()).await
    }

    /// Creates a token with which `uses` nodes can join, and have these labels whatever their hosts say. The secret is
    /// not kept. With it goes what the hosts know the plane by: the fingerprint of the authority that signs now.
    ///
    /// # Errors
    /// When the project belongs to another organisation, or the authority's files cannot be used.
    pub async fn create_labelling_join_token(
        &self,
        uses: u32,
        owner: Option<Project>,
        expires: Duration,
        labels: BTreeMap<String, String>,
    ) -> Result<Secret, AdministrationError> {
        let authority = authorities::open(&self.authorities, &self.clock)?.signs.fingerprint();
        let secret = Secret::generate(&self.clock, Purpose::Join)?;
        self.keep_join_token(secret.hash(), uses, owner, (expires, labels)).await?;
        Ok(secret.with(authority))
    }

    async fn keep_join_token(
        &self,
        hash: SecretHash,
        uses: u32,
        owner: Option<Project>,
        (expires, labels): (Duration, BTreeMap<String, String>),
    ) -> Result<(), AdministrationError> {
        let id = JoinTokenId::new(clock::ulid(&self.clock)?);
        let token = NewJoinToken { id, hash, uses, owner, labels, expires_at: self.end(expires) };
        Ok(self.store.create_join_token(token, self.context()?).await?)
    }

    /// Lets one node in that proves to have this key (SubjectPublicKeyInfo, DER), without a join token. Answers the
    /// fingerprint of the authority that signs now, by which its host knows the plane.
    ///
    /// # Errors
    /// When the project belongs to another organisation, or the authority's files cannot be used.
    pub async fn allow_key(
        &self,
        public_key: &[u8],
        owner: Option<Project>,
        expires: Duration,
        labels: BTreeMap<String, String>,
    ) -> Result<fettle_identity::Fingerprint, AdministrationError> {
        let authority = authorities::open(&self.authorities, &self.clock)?.signs.fingerprint();
        self.keep_join_token(secret::key_hash(public_key), 1, owner, (expires, labels)).await?;
        Ok(authority)
    }

    /// Up to a thousand rows of the audit trail after a sequence number, the oldest first.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn audit(&self, after: Option<i64>) -> Result<Vec<AuditRecord>, AdministrationError> {
        Ok(self.store.audit(Page { after, size: 1000 }).await?)
    }

    /// Closes the database.
    pub async fn close(&self) {
        self.store.close().await;
    }
}

/// The project of this name; of the default organisation when none is named.
#[must_use]
pub fn project(project_id: Label, org_id: Option<Label>) -> Option<Project> {
    let org_id = org_id.or_else(|| DEFAULT_ORGANISATION.parse().ok())?;
    Some(Project { project_id, org_id })
}

/// Makes a directory that only this user may enter.
pub(crate) fn make_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}
