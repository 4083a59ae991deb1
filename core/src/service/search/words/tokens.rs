//! Words of a text.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use super::host_nfkc::nfkc;

/// Maximum length of a word, in bytes. What exceeds it is cut off.
const WORD_BYTES_MAX: usize = 64;

/// What a character of a normalised text is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A word that ends where another kind begins.
    Word,
    /// A run of a script that is written without spaces.
    Unspaced,
    /// Whatever stands before it.
    Mark,
    /// Nothing.
    Gap,
}

/// Returns a text in NFKC.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn nfkc(text: &str) -> std::borrow::Cow<'_, str> {
    icu_normalizer::ComposingNormalizerBorrowed::new_nfkc().normalize(text)
}

/// Calls `each` with every word of a text, in order.
///
/// Words are runs of letters and digits in NFKC and lower case. Scripts that are written without
/// spaces have no visible words: a run of them gives its overlapping pairs of characters, and the
/// character if it is alone.
pub(crate) fn words(text: &str, mut each: impl FnMut(&str)) {
    if text.is_ascii() {
        let lower = text.to_ascii_lowercase();
        return ascii_words(&lower, each);
    }
    let lower: String = nfkc(text).chars().flat_map(char::to_lowercase).collect();
    let mut rest = lower.as_str();
    while let Some(run) = next_run(&mut rest) {
        match run {
            (Kind::Unspaced, run) => pairs(run, &mut each),
            (_, run) => each(&run[..run.floor_char_boundary(WORD_BYTES_MAX)]),
        }
    }
}

fn ascii_words(lower: &str, mut each: impl FnMut(&str)) {
    let is_gap = |byte: u8| !byte.is_ascii_alphanumeric();
    let bytes = lower.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        let length = bytes[start..].iter().position(|byte| is_gap(*byte));
        let length = length.unwrap_or(bytes.len() - start);
        if length > 0 {
            each(&lower[start..start + length.min(WORD_BYTES_MAX)]);
        }
        start += length + 1;
    }
}

/// Takes the next run of one kind, with its marks, from the front of a text.
fn next_run<'t>(rest: &mut &'t str) -> Option<(Kind, &'t str)> {
    let is_part = |char| matches!(kind(char), Kind::Word | Kind::Unspaced);
    let text = &rest[rest.find(is_part)?..];
    let first = text.chars().next().map_or(Kind::Gap, kind);
    let is_end = |char| !matches!(kind(char), kind if kind == first || kind == Kind::Mark);
    let (run, after) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    *rest = after;
    Some((first, run))
}

/// Calls `each` with the overlapping pairs of characters of a run.
fn pairs(run: &str, mut each: impl FnMut(&str)) {
    let mut starts = run
        .char_indices()
        .filter(|(_, char)| kind(*char) != Kind::Mark)
        .map(|(start, _)| start)
        .skip(1);
    let mut start = 0;
    let mut middle = starts.next();
    if middle.is_none() {
        each(&run[..run.floor_char_boundary(WORD_BYTES_MAX)]);
    }
    while let Some(second) = middle {
        middle = starts.next();
        let pair = &run[start..middle.unwrap_or(run.len())];
        each(&pair[..pair.floor_char_boundary(WORD_BYTES_MAX)]);
        start = second;
    }
}

fn kind(char: char) -> Kind {
    match char {
        // Accents, and the signs of scripts of South and South East Asia that are no letters:
        // viramas, nuktas, tone marks.
        '\u{300}'..='\u{36f}'
        | '\u{dca}'
        | '\u{e47}'..='\u{e4e}'
        | '\u{ec8}'..='\u{ece}'
        | '\u{1037}'
        | '\u{1039}'
        | '\u{103a}'
        | '\u{17c9}'..='\u{17d3}' => Kind::Mark,
        '\u{900}'..='\u{d7f}' if matches!(u32::from(char) & 0x7f, 0x3c | 0x4d) => Kind::Mark,
        _ if !char.is_alphanumeric() => Kind::Gap,
        // Thai and Lao, Myanmar, Khmer, Hiragana, Katakana, Han.
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{3029}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a9e0}'..='\u{a9fe}'
        | '\u{aa60}'..='\u{aa7f}'
        | '\u{f900}'..='\u{faff}'
        | '\u{1b000}'..='\u{1b16f}'
        | '\u{20000}'..='\u{3ffff}' => Kind::Unspaced,
        _ => Kind::Word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        words(text, |word| all.push(word.to_owned()));
        all
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        for (text, expected) in [
            ("", ""),
            (" .,-\n", ""),
            ("One two-three, FOUR4!", "one two three four4"),
            ("snake_case don't", "snake case don t"),
            ("a", "a"),
            ("Émile naïve", "émile naïve"),
            ("e\u{301}mile", "émile"),
            ("q\u{301}x", "q\u{301}x"),
            ("\u{301} x", "x"),
            ("ﬁnd ｆｕｌｌ２ x² K", "find full2 x2 k"),
            ("Straße STRASSE", "straße strasse"),
            ("한국어 단어", "한국어 단어"),
            ("हिन्दी शब्द", "हिन्दी शब्द"),
            ("привет, Мир", "привет мир"),
        ] {
            let expected: Vec<_> = expected.split_whitespace().collect();
            assert_eq!(words_of(text), expected, "{text}");
        }
    }

    #[test]
    fn unspaced_scripts_give_pairs() {
        for (text, expected) in [
            ("版", "版"),
            ("版本", "版本"),
            ("版本号 新", "版本 本号 新"),
            ("版本2", "版本 2"),
            ("a版b", "a 版 b"),
            ("ひらカナ漢", "ひら らカ カナ ナ漢"),
            ("ｶﾞｷﾞ", "ガギ"),
            ("か\u{3099}", "が"),
            ("佐々木", "佐々 々木"),
            ("ไม่ดี", "ไม่ ม่ด ดี"),
            ("ลาว ລາວ", "ลา าว ລາ າວ"),
            ("中。文", "中 文"),
        ] {
            let expected: Vec<_> = expected.split_whitespace().collect();
            assert_eq!(words_of(text), expected, "{text}");
        }
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        assert_eq!(words_of(&"x".repeat(100)), ["x".repeat(64)]);
        assert_eq!(words_of(&format!("x{}", "é".repeat(40)))[0].len(), 63);
        let marks = format!("中{} 文", "\u{301}".repeat(100));
        assert_eq!(words_of(&marks).iter().map(String::len).max(), Some(63));
    }

    proptest::proptest! {
        #[test]
        fn words_have_a_length(text in "\\PC{0,80}") {
            words(&text, |word| assert!((1..=WORD_BYTES_MAX).contains(&word.len())));
        }
    }
}
