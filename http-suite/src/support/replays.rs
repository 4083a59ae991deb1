//! Requests that are sent more than once with one idempotency key.

use futures::future::join_all;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use super::operations::{bulk_with_key, dashboard, new_key};
use crate::client::Answer;

/// Number of concurrent calls with one key.
const CONCURRENT_CALLS: usize = 64;

/// Returns the response without its replay marker.
pub(crate) fn without_replayed(answer: &Answer) -> Value {
    let mut body = answer.json();
    body.as_object_mut().expect("an object").remove("replayed");
    body
}

/// Returns true if a successful response is a replay, as its header and its body say.
pub(crate) fn is_replay(answer: &Answer) -> bool {
    assert_eq!(answer.status, 200, "{answer:?}");
    let replayed = answer.json()["replayed"].as_bool().expect("a boolean");
    let header = answer.headers.get("idempotent-replayed");
    assert_eq!(
        header.is_some_and(|value| value == "true"),
        replayed,
        "{answer:?}"
    );
    replayed
}

/// Sends one request many times at once, and returns its operation.
///
/// One call has to execute it, and all have to return the same.
///
/// # Panics
/// If it does not.
pub async fn send_at_once(base_url: &str, org: &OrgFixture) -> String {
    let key = new_key();
    let body = json!({
        "memoryIds": org.main.memories.internal[..40],
        "reviewStatus": "approved",
    });
    let tokens = [&org.members.member.token, &org.members.member.second_token];
    let calls = (0..CONCURRENT_CALLS)
        .map(|number| bulk_with_key(tokens[number % 2], &key, &body).send_to(base_url));
    let answers = join_all(calls).await;
    assert_eq!(
        answers.iter().filter(|answer| !is_replay(answer)).count(),
        1
    );
    let expected = without_replayed(&answers[0]);
    for answer in &answers {
        assert_eq!(without_replayed(answer), expected);
    }
    let summary = dashboard(&org.members.member.token, org.main.id)
        .send_to(base_url)
        .await;
    // Eighty memories were pending review.
    assert_eq!(summary.json()["review_backlog_count"], 40);
    expected["operationId"].as_str().expect("an id").to_owned()
}
