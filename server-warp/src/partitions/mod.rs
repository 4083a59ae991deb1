//! Partitions: organisations over several stores, each with a service of its own.
//!
//! [`Partitions`] knows which service has an organisation. This knowledge is cached: an
//! organisation that its service does not know is looked up in the directory again, as another
//! process may have moved it. [`knowledge_core::partition`] has the directory and the moves.
//!
//! A lookup is one read, and never waits, as it is made before the rate limit is checked. Requests
//! that wait for a move share one task for each organisation.

mod operator;
mod place;

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use knowledge_core::model::OrgId;
use knowledge_core::partition::identity::{self, IdentityError};
use knowledge_core::partition::{Directory, HOME, MoveState, Placement};
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::StoreError;
use tokio::time::Instant;

pub use self::operator::{Location, OperatorApi};
pub use self::place::PartitionAddress;

/// Time for which a request waits while a move switches its organisation.
const SWITCH_WAIT_MAX: Duration = Duration::from_secs(2);
/// Time between two reads of the directory meanwhile.
const SWITCH_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time between two entries of the log about organisations that cannot be served.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Position of the service of the partition [`HOME`].
pub(crate) const AT_HOME: usize = 0;

/// Services of all partitions. Clones share what is known about organisations.
#[derive(Clone)]
pub struct Partitions {
    inner: Arc<Inner>,
}

struct Inner {
    names: Vec<String>,
    services: Vec<KnowledgeService>,
    directory: Directory,
    /// Organisations that are not at home, as of the last look at each.
    elsewhere: RwLock<HashMap<OrgId, usize>>,
    /// Ends of the switches that requests wait for.
    switches: Mutex<HashMap<OrgId, Shared<BoxFuture<'static, Place>>>>,
    /// Time of the last entry of the log about an organisation that cannot be served.
    logged: Mutex<Option<Instant>>,
}

/// Place of an organisation, as of a look at the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The service at this position has it.
    At(usize),
    /// A move switches it at this moment.
    Switching,
    /// The partition is not configured here.
    Unconfigured,
    /// The directory cannot be read.
    Unreadable,
}

impl Place {
    /// Returns the reason for which the organisation cannot be served now.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::At(_) | Self::Switching => "the organisation is being moved",
            Self::Unconfigured => "the partition of the organisation is not configured here",
            Self::Unreadable => "the directory of partitions cannot be read",
        }
    }
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitions")
            .field("names", &self.inner.names)
            .finish_non_exhaustive()
    }
}

/// Reason for which services cannot be used as partitions.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The directory cannot be read.
    #[error("cannot read the directory of partitions: {0}")]
    Store(#[from] StoreError),
    /// A store is not the partition that the configuration says.
    #[error("{0}; see storage.store and storage.partitions")]
    Identity(#[from] IdentityError),
    /// The directory names a partition that is not configured.
    #[error(
        "the organisation {slug:?} is in the partition {partition:?} or moves from or to it; name \
         its store in storage.partitions"
    )]
    Unknown {
        /// Slug of the organisation.
        slug: String,
        /// Name of the partition.
        partition: String,
    },
}

impl From<KnowledgeService> for Partitions {
    /// Creates a single partition.
    fn from(home: KnowledgeService) -> Self {
        Self::new(home, Vec::new())
    }
}

impl Partitions {
    fn new(home: KnowledgeService, others: Vec<(String, KnowledgeService)>) -> Self {
        let directory = Directory::new(Arc::clone(home.store()));
        let all = std::iter::once((HOME.to_owned(), home)).chain(others);
        let (names, services) = all.unzip();
        Self {
            inner: Arc::new(Inner {
                names,
                services,
                directory,
                elsewhere: RwLock::default(),
                switches: Mutex::default(),
                logged: Mutex::default(),
            }),
        }
    }

    /// Creates the partitions of a service with the directory, and of further services by name.
    ///
    /// The stores get their [names](identity); one that is never partitioned gets none.
    ///
    /// # Errors
    /// [`PartitionError`].
    pub async fn open(
        home: KnowledgeService,
        others: Vec<(String, KnowledgeService)>,
    ) -> Result<Self, PartitionError> {
        let all = Self::new(home, others);
        let placements = all.directory().placements().await?;
        let placed = placements
            .iter()
            .flat_map(|(_, found)| partitions_of(found));
        all.identify(placed).await?;
        for (org, placement) in placements {
            for partition in partitions_of(&placement) {
                if all.named(partition).is_none() {
                    return Err(PartitionError::Unknown {
                        slug: placement.slug.clone(),
                        partition: partition.to_owned(),
                    });
                }
            }
            all.remember(org, &placement.partition);
        }
        Ok(all)
    }

    /// Checks the names of the stores, and gives new ones theirs.
    async fn identify(&self, placed: impl Iterator<Item = &str>) -> Result<(), PartitionError> {
        let names = self.inner.names.iter().map(String::as_str);
        let stores = self.services().iter().map(|service| &**service.store());
        let others: Vec<_> = names.zip(stores).skip(1).collect();
        Ok(identity::establish(&**self.home().store(), &others, placed).await?)
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.inner.names.iter().position(|found| found == name)
    }

    /// Returns true if there is more than one partition.
    #[must_use]
    pub fn is_partitioned(&self) -> bool {
        self.inner.services.len() > 1
    }

    /// Returns the service of the partition [`HOME`].
    #[must_use]
    pub fn home(&self) -> &KnowledgeService {
        &self.inner.services[AT_HOME]
    }

    /// Returns the services of all partitions, home first.
    #[must_use]
    pub fn services(&self) -> &[KnowledgeService] {
        &self.inner.services
    }

    /// Returns the name of the partition at this position.
    pub(crate) fn name(&self, index: usize) -> &str {
        &self.inner.names[index]
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.inner.directory
    }

    /// Returns the position of the service that had the organisation when it was last looked up.
    pub(crate) fn known(&self, org: Option<OrgId>) -> usize {
        let elsewhere = &self.inner.elsewhere;
        let elsewhere = elsewhere.read().unwrap_or_else(PoisonError::into_inner);
        let found = org.and_then(|org| elsewhere.get(&org).copied());
        found.unwrap_or(AT_HOME)
    }

    /// Remembers the partition of an organisation, and returns the position of its service.
    fn remember(&self, org: OrgId, partition: &str) -> Option<usize> {
        let index = self.named(partition)?;
        let elsewhere = &self.inner.elsewhere;
        let mut elsewhere = elsewhere.write().unwrap_or_else(PoisonError::into_inner);
        match index {
            AT_HOME => elsewhere.remove(&org),
            _ => elsewhere.insert(org, index),
        };
        Some(index)
    }

    /// Looks the organisation up in the directory.
    pub(crate) async fn look_up(&self, org: OrgId) -> Place {
        let found = match self.inner.directory.placement(org).await {
            Ok(found) => found,
            Err(error) => {
                self.log(|| tracing::warn!(%error, "cannot read the directory of partitions"));
                return Place::Unreadable;
            }
        };
        if let Some(found) = found.as_ref().filter(|found| found.is_switching()) {
            // Whose credentials have not left yet is still served there.
            self.remember(org, &found.partition);
            return Place::Switching;
        }
        let partition = found.as_ref().map_or(HOME, |found| &found.partition);
        match self.remember(org, partition) {
            Some(index) => Place::At(index),
            None => {
                self.log(|| tracing::error!(%org, partition, "partition is not configured"));
                Place::Unconfigured
            }
        }
    }

    /// Waits for up to [`SWITCH_WAIT_MAX`] for the end of the switch in which a lookup has found an
    /// organisation.
    ///
    /// A separate task reads the directory, so that it continues if a waiting request is dropped.
    pub(crate) async fn settled(&self, org: OrgId) -> Place {
        let switch = {
            let mut switches = lock(&self.inner.switches);
            let new = || {
                let this = self.clone();
                let poll = tokio::spawn(async move {
                    let place = AssertUnwindSafe(this.poll(org)).catch_unwind().await;
                    lock(&this.inner.switches).remove(&org);
                    place.unwrap_or(Place::Unreadable)
                });
                let place = async move { poll.await.unwrap_or(Place::Unreadable) };
                place.boxed().shared()
            };
            switches.entry(org).or_insert_with(new).clone()
        };
        switch.await
    }

    /// Reads the directory until no move switches the organisation.
    async fn poll(&self, org: OrgId) -> Place {
        let deadline = Instant::now() + SWITCH_WAIT_MAX;
        let place = loop {
            match self.look_up(org).await {
                Place::Switching if Instant::now() < deadline => {
                    tokio::time::sleep(SWITCH_POLL_INTERVAL).await;
                }
                place => break place,
            }
        };
        if place == Place::Switching {
            let message = "move does not go on; repeat `knowledge org move` if it was interrupted";
            self.log(|| tracing::warn!(%org, message));
        }
        place
    }

    /// Logs, unless something was logged a short time ago.
    fn log(&self, write: impl FnOnce()) {
        let now = Instant::now();
        let mut logged = lock(&self.inner.logged);
        if logged.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL) {
            *logged = Some(now);
            write();
        }
    }
}

/// Returns the names of the partitions that have records of an organisation.
fn partitions_of(placement: &Placement) -> impl Iterator<Item = &str> {
    let other = match &placement.moving {
        Some(MoveState::Copying { to } | MoveState::Switching { to }) => Some(to),
        Some(MoveState::Removing { from }) => Some(from),
        _ => None,
    };
    std::iter::once(&*placement.partition).chain(other.map(String::as_str))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
