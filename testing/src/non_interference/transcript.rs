//! The run of one world.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use serde_json::Value;

use super::choices::Choices;
use super::messages::Message;
use super::planted::PlantedDefect;
use super::world::World;
use super::{EXCEPTIONS, Scenario};
use crate::call::ApiCall;
use crate::simulation::Divergence;
use knowledge_core::Error;
use knowledge_core::api::Operation;
use knowledge_core::store::Store;

/// The calls and messages of the principal in one world, each with its response.
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
    planted: Option<PlantedDefect>,
    first: Option<&Transcript>,
) -> Result<Transcript, Divergence> {
    let mut transcript = Transcript::default();
    let done = run(store, (seed, scenario, planted), first, &mut transcript).await;
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
    (seed, scenario, planted): (u64, &Scenario, Option<PlantedDefect>),
    first: Option<&Transcript>,
    transcript: &mut Transcript,
) -> Result<(), Error> {
    let shape = (scenario.kind, scenario.has_removals);
    let mut world = World::new(store, seed, shape, first.is_some()).await?;
    if let Some(first) = first {
        world.hidden_ids.clone_from(&first.hidden_ids);
    }
    for memory in &scenario.memories {
        world.begin();
        world.add(&mut Choices::new(memory)).await?;
    }
    world.begin();
    world.add_common().await?;
    for call in world.first_calls() {
        world.begin();
        let line = send(&mut world, &call, planted).await?;
        transcript.lines.push(line);
    }
    for bytes in &scenario.moves {
        world.begin();
        let mut choices = Choices::new(bytes);
        match choices.below(24) {
            12..15 => world.change_common(&mut choices).await?,
            15..18 => world.change_hidden(&mut choices).await?,
            18 => world.erase_common(&mut choices).await?,
            19 => world.maintain().await?,
            20 if scenario.has_removals => world.pass_time(&mut choices).await?,
            20 | 21 => transcript.lines.extend(world.deliver(&mut choices).await?),
            22 => {
                if let Some(call) = world.call_of_full_token(&mut choices).await? {
                    let request = world.pat.request(&call, &world.pat.full_token);
                    let response = world.api.handle(request).await;
                    world.note_result(&call, &response);
                }
            }
            23 => {
                let message = world.message(&mut choices);
                let line = tell(&mut world, &message, planted).await?;
                transcript.lines.push(line);
            }
            _ => {
                if let Some(call) = world.call(&mut choices) {
                    let line = send(&mut world, &call, planted).await?;
                    transcript.lines.push(line);
                }
            }
        }
    }
    world.begin();
    let last = world.deliver(&mut Choices::new(&[])).await?;
    transcript.lines.extend(last);
    transcript.hidden_ids = world.hidden_ids;
    Ok(())
}

/// Sends a call of the principal, and returns it with its response as text.
async fn send(
    world: &mut World,
    call: &ApiCall,
    planted: Option<PlantedDefect>,
) -> Result<String, Error> {
    let request = world.pat.request(call, &world.pat.token);
    let mut response = world.api.handle(request).await;
    if let Some(planted) = planted {
        response = planted.alter(world, call, response).await?;
    }
    world.note_result(call, &response);
    let response = comparable(call.operation, response);
    world.listen(call, &response);
    Ok(line(call, response))
}

/// Sends a message of the principal, and returns it with its response as text.
async fn tell(
    world: &mut World,
    message: &Message,
    planted: Option<PlantedDefect>,
) -> Result<String, Error> {
    let request = message.request(&world.pat);
    let mut response = world.api.handle(request).await;
    if let Some(planted) = planted {
        response = planted.alter_result(world, message, response).await?;
    }
    world.hear(&response);
    Ok(line(message, response))
}

/// Returns what was asked, and the response as text.
fn line(asked: &impl fmt::Display, response: Response<Bytes>) -> String {
    let (parts, body) = response.into_parts();
    let body = String::from_utf8_lossy(&body);
    format!(
        "{asked}\n     -> {} {:?} {body}",
        parts.status, parts.headers
    )
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
            match json.get_mut("data").and_then(Value::as_array_mut) {
                Some(items) => items.iter_mut().for_each(|item| remove(item, part)),
                None => remove(&mut json, part),
            }
        }
        body = if exception.parts.is_empty() {
            Bytes::new()
        } else {
            json.to_string().into()
        };
    }
    Response::from_parts(parts, body)
}

/// Removes a part of a response, or of an item of a list.
fn remove(json: &mut Value, part: &str) {
    // Named memories are decided on one by one, so that the counts tell nothing more.
    if part == "/counts" && !json["scope"]["memoriesNamed"].is_null() {
        return;
    }
    if let Some(value) = json.pointer_mut(part) {
        *value = Value::Null;
    }
}
