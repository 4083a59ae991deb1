//! Choices from bytes: the same bytes give the same choices in both worlds.

/// Bytes that a thing is chosen by.
pub(super) type Bytes16 = [u8; 16];

/// Source of choices; after the last byte it always chooses the first.
pub(super) struct Choices<'b>(std::slice::Iter<'b, u8>);

impl<'b> Choices<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes.iter())
    }

    /// Returns a number below `end`, which is at most 256.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % end.max(1)
    }

    /// Returns true once in `times`; never after the last byte.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }

    /// Returns one of these; `None` if there are none.
    pub(super) fn of<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        items.get(self.below(items.len()))
    }
}
