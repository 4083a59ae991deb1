//! Credentials: accepted ones, and the responses without one.

use http::Method;
use knowledge_testing::fixture::OrgFixture;

use crate::support::{Call, Operation, error, foreign_org, own_org, quiet_org};

suite![
    missing_credential_is_rejected,
    invalid_credentials_are_rejected_alike,
    credentials_of_the_other_kind_are_rejected,
    token_is_accepted_only_as_bearer_header,
    session_is_found_among_other_cookies,
    authentication_precedes_validation,
    write_with_session_from_another_origin_is_rejected,
    write_with_an_empty_origin_is_rejected,
    every_write_with_session_from_another_origin_is_rejected,
    program_writes_with_session_without_origin_headers,
];

const BEARER: &str = "Bearer realm=\"knowledge\"";
const INVALID_TOKEN: &str = "Bearer realm=\"knowledge\", error=\"invalid_token\"";
const COOKIE: &str = "Cookie realm=\"knowledge\", cookie-name=\"service_session\"";

/// Asserts that the operation rejects the credential and states the required scheme.
async fn refused(operation: &Operation, call: Call, why: &str) {
    let has_token = call.has_token();
    let answer = call.await;
    assert_eq!(
        answer.status, 401,
        "{} with {why}: {answer:?}",
        operation.name
    );
    let challenge = match (operation.takes_session, has_token) {
        (true, _) => COOKIE,
        (false, false) => BEARER,
        (false, true) => INVALID_TOKEN,
    };
    assert_eq!(
        answer.header("www-authenticate"),
        challenge,
        "{} with {why}",
        operation.name
    );
    assert_eq!(
        operation.error_of(&answer).0,
        "unauthenticated",
        "{}",
        operation.name
    );
}

async fn missing_credential_is_rejected() {
    for operation in Operation::every(quiet_org()) {
        refused(&operation, operation.anonymous(), "none").await;
    }
}

async fn invalid_credentials_are_rejected_alike() {
    let org = quiet_org();
    for operation in Operation::every(org) {
        let dead = if operation.takes_session {
            &org.dead_sessions
        } else {
            &org.tokens.dead
        };
        let alive = if operation.takes_session {
            &org.members.owner.session
        } else {
            &org.members.owner.token
        };
        let mut forged = alive.clone();
        let last = forged.pop().expect("not empty");
        // Two bits of the last character are padding: this changes one of the others.
        forged.push(if last == 'A' { 'Q' } else { 'A' });
        let other_org = alive.replace(
            &org.id.0.simple().to_string(),
            &foreign_org().id.0.simple().to_string(),
        );
        for (why, text) in [
            ("an expired one", dead.expired.as_str()),
            ("a revoked one", &dead.revoked),
            ("a forged one", &forged),
            ("one that says it is another organisation's", &other_org),
            ("an empty one", ""),
            ("one that cannot be one", "wkt_0_0"),
            ("one with something behind it", &format!("{alive}0")),
        ] {
            refused(&operation, operation.by(text), why).await;
        }
    }
}

async fn credentials_of_the_other_kind_are_rejected() {
    let org = quiet_org();
    let owner = &org.members.owner;
    for operation in Operation::every(org) {
        let anonymous = operation.anonymous();
        let (here, there) = if operation.takes_session {
            (
                anonymous.clone().bearer(&owner.token),
                operation.by(&owner.token),
            )
        } else {
            (
                anonymous.clone().session(&owner.session),
                operation.by(&owner.session),
            )
        };
        refused(&operation, here, "the other kind, carried as such").await;
        refused(&operation, there, "the other kind, carried as this one").await;
    }
}

async fn token_is_accepted_only_as_bearer_header() {
    let org = quiet_org();
    let token = &org.members.viewer.token;
    let dashboard = &Operation::all(org)[1];
    for scheme in ["bearer", "BEARER", "Bearer  "] {
        let call = dashboard
            .anonymous()
            .header("authorization", format!("{scheme} {token}"));
        assert_eq!(call.await.status, 200, "{scheme}");
    }
    for value in [
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer{token}"),
        "Bearer".to_owned(),
    ] {
        refused(
            dashboard,
            dashboard.anonymous().header("authorization", &value),
            &value,
        )
        .await;
    }
    let in_query = format!(
        "/v1/workspaces/{}/dashboard-summary?access_token={token}",
        org.main.id
    );
    let call = Call::new(Method::GET, in_query);
    refused(dashboard, call, "one in the query").await;
}

async fn session_is_found_among_other_cookies() {
    let org = quiet_org();
    let list = &Operation::all(org)[4];
    let session = format!("service_session={}", org.members.viewer.session);
    for cookies in [
        format!("theme=dark; {session}; lang=en"),
        format!("{session};theme=dark"),
        format!("my_service_session=1; {session}"),
    ] {
        let answer = list.anonymous().header("cookie", &cookies).await;
        assert_eq!(answer.status, 200, "{cookies}");
    }
    let two_headers = list
        .anonymous()
        .header("cookie", "theme=dark")
        .header("cookie", session);
    assert_eq!(two_headers.await.status, 200);
}

/// An unauthenticated caller learns neither what exists nor which values are valid.
async fn authentication_precedes_validation() {
    let org = quiet_org();
    for operation in Operation::every(org) {
        let wrong = operation
            .anonymous()
            .without("content-type")
            .without("idempotency-key");
        refused(
            &operation,
            wrong.body("no JSON"),
            "a body that is wrong in every way",
        )
        .await;
    }
    for path in [
        "/v1/workspaces/x/dashboard-summary",
        "/v1/workspaces/x/webhooks",
    ] {
        let method = if path.ends_with("webhooks") {
            Method::POST
        } else {
            Method::GET
        };
        let answer = Call::new(method, path).await;
        assert_eq!(answer.status, 401, "{path}");
    }
    for path in ["/v1/orgs/x/custom-roles/x", "/v1/orgs/%00/custom-roles/x"] {
        let answer = Call::new(Method::DELETE, path).await;
        assert_eq!(answer.status, 401, "{path}");
    }
}

async fn write_with_an_empty_origin_is_rejected() {
    let operations = Operation::all(quiet_org());
    for name in ["origin", "sec-fetch-site"] {
        // Two writes with a session; a read with one, and a call with a token.
        for (index, expected) in [(2, 403), (3, 403), (4, 200), (1, 200)] {
            let operation = &operations[index];
            let answer = operation.call.clone().header(name, "").await;
            assert_eq!(answer.status, expected, "{} {name}", operation.name);
        }
    }
}

async fn write_with_session_from_another_origin_is_rejected() {
    let org = quiet_org();
    let operations = Operation::all(org);
    let update = &operations[3].call;
    insta::assert_snapshot!(error(&update.clone().site("cross-site").await), @r#"403 forbidden: cross-origin writes with a session cookie are not allowed {"permission":null}"#);
    let status = async |call: &Call, headers: &[(&str, &str)]| {
        let call = headers
            .iter()
            .fold(call.clone(), |call, (name, value)| call.header(name, value));
        call.await.status.as_u16()
    };
    let own = ("origin", "http://knowledge.test");
    let host = ("host", "knowledge.test");
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "https://evil.example"), host],
        &[("origin", "null")],
        &[("origin", "null"), host],
        &[own, own, host],
        &[
            ("sec-fetch-site", "cross-site"),
            ("origin", "https://evil.example"),
        ],
        &[("sec-fetch-site", "cross-site"), own, host],
        &[
            ("sec-fetch-site", "same-site"),
            ("origin", "http://app.knowledge.test"),
            host,
        ],
        &[("sec-fetch-site", "same-site"), own, host],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none"), own, host],
        &[("sec-fetch-site", "something new")],
        &[("sec-fetch-site", "none"), ("sec-fetch-site", "none")],
    ] {
        for operation in &operations[2..4] {
            assert_eq!(
                status(&operation.call, headers).await,
                403,
                "{} {headers:?}",
                operation.name
            );
        }
        // A read changes nothing, and a browser hides its response from the other origin.
        assert_eq!(
            status(&operations[4].call, headers).await,
            200,
            "{headers:?}"
        );
        // A page of another origin cannot make a browser send a token.
        assert_eq!(
            status(&operations[1].call, headers).await,
            200,
            "{headers:?}"
        );
    }
    for headers in [
        &[][..],
        &[host],
        &[("sec-fetch-site", "same-origin")],
        &[("sec-fetch-site", "same-origin"), own],
        &[("sec-fetch-site", "none")],
        &[own, host],
    ] {
        assert_eq!(status(update, headers).await, 200, "{headers:?}");
    }
}

/// Returns the writes with a session, as a client makes them that knows the interface only.
fn writes_with_session(org: &OrgFixture) -> impl Iterator<Item = Operation> {
    let every = Operation::every(org).into_iter();
    every.filter(|operation| operation.takes_session && !operation.call.is_safe())
}

async fn every_write_with_session_from_another_origin_is_rejected() {
    for operation in writes_with_session(quiet_org()) {
        for call in [
            operation.call.clone().site("same-site"),
            operation
                .call
                .clone()
                .header("origin", "https://evil.example"),
            operation.call.clone().header("origin", "null"),
        ] {
            let answer = call.await;
            assert_eq!(answer.status, 403, "{}", operation.name);
            assert_eq!(operation.error_of(&answer).0, "forbidden");
        }
    }
}

/// Such a write comes from a program: browsers send one of the headers with every write.
async fn program_writes_with_session_without_origin_headers() {
    let mut writes: Vec<Operation> = writes_with_session(own_org()).collect();
    // The others need the member.
    writes.sort_by_key(|operation| operation.name == "remove member");
    for operation in writes {
        let call = operation
            .call
            .clone()
            .without("sec-fetch-site")
            .without("origin");
        let answer = call.await;
        let is_accepted = match operation.name {
            // There is no such token.
            "end token" => answer.status == 404,
            // The member has a token already.
            "create login link" => operation
                .error_of(&answer)
                .1
                .contains("session or token yet"),
            _ => answer.status.is_success(),
        };
        assert!(is_accepted, "{}: {answer:?}", operation.name);
    }
}
