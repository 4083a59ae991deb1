//! Recognition of credentials that a process has seen before.

use std::sync::Arc;
use std::time::Duration;

use super::login::{KnownLogin, Login};
use crate::access::{Credential, CredentialKind};
use crate::error::Error;
use crate::keys;
use crate::model::{MemberId, OrgId};
use crate::service::KnowledgeService;
use crate::service::generations::Generations;

/// Time for which [`KnowledgeService::recognize`] keeps a credential of a store without marks.
const RECOGNIZED: Duration = Duration::from_secs(5);

impl KnowledgeService {
    /// Returns the organisation and the member that a valid credential of this kind belongs to.
    ///
    /// It makes one read at most, and grants nothing: neither the member nor the credential that this
    /// one depends on is read, and over a store without marks an answer may be five seconds old.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a credential that is unknown, expired, revoked or not of the
    /// kind `wanted`, and those of the store.
    pub(crate) async fn recognize(
        &self,
        credential: &Credential,
        wanted: CredentialKind,
    ) -> Result<(OrgId, MemberId), Error> {
        let (now, store) = (self.env().now(), &**self.store());
        let secret = match credential {
            Credential::Secret(secret) => Some((secret.hash(), wanted)),
            Credential::Trusted { .. } => None,
        };
        let known = &self.inner.logins;
        if let Some(found) = secret.and_then(|secret| known.get(store, &secret, now)) {
            return Ok((found.login.org, found.login.member));
        }
        let area = secret.map(|(hash, _)| keys::credential(hash));
        let marks = Generations::take(store, area);
        let login = Login::check(&mut self.reading(), credential, wanted, now).await?;
        let found = (login.org, login.member);
        if let (Some(secret), Some(end)) = (secret, login.expires_at) {
            let (marks, end) = match marks {
                Some(marks) => (marks, end),
                None => (Generations::none(), end.min(now.plus(RECOGNIZED))),
            };
            let earlier = known.last(&secret);
            let earlier = earlier.as_deref();
            let has_private_places = earlier.is_some_and(|known| known.has_private_places);
            let referenced = earlier.map(|known| known.referenced.clone());
            let referenced = referenced.unwrap_or_default();
            let login = Arc::new(KnownLogin {
                login,
                referenced,
                has_private_places,
            });
            known.keep(secret, login, marks, now..end);
        }
        Ok(found)
    }

    /// Returns the earlier login of a credential, for reading the same again.
    pub(super) fn known_login(&self, credential: &Credential) -> Option<Arc<KnownLogin>> {
        match credential {
            Credential::Trusted { .. } => None,
            Credential::Secret(secret) => self.inner.logins.last(&(secret.hash(), secret.kind())),
        }
    }

    /// Ends the time for which a rejected credential is recognised without a read.
    ///
    /// Otherwise its holder could use up the rate limit of its member until [`RECOGNIZED`] is over.
    pub(crate) fn end_rejected(&self, credential: &Credential, error: Option<&Error>) {
        if let Credential::Secret(secret) = credential
            && matches!(error, Some(Error::Unauthenticated { .. }))
        {
            self.inner.logins.outdate(&(secret.hash(), secret.kind()));
        }
    }

    /// Keeps the login of a credential for later ones.
    pub(super) fn keep_login(&self, credential: &Credential, known: KnownLogin) {
        if let Credential::Secret(secret) = credential {
            let secret = (secret.hash(), secret.kind());
            self.inner.logins.keep_last(secret, Arc::new(known));
        }
    }
}
