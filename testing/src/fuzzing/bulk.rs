//! Bodies of bulk updates, as the interface reads them and as a plain reading does.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use serde_json::{Map, Value};

use super::requests::check_form;
use super::script::headers_and_body;
use super::world::World;
use crate::simulation::simulated_limits;
use knowledge_core::api::Api;
use knowledge_core::model::{
    AudienceLabel, BulkUpdate, MemoryId, ReviewStatus, SensitivityLabel, SourceId,
};

/// Header that repeats the text between the two `~` of the body, so that a small input produces a
/// large body.
const REPEAT: &str = "repeat";
/// Maximum length of a body, more than the interface accepts.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A world that a viewer sees, and its token.
///
/// It may change no memory, so that a valid request is refused with 403, and the world is the same
/// for all inputs.
type Site = (Api, HeaderValue);

async fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    if let Some(site) = SITE.get() {
        return site;
    }
    let world = World::new().await;
    let (token, ..) = &world.orgs[0].callers["viewer"];
    let token = HeaderValue::try_from(format!("Bearer {token}")).expect("visible ASCII");
    SITE.get_or_init(|| (Api::new(world.service), token))
}

/// Sends headers and a body, one header per line, as a bulk update.
pub(super) async fn check(input: &[u8]) {
    let (api, token) = site().await;
    let (fields, body) = headers_and_body(input);
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("idempotency-key", HeaderValue::from_static("k"));
    let mut repeat = 1;
    for (name, value) in fields {
        if name == REPEAT {
            let number = std::str::from_utf8(value).ok();
            repeat = number
                .and_then(|number| number.parse().ok())
                .unwrap_or(repeat);
        } else {
            headers.insert(name, HeaderValue::from_bytes(value).expect("checked"));
        }
    }
    headers.insert(AUTHORIZATION, token.clone());
    let body = Bytes::from(repeated(body, repeat));
    let mut request = Request::new(body.clone());
    *request.method_mut() = Method::PATCH;
    *request.uri_mut() = "/v1/memories/bulk".parse().expect("a path");
    *request.headers_mut() = headers;
    let response = api.handle(request).await;
    check_form(&Method::PATCH, &response);
    let answered = match response.status() {
        StatusCode::FORBIDDEN => true,
        StatusCode::BAD_REQUEST => false,
        StatusCode::PAYLOAD_TOO_LARGE => {
            assert!(body.len() > simulated_limits().body_bytes_max);
            return;
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => return,
        status => panic!("{status}: {:?}", response.body()),
    };
    let said: Value = serde_json::from_slice(response.body()).expect("a body is JSON");
    if !answered && is_about_the_key(&said) {
        return;
    }
    let read = plain(&body);
    assert_eq!(
        answered,
        read.is_some(),
        "{said} for {}",
        body.escape_ascii()
    );
    match read {
        Some(read) => check_accepted(&body, &read),
        None => check_rejected(&said),
    }
}

/// Repeats the part between the first two tildes, up to a limit.
fn repeated(body: &[u8], times: usize) -> Vec<u8> {
    let parts: Vec<&[u8]> = body.splitn(3, |byte| *byte == b'~').collect();
    let [first, part, last] = parts[..] else {
        return body.to_vec();
    };
    let times_max = BODY_BYTES_MAX / part.len().max(1);
    [first, &part.repeat(times.min(times_max)), last].concat()
}

fn fields(said: &Value) -> Vec<&Value> {
    said["details"]["fields"]
        .as_array()
        .into_iter()
        .flatten()
        .collect()
}

fn is_about_the_key(said: &Value) -> bool {
    said["error"] == "idempotency_key_required"
        || fields(said)
            .iter()
            .any(|field| field["path"] == "Idempotency-Key")
}

/// A rejection names each field, with a code and a message.
fn check_rejected(said: &Value) {
    assert_eq!(said["error"], "invalid_request");
    let fields = fields(said);
    assert!(!fields.is_empty(), "{said}");
    for field in fields {
        let is_text = |name: &str| field[name].as_str().is_some_and(|text| !text.is_empty());
        let is_named = field["path"].is_string() && is_text("code") && is_text("message");
        assert!(is_named, "{said}");
    }
}

/// An accepted body has the values of the plain reading, and the same ones after it is written.
fn check_accepted(body: &[u8], read: &Plain) {
    let update: BulkUpdate = serde_json::from_slice(body).expect("the interface accepts it");
    update
        .validate(&simulated_limits())
        .expect("the interface accepts it");
    let change = &update.change;
    assert_eq!(update.memory_ids, read.memory_ids);
    assert_eq!(change.audience_tag, read.audience);
    assert_eq!(change.sensitivity_label, read.sensitivity);
    assert_eq!(change.source_id, read.source);
    assert_eq!(change.review_status, read.review);
    assert_eq!(update.dry_run, read.dry_run);
    let written = serde_json::to_vec(&update).expect("a request serialises");
    let again: BulkUpdate = serde_json::from_slice(&written).expect("it was written so");
    assert_eq!(again, update);
}

/// Values of a body by a plain reading.
#[derive(Debug)]
struct Plain {
    memory_ids: Vec<MemoryId>,
    audience: Option<AudienceLabel>,
    sensitivity: Option<SensitivityLabel>,
    source: Option<SourceId>,
    review: Option<ReviewStatus>,
    dry_run: bool,
}

/// Reads a body plainly; `None` if it is not a valid bulk update.
fn plain(body: &[u8]) -> Option<Plain> {
    let value: Value = serde_json::from_slice(body).ok()?;
    if members_of(&value) != members_in(body) {
        return None;
    }
    let mut object = value.as_object()?.clone();
    let memory_ids: Vec<MemoryId> = object
        .remove("memoryIds")?
        .as_array()?
        .iter()
        .map(|id| id.as_str()?.parse().ok())
        .collect::<Option<_>>()?;
    let distinct: BTreeSet<&MemoryId> = memory_ids.iter().collect();
    let is_bounded = (1..=simulated_limits().bulk_memories_max).contains(&memory_ids.len());
    let dry_run = match object.remove("dryRun") {
        None => false,
        Some(value) => value.as_bool()?,
    };
    let is_empty = object.is_empty();
    let read = Plain {
        dry_run,
        audience: text(&mut object, "audienceTag")?,
        sensitivity: text(&mut object, "sensitivityLabel")?,
        source: text(&mut object, "sourceId")?,
        review: text(&mut object, "reviewStatus")?,
        memory_ids: memory_ids.clone(),
    };
    let is_valid = is_bounded && distinct.len() == memory_ids.len() && !is_empty;
    (is_valid && object.is_empty()).then_some(read)
}

/// Takes an optional text; the outer `None` if it is invalid.
fn text<T: std::str::FromStr>(object: &mut Map<String, Value>, name: &str) -> Option<Option<T>> {
    match object.remove(name) {
        None => Some(None),
        Some(value) => value.as_str()?.parse().ok().map(Some),
    }
}

/// Counts the members of all objects in a value.
fn members_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members_of).sum(),
        Value::Object(members) => members.len() + members.values().map(members_of).sum::<usize>(),
        _ => 0,
    }
}

/// Counts the members of all objects in a valid text: its colons outside of strings. It is greater
/// than that in the value if a name is repeated.
fn members_in(text: &[u8]) -> usize {
    let (mut members, mut is_string, mut is_escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b':' if !is_string => members += 1,
            _ => {}
        }
    }
    members
}
