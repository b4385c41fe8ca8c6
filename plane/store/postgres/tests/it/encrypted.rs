//! A database on another machine: planes and server prove themselves to each other.

use std::{net::TcpListener, path::Path, sync::Arc};

use fettle_postgres_cluster::{Cluster, SUPERUSER, Tls};
use fettle_store_postgres::{OpenError, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use sqlx::{Connection as _, PgConnection};

use crate::common::Heard;

/// Signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key, PEM.
    fn certify(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![usage];
        (parameters.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// Writes what a plane shows; the address that names it.
fn address(directory: &Path, port: u16, server: &Authority, client: Option<&(String, String)>) -> String {
    let file = |name: &str, content: &str| {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let root = file("root.pem", &server.0.pem());
    let mut url = format!("postgres://{SUPERUSER}@127.0.0.1:{port}/postgres?sslmode=verify-full&sslrootcert={root}");
    if let Some((certificate, key)) = client {
        url += &format!("&sslcert={}&sslkey={}", file("client.pem", certificate), file("client.key", key));
    }
    url
}

async fn open(url: &str) -> Result<PostgresStore, OpenError> {
    PostgresStore::open(&url.parse().unwrap(), Arc::new(Heard::default())).await
}

#[tokio::test]
async fn a_plane_and_its_database_on_another_machine_prove_themselves_to_each_other() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.certify("database", ExtendedKeyUsagePurpose::ServerAuth);
    let root = authority.0.pem();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tls = Tls { certificate: &certificate, key: &key, authority: &root };
    let Some(_cluster) = Cluster::start_over_tls(&tls, port) else { return };
    let directory = tempfile::tempdir().unwrap();
    let of_plane = authority.certify(SUPERUSER, ExtendedKeyUsagePurpose::ClientAuth);
    let of_another = authority.certify("another", ExtendedKeyUsagePurpose::ClientAuth);
    let of_stranger = stranger.certify(SUPERUSER, ExtendedKeyUsagePurpose::ClientAuth);
    for (server, client, what) in [
        (&authority, None, "a plane without a certificate"),
        (&authority, Some(&of_another), "a certificate for another user"),
        (&authority, Some(&of_stranger), "a certificate that somebody else signed"),
        (&stranger, Some(&of_plane), "a database that another authority stands for"),
    ] {
        let refused = open(&address(directory.path(), port, server, client)).await;
        assert!(refused.is_err(), "{what} was let in");
    }
    let url = address(directory.path(), port, &authority, Some(&of_plane));
    let store = open(&url).await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let (all, proven): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE ssl AND client_dn = $1) \
         FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE application_name = 'fettle-plane'",
    )
    .bind(format!("/CN={SUPERUSER}"))
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert!(all > 0 && proven == all, "{all} connections of the plane, {proven} with its certificate");
    drop(store);
}
