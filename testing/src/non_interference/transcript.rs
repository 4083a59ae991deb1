//! The run of one world.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use serde_json::Value;

use super::choices::Choices;
use super::world::World;
use super::{EXCEPTIONS, Scenario};
use crate::simulation::Divergence;
use knowledge_core::Error;
use knowledge_core::api::Operation;
use knowledge_core::store::Store;

/// The calls of the principal in one world, each with its response.
#[derive(Default)]
pub(super) struct Transcript {
    pub(super) lines: Vec<String>,
    /// Recalls and chats of others that only the first world has, by the move that created them.
    hidden_ids: BTreeMap<u64, Vec<(&'static str, String)>>,
}

/// Runs a scenario in the first world, or in the second one after it.
pub(super) async fn transcript(
    store: Arc<dyn Store>,
    seed: u64,
    scenario: &Scenario,
    first: Option<&Transcript>,
) -> Result<Transcript, Divergence> {
    let mut transcript = Transcript::default();
    let done = run(store, seed, scenario, first, &mut transcript).await;
    match done {
        Ok(()) => Ok(transcript),
        Err(error) => Err(Divergence {
            trace: transcript.lines,
            problem: format!("what others do fails: {error:?}"),
        }),
    }
}

async fn run(
    store: Arc<dyn Store>,
    seed: u64,
    scenario: &Scenario,
    first: Option<&Transcript>,
    transcript: &mut Transcript,
) -> Result<(), Error> {
    let mut world = World::new(store, seed, scenario.kind, first.is_some()).await?;
    if let Some(first) = first {
        world.hidden_ids.clone_from(&first.hidden_ids);
    }
    for memory in &scenario.memories {
        world.begin();
        world.add(&mut Choices::new(memory)).await?;
    }
    world.begin();
    world.add_common().await?;
    for bytes in &scenario.moves {
        world.begin();
        let mut choices = Choices::new(bytes);
        match choices.below(16) {
            10..13 => world.change_common(&mut choices).await?,
            13.. => world.change_hidden(&mut choices).await?,
            _ => {
                let Some((operation, shown, collection, request)) = world.call(&mut choices) else {
                    continue;
                };
                let path = request.uri().path().to_owned();
                let response = world.api.handle(request).await;
                let response = comparable(operation, response);
                world.listen(&collection, &path, &response);
                let (parts, body) = response.into_parts();
                let body = String::from_utf8_lossy(&body);
                let line = format!(
                    "{shown}\n     -> {} {:?} {body}",
                    parts.status, parts.headers
                );
                transcript.lines.push(line);
            }
        }
    }
    transcript.hidden_ids = world.hidden_ids;
    Ok(())
}

/// Removes the declared exceptions from a response, so that no later call depends on them.
fn comparable(operation: Operation, response: Response<Bytes>) -> Response<Bytes> {
    let (mut parts, mut body) = response.into_parts();
    for exception in EXCEPTIONS {
        if exception.operation != operation || !parts.status.is_success() {
            continue;
        }
        let mut json: Value = serde_json::from_slice(&body).unwrap_or_default();
        for part in exception.parts {
            parts.headers.remove(*part);
            if let Some(value) = json.pointer_mut(part) {
                *value = Value::Null;
            }
        }
        body = match exception.parts.is_empty() {
            true => Bytes::new(),
            false => json.to_string().into(),
        };
    }
    Response::from_parts(parts, body)
}
