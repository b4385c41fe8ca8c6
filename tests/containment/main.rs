//! What somebody who means harm tries, and what comes of it: each attempt is refused with a reason of its own, and
//! the reason is in the audit trail.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../plane/tests/it/support/member.rs"]
mod member;
mod network;
mod node;
mod plane;
mod roll_back;
#[path = "../../host/tests/it/support/plane.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod taken_over;
mod tenant;

use std::{sync::Arc, time::Duration};

use fettle_identity::{Authority, Certificate, Directory, Key, KeyPlace, Role, Roots, Serial, Validity};
use fettle_plane::{
    Plane, PlaneConfig, RunningPlane,
    administration::{Access, Administration},
};
use fettle_tests::eventually;
use fettle_wire::node::RegisterRequest;
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tonic::Status;

use self::member::Member;

const PATIENCE: Duration = Duration::from_secs(20);

/// A plane that is attacked.
pub(crate) struct Ground {
    pub(crate) plane: RunningPlane,
    pub(crate) administration: Administration,
    pub(crate) admin: String,
    directory: TempDir,
}

/// What a host says of its node.
pub(crate) fn facts(name: &str) -> RegisterRequest {
    RegisterRequest { name: name.to_owned(), host_version: "1".to_owned(), slots: 1, ..RegisterRequest::default() }
}

/// The reason of a refusal, for programs.
pub(crate) fn code(status: &Status) -> String {
    let code = status.metadata().get("fettle-code").map(|code| code.to_str().unwrap().to_owned());
    code.unwrap_or_else(|| format!("no code: {status}"))
}

impl Ground {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut PlaneConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = PlaneConfig::new(directory.path());
        change(&mut config);
        let plane = Plane::start(config).await.unwrap();
        let administration = Administration::open(directory.path()).await.unwrap();
        let (_, admin) = administration.create_token("admin", Access::PlatformAdmin, None).await.unwrap();
        Self { plane, administration, admin: admin.reveal().to_owned(), directory }
    }

    pub(crate) async fn join_token(&self, uses: u32) -> String {
        let hour = Duration::from_secs(3600);
        let token = self.administration.create_join_token(uses, None, hour).await.unwrap();
        token.reveal().to_owned()
    }

    pub(crate) async fn member(&self, name: &str) -> Member {
        Member::join(self.plane.node_address(), &self.join_token(1).await, facts(name)).await.unwrap()
    }

    /// The plane's own authority, as whoever stole its files has it.
    pub(crate) fn authority(&self) -> Authority {
        Directory::new(self.directory.path().join("authority")).open().unwrap().signs
    }

    /// Lets another authority take the place of the plane's, at once.
    pub(crate) fn replace_authority(&self) {
        let directory = Directory::new(self.directory.path().join("authority"));
        let now = Timestamp::now();
        let validity = Validity { from: now, until: now + SignedDuration::from_hours(9) };
        directory.begin_rotation(&KeyPlace::File, validity, Serial([7; 16])).unwrap();
        let signs = directory.activate().unwrap();
        directory.finish_rotation(signs).unwrap();
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::new(vec![self.authority().root().clone()]).unwrap()
    }

    /// How often this reason is in the audit trail.
    pub(crate) async fn audited(&self, code: &str) -> usize {
        self.administration.audit(None).await.unwrap().iter().filter(|row| row.result == code).count()
    }

    /// Waits until this reason is in the audit trail.
    pub(crate) async fn is_audited(&self, code: &str) {
        let found = async || (self.audited(code).await > 0).then_some(());
        eventually(&format!("`{code}` in the audit trail"), PATIENCE, found).await;
    }
}

/// A certificate for this key that this authority signs.
pub(crate) fn signed(authority: &Authority, key: &Key, role: &Role, hours: (i64, i64)) -> Certificate {
    let at = |hours| Timestamp::now() + SignedDuration::from_hours(hours);
    let validity = Validity { from: at(hours.0), until: at(hours.1) };
    authority.issue(&key.request().unwrap(), role, validity, Serial([9; 16])).unwrap()
}

/// A key, and a certificate for it.
pub(crate) fn issued(authority: &Authority, role: &Role, hours: (i64, i64)) -> (Key, Certificate) {
    let key = Key::generate().unwrap();
    let certificate = signed(authority, &key, role, hours);
    (key, certificate)
}

/// An authority of nobody.
pub(crate) fn strange_authority() -> Authority {
    let now = Timestamp::now();
    let validity = Validity { from: now - SignedDuration::from_hours(1), until: now + SignedDuration::from_hours(9) };
    Authority::create(Arc::new(Key::generate().unwrap()), validity, Serial([8; 16])).unwrap()
}
