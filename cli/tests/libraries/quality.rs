//! Quality of searches: what people judged to be similar comes first, as with `bm25s`.

use serde_json::{Value, json};

use crate::acting::Acting;
use crate::{ask_python, text};

const COLLECTION: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/libraries/python/quality.py"
);
const SCORES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/libraries/python/scores.py"
);
/// Maximum length of a title. The searches are for titles.
const TITLE_CHARS: usize = 128;
/// Number of results that count.
const DEPTH: usize = 10;
/// Minimum of the mean gain. Random orders reach 0.33, and `bm25s` reaches 0.594 with words as they
/// are, 0.629 with their English stems.
const GAIN_MIN: f64 = 0.59;
/// Loss that another order of equal scores may cause.
const TIES: f64 = 0.001;

/// Returns the sum of the relevance of the first results, each discounted by its rank.
fn discounted(relevance: impl Iterator<Item = f64>) -> f64 {
    let ranked = (2_u32..).zip(relevance.take(DEPTH));
    ranked.map(|(rank, one)| one / f64::from(rank).log2()).sum()
}

/// Returns the normalised discounted cumulative gain: 1 if nothing more relevant could come first.
fn gain(relevance: &[f64], results: &[usize]) -> f64 {
    let mut best = relevance.to_vec();
    best.sort_unstable_by(|a, b| b.total_cmp(a));
    discounted(results.iter().map(|&item| relevance[item])) / discounted(best.into_iter())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().expect("a list").iter();
    list.map(|one| one.as_f64().expect("a number")).collect()
}

/// Returns the items that have a score, best first.
fn ranked(scores: &[f64]) -> Vec<usize> {
    let items = 0..scores.len();
    let mut items: Vec<usize> = items.filter(|&item| scores[item] > 0.0).collect();
    items.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    items
}

/// Returns what a search of the service finds, best first, as positions among the memories.
fn search(acting: &Acting, memories: &[String], query: &Value) -> Vec<usize> {
    let path = format!("/v1/workspaces/{}/recalls/search", acting.workspace);
    // The item whose title is searched for takes a place.
    let search = json!({ "query": query, "limit": DEPTH + 1, "record": false });
    let found = acting.service.post(&path, &search);
    let found = found["results"].as_array().expect("a list").iter();
    let position = |result: &Value| {
        let mut memories = memories.iter();
        memories.position(|id| *id == text(&result["memory_id"]))
    };
    found
        .map(|result| position(result).expect("a memory"))
        .collect()
}

#[test]
fn searches_find_what_people_judged_similar_as_well_as_bm25s() {
    let acting = Acting::start(&[]);
    let items = ask_python(COLLECTION, &json!({ "title_chars": TITLE_CHARS }));
    assert_eq!(items.len(), 50);
    let new = items.iter();
    let new = new.map(|item| json!({ "title": item["title"], "content": item["content"] }));
    let memories = acting.ingest(&new.collect::<Vec<Value>>());
    acting.change(&memories, json!({ "reviewStatus": "approved" }));

    let texts = items.iter();
    let texts = texts.map(|item| format!("{} {}", text(&item["title"]), text(&item["content"])));
    let texts: Vec<String> = texts.collect();
    let queries: Vec<&Value> = items.iter().map(|item| &item["title"]).collect();
    let scores = ask_python(SCORES, &json!({ "texts": texts, "queries": queries }));
    assert_eq!(scores.len(), items.len());

    let (mut gains, mut expected) = (Vec::new(), Vec::new());
    for (own, (item, scores)) in items.iter().zip(&scores).enumerate() {
        let relevance = numbers(&item["relevance"]);
        let gain_of = |mut results: Vec<usize>| {
            results.retain(|&result| result != own);
            gain(&relevance, &results)
        };
        gains.push(gain_of(search(&acting, &memories, &item["title"])));
        expected.push(gain_of(ranked(&numbers(scores))));
    }
    let (reached, expected) = (mean(&gains), mean(&expected));
    assert!(reached >= expected - TIES, "{reached}, {expected}");
    assert!(reached >= GAIN_MIN, "{reached}");
}
