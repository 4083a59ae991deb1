//! Almost valid requests, so that more than the first check is reached.

use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Map, Value};

use crate::world::World;

const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::PATCH,
    Method::POST,
    Method::DELETE,
    Method::PUT,
];

const FIELDS: [&str; 16] = [
    "memoryIds",
    "audienceTag",
    "sensitivityLabel",
    "sourceId",
    "reviewStatus",
    "reassign_to",
    "name",
    "slug",
    "description",
    "base_role",
    "is_active",
    "actions",
    "recall_id",
    "webhook_url",
    "event_type",
    "url",
];

const TEXTS: [&str; 14] = [
    "public",
    "restricted",
    "approved",
    "viewer",
    "member",
    "owner",
    "team:platform",
    "memory:read",
    "role:manage",
    "chunk.created",
    "https://example.com/hook",
    "http://127.0.0.1/",
    "",
    "\u{0}",
];

const HEADERS: [&str; 10] = [
    "idempotency-key",
    "if-match",
    "if-none-match",
    "content-type",
    "content-encoding",
    "origin",
    "host",
    "sec-fetch-site",
    "authorization",
    "cookie",
];

/// Generates a request from an arbitrary mixture of existing and unknown names and values.
pub(crate) fn request(input: &mut Unstructured<'_>, world: &World) -> Result<Request<Bytes>> {
    let mut request = Request::builder()
        .method(input.choose(&METHODS)?.clone())
        .uri(path(input, world)?);
    if input.ratio(9, 10)? {
        request = request.header("authorization", format!("Bearer {}", world.token));
        request = request.header("cookie", format!("service_session={}", world.session));
        request = request.header(
            "sec-fetch-site",
            *input.choose(&["same-origin", "none", "same-site"])?,
        );
    }
    if input.ratio(9, 10)? {
        request = request.header("content-type", "application/json");
        request = request.header(
            "idempotency-key",
            *input.choose(&["a", "\"a\"", "b", "\"b"])?,
        );
    }
    for _ in 0..input.int_in_range(0..=2)? {
        let value: &[u8] = Arbitrary::arbitrary(input)?;
        if let Ok(value) = http::HeaderValue::from_bytes(value) {
            request = request.header(*input.choose(&HEADERS)?, value);
        }
    }
    let body = if input.ratio(9, 10)? {
        object(input, world, 2)?.to_string().into_bytes()
    } else {
        Vec::arbitrary(input)?
    };
    Ok(request
        .body(Bytes::from(body))
        .expect("all parts are valid"))
}

fn path(input: &mut Unstructured<'_>, world: &World) -> Result<String> {
    let id = id(input, world)?;
    let org = *input.choose(&[world.org_slug, "other", "%00", ".."])?;
    Ok(match input.int_in_range(0..=7)? {
        0 => "/v1/memories/bulk".to_owned(),
        1 => format!("/v1/workspaces/{id}/dashboard-summary"),
        2 => format!("/v1/orgs/{org}/custom-roles/{id}"),
        3 => format!("/v1/orgs/{org}/custom-roles"),
        4 => "/v1/citation-subscriptions".to_owned(),
        5 => format!("/v1/workspaces/{id}/webhooks"),
        6 => format!("/v1/workspaces/{id}/inbound-webhooks"),
        _ => format!("/v1/{id}/{org}//"),
    })
}

/// Generates an id, which may be existing, unknown or invalid.
fn id(input: &mut Unstructured<'_>, world: &World) -> Result<String> {
    Ok(match input.int_in_range(0..=5)? {
        0 => uuid::Uuid::from_u128(input.arbitrary()?).to_string(),
        1 => "not-an-id".to_owned(),
        _ => input.choose(&world.ids)?.to_string(),
    })
}

fn object(input: &mut Unstructured<'_>, world: &World, depth: u32) -> Result<Value> {
    let mut fields = Map::new();
    for _ in 0..input.int_in_range(0..=5)? {
        let name = if input.ratio(1, 20)? {
            input.arbitrary::<String>()?
        } else {
            (*input.choose(&FIELDS)?).to_owned()
        };
        fields.insert(name, value(input, world, depth)?);
    }
    Ok(Value::Object(fields))
}

fn value(input: &mut Unstructured<'_>, world: &World, depth: u32) -> Result<Value> {
    Ok(match input.int_in_range(0..=8)? {
        0 => Value::Null,
        1 => input.arbitrary::<bool>()?.into(),
        2 => input.arbitrary::<i64>()?.into(),
        3 | 4 => id(input, world)?.into(),
        5 if depth > 0 => object(input, world, depth - 1)?,
        6 | 7 if depth > 0 => {
            let count = input.int_in_range(0..=6)?;
            (0..count)
                .map(|_| value(input, world, depth - 1))
                .collect::<Result<Vec<_>>>()?
                .into()
        }
        8 => input.arbitrary::<String>()?.into(),
        _ => (*input.choose(&TEXTS)?).into(),
    })
}
