//! Golden bodies: an event of each type as it is delivered and stored, byte for byte.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::delivery_docs::trigger_events;
use crate::world::World;

/// Bodies and stored records, with numbers in place of identifiers.
const GOLDEN: &str = include_str!("event_bodies.txt");

/// Replaces each UUID by its number in order of appearance.
fn numbered(text: &[u8]) -> String {
    let text = std::str::from_utf8(text).unwrap();
    let mut known: Vec<&str> = Vec::new();
    let (mut numbered, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let id = rest.get(..36).filter(|id| Uuid::try_parse(id).is_ok());
        if let Some(id) = id {
            let number = known.iter().position(|known| *known == id);
            let number = number.unwrap_or_else(|| {
                known.push(id);
                known.len() - 1
            });
            numbered.push_str(&format!("<{number}>"));
            rest = &rest[36..];
        } else {
            let (first, others) = rest.split_at(1);
            numbered.push_str(first);
            rest = others;
        }
    }
    numbered
}

#[tokio::test]
async fn event_of_each_type_keeps_its_bytes() {
    let world = World::new().await;
    trigger_events(&world).await;
    let mut found = BTreeSet::new();
    for claimed in world.claim().await.deliveries {
        found.insert(numbered(&claimed.request.body));
    }
    for (key, value) in world.contents().await {
        if key.to_string().starts_with("event/") {
            found.insert(numbered(&value));
        }
    }
    let found: Vec<String> = found.into_iter().collect();
    let golden: Vec<&str> = GOLDEN.lines().collect();
    assert_eq!(found, golden);
}
