//! Tests of `/auth/…`: signing in with a link, the cookie, access tokens, and own credentials.

mod ownership;
mod sessions;
mod store;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use knowledge_core::access::{CredentialKind, TokenScope};
use knowledge_core::model::MemberId;
use knowledge_core::service::NewToken;
use knowledge_http_suite::rows;
use knowledge_server::net::{ForwardingHeader, NetConfig, ProxyConfig, RateLimitConfig, TlsConfig};
use knowledge_server::private_file;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::support::{Answer, Call, InProcess, Show, error};

/// Signed-in member: the value of its cookie, and the response to its login.
struct Member {
    session: String,
    login: Answer,
}

async fn server() -> InProcess {
    InProcess::behind(NetConfig::default()).await
}

/// Issues a credential of a member.
async fn issue(server: &InProcess, member: MemberId, kind: CredentialKind) -> String {
    let provisioning = server.service.provisioning();
    let org = server.org().id;
    let new = NewToken::builder()
        .member(member)
        .kind(kind)
        .name("for a test")
        .scope(TokenScope::default())
        .lifetime(Duration::from_secs(15 * 60))
        .build();
    let issued = provisioning.issue(org, &new).await.expect("issued");
    issued.secret.expose().to_owned()
}

fn login(link: &str) -> Call {
    let call = Call::new(Method::POST, "/auth/login").site("same-origin");
    call.json(&json!({ "link": link }))
}

async fn sign_in(server: &InProcess, member: MemberId) -> Member {
    let link = issue(server, member, CredentialKind::Link).await;
    let login = login(&link).send_to(&server.base_url).await;
    assert_eq!(login.status, 200, "{login:?}");
    let session = session_of(&login);
    Member { session, login }
}

/// Returns the session in the cookie of a login.
fn session_of(login: &Answer) -> String {
    let cookie = login.header("set-cookie");
    let session = cookie.strip_prefix("service_session=").expect("the cookie");
    let session = session.split(';').next().expect("a value").to_owned();
    assert!(session.starts_with("wks_"), "{session}");
    session
}

impl Member {
    /// Returns a call as the server's own page makes it.
    fn call(&self, method: Method, path: &str) -> Call {
        Call::new(method, path)
            .session(&self.session)
            .site("same-origin")
    }

    async fn send(&self, server: &InProcess, method: Method, path: &str) -> Answer {
        self.call(method, path).send_to(&server.base_url).await
    }

    async fn token(&self, server: &InProcess) -> String {
        let answer = self.send(server, Method::POST, "/auth/token").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["token"].as_str().expect("a token").to_owned()
    }
}

/// Returns the attributes of the cookie of a login, without its value.
fn attributes(answer: &Answer) -> Vec<String> {
    let cookie = answer.header("set-cookie").split("; ").skip(1);
    cookie.map(str::to_owned).collect()
}

const PLAIN: [&str; 4] = ["Path=/", "Max-Age=604800", "HttpOnly", "SameSite=Lax"];
const SECURE: [&str; 5] = [
    "Path=/",
    "Max-Age=604800",
    "HttpOnly",
    "SameSite=Lax",
    "Secure",
];

#[tokio::test]
async fn login_sets_cookie_and_tells_who_signed_in() {
    let server = server().await;
    let owner = server.org().members.owner.id;
    let member = sign_in(&server, owner).await;
    assert_eq!(member.login.header("cache-control"), "no-store");
    assert_eq!(attributes(&member.login), PLAIN);
    let session = member.send(&server, Method::GET, "/auth/session").await;
    assert_eq!(session.status, 200);
    assert_eq!(session.header("cache-control"), "no-store");
    assert!(!session.headers.contains_key("set-cookie"));
    let body = session.json();
    assert_eq!(body, member.login.json());
    assert_eq!(body["organization"]["slug"], server.org().slug.as_str());
    assert_eq!(body["member"]["id"], json!(owner));
    assert!(body["member"]["handle"].is_string());
    assert_eq!(body["role"], "owner");
    let actions = body["actions"].as_array().expect("a list");
    assert!(actions.contains(&json!("member:manage")), "{actions:?}");
    for field in ["id", "created_at", "expires_at"] {
        assert!(body["session"][field].is_string(), "{field}");
    }
    assert!(
        !session.show().contains(&member.session),
        "the secret is in the cookie only"
    );
    // The session is the credential of the operations under /v1/orgs.
    let roles = format!("/v1/orgs/{}/custom-roles", server.org().slug);
    assert_eq!(member.send(&server, Method::GET, &roles).await.status, 200);
}

#[tokio::test]
async fn login_link_is_valid_once() {
    let server = server().await;
    let id = server.org().members.viewer.id;
    let link = issue(&server, id, CredentialKind::Link).await;
    let attempts = (0..8).map(|_| login(&link).send_to(&server.base_url));
    let answers = futures::future::join_all(attempts).await;
    let signed_in = answers.iter().filter(|answer| answer.status == 200);
    assert_eq!(signed_in.count(), 1);
    let again = login(&link).send_to(&server.base_url).await;
    insta::assert_snapshot!(error(&again), @r#"401 unauthenticated: the login link is unknown, used, expired or revoked; ask for a new one [www-authenticate: Cookie realm="knowledge", cookie-name="service_session"]"#);
    let token = issue(&server, id, CredentialKind::Bearer).await;
    for text in ["", "wkl_0_0", token.as_str()] {
        let answer = login(text).send_to(&server.base_url).await;
        assert_eq!(answer.show(), again.show(), "{text}");
    }
}

#[tokio::test]
async fn login_requires_a_small_json_body() {
    let server = server().await;
    let send = async |call: Call| call.send_to(&server.base_url).await.status.as_u16();
    let call = || Call::new(Method::POST, "/auth/login").site("same-origin");
    for body in [
        json!({}),
        json!({"link": 1}),
        json!({"link": "a", "b": 1}),
        json!([]),
    ] {
        assert_eq!(send(call().json(&body)).await, 400, "{body}");
    }
    assert_eq!(send(call()).await, 400);
    assert_eq!(
        send(call().header("content-type", "text/plain").body("{}")).await,
        415
    );
    assert_eq!(send(login(&"x".repeat(2_000))).await, 413);
}

#[tokio::test]
async fn cookie_is_secure_behind_a_proxy_with_https() {
    for (trusted, header, line, expected) in rows! {
        ("127.0.0.1/32", ForwardingHeader::XForwardedFor, ("x-forwarded-proto", "https"), true),
        ("127.0.0.1/32", ForwardingHeader::XForwardedFor, ("x-forwarded-proto", "http"), false),
        ("192.0.2.1/32", ForwardingHeader::XForwardedFor, ("x-forwarded-proto", "https"), false),
        ("127.0.0.1/32", ForwardingHeader::Forwarded, ("forwarded", "for=_a;proto=https"), true),
        ("127.0.0.1/32", ForwardingHeader::Forwarded, ("x-forwarded-proto", "https"), false),
    } {
        let server = InProcess::behind(NetConfig {
            proxy: ProxyConfig {
                trusted: vec![trusted.parse().expect("a range")],
                header,
                protocol: false,
            },
            ..NetConfig::default()
        })
        .await;
        let id = server.org().members.viewer.id;
        let link = issue(&server, id, CredentialKind::Link).await;
        let call = login(&link).header(line.0, line.1);
        let answer = call.send_to(&server.base_url).await;
        let expected = if expected { &SECURE[..] } else { &PLAIN };
        assert_eq!(attributes(&answer), expected, "{trusted} {line:?}");
    }
}

/// The proxy in front of the server need not be trusted, nor say which scheme the client used.
#[tokio::test]
async fn cookie_is_secure_with_a_public_https_url() {
    for (url, expected) in [
        ("https://knowledge.example.com", &SECURE[..]),
        ("http://knowledge.example.com", &PLAIN[..]),
    ] {
        let public = Some(url.to_owned());
        let server = InProcess::limited(|options| options.public_url = public).await;
        let member = sign_in(&server, server.org().members.viewer.id).await;
        assert_eq!(attributes(&member.login), expected, "{url}");
        let logout = member.send(&server, Method::POST, "/auth/logout").await;
        let is_secure = attributes(&logout).contains(&"Secure".to_owned());
        assert_eq!(is_secure, expected.contains(&"Secure"), "{url}");
    }
}

#[tokio::test]
async fn cookie_is_secure_over_tls() {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let certificate = certificate.expect("a certificate");
    let directory = tempfile::tempdir().expect("a directory");
    let [chain, key] = ["server.pem", "server.key"].map(|name| directory.path().join(name));
    std::fs::write(&chain, certificate.cert.pem()).expect("write the certificate");
    let pem = certificate.signing_key.serialize_pem();
    private_file::replace(&key, &pem).expect("write the key");
    let server = InProcess::behind(NetConfig {
        tls: TlsConfig::new(chain, key),
        ..NetConfig::default()
    })
    .await;
    let member = server.org().members.viewer.id;
    let link = issue(&server, member, CredentialKind::Link).await;

    let mut roots = RootCertStore::empty();
    roots.add(certificate.cert.der().clone()).expect("a root");
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions().expect("versions");
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let address = server.base_url.strip_prefix("https://").expect("HTTPS");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await;
    let mut stream = stream.expect("a handshake");
    let body = json!({ "link": link }).to_string();
    let request = format!(
        "POST /auth/login HTTP/1.1\r\nHost: {address}\r\nOrigin: https://{address}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    let answer = String::from_utf8(answer).expect("UTF-8");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let mut lines = answer.lines();
    let cookie = lines.find_map(|line| line.strip_prefix("set-cookie: "));
    let attributes: Vec<_> = cookie.expect("a cookie").split("; ").skip(1).collect();
    assert_eq!(attributes, SECURE);
}

#[tokio::test]
async fn requests_of_other_sites_are_refused() {
    let server = server().await;
    let id = server.org().members.admin.id;
    let member = sign_in(&server, id).await;
    let link = issue(&server, id, CredentialKind::Link).await;
    let other = sign_in(&server, id).await.login.json();
    let other = other["session"]["id"].as_str().expect("an id");
    let other = format!("/auth/credentials/{other}");
    // The last of them ends the session.
    let calls = [
        login(&link),
        member.call(Method::POST, "/auth/token"),
        member.call(Method::DELETE, &other),
        member.call(Method::POST, "/auth/logout"),
    ];
    for call in &calls {
        for site in ["same-site", "cross-site"] {
            let answer = call.clone().site(site).send_to(&server.base_url).await;
            assert_eq!(answer.status, 403, "{answer:?}");
            assert!(!answer.headers.contains_key("set-cookie"));
        }
        let bare = call.clone().without("sec-fetch-site");
        let from = |origin: &str| {
            bare.clone()
                .header("origin", origin)
                .send_to(&server.base_url)
        };
        assert_eq!(from("https://evil.example").await.status, 403);
        assert_eq!(from("null").await.status, 403);
    }
    // Nothing has happened, and the server's own page may do all of it.
    assert_eq!(
        member
            .send(&server, Method::GET, "/auth/session")
            .await
            .status,
        200
    );
    let expected: [u16; 4] = [200, 200, 204, 204];
    assert_eq!(calls.len(), expected.len());
    for (call, expected) in calls.into_iter().zip(expected) {
        let origin = server.base_url.as_str();
        let call = call.without("sec-fetch-site").header("origin", origin);
        assert_eq!(call.send_to(&server.base_url).await.status, expected);
    }
}

#[tokio::test]
async fn program_signs_in_and_out_without_origin_headers() {
    let server = server().await;
    let id = server.org().members.admin.id;
    let link = issue(&server, id, CredentialKind::Link).await;
    let call = login(&link).without("sec-fetch-site");
    let answer = call.send_to(&server.base_url).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let session = session_of(&answer);
    for (path, expected) in [("/auth/token", 200), ("/auth/logout", 204)] {
        let call = Call::new(Method::POST, path).session(&session);
        let answer = call.send_to(&server.base_url).await;
        assert_eq!(answer.status, expected, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn auth_paths_list_their_methods() {
    let server = server().await;
    for (path, allow) in [
        ("/auth/login", "POST"),
        ("/auth/session", "GET, HEAD"),
        ("/auth/token", "POST"),
        ("/auth/logout", "POST"),
        ("/auth/credentials", "GET, HEAD"),
        ("/auth/credentials/x", "DELETE"),
        ("/auth/credentials/x/created", "GET, HEAD"),
    ] {
        let answer = Call::new(Method::PUT, path).send_to(&server.base_url).await;
        assert_eq!(answer.status, 405);
        assert_eq!(answer.header("allow"), allow);
        assert_eq!(answer.json()["error"], "method_not_allowed");
    }
    for path in [
        "/auth",
        "/auth/",
        "/auth/other",
        "/auth/credentials/",
        "/auth/credentials/a/b",
    ] {
        let answer = Call::new(Method::GET, path).send_to(&server.base_url).await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn logins_are_limited_by_address() {
    let server = InProcess::behind(NetConfig {
        rate_limit: RateLimitConfig {
            requests: 3,
            window: Duration::from_secs(600),
        },
        ..NetConfig::default()
    })
    .await;
    let viewer = &server.org().members.viewer;
    // A valid session does not make a login that of its member.
    for expected in [401, 401, 401, 429] {
        let call = login("wkl_0_0")
            .session(&viewer.session)
            .site("same-origin");
        let answer = call.send_to(&server.base_url).await;
        assert_eq!(answer.status, expected);
    }
    let session = Call::new(Method::GET, "/auth/session").session(&viewer.session);
    let session = session.send_to(&server.base_url).await;
    assert_eq!(session.status, 200, "a member has a limit of its own");
}
