use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const IDS: u128 = 40;
const CLASSES: u8 = 6;
const WORDS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

#[derive(Clone, Debug)]
enum Step {
    Put(u128, u8, String),
    Relabel(u128, u8),
    Remove(u128),
}

/// Texts with their classes, searched as the definition says.
type Model = BTreeMap<u128, (u8, String)>;

fn text() -> impl Strategy<Value = String> {
    // The first words are in most of the texts, the last ones in few.
    let word = (0..WORDS.len(), 0..WORDS.len()).prop_map(|(a, b)| WORDS[a * b / WORDS.len()]);
    prop_oneof![
        20 => prop::collection::vec(word, 0..8).prop_map(|words| words.join(" ")),
        1 => (250..260_usize).prop_map(|count| "a ".repeat(count)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..IDS, 0..CLASSES, text()).prop_map(|(id, class, text)| Step::Put(id, class, text)),
        2 => (0..IDS, 0..CLASSES).prop_map(|(id, class)| Step::Relabel(id, class)),
        2 => (0..IDS).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..150)
}

fn query() -> impl Strategy<Value = String> {
    let word = prop_oneof![9 => prop::sample::select(&WORDS[..]), 1 => Just("unknown")];
    prop::collection::vec(word, 0..6).prop_map(|words| words.join(" "))
}

fn visibility() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(any::<bool>(), usize::from(CLASSES))
}

/// Puts a text with its first word as the title.
fn put(index: &mut WordIndex<u8>, id: u128, class: u8, text: &str) {
    let (title, content) = text.split_once(' ').unwrap_or((text, ""));
    index.put(id, class, [title, content]);
}

fn run(steps: &[Step]) -> (WordIndex<u8>, Model) {
    let (mut index, mut model) = (WordIndex::default(), Model::new());
    for step in steps {
        match step {
            Step::Put(id, class, text) => {
                put(&mut index, *id, *class, text);
                model.insert(*id, (*class, text.clone()));
            }
            Step::Relabel(id, class) => {
                let entry = model.get_mut(id);
                assert_eq!(index.relabel(*id, *class), entry.is_some());
                if let Some((old, _)) = entry {
                    *old = *class;
                }
            }
            Step::Remove(id) => assert_eq!(index.remove(*id), model.remove(id).is_some()),
        }
    }
    assert_eq!(index.len(), model.len());
    for id in 0..IDS {
        assert_eq!(index.class(id), model.get(&id).map(|(class, _)| class));
    }
    (index, model)
}

fn visible_part(model: &Model, visible: &[bool]) -> Model {
    let visible = |class: &u8| visible[usize::from(*class)];
    model
        .clone()
        .into_iter()
        .filter(|(_, (class, _))| visible(class))
        .collect()
}

/// Scores of all texts that have a word of a query.
fn scores(texts: &Model, query: &str) -> Vec<Hit> {
    let count = |text: &str, word| {
        text.split_whitespace()
            .filter(|other| *other == word)
            .count()
    };
    let all = texts.len() as f64;
    let words: usize = texts
        .values()
        .map(|(_, text)| text.split_whitespace().count())
        .sum();
    let average_length = words as f64 / all;
    let score = |text: &str| {
        let length = text.split_whitespace().count() as f64;
        let word_score = |word| {
            let with_word = texts
                .values()
                .filter(|(_, text)| count(text, word) > 0)
                .count() as f64;
            let idf = (1.0 + (all - with_word + 0.5) / (with_word + 0.5)).ln();
            let count = count(text, word) as f64;
            idf * count / (count + 1.5 * (1.0 - 0.75 + 0.75 * length / average_length))
        };
        query
            .split_whitespace()
            .map(word_score)
            .filter(|score| *score > 0.0)
            .sum::<f64>()
    };
    let hits = texts.iter().map(|(id, (_, text))| Hit {
        id: *id,
        score: score(text),
    });
    hits.filter(|hit| hit.score > 0.0).collect()
}

fn assert_follows_definition(hits: &[Hit], texts: &Model, query: &str, limit: usize) {
    let is_close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.max(b);
    let scores = scores(texts, query);
    assert_eq!(hits.len(), scores.len().min(limit));
    for hit in hits {
        let expected = scores
            .iter()
            .find(|other| other.id == hit.id)
            .expect("a text with a word");
        assert!(is_close(hit.score, expected.score), "{hit:?} {expected:?}");
    }
    let is_ordered = |pair: &[Hit]| match pair {
        [a, b] => a.score > b.score || (a.score == b.score && a.id < b.id),
        _ => true,
    };
    assert!(hits.windows(2).all(is_ordered), "{hits:?}");
    if let Some(last) = hits.last() {
        for other in scores
            .iter()
            .filter(|other| hits.iter().all(|hit| hit.id != other.id))
        {
            let is_worse = other.score < last.score || is_close(other.score, last.score);
            assert!(is_worse, "{other:?} is missing in {hits:?}");
        }
    }
}

fn bits(hits: &[Hit]) -> Vec<(u128, u64)> {
    hits.iter()
        .map(|hit| (hit.id, hit.score.to_bits()))
        .collect()
}

/// An index of some texts alone, put in the reverse order.
fn fresh(texts: &Model) -> WordIndex<u8> {
    let mut index = WordIndex::default();
    for (id, (_, text)) in texts.iter().rev() {
        put(&mut index, *id, 0, text);
    }
    index
}

fn assert_exact(
    (index, model): &(WordIndex<u8>, Model),
    visible: &[bool],
    query: &str,
    limit: usize,
) {
    let texts = visible_part(model, visible);
    let hits = index.search(query, limit, |class| visible[usize::from(*class)]);
    assert_follows_definition(&hits, &texts, query, limit);
    let expected = fresh(&texts).search(query, limit, |_| true);
    assert_eq!(bits(&hits), bits(&expected));
    // A limit cuts off the rest, and changes nothing else.
    let all = index.search(query, usize::MAX, |class| visible[usize::from(*class)]);
    assert_eq!(bits(&hits), bits(&all[..hits.len()]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn hits_are_those_of_visible_texts_alone(
        steps in steps(),
        visible in visibility(),
        query in query(),
        limit in 1..=20_usize,
    ) {
        assert_exact(&run(&steps), &visible, &query, limit);
    }
}

/// Returns steps of which each text differs, with common and rare words, and windows of texts.
fn many_steps() -> Vec<Step> {
    let mut state = 3_u64;
    // The constants of Knuth's generator.
    let mut below = move |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut steps = Vec::new();
    for _ in 0..3_000 {
        let class = below(u64::from(CLASSES)) as u8;
        steps.push(match below(10) {
            0 => Step::Relabel(u128::from(below(IDS as u64)), class),
            1 => Step::Remove(u128::from(below(900))),
            _ => {
                let words = 1 + below(11);
                let words = (0..words).map(|_| format!("w{}", below(59) * below(59) / 60));
                let text = words.collect::<Vec<_>>().join(" ");
                Step::Put(u128::from(below(900)), class, text)
            }
        });
    }
    steps
}

#[test]
fn every_form_of_postings_gives_the_same_hits() {
    let all = run(&many_steps());
    let index = &all.0;
    assert!(index.dense.len() > 3, "{}", index.dense.len());
    assert!(
        index.dense.len() < index.postings.len() / 2,
        "{}",
        index.postings.len()
    );
    assert!(
        index.ids.len() > index.len() && index.ids.len() < 2_000,
        "compacted in between"
    );
    let queries = [
        "w1 w2",
        "w0",
        "w1 w1 w2 w50",
        "w40 w45 w50",
        "w0 w1 w2 w3 w4 w30",
        "none w9",
    ];
    for query in queries {
        for visible in [
            [true; 6],
            [true, false, true, false, true, false],
            [false; 6],
        ] {
            for limit in [1, 7, 100, 2_000] {
                assert_exact(&all, &visible, query, limit);
            }
        }
    }
}

#[test]
fn words_become_dense_and_sparse_again() {
    let mut index = WordIndex::default();
    for id in 0..32 {
        index.put(id, 0_u8, ["common", "first second"]);
    }
    assert_eq!(index.dense.len(), 3);
    for id in 32..1_024 {
        index.put(id, 1, ["common", ""]);
    }
    assert_eq!(index.dense.len(), 1);
    assert_eq!(index.search("first", 100, |_| true).len(), 32);
    for id in 0..1_024 {
        assert!(index.remove(id));
    }
    assert!(index.ids.len() <= REMOVED_TEXTS_MIN + 1);
    assert_eq!(index.search("common", 100, |_| true), []);
}

#[test]
fn removed_words_are_forgotten() {
    let mut index = WordIndex::default();
    for id in 0..100 {
        index.put(id, 0_u8, ["", &format!("w{id}")]);
    }
    for id in 0..90 {
        assert!(index.remove(id));
        assert!(!index.remove(id));
    }
    assert!(index.dictionary.len() < 40);
    assert_eq!(index.search("w95 w5", 10, |_| true).len(), 1);
    index.shrink();
    assert_eq!(index.search("w95 w5", 10, |_| true).len(), 1);
}

#[test]
fn classes_without_texts_are_not_asked_for() {
    let mut index = WordIndex::default();
    for round in 0..50_u8 {
        index.put(1, round, ["a", "b"]);
        assert!(index.relabel(1, round + 100));
    }
    let asked = std::cell::RefCell::new(Vec::new());
    index.search("a", 1, |class| {
        asked.borrow_mut().push(*class);
        true
    });
    assert_eq!(asked.into_inner(), [149]);
    assert_eq!(index.class(1), Some(&149));
    assert_eq!(index.class(2), None);
    assert!(!index.relabel(2, 0));
}

#[test]
fn query_words_count_whatever_hidden_texts_have() {
    let query: Vec<_> = (0..70).map(|word| format!("q{word}")).collect();
    let query = query.join(" ");
    let mut index = WordIndex::default();
    index.put(1, 'v', ["q1", "q63 q64"]);
    let alone = bits(&index.search(&query, 9, |class| *class == 'v'));
    let (used, _) = query.split_once(" q64").expect("the first 64");
    assert_eq!(bits(&index.search(used, 9, |_| true)), alone);
    let (fewer, _) = query.split_once(" q63").expect("one less");
    assert_ne!(bits(&index.search(fewer, 9, |_| true)), alone);
    index.put(2, 'h', ["", &query]);
    assert_eq!(bits(&index.search(&query, 9, |class| *class == 'v')), alone);
    assert_eq!(index.search("q64", 9, |class| *class == 'v').len(), 1);
    let long = "q1 ".repeat(100_000);
    assert!(index.search(&long, 9, |_| true)[0].score.is_finite());
}

#[test]
fn size_is_that_of_what_is_allocated() {
    let mut index = WordIndex::default();
    let empty = index.bytes();
    for id in 0..2_000 {
        index.put(id, id % 7, ["one two", &format!("three four w{id}")]);
    }
    let full = index.bytes();
    index.shrink();
    let shrunk = index.bytes();
    // At least what it cannot do without.
    assert!(empty < 1_000 && shrunk < full && shrunk > 2_000 * (16 + 4 + 4 + 9));
}
