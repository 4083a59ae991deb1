//! Name resolution by the operating system, which blocks for as long as foreign name servers take.
//!
//! A look-up cannot be cancelled. Therefore each has a thread of its own that nothing waits for,
//! not even a shutdown; concurrent requests for a name share one look-up; and names known to be
//! slow have only a few threads, so that dead name servers do not use up the threads of others.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot, watch};

use super::resolver::{LOOK_UP_TIMEOUT, Resolver};

/// Maximum of threads for names that are not known to be slow.
const THREADS_MAX: usize = LOOK_UPS_MAX - SLOW_THREADS_MAX;
/// Maximum of threads for names whose last look-up was late.
const SLOW_THREADS_MAX: usize = 16;
/// Maximum of threads blocked in look-ups. Each may have a file open.
pub(super) const LOOK_UPS_MAX: usize = 128;
/// Maximum of names that are being looked up, waiting for that, or remembered as slow.
const NAMES_MAX: usize = 4_096;
/// Time for which a late result is returned to later requests.
const LATE_RESULT_TTL: Duration = Duration::from_secs(30);
/// Stack size of a thread, ample for the modules of a system's resolver.
const STACK_BYTES: usize = 512 * 1024;

/// Addresses of a name, or the error of looking it up.
type LookUpResult = Result<Vec<IpAddr>, Arc<io::Error>>;
type Query = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolver of the operating system.
///
/// Requests for a name that is already being looked up share the look-up. It continues when nothing
/// waits for it any more; a late result is kept for the next request.
#[derive(Clone)]
pub struct SystemResolver(Arc<ResolverPool>);

struct ResolverPool {
    query: Box<Query>,
    limits: Limits,
    threads: Arc<Semaphore>,
    slow_threads: Arc<Semaphore>,
    names: Mutex<HashMap<Arc<str>, NameState>>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    threads: usize,
    slow_threads: usize,
    names: usize,
    /// Time after which a look-up is late.
    patience: Duration,
}

/// State of a name. A name that was looked up in time has none.
enum NameState {
    Pending(watch::Receiver<Option<LookUpResult>>),
    /// The last look-up ended late, at `at`.
    Slow {
        addresses: Option<Vec<IpAddr>>,
        at: Instant,
    },
}

impl Default for SystemResolver {
    fn default() -> Self {
        let limits = Limits {
            threads: THREADS_MAX,
            slow_threads: SLOW_THREADS_MAX,
            names: NAMES_MAX,
            patience: LOOK_UP_TIMEOUT,
        };
        Self::new(limits, |name| {
            let found = (name, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl SystemResolver {
    fn new(
        limits: Limits,
        query: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ResolverPool {
            query: Box::new(query),
            limits,
            threads: Arc::new(Semaphore::new(limits.threads)),
            slow_threads: Arc::new(Semaphore::new(limits.slow_threads)),
            names: Mutex::default(),
        }))
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut result = match self.0.join_or_start(name)? {
            Resolution::Cached(addresses) => return Ok(addresses),
            Resolution::Pending(result) => result,
        };
        let result = result.wait_for(Option::is_some).await;
        match result.map_err(|_| no_result())?.clone() {
            Some(Ok(addresses)) => Ok(addresses),
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(no_result()),
        }
    }
}

enum Resolution {
    Cached(Vec<IpAddr>),
    Pending(watch::Receiver<Option<LookUpResult>>),
}

impl ResolverPool {
    /// Joins the look-up of a name, or starts one.
    fn join_or_start(self: &Arc<Self>, name: &str) -> io::Result<Resolution> {
        let mut names = self.names();
        let mut is_slow = false;
        match names.get(name) {
            // The sender is gone if the runtime in which the look-up began has ended.
            Some(NameState::Pending(result)) if result.has_changed().is_ok() => {
                return Ok(Resolution::Pending(result.clone()));
            }
            Some(NameState::Slow { addresses, at }) => {
                if let Some(addresses) = addresses
                    && at.elapsed() < LATE_RESULT_TTL
                {
                    return Ok(Resolution::Cached(addresses.clone()));
                }
                is_slow = true;
            }
            Some(NameState::Pending(_)) => {}
            None => evict_slowest(&mut names, self.limits.names)?,
        }
        let name: Arc<str> = name.into();
        let (sender, result) = watch::channel(None);
        names.insert(Arc::clone(&name), NameState::Pending(result.clone()));
        drop(names);
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let result = pool.run(name, is_slow).await;
            sender.send_replace(Some(result));
        });
        Ok(Resolution::Pending(result))
    }

    /// Looks a name up, once a thread is available.
    async fn run(self: Arc<Self>, name: Arc<str>, is_slow: bool) -> LookUpResult {
        let threads = if is_slow {
            &self.slow_threads
        } else {
            &self.threads
        };
        let mut permit = Arc::clone(threads).acquire_owned().await;
        let mut result = self.spawn(&name);
        let in_time = tokio::time::timeout(self.limits.patience, &mut result).await;
        let is_late = in_time.is_err();
        let result = match in_time {
            Ok(result) => result,
            Err(_) => {
                if !is_slow && let Ok(other) = Arc::clone(&self.slow_threads).try_acquire_owned() {
                    permit = Ok(other);
                }
                result.await
            }
        };
        drop(permit);
        let result = result
            .unwrap_or_else(|_| Err(no_result()))
            .map_err(Arc::new);
        self.finish(name, &result, is_late);
        result
    }

    /// Starts a look-up on a thread of its own, which no runtime waits for.
    fn spawn(self: &Arc<Self>, name: &Arc<str>) -> oneshot::Receiver<io::Result<Vec<IpAddr>>> {
        let (sender, result) = oneshot::channel();
        let (pool, name) = (Arc::clone(self), Arc::clone(name));
        let thread = thread::Builder::new()
            .name("look-up".to_owned())
            .stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            // The send fails only if the runtime has ended.
            let _ = sender.send((pool.query)(&name));
        });
        if let Err(error) = started {
            tracing::warn!(%error, "starting a thread for a name look-up failed");
        }
        result
    }

    fn finish(&self, name: Arc<str>, result: &LookUpResult, is_late: bool) {
        let mut names = self.names();
        if is_late {
            let addresses = result.as_ref().ok().cloned();
            let at = Instant::now();
            names.insert(name, NameState::Slow { addresses, at });
        } else {
            names.remove(&name);
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Arc<str>, NameState>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts the name that has been slow for the longest, if the maximum is reached.
fn evict_slowest(names: &mut HashMap<Arc<str>, NameState>, names_max: usize) -> io::Result<()> {
    if names.len() < names_max {
        return Ok(());
    }
    let slow = names.iter().filter_map(|(name, known)| match known {
        NameState::Slow { at, .. } => Some((*at, name)),
        NameState::Pending(_) => None,
    });
    let Some((_, oldest)) = slow.min_by_key(|(at, _)| *at) else {
        return Err(io::Error::other("too many names are being looked up"));
    };
    let oldest = Arc::clone(oldest);
    names.remove(&oldest);
    Ok(())
}

fn no_result() -> io::Error {
    io::Error::other("the look-up ended without an answer")
}

impl std::fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemResolver")
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
