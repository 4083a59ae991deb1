//! A store implemented in JavaScript.

use std::rc::Rc;

use async_trait::async_trait;
use js_sys::futures::JsFuture;
use js_sys::{Promise, Reflect, Uint8Array};
use knowledge_core::store::{
    Commit, CommitOutcome, Found, KeyRange, Mark, MemoryStore, Read, Store, StoreError,
    StoreErrorKind,
};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::mirror::Mirror;
use crate::wire::{self, corrupt};

#[wasm_bindgen]
extern "C" {
    /// A store, wrapped by `wasm/js/bridge.js`, which uses the encoding of [`wire`].
    #[derive(Debug)]
    pub type StoreBridge;

    #[wasm_bindgen(method, catch)]
    fn read(this: &StoreBridge, reads: &[u8]) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn commit(this: &StoreBridge, commit: &[u8]) -> Result<JsValue, JsValue>;
    /// Returns the number of the store, if it can be mirrored.
    #[wasm_bindgen(method, getter)]
    fn number(this: &StoreBridge) -> Option<u32>;
    /// Returns the revision of the store; NaN if it cannot be mirrored at present.
    #[wasm_bindgen(method)]
    fn revision(this: &StoreBridge) -> f64;
}

/// A [`Store`] that calls one in JavaScript.
#[derive(Debug)]
pub(crate) struct JsStore {
    bridge: StoreBridge,
    mirror: Option<Rc<Mirror>>,
}

impl JsStore {
    pub(crate) fn new(bridge: StoreBridge) -> Self {
        let mirror = bridge.number().map(Mirror::of);
        Self { bridge, mirror }
    }

    /// Reads from the store itself.
    async fn read_original(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let result = settled(self.bridge.read(&wire::reads(reads))).await;
        let result = result.map_err(|error| failure(&error, StoreErrorKind::Unavailable))?;
        decoder(result)?.found(reads)
    }

    /// Returns a current copy of the store, if it can be mirrored.
    async fn copy(&self) -> Result<Option<Rc<MemoryStore>>, StoreError> {
        let Some(mirror) = &self.mirror else {
            return Ok(None);
        };
        let revision = self.bridge.revision();
        if revision.is_nan() {
            return Ok(None);
        }
        if let Some(copy) = mirror.current(revision) {
            return Ok(Some(copy));
        }
        // Synchronous, as only such a store has revisions: no commit comes in between.
        let found = self.read_original(&[Read::all(&KeyRange::all())]).await?;
        let found = found.into_iter().next().unwrap_or(Found::Range(Vec::new()));
        Ok(Some(mirror.replace(revision, found.into_range()?)))
    }
}

#[async_trait(?Send)]
impl Store for JsStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        if reads.iter().all(|read| wire::is_empty(*read)) {
            return wire::Decoder::default().found(reads);
        }
        match self.copy().await? {
            Some(copy) => copy.read(reads).await,
            None => self.read_original(reads).await,
        }
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        // An error without a kind leaves the outcome indeterminate: it may have been applied.
        let result = settled(self.bridge.commit(&wire::commit(&commit))).await;
        let result = result.map_err(|error| failure(&error, StoreErrorKind::Unknown))?;
        if result.is_null() {
            return Ok(CommitOutcome::Conflict);
        }
        let version = result.as_f64().and_then(wire::version).ok_or_else(|| {
            let message = "the store returned an invalid version from a commit";
            StoreError::new(StoreErrorKind::Unknown, message)
        })?;
        if let Some(mirror) = &self.mirror {
            mirror.follow(commit, version).await;
        }
        Ok(CommitOutcome::Committed(version))
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        let mirror = self.mirror.as_ref()?;
        mirror.mark(self.bridge.revision(), area)
    }
}

/// Returns the result of a call, which is a value or a promise; a synchronous store need not wait.
async fn settled(called: Result<JsValue, JsValue>) -> Result<JsValue, JsValue> {
    match called?.dyn_into::<Promise>() {
        Ok(promise) => JsFuture::from(promise).await,
        Err(value) => Ok(value),
    }
}

fn decoder(result: JsValue) -> Result<wire::Decoder, StoreError> {
    match result.dyn_into::<Uint8Array>() {
        Ok(bytes) => Ok(wire::Decoder::new(bytes.to_vec())),
        Err(_) => Err(corrupt("the store did not return bytes")),
    }
}

/// Converts a thrown error; one that names no kind has the kind `unnamed`.
fn failure(error: &JsValue, unnamed: StoreErrorKind) -> StoreError {
    let text = |name: &str| {
        let value = Reflect::get(error, &JsValue::from_str(name)).ok()?;
        value.as_string()
    };
    let kind = match text("kind").as_deref() {
        Some("unavailable") => StoreErrorKind::Unavailable,
        Some("full") => StoreErrorKind::Full,
        Some("corrupt") => StoreErrorKind::Corrupt,
        Some("invalid") => StoreErrorKind::Invalid,
        Some("unknown") => StoreErrorKind::Unknown,
        _ => unnamed,
    };
    let message =
        text("message").unwrap_or_else(|| "the store threw a value without a message".to_owned());
    StoreError::new(kind, message)
}
