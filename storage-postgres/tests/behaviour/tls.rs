//! Connections over TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_storage_postgres::testing::{self, Server, ServerOptions};
use knowledge_storage_postgres::{OpenError, PostgresOptions, PostgresStore};
use knowledge_store::Store;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::support::{assert_committed, put};

/// Creates an authority and returns it with its certificate in PEM.
fn authority() -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

/// Returns the options of a server whose certificate is for `127.0.0.1` alone.
fn encrypted(authority: &Issuer<'static, KeyPair>) -> ServerOptions {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    ServerOptions::default()
        .setting("ssl", "on")
        .file("server.crt", &certificate.pem())
        .file("server.key", &key.serialize_pem())
}

async fn open(
    server: &Server,
    host: &str,
    parameters: &str,
    roots: Option<&Path>,
) -> Result<PostgresStore, OpenError> {
    let (password, port) = (server.password(), server.port());
    let url = format!("postgres://postgres:{password}@{host}:{port}/postgres?{parameters}");
    let mut options = PostgresOptions::new(&url).unwrap();
    if let Some(roots) = roots {
        options = options.root_certificates(roots);
    }
    PostgresStore::open(options).await
}

#[test]
fn server_is_verified_by_authority_and_name() {
    let (authority, root) = authority();
    let (_, other_root) = self::authority();
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, pem: &str| -> PathBuf {
        let path = directory.path().join(name);
        fs::write(&path, pem).unwrap();
        path
    };
    let (right, wrong) = (write("right.pem", &root), write("wrong.pem", &other_root));
    let empty = write("empty.pem", "");
    testing::run_alone(
        &testing::installations_with_tls(),
        &encrypted(&authority),
        |server: Arc<Server>| {
            let (right, wrong, empty) = (right.clone(), wrong.clone(), empty.clone());
            async move {
                for parameters in [
                    "sslmode=verify-full",
                    "sslmode=require",
                    "sslmode=verify-full&channel_binding=require",
                ] {
                    let store = open(&server, "127.0.0.1", parameters, Some(&right))
                        .await
                        .unwrap();
                    assert_committed(store.commit(put("a", "1")).await);
                    store.close().await;
                }
                let by_url = format!("sslmode=verify-full&sslrootcert={}", right.display());
                let store = open(&server, "127.0.0.1", &by_url, None).await.unwrap();
                assert_committed(store.commit(put("a", "1")).await);
                let client = server.connect("postgres").await;
                let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING \
                                 (pid) \
                WHERE application_name = 'knowledge' AND ssl = ANY($1)";
                for (ssl, is_found) in [(vec![true], true), (vec![false], false)] {
                    let found: i64 = client.query_one(encrypted, &[&ssl]).await.unwrap().get(0);
                    assert_eq!(found > 0, is_found);
                }
                for (host, roots) in [
                    ("127.0.0.1", Some(&*wrong)),
                    ("localhost", Some(&*right)),
                    // The authorities of the system, if there are any.
                    ("127.0.0.1", None),
                ] {
                    let error = open(&server, host, "sslmode=verify-full", roots)
                        .await
                        .unwrap_err();
                    let is_rejected = match roots {
                        Some(_) => matches!(error, OpenError::Tls { .. }),
                        None => matches!(
                            error,
                            OpenError::Tls { .. } | OpenError::RootCertificates { .. }
                        ),
                    };
                    assert!(is_rejected, "{error}");
                }
                let missing = directory_entry(&empty, "missing.pem");
                for roots in [&empty, &missing] {
                    let opened =
                        open(&server, "127.0.0.1", "sslmode=verify-full", Some(roots)).await;
                    let error = opened.unwrap_err();
                    assert!(
                        matches!(error, OpenError::RootCertificates { .. }),
                        "{error}"
                    );
                }
            }
        },
    );
}

fn directory_entry(sibling: &Path, name: &str) -> PathBuf {
    sibling.with_file_name(name)
}

#[test]
fn server_without_tls_is_rejected_if_tls_is_required() {
    let (_, root) = authority();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("root.pem");
    fs::write(&path, root).unwrap();
    testing::run(|server| {
        let path = path.clone();
        async move {
            let opened = open(server, "127.0.0.1", "sslmode=verify-full", Some(&path)).await;
            let error = opened.unwrap_err();
            assert!(matches!(error, OpenError::Tls { .. }), "{error}");
        }
    });
}
