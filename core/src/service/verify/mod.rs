//! Verification of a store: counters against a recount, indices against their records.
//!
//! Each entry implies expectations: that another entry exists and agrees with it, that it is
//! counted, that a secret opens. `key_families` derives the expectations of each family. The store
//! is read once, in the order of its keys, and the expectations of a page are checked together.
//!
//! Memory is needed for the counters and the roles (some hundred bytes each), for the identifiers
//! of the chats, and for those of deleted endpoints whose deliveries are not purged yet (64 bytes
//! each), but not for anything else: memories, their audit entries, events and deliveries are only
//! read in passing.

mod comparison;
mod difference;
mod expectation;
mod key_families;
mod problem;
mod verification;
mod verifier;

use std::sync::Arc;

pub use self::difference::{Difference, DifferenceCode};
pub use self::verification::{DIFFERENCES_KEPT_MAX, Verification};
use self::verifier::Verifier;
use crate::error::Error;
use crate::service::KnowledgeService;
use crate::service::secrets::sealing::{Sealer, SealingKey};
use crate::store::{Direction, KeyRange, Store, StoreError, StoreExt};

/// Number of entries that one page reads.
const PAGE_ENTRIES: usize = 512;

/// # Verification
impl KnowledgeService {
    /// Verifies the whole store, see [`Verify`].
    ///
    /// # Errors
    /// Those of the store. Wrong data are differences, not errors.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// let verification = service.verify().await?;
    /// for difference in &verification.differences {
    ///     eprintln!("{difference}");
    /// }
    /// assert_eq!(verification.differences_total, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(&self) -> Result<Verification, Error> {
        let sealers = vec![self.inner.sealer.clone()];
        let mut verify = Verify::with(Arc::clone(self.store()), sealers).await?;
        while verify.read().await? {}
        Ok(verify.finish())
    }
}

/// A verification in progress.
///
/// It reads a whole store, recounts every counter, checks every index against its records and opens
/// every secret. It changes nothing and needs no open service, so it can also verify a store that a
/// service would not open.
///
/// Each page is a point in time of its own, so concurrent writes may appear as differences. Verify
/// a snapshot, or a store without writers.
///
/// # Examples
///
/// ```
#[doc = include_str!("../example.txt")]
/// use std::sync::Arc;
///
/// use knowledge_core::service::Verify;
///
/// let mut verify = Verify::begin(Arc::clone(service.store()), None).await?;
/// while verify.read().await? {
///     println!("{} entries", verify.entries());
/// }
/// let verification = verify.finish();
/// assert!(verification.differences.is_empty());
/// // Without the sealing key, the secrets remain closed.
/// assert_eq!(verification.secrets, None);
/// # Ok(())
/// # }
/// ```
pub struct Verify {
    store: Arc<dyn Store>,
    /// Range that is still to be read.
    rest: Option<KeyRange>,
    verifier: Verifier,
}

impl std::fmt::Debug for Verify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verify")
            .field("rest", &self.rest)
            .field("verification", &self.verifier.verification)
            .finish_non_exhaustive()
    }
}

impl Verify {
    /// Starts a verification at the first entry. Without a sealing key, secrets are not opened.
    ///
    /// During a replacement of the key, the secrets of a store need both keys to be opened.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn begin(
        store: Arc<dyn Store>,
        sealing_keys: impl IntoIterator<Item = &SealingKey>,
    ) -> Result<Self, StoreError> {
        let sealers = sealing_keys.into_iter().map(Sealer::new).collect();
        Self::with(store, sealers).await
    }

    async fn with(store: Arc<dyn Store>, sealers: Vec<Sealer>) -> Result<Self, StoreError> {
        Ok(Self {
            verifier: Verifier::begin(&*store, sealers).await?,
            rest: Some(KeyRange::all()),
            store,
        })
    }

    /// Verifies the next entries; returns `false` once there are no more.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn read(&mut self) -> Result<bool, StoreError> {
        let Some(rest) = &self.rest else {
            return Ok(false);
        };
        let page = self
            .store
            .scan(rest, PAGE_ENTRIES, Direction::Forward)
            .await?;
        self.rest = match page.last() {
            Some(last) if page.len() == PAGE_ENTRIES => Some(rest.after(&last.key)),
            _ => None,
        };
        let verifier = &mut self.verifier;
        let expectations = page.iter().flat_map(|entry| verifier.read(entry)).collect();
        verifier.check(&*self.store, expectations).await?;
        Ok(self.rest.is_some())
    }

    /// Returns the number of entries read.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.verifier.verification.entries
    }

    /// Compares the recount with the counters and ends the verification.
    #[must_use]
    pub fn finish(self) -> Verification {
        self.verifier.finish()
    }
}
