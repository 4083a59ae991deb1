//! sled as a storage engine.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use knowledge_storage_embedded::record::{LEDGER_KEY, encode, entry_key};
use knowledge_storage_embedded::{Changes, Engine, EngineError, EngineOptions};

use crate::blobs::Blobs;
use crate::capture::Capture;
use crate::error::engine_error;
use crate::options::{Mode, SledSettings};
use crate::timeline::{ReadPoint, Timeline};
use crate::undo::UndoMap;
use crate::view::PastView;

/// Size of a segment of sled's log, in bytes: the largest that sled accepts.
///
/// Pages larger than a quarter of it go to files that sled does not sync.
const SEGMENT_BYTES: usize = 16 * 1024 * 1024;

/// sled as the engine of a [`SledStore`](crate::SledStore).
#[derive(Debug)]
pub struct Sled {
    tree: sled::Tree,
    /// Separate handle of sled's file.
    file: File,
    blobs: Blobs,
    timeline: Timeline,
    /// Read point of the group that is applied but not published yet.
    pending: Mutex<Option<Arc<ReadPoint>>>,
}

impl Sled {
    fn replace_pending(&self, read_point: Option<Arc<ReadPoint>>) -> Option<Arc<ReadPoint>> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut pending, read_point)
    }
}

impl Engine for Sled {
    const NAME: &'static str = "sled";
    const FORMAT: u64 = 1;

    type Settings = SledSettings;
    type View = PastView<ReadPoint>;
    type Snapshot = PastView<Capture>;

    fn open(path: &Path, options: &EngineOptions<SledSettings>) -> Result<Self, EngineError> {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(options.cache_bytes)
            .segment_size(SEGMENT_BYTES)
            .mode(match options.settings.mode {
                Mode::HighThroughput => sled::Mode::HighThroughput,
                Mode::LowSpace => sled::Mode::LowSpace,
            })
            // Only the commit thread flushes.
            .flush_every_ms(None);
        let database = config.open().map_err(engine_error)?;
        // sled never syncs the file with its segment size; without the file it would use any
        // configured size.
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
            pending: Mutex::default(),
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
        let mut undo = UndoMap::new();
        for change in &changes.entries {
            match &change.after {
                Some(entry) => batch.insert(entry_key(&change.key), encode(entry)),
                None => batch.remove(entry_key(&change.key)),
            }
            undo.insert(change.key.clone(), change.before.clone());
        }
        batch.insert(LEDGER_KEY, &*changes.ledger);
        self.replace_pending(Some(self.timeline.begin_group(undo)));
        self.tree.apply_batch(batch).map_err(engine_error)
    }

    fn sync(&self) -> Result<(), EngineError> {
        // Sync blobs before the log that refers to them, and again for those that the flush wrote.
        self.blobs.sync()?;
        self.tree.flush().map_err(engine_error)?;
        self.blobs.sync()?;
        // sled's flush writes to the operating system, but does not sync the device.
        self.file.sync_data()?;
        Ok(())
    }

    fn publish(&self) {
        if let Some(read_point) = self.replace_pending(None) {
            self.timeline.publish(read_point);
        }
    }

    fn view(&self) -> PastView<ReadPoint> {
        PastView::new(self.tree.clone(), self.timeline.current())
    }

    fn snapshot(&self, bytes_max: usize) -> PastView<Capture> {
        PastView::new(self.tree.clone(), self.timeline.capture(bytes_max))
    }

    fn disk_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }
}
