//! Assertions about a text, which show all of it when they fail.

/// Assertions about a text.
#[allow(dead_code, reason = "some tests make only some of them")]
pub(crate) trait AssertText {
    /// Asserts that this is the text.
    fn assert_is(&self, text: &str);

    /// Asserts that the text has this part.
    fn assert_has(&self, part: &str);

    /// Asserts that the text lacks this part.
    fn assert_lacks(&self, part: &str);

    /// Asserts that the text begins with this part.
    fn assert_begins(&self, part: &str);

    /// Asserts that the text ends with this part.
    fn assert_ends(&self, part: &str);
}

impl AssertText for str {
    #[track_caller]
    fn assert_is(&self, text: &str) {
        assert_eq!(self, text);
    }

    #[track_caller]
    fn assert_has(&self, part: &str) {
        assert!(self.contains(part), "it lacks {part:?}:\n{self}");
    }

    #[track_caller]
    fn assert_lacks(&self, part: &str) {
        assert!(!self.contains(part), "it has {part:?}:\n{self}");
    }

    #[track_caller]
    fn assert_begins(&self, part: &str) {
        assert!(
            self.starts_with(part),
            "it begins without {part:?}:\n{self}"
        );
    }

    #[track_caller]
    fn assert_ends(&self, part: &str) {
        assert!(self.ends_with(part), "it ends without {part:?}:\n{self}");
    }
}
