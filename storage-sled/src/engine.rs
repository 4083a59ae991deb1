//! sled as an engine.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use knowledge_storage_embedded::record::{LEDGER_KEY, encode, entry_key};
use knowledge_storage_embedded::{Changes, Engine, EngineError, EngineOptions};

use crate::blobs::Blobs;
use crate::capture::Capture;
use crate::options::{Mode, SledSettings};
use crate::timeline::{Before, Moment, Timeline};
use crate::view::PastView;

/// The size of a segment of sled's log, in bytes: the largest that it takes. A page over a quarter of it goes to a file
/// that sled does not sync.
const SEGMENT_BYTES: usize = 16 * 1024 * 1024;
/// The first format with segments of that size; the size is fixed when sled's file is made.
const FORMAT_OF_LARGE_SEGMENTS: u64 = 2;

/// sled as the engine of a [`SledStore`](crate::SledStore).
#[derive(Debug)]
pub struct Sled {
    tree: sled::Tree,
    /// A handle of our own to sled's file.
    file: File,
    blobs: Blobs,
    timeline: Timeline,
    /// The moment of the group that is applied and not published yet.
    applied: Mutex<Option<Arc<Moment>>>,
}

impl Sled {
    fn set_applied(&self, moment: Option<Arc<Moment>>) -> Option<Arc<Moment>> {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut applied, moment)
    }
}

/// The meaning of an error of sled.
pub(crate) fn engine_error(error: sled::Error) -> EngineError {
    match error {
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            EngineError::Locked
        }
        sled::Error::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            EngineError::Io(error)
        }
        error => EngineError::Damaged(format!("sled: {error}")),
    }
}

impl Engine for Sled {
    const NAME: &'static str = "sled";
    const FORMAT: u64 = FORMAT_OF_LARGE_SEGMENTS;
    const FORMAT_MIN: u64 = 1;

    type Settings = SledSettings;
    type View = PastView<Moment>;
    type Kept = PastView<Capture>;

    fn open(path: &Path, options: &EngineOptions<SledSettings>) -> Result<Self, EngineError> {
        let mut config = sled::Config::new()
            .path(path)
            .cache_capacity(options.cache_bytes)
            .mode(match options.settings.mode {
                Mode::HighThroughput => sled::Mode::HighThroughput,
                Mode::LowSpace => sled::Mode::LowSpace,
            })
            // The commit thread flushes; nothing happens behind its back.
            .flush_every_ms(None);
        if options.format >= FORMAT_OF_LARGE_SEGMENTS {
            config = config.segment_size(SEGMENT_BYTES);
        }
        let database = config.open().map_err(engine_error)?;
        // sled never syncs the file that tells the size of its segments, and without it takes whatever size is given.
        File::open(path.join("conf"))?.sync_all()?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path.join("db"))?;
        Ok(Self {
            tree: (*database).clone(),
            file,
            blobs: Blobs::new(path.join("blobs")),
            timeline: Timeline::default(),
            applied: Mutex::default(),
        })
    }

    fn has_data(path: &Path) -> bool {
        path.join("db").exists()
    }

    fn ledger(&self) -> Result<Option<Bytes>, EngineError> {
        let stored = self.tree.get(LEDGER_KEY).map_err(engine_error)?;
        Ok(stored.map(|stored| Bytes::copy_from_slice(&stored)))
    }

    fn apply(&self, changes: &Changes) -> Result<(), EngineError> {
        let mut batch = sled::Batch::default();
        let mut before = Before::new();
        for change in &changes.entries {
            match &change.after {
                Some(entry) => batch.insert(entry_key(&change.key), encode(entry)),
                None => batch.remove(entry_key(&change.key)),
            }
            before.insert(change.key.clone(), change.before.clone());
        }
        batch.insert(LEDGER_KEY, &*changes.ledger);
        self.set_applied(Some(self.timeline.begin(before)));
        self.tree.apply_batch(batch).map_err(engine_error)
    }

    fn sync(&self) -> Result<(), EngineError> {
        // Before the log that refers to them, and again for those that writing the log made.
        self.blobs.sync()?;
        self.tree.flush().map_err(engine_error)?;
        self.blobs.sync()?;
        // sled's flush hands its writes to the system, but does not order them on the device.
        self.file.sync_data()?;
        Ok(())
    }

    fn publish(&self) {
        if let Some(moment) = self.set_applied(None) {
            self.timeline.publish(moment);
        }
    }

    fn view(&self) -> PastView<Moment> {
        PastView::new(self.tree.clone(), self.timeline.present())
    }

    fn keep(&self, bytes_max: usize) -> PastView<Capture> {
        PastView::new(self.tree.clone(), self.timeline.capture(bytes_max))
    }

    fn disk_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }
}
