//! Keyed hashes of erased source keys, so that an ingest does not bring back what was erased.
//!
//! An erasure leaves one for each source key that it removes, under the workspace and the source of
//! the memory: HMAC-SHA-256 with a random key of the organisation, which is sealed. Whoever has the
//! store without the sealing key can neither read a source key from them nor confirm a guess. The
//! key is not derived from the sealing key, because a replacement of that one could not compute the
//! hashes again: it would need the source keys.

use crate::access::SecretHash;
use crate::error::Error;
use crate::keys;
use crate::model::{OrgId, SourceId, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::access::principal::Delegator;
use crate::service::memories::ingest::NewMemory;
use crate::service::operation::Authorized;
use crate::service::secrets::sealing::SealedRecord;
use crate::service::secrets::signing::SigningSecret;
use crate::store::{Key, Transaction};

/// Key of an organisation for the hashes of its erased source keys.
pub(crate) struct ErasedKeys {
    org: OrgId,
    secret: SigningSecret,
}

impl ErasedKeys {
    /// Reads the key of an organisation; `None` if no erasure has left a hash there.
    ///
    /// # Errors
    /// [`Error::Internal`] if the sealing key does not open it; those of the store.
    pub(crate) async fn read(
        service: &KnowledgeService,
        transaction: &mut Transaction,
        org: OrgId,
    ) -> Result<Option<Self>, Error> {
        let key = keys::erasure_key(org);
        match transaction.get::<SealedRecord<()>>(&key).await? {
            Some(stored) => Self::open(service, org, &stored).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the key of the organisation, or creates it. The operation has to seal secrets.
    ///
    /// # Errors
    /// As [`Self::read`]; those of [`Authorized::sealer`].
    pub(super) async fn read_or_create(op: &mut Authorized<'_>) -> Result<Self, Error> {
        let (service, org) = (op.service, op.org());
        // A replaced sealing key would not open the stored key either.
        op.sealer().await?;
        if let Some(known) = Self::read(service, &mut op.transaction, org).await? {
            return Ok(known);
        }
        let (_, sealed) = op.sealer().await?.new_secret(org.0, service.env());
        let delegator = Delegator::member(op.principal.member_id());
        let stored = SealedRecord::new((), sealed, delegator);
        op.transaction.create(keys::erasure_key(org), &stored);
        Self::open(service, org, &stored)
    }

    fn open(
        service: &KnowledgeService,
        org: OrgId,
        stored: &SealedRecord<()>,
    ) -> Result<Self, Error> {
        let secret = service.inner.sealer.signing_secret(&stored.secret, org.0)?;
        Ok(Self { org, secret })
    }

    /// Returns the key of the mark of an erased source key.
    pub(crate) fn mark(&self, workspace: WorkspaceId, source: SourceId, name: &str) -> Key {
        let (place, origin) = (workspace.0.as_bytes(), source.0.as_bytes());
        let hash = SecretHash(self.secret.digest(place, origin, name.as_bytes()));
        keys::erased_key(self.org, workspace, source, hash)
    }
}

impl KnowledgeService {
    /// Returns the marks of the source keys of a batch, for prefetching them, if the key of the
    /// organisation was prefetched.
    ///
    /// An unreadable key has none here: using it returns the error.
    pub(crate) fn erased_marks(
        &self,
        transaction: &Transaction,
        org: OrgId,
        (workspace, source): (WorkspaceId, SourceId),
        memories: &[NewMemory],
    ) -> Vec<Key> {
        let place = keys::erasure_key(org);
        let stored = transaction.prefetched().get::<SealedRecord<()>>(&place);
        let stored = stored.ok().flatten();
        let erased = stored.and_then(|stored| ErasedKeys::open(self, org, &stored).ok());
        let Some(erased) = erased else {
            return Vec::new();
        };
        let names = memories
            .iter()
            .filter_map(|memory| memory.source_key.as_deref());
        names
            .map(|name| erased.mark(workspace, source, name))
            .collect()
    }
}
