//! How a node becomes known to its plane, and stays so: it joins once, registers at each start, renews its certificate
//! in good time, and comes back with an expired one when it was off for long.

use std::{collections::HashMap, path::Path, time::Duration};

use fettle_identity::{Fingerprint, Key, Refusal as TlsRefusal};
use fettle_wire::node::{Credentials, JoinRequest, RegisterRequest, RenewRequest};
use jiff::{SignedDuration, Timestamp};
use tonic::{Code, Request, Status, metadata::AsciiMetadataValue};

use crate::refusals::{About, Refusal};

use super::{Agent, AgentError, CertifiedError, Invitation, backoff, certified::Certified, line::Shown};

/// How a program reads the reason of a refusal.
const CODE: &str = "fettle-code";

/// Reasons for which a plane lets a node in never again.
const BANS: [&str; 4] = ["node.revoked", "node.unknown", "join.certificate_too_old", "join.certificate_unknown"];

/// How often the clock is looked at.
const LOOKS: Duration = Duration::from_secs(30);

/// The longest wait between two attempts.
const LONGEST: Duration = Duration::from_secs(10);

/// The reason of a refusal, for programs.
pub(super) fn code(status: &Status) -> Option<&str> {
    status.metadata().get(CODE).and_then(|code| code.to_str().ok())
}

/// The private key in a file that its owner alone may read.
fn read_key(path: &Path) -> Result<Key, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err("others than its owner may read it; run `chmod 600` on it, and make a new one if they had access"
            .to_owned());
    }
    let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).map_err(|error| error.to_string())?);
    Key::from_pem(&text).map_err(|error| error.to_string())
}

/// What went wrong, down to the cause.
fn chain(error: &AgentError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

/// Whether the plane lets this node in never again.
pub(super) fn is_banned(status: &Status) -> bool {
    code(status).is_some_and(|code| BANS.contains(&code))
}

/// Whether the same call would be refused again.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument | Code::FailedPrecondition
    )
}

/// Whether the certificate does not count at this time by the plane's clock, whatever this node's shows.
pub(super) fn says_expired(status: &Status) -> bool {
    code(status) == Some("node.certificate_expired")
        || matches!(TlsRefusal::of(status), TlsRefusal::Expired | TlsRefusal::NotYetValid)
}

/// A node that its plane knows.
pub(super) struct Admitted {
    /// How often to say that it is alive.
    pub(super) heartbeat: Duration,
    /// What it shows.
    pub(super) certified: Certified,
}

impl Agent {
    /// Lets the plane know this node, for as long as it takes to reach it.
    pub(super) async fn admitted(&self) -> Result<Admitted, AgentError> {
        let mut identity = match Certified::load(&self.settings.data_directory)? {
            Some(identity) => identity,
            None => self.join().await?,
        };
        let mut waits = backoff();
        loop {
            if identity.has_expired(self.now()) {
                identity = self.come_back(identity).await?;
            }
            self.become_known(&identity)?;
            match self.client.clone().register(self.facts(identity.node_id.clone())).await {
                Ok(response) => {
                    let seconds = response.into_inner().heartbeat_interval_seconds;
                    let heartbeat = Duration::from_secs(seconds.clamp(1, 60).into());
                    return Ok(Admitted { heartbeat, certified: identity });
                }
                Err(status) if says_expired(&status) => {
                    tracing::warn!(reason = status.message(), "the plane holds the certificate for expired");
                    identity = self.come_back(identity).await?;
                }
                Err(status) => self.refused_or_away(&status)?,
            }
            tokio::time::sleep(waits.next().unwrap_or(LONGEST)).await;
        }
    }

    /// Joins by what it was given for that.
    async fn join(&self) -> Result<Certified, AgentError> {
        match self.settings.invitation.as_ref().ok_or(AgentError::NoJoinToken)? {
            Invitation::Token(token) => self.join_by_token(token.trim()).await,
            Invitation::Key { file, authority } => self.join_by_key(file, *authority).await,
        }
    }

    /// The request for a certificate proves that this node has the key, and the plane knows the key.
    async fn join_by_key(&self, file: &Path, authority: Fingerprint) -> Result<Certified, AgentError> {
        let key = read_key(file).map_err(|reason| AgentError::Key { path: file.to_owned(), reason })?;
        self.line.show(&Shown::Joining(authority))?;
        let (node_id, credentials) = self.ask_to_join(|| Ok(Request::new(self.asking(&key, Vec::new())?))).await?;
        self.take(self.answered(node_id, key, credentials)?)
    }

    async fn join_by_token(&self, token: &str) -> Result<Certified, AgentError> {
        let authority = token.split_once('.').and_then(|(_, pin)| pin.parse::<Fingerprint>().ok());
        self.line.show(&Shown::Joining(authority.ok_or(AgentError::CutJoinToken)?))?;
        let authorization = AsciiMetadataValue::try_from(format!("Bearer {token}")).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let authorization = authorization.map_err(|_| AgentError::CutJoinToken)?;
        let key = Key::generate().map_err(CertifiedError::Key)?;
        let request = || {
            let mut request = Request::new(self.asking(&key, Vec::new())?);
            request.metadata_mut().insert("authorization", authorization.clone());
            Ok(request)
        };
        let (node_id, credentials) = self.ask_to_join(request).await?;
        self.take(self.answered(node_id, key, credentials)?)
    }

    /// Joins again with a certificate that has expired, and its key.
    async fn come_back(&self, expired: Certified) -> Result<Certified, AgentError> {
        tracing::info!(expired_at = %expired.peer.validity.until, "coming back with an expired certificate");
        self.line.show(&Shown::Expired(&expired.authorities))?;
        let request = || Ok(Request::new(self.asking(&expired.key, expired.certificate.to_vec())?));
        let (node_id, credentials) = self.ask_to_join(request).await?;
        self.take(self.answered(node_id, expired.key, credentials)?)
    }

    async fn ask_to_join(
        &self,
        request: impl Fn() -> Result<Request<JoinRequest>, AgentError>,
    ) -> Result<(String, Credentials), AgentError> {
        let mut waits = backoff();
        loop {
            match self.client.clone().join(request()?).await {
                Ok(response) => {
                    let response = response.into_inner();
                    return Ok((response.node_id, response.credentials.unwrap_or_default()));
                }
                Err(status) => self.refused_or_away(&status)?,
            }
            tokio::time::sleep(waits.next().unwrap_or(LONGEST)).await;
        }
    }

    fn asking(&self, key: &Key, expired_certificate: Vec<u8>) -> Result<JoinRequest, AgentError> {
        let certificate_request = key.request().map_err(CertifiedError::Key)?;
        Ok(JoinRequest { node: Some(self.facts(String::new())), certificate_request, expired_certificate })
    }

    /// What this host says of its node.
    pub(super) fn facts(&self, node_id: String) -> RegisterRequest {
        let mut capabilities: HashMap<String, String> = self.settings.capabilities.clone().into_iter().collect();
        if let Some(active) = self.executor.policies.active() {
            capabilities.insert("policy.revision".to_owned(), active.revision.to_string());
        }
        RegisterRequest {
            name: self.settings.name.clone(),
            host_version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities,
            labels: self.settings.labels.clone().into_iter().collect(),
            slots: self.settings.slots,
            node_id,
        }
    }

    /// What the plane gave, when it is this node's and for this key; otherwise that is written down.
    fn answered(&self, node_id: String, key: Key, given: Credentials) -> Result<Certified, AgentError> {
        Certified::answered(node_id, key, given, self.now()).map_err(|error| {
            let error = AgentError::from(error);
            let reason = chain(&error);
            let about = About::default();
            self.executor.refuse(&Refusal { code: "node.certificate_unusable", reason: &reason, about });
            error
        })
    }

    fn take(&self, node: Certified) -> Result<Certified, AgentError> {
        node.save(&self.settings.data_directory)?;
        tracing::info!(
            node_id = node.node_id,
            serial = node.peer.serial,
            expires_at = %node.peer.validity.until,
            "the plane gave a certificate"
        );
        Ok(node)
    }

    /// An error when the plane would say the same again; a line in the log when it may answer later.
    fn refused_or_away(&self, status: &Status) -> Result<(), AgentError> {
        if is_final(status) {
            return Err(self.refused(status));
        }
        let (plane, reason) = (&self.settings.plane, status.message());
        tracing::warn!(plane, reason, "the plane does not answer; trying again");
        Ok(())
    }

    pub(super) fn refused(&self, status: &Status) -> AgentError {
        let is_final = is_banned(status);
        AgentError::Refused { plane: self.settings.plane.clone(), reason: status.message().to_owned(), is_final }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.executor.clock.now()).unwrap_or(Timestamp::MAX)
    }

    /// Renews the certificate when it is time, and at once when the authorities change. Ends only when the plane says that
    /// this node may not come back.
    pub(super) async fn keep_certificate(&self, mut node: Certified) -> AgentError {
        let (mut marks, mut refusals) = (self.marks.subscribe(), self.expired.subscribe());
        let mut waits = backoff();
        let (mut hurries, mut is_refused) = (self.is_outdated(&node), false);
        loop {
            let due = node.renew_at.duration_since(self.now());
            if due > SignedDuration::ZERO && !hurries && !is_refused {
                // Not all at once: the clock may be set, and machines sleep.
                tokio::select! {
                    () = tokio::time::sleep(Duration::try_from(due).unwrap_or_default().min(LOOKS)) => {}
                    // Only a change: planes that do not agree yet would have it renew without end.
                    _ = marks.changed() => hurries = self.is_outdated(&node),
                    _ = refusals.changed() => is_refused = true,
                }
                continue;
            }
            match self.renewed(&node, is_refused).await {
                Ok(renewed) => {
                    node = renewed;
                    (hurries, is_refused) = (false, false);
                    // What was refused until now showed another certificate.
                    refusals.mark_unchanged();
                    self.executor.metrics.certificates_renewed.inc();
                    self.moves.send_modify(|moves| *moves += 1);
                    if node.renew_at > self.now() {
                        waits = backoff();
                    } else {
                        tracing::warn!("the plane gave a certificate that is to be renewed at once");
                        tokio::time::sleep(waits.next().unwrap_or(LONGEST)).await;
                    }
                }
                Err(error @ AgentError::Refused { is_final: true, .. }) => return error,
                Err(error) => {
                    let (reason, expires_at) = (chain(&error), node.peer.validity.until);
                    tracing::warn!(reason, %expires_at, "the certificate is not renewed");
                    tokio::time::sleep(waits.next().unwrap_or(LONGEST)).await;
                }
            }
        }
    }

    /// Whether other authorities count or sign than when it was given.
    fn is_outdated(&self, node: &Certified) -> bool {
        let mark = self.marks.borrow();
        !mark.is_empty() && *mark != node.mark
    }

    /// The next certificate. One that counts no longer, or so the plane says, asks for it as one that has expired: the
    /// machine slept, or the clocks do not agree.
    async fn renewed(&self, node: &Certified, is_refused: bool) -> Result<Certified, AgentError> {
        let renewed = if is_refused || node.has_expired(self.now()) {
            None
        } else {
            let key = Key::generate().map_err(CertifiedError::Key)?;
            let certificate_request = key.request().map_err(CertifiedError::Key)?;
            let request = RenewRequest { node_id: node.node_id.clone(), certificate_request };
            match self.client.clone().renew(request).await {
                Ok(answer) => Some((key, answer.into_inner().credentials.unwrap_or_default())),
                Err(status) if says_expired(&status) => None,
                Err(status) => return Err(self.refused(&status)),
            }
        };
        let next = match renewed {
            Some((key, credentials)) => self.take(self.answered(node.node_id.clone(), key, credentials)?)?,
            None => {
                let expired = Certified::load(&self.settings.data_directory)?.ok_or(AgentError::NoJoinToken)?;
                self.come_back(expired).await?
            }
        };
        self.become_known(&next)?;
        Ok(next)
    }
}
