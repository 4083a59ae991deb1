//! Tables of rejected requests.

use http::Method;
use knowledge_testing::fixture::{MemberFixture, OrgFixture};
use regex::{Captures, Regex};
use uuid::Uuid;

use super::errors::{error, problems};
use super::operations::new_key;
use crate::client::{Answer, Call};
use crate::target::quiet_org;

/// Asserts that an organisation rejects the requests of a table, each in the stated way.
///
/// A row has the caller, method, path and body of a request. The lines below it are the problems of
/// the request, or its one error. Rows that end in the same way may be above the same lines:
///
/// ```text
/// viewer GET /v1/memories/none
/// viewer GET /v1/memories/<nil>
///   404 not_found: there is no such memory {"kind":"memory"}
/// ```
///
/// `<nil>` and the other names of [`value_of`] are replaced, and `<20 x>` by 20 letters.
macro_rules! assert_rejections {
    ($table:literal) => {
        $crate::support::assert_rejected($table).await
    };
}

pub(crate) use assert_rejections;

/// Asserts the rejections of a table: see [`assert_rejections`].
pub(crate) async fn assert_rejected(table: &str) {
    let mut different = Vec::new();
    for (requests, expected) in groups(table) {
        for request in requests {
            let answer = call_of(request).await;
            let found = if is_list_of_problems(&answer) {
                problems(&answer)
            } else {
                error(&answer)
            };
            if found != expected {
                different.push(format!("{request}\n{found}"));
            }
        }
    }
    let different = different.join("\n\n");
    assert!(different.is_empty(), "rejected in other ways:\n{different}");
}

/// Returns the requests of a table that have the same lines below them, with these lines.
fn groups(table: &str) -> Vec<(Vec<&str>, String)> {
    let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let word = line.split(' ').nth(1).unwrap_or_default();
        let is_request = ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"].contains(&word);
        match groups.last_mut() {
            Some((requests, expected)) if is_request && expected.is_empty() => requests.push(line),
            Some((_, expected)) if !is_request => expected.push(line),
            _ => groups.push((vec![line], Vec::new())),
        }
    }
    assert!(!groups.is_empty(), "a table has rows");
    groups
        .into_iter()
        .map(|(requests, expected)| (requests, expected.join("\n")))
        .collect()
}

fn is_list_of_problems(answer: &Answer) -> bool {
    answer.status == 400 && !answer.body.is_empty() && answer.json()["details"]["fields"].is_array()
}

fn call_of(request: &str) -> Call {
    let org = quiet_org();
    let mut words = request.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (caller, method, path) = (word(), word(), replaced(word(), org));
    let method: Method = method.parse().expect("a method");
    let takes_session = path.starts_with("/v1/orgs/");
    // The tests of idempotency cover its absence.
    let requires_key = ["/v1/memories/bulk", "/v1/erasures"].contains(&&*path);
    let mut call = Call::new(method, path);
    if requires_key {
        call = call.key(&new_key());
    }
    let body = replaced(word(), org);
    if !body.is_empty() {
        call = call.header("content-type", "application/json").body(body);
    }
    match caller {
        "nobody" => call,
        "side_only" => call.bearer(&org.tokens.side_only),
        "reading_only" => call.bearer(&org.tokens.reading_only),
        "mcp_key" => call.bearer(&org.tokens.mcp_key),
        name if takes_session => call.session(&member(org, name).session),
        name => call.bearer(&member(org, name).token),
    }
}

fn member<'f>(org: &'f OrgFixture, name: &str) -> &'f MemberFixture {
    let members = &org.members;
    match name {
        "owner" => &members.owner,
        "admin" => &members.admin,
        "member" => &members.member,
        "viewer" => &members.viewer,
        "keeper" => &members.keeper,
        "restrained" => &members.restrained,
        _ => panic!("{name} is not a caller"),
    }
}

/// Replaces the names in angle brackets.
fn replaced(text: &str, org: &OrgFixture) -> String {
    let name = Regex::new("<([a-z_]+|[0-9]+ x)>").expect("a regular expression");
    let value = |found: &Captures<'_>| value_of(&found[1], org);
    name.replace_all(text, value).into_owned()
}

fn value_of(name: &str, org: &OrgFixture) -> String {
    let memories = &org.main.memories;
    match name {
        "nil" => Uuid::nil().to_string(),
        "max" => Uuid::max().to_string(),
        "org" => org.id.to_string(),
        "slug" => org.slug.clone(),
        "main" => org.main.id.to_string(),
        "side" => org.side.id.to_string(),
        "memory" => memories.internal[0].to_string(),
        "approved" => memories.internal[memories.internal.len() - 1].to_string(),
        "private" => memories.private[0].to_string(),
        "restricted" => memories.restricted[0].to_string(),
        "side_memory" => org.side.memories.internal[0].to_string(),
        "source" => org.sources[0].to_string(),
        "recall" => org.recall.to_string(),
        "chat" => org.chats[0].to_string(),
        "connector" => org.connectors[0].to_string(),
        "unheld" => org.roles.unheld.to_string(),
        "inactive" => org.roles.inactive.to_string(),
        "keeper_role" => org.roles.keeper.to_string(),
        "guest_role" => org.roles.guest.to_string(),
        "reviewer_role" => org.roles.reviewer.to_string(),
        count => match count.strip_suffix(" x") {
            Some(count) => "x".repeat(count.parse().expect("a number")),
            None => panic!("<{name}> is not a value"),
        },
    }
}
