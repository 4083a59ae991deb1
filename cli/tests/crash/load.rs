//! Clients that send one bulk update after another until the server is gone.

use std::sync::Arc;

use http::Method;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::lane::{Lane, Request};
use knowledge_http_suite::client::{Call, Failed, GUARD};

/// Sends a request; any response must be a 200.
pub(crate) async fn send(base_url: &str, token: &str, request: &Request) -> Result<Value, Failed> {
    let call = Call::new(Method::PATCH, "/v1/memories/bulk")
        .bearer(token)
        .key(&request.key)
        .json(&request.body());
    let answer = call.try_send_to(base_url).await?;
    assert_eq!(answer.status, 200, "{request:?}: {answer:?}");
    let body = answer.json();
    assert_eq!(
        body["summary"]["succeeded"],
        request.memories.len(),
        "{request:?}: {body}"
    );
    Ok(body)
}

pub(crate) fn is_replay(answer: &Value) -> bool {
    answer["replayed"].as_bool().expect("a boolean")
}

/// The knowledge of one client once the server is gone.
pub(crate) struct Outcome {
    /// Its memories, in the state that it knows of.
    pub(crate) lane: Lane,
    /// Acknowledged requests with their responses.
    pub(crate) acknowledged: Vec<(Request, Value)>,
    /// The request without a response.
    pub(crate) unanswered: Request,
    /// True if that request was sent, so that it may have been executed.
    pub(crate) was_in_flight: bool,
}

/// The running clients.
pub(crate) struct Load {
    acknowledgements: Arc<Semaphore>,
    clients: Vec<JoinHandle<Outcome>>,
}

impl Load {
    pub(crate) fn start(base_url: &str, token: &str, lanes: Vec<Lane>) -> Self {
        let acknowledgements = Arc::new(Semaphore::new(0));
        let clients = lanes
            .into_iter()
            .map(|lane| {
                let (base_url, token) = (base_url.to_owned(), token.to_owned());
                let acknowledgements = Arc::clone(&acknowledgements);
                tokio::spawn(client(base_url, token, lane, acknowledgements))
            })
            .collect();
        Self {
            acknowledgements,
            clients,
        }
    }

    /// Waits until this many requests are acknowledged; each client then has one in flight.
    pub(crate) async fn acknowledged(&self, count: usize) {
        let count = u32::try_from(count).expect("not many");
        let waited = tokio::time::timeout(GUARD, self.acknowledgements.acquire_many(count)).await;
        drop(waited.expect("the server answers"));
    }

    /// Waits until each client has noticed that the server is gone.
    pub(crate) async fn ended(self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for client in self.clients {
            outcomes.push(client.await.expect("the client does not panic"));
        }
        outcomes
    }
}

async fn client(
    base_url: String,
    token: String,
    mut lane: Lane,
    acknowledgements: Arc<Semaphore>,
) -> Outcome {
    let mut acknowledged = Vec::new();
    loop {
        let request = lane.next();
        match send(&base_url, &token, &request).await {
            Ok(answer) => {
                assert!(!is_replay(&answer), "{request:?}");
                lane.apply(&request);
                acknowledged.push((request, answer));
                acknowledgements.add_permits(1);
            }
            Err(failed) => {
                return Outcome {
                    lane,
                    acknowledged,
                    unanswered: request,
                    was_in_flight: matches!(failed, Failed::Lost(_)),
                };
            }
        }
    }
}
