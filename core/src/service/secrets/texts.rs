//! Sealed texts for clients.

use uuid::Uuid;

use super::sealing::Sealed;
use crate::service::KnowledgeService;

/// Beginning of the associated data of texts, which makes it longer than that of secrets.
const TEXT_PREFIX: &[u8] = b"text for a client";

impl KnowledgeService {
    /// Seals a text that a front end gives to a client, such as in a cookie.
    ///
    /// The client can neither read nor change it. Every service with the same
    /// [sealing key](crate::service::SealingKey) opens it, so that servers over one store need no
    /// other shared secret. The result is base64.
    #[must_use]
    pub fn seal_text(&self, text: &str, purpose: Uuid) -> String {
        let sealer = &self.inner.sealer;
        sealer.seal_with(text, &text_data(purpose), self.env()).0
    }

    /// Opens a text that was sealed for this purpose; `None` if it was not.
    #[must_use]
    pub fn open_text(&self, sealed: &str, purpose: Uuid) -> Option<String> {
        let sealed = Sealed(sealed.to_owned());
        self.inner.sealer.open_with(&sealed, &text_data(purpose))
    }
}

/// Returns the associated data of a text.
pub(super) fn text_data(purpose: Uuid) -> Vec<u8> {
    [TEXT_PREFIX, purpose.as_bytes()].concat()
}
