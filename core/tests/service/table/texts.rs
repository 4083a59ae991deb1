//! Test that no operation takes U+0000, which not every database can store.

use knowledge_core::api::{Authentication, OPERATIONS};
use serde_json::Value;

use super::callers::Caller;
use super::requests::Call;
use crate::world::World;

/// Returns the body for each of its texts with U+0000 before it, inside of it and after it.
fn spoilt(body: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match body {
        Value::String(text) => {
            for place in [0, text.len() / 2, text.len()] {
                let (begin, end) = text.split_at(place);
                found.push(Value::String(format!("{begin}\0{end}")));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for item in spoilt(item) {
                    let mut body = body.clone();
                    body[index] = item;
                    found.push(body);
                }
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                for field in spoilt(field) {
                    let mut body = body.clone();
                    body[name.as_str()] = field;
                    found.push(body);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    found
}

#[tokio::test]
async fn nul_is_refused_in_every_text() {
    let mut texts = 0;
    for spec in OPERATIONS {
        // A message with another body is not signed.
        if spec.authentication == Authentication::Signature {
            continue;
        }
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let mut call = Call::new(&world, spec.operation, &caller).await;
        for body in spoilt(&call.json()) {
            call = call.with_body(body.to_string());
            let response = call.send(&world, &caller).await;
            let operation = spec.operation;
            assert_eq!(response.status(), 400, "{operation:?} takes {body}");
            texts += 1;
        }
    }
    assert!(texts > 90, "{texts} texts");
}
