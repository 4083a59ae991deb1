//! Names are looked up by the operating system, whose look-up blocks for as long as somebody else's name servers like.
//!
//! Nothing can end such a look-up. So it has a thread that nobody waits for, at a shutdown neither; there is one for a
//! name however many ask; and names that are known to be slow have few threads of their own, so that those whose name
//! servers are dead do not take the threads of the others.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot, watch};

use super::resolver::{LOOK_UP_TIMEOUT, LookUp};

/// Threads for names of which nothing bad is known.
const THREADS_MAX: usize = LOOK_UPS_MAX - SLOW_THREADS_MAX;
/// Threads for names whose last look-up took too long.
const SLOW_THREADS_MAX: usize = 16;
/// How many look-ups block a thread at once. Each may have a file open.
pub(super) const LOOK_UPS_MAX: usize = 128;
/// How many names are being looked up, waiting for that, or remembered as slow.
const NAMES_MAX: usize = 4_096;
/// For how long an answer that came late is given to those who ask again.
const LATE_ANSWER_TIME: Duration = Duration::from_secs(30);
/// What the modules of a system's resolver need, with room to spare.
const STACK_BYTES: usize = 512 * 1024;

/// The addresses of a name, or why there are none.
type Answer = Result<Vec<IpAddr>, Arc<io::Error>>;
type Ask = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Asks the operating system.
///
/// Who asks for a name that is being looked up already shares that look-up. It goes on when nobody waits for it any
/// more; an answer that comes late is kept for whoever asks next.
#[derive(Clone)]
pub struct SystemLookUp(Arc<Desk>);

struct Desk {
    ask: Box<Ask>,
    limits: Limits,
    threads: Arc<Semaphore>,
    slow_threads: Arc<Semaphore>,
    names: Mutex<HashMap<Arc<str>, Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    threads: usize,
    slow_threads: usize,
    names: usize,
    /// From here on a look-up is late.
    patience: Duration,
}

/// What is known of a name. Of one that was looked up in time it is nothing.
enum Known {
    UnderWay(watch::Receiver<Option<Answer>>),
    /// The last look-up ended late, at `at`.
    Slow {
        addresses: Option<Vec<IpAddr>>,
        at: Instant,
    },
}

impl Default for SystemLookUp {
    fn default() -> Self {
        let limits = Limits {
            threads: THREADS_MAX,
            slow_threads: SLOW_THREADS_MAX,
            names: NAMES_MAX,
            patience: LOOK_UP_TIMEOUT,
        };
        Self::asking(limits, |name| {
            let found = (name, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl SystemLookUp {
    fn asking(
        limits: Limits,
        ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Desk {
            ask: Box::new(ask),
            limits,
            threads: Arc::new(Semaphore::new(limits.threads)),
            slow_threads: Arc::new(Semaphore::new(limits.slow_threads)),
            names: Mutex::default(),
        }))
    }
}

#[async_trait]
impl LookUp for SystemLookUp {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut answer = match self.0.enter(name)? {
            Entered::Known(addresses) => return Ok(addresses),
            Entered::UnderWay(answer) => answer,
        };
        let answer = answer.wait_for(Option::is_some).await;
        match answer.map_err(|_| unanswered())?.clone() {
            Some(Ok(addresses)) => Ok(addresses),
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(unanswered()),
        }
    }
}

enum Entered {
    Known(Vec<IpAddr>),
    UnderWay(watch::Receiver<Option<Answer>>),
}

impl Desk {
    /// The look-up of a name, which begins where there is none.
    fn enter(self: &Arc<Self>, name: &str) -> io::Result<Entered> {
        let mut names = self.names();
        let mut is_slow = false;
        match names.get(name) {
            // Its sender is gone where the runtime is, in which the look-up had begun.
            Some(Known::UnderWay(answer)) if answer.has_changed().is_ok() => {
                return Ok(Entered::UnderWay(answer.clone()));
            }
            Some(Known::Slow { addresses, at }) => {
                if let Some(addresses) = addresses
                    && at.elapsed() < LATE_ANSWER_TIME
                {
                    return Ok(Entered::Known(addresses.clone()));
                }
                is_slow = true;
            }
            Some(Known::UnderWay(_)) => {}
            None => make_room(&mut names, self.limits.names)?,
        }
        let name: Arc<str> = name.into();
        let (sender, answer) = watch::channel(None);
        names.insert(Arc::clone(&name), Known::UnderWay(answer.clone()));
        drop(names);
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            let answer = desk.ask(name, is_slow).await;
            sender.send_replace(Some(answer));
        });
        Ok(Entered::UnderWay(answer))
    }

    /// Looks a name up, once there is a thread for it.
    async fn ask(self: Arc<Self>, name: Arc<str>, is_slow: bool) -> Answer {
        let threads = if is_slow {
            &self.slow_threads
        } else {
            &self.threads
        };
        let mut room = Arc::clone(threads).acquire_owned().await;
        let mut answer = self.begin(&name);
        let in_time = tokio::time::timeout(self.limits.patience, &mut answer).await;
        let is_late = in_time.is_err();
        let answer = match in_time {
            Ok(answer) => answer,
            Err(_) => {
                if !is_slow && let Ok(other) = Arc::clone(&self.slow_threads).try_acquire_owned() {
                    room = Ok(other);
                }
                answer.await
            }
        };
        drop(room);
        let answer = answer
            .unwrap_or_else(|_| Err(unanswered()))
            .map_err(Arc::new);
        self.end(name, &answer, is_late);
        answer
    }

    /// Begins a look-up in a thread of its own, which no runtime waits for.
    fn begin(self: &Arc<Self>, name: &Arc<str>) -> oneshot::Receiver<io::Result<Vec<IpAddr>>> {
        let (sender, answer) = oneshot::channel();
        let (desk, name) = (Arc::clone(self), Arc::clone(name));
        let thread = thread::Builder::new()
            .name("look-up".to_owned())
            .stack_size(STACK_BYTES);
        let began = thread.spawn(move || {
            // Where nobody takes it, the runtime is gone.
            let _ = sender.send((desk.ask)(&name));
        });
        if let Err(error) = began {
            tracing::warn!(%error, "no thread to look a name up in");
        }
        answer
    }

    fn end(&self, name: Arc<str>, answer: &Answer, is_late: bool) {
        let mut names = self.names();
        if is_late {
            let addresses = answer.as_ref().ok().cloned();
            let at = Instant::now();
            names.insert(name, Known::Slow { addresses, at });
        } else {
            names.remove(&name);
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Arc<str>, Known>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the name that has been slow for the longest, where there is no room for another.
fn make_room(names: &mut HashMap<Arc<str>, Known>, names_max: usize) -> io::Result<()> {
    if names.len() < names_max {
        return Ok(());
    }
    let slow = names.iter().filter_map(|(name, known)| match known {
        Known::Slow { at, .. } => Some((*at, name)),
        Known::UnderWay(_) => None,
    });
    let Some((_, oldest)) = slow.min_by_key(|(at, _)| *at) else {
        return Err(io::Error::other("too many names are being looked up"));
    };
    let oldest = Arc::clone(oldest);
    names.remove(&oldest);
    Ok(())
}

fn unanswered() -> io::Error {
    io::Error::other("the look-up ended without an answer")
}

impl std::fmt::Debug for SystemLookUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemLookUp")
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
