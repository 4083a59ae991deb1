//! Scores of searches: those of `bm25s` over what the caller may read.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::acting::{Acting, PEOPLE};
use crate::{ask_python, text};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/libraries/python/scores.py"
);
const QUERIES: [&str; 5] = [
    "Restart the queue",
    "the the queue",
    "Who rotates keys, and when?",
    "Übersicht der Schlüssel",
    "invoice invoice refund",
];
/// Words of the texts, common ones first.
const WORDS: [&str; 12] = [
    "the",
    "queue",
    "is",
    "and",
    "keys",
    "Restart",
    "who",
    "rotates",
    "invoice",
    "Schlüssel",
    "refund",
    "Übersicht",
];

/// Returns texts of different lengths, in which the first words are more frequent than the last.
fn texts() -> Vec<String> {
    let word = |number: usize| {
        let place = (number * number + 3 * number) % 144;
        WORDS[place * place / 144 / 12]
    };
    let text = |number: usize| {
        let words = (0..1 + number % 17).map(|index| word(31 * number + 7 * index));
        words.collect::<Vec<_>>().join(" ")
    };
    (0..90).map(text).collect()
}

#[test]
fn scores_are_those_of_bm25s_over_what_the_caller_may_read() {
    let acting = Acting::start(&["memory:read_confidential", "memory:share"]);
    let texts = texts();
    let new: Vec<Value> = texts
        .iter()
        .map(|text| {
            let title: String = format!("Note {text}").chars().take(12).collect();
            json!({ "title": title, "content": text })
        })
        .collect();
    let ids = acting.ingest(&new);
    acting.change(&ids, json!({ "reviewStatus": "approved" }));
    acting.change(&ids[10..30], json!({ "audienceTag": "team:platform" }));
    acting.change(&ids[30..45], json!({ "sensitivityLabel": "confidential" }));
    acting.change(&ids[45..50], json!({ "reviewStatus": "rejected" }));
    for (member, _, _) in PEOPLE {
        let check = json!({ "memoryIds": ids, "includeContent": true });
        let checked = acting.call_for(member, "POST", "/v1/memories/access-check", &check);
        let checked = checked["results"].as_array().expect("a list").iter();
        let readable: Vec<(&str, String)> = checked
            .filter(|item| item["readable"] == true && item["labels"]["reviewStatus"] == "approved")
            .map(|item| {
                let words = format!("{} {}", text(&item["title"]), text(&item["content"]));
                (text(&item["memoryId"]), words)
            })
            .collect();
        assert!(readable.len() < ids.len());
        let texts: Vec<&String> = readable.iter().map(|(_, words)| words).collect();
        let scores = ask_python(PROGRAM, &json!({ "texts": texts, "queries": QUERIES }));
        for (query, scores) in QUERIES.iter().zip(scores) {
            let scores = scores.as_array().expect("a list").iter();
            let scores = scores.map(|score| score.as_f64().expect("a number"));
            let ids = readable.iter().map(|(id, _)| *id);
            let expected: BTreeMap<&str, f64> =
                ids.zip(scores).filter(|(_, score)| *score > 0.0).collect();
            let path = format!("/v1/workspaces/{}/recalls/search", acting.workspace);
            let search = json!({ "query": query, "limit": 50, "record": false });
            let found = acting.call_for(member, "POST", &path, &search);
            let found = found["results"].as_array().expect("a list");
            assert_eq!(found.len(), expected.len().min(50), "{query} for {member}");
            for memory in found {
                let score = memory["score"].as_f64().expect("a number");
                let expected = expected[text(&memory["memory_id"])];
                assert!(
                    (score - expected).abs() <= 1e-6,
                    "{query}: {score}, {expected}"
                );
            }
            assert!(found.is_sorted_by(|a, b| a["score"].as_f64() >= b["score"].as_f64()));
        }
    }
}
