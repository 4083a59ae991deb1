//! A store that is written in JavaScript.

use async_trait::async_trait;
use js_sys::futures::JsFuture;
use js_sys::{Promise, Reflect, Uint8Array};
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Read, Store, StoreError, StoreErrorKind,
};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::wire::{self, corrupt};

#[wasm_bindgen]
extern "C" {
    /// A store behind `wasm/js/bridge.js`, which speaks the bytes of [`wire`].
    #[derive(Debug)]
    pub type StoreBridge;

    #[wasm_bindgen(method, catch)]
    fn read(this: &StoreBridge, reads: &[u8]) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn commit(this: &StoreBridge, commit: &[u8]) -> Result<JsValue, JsValue>;
}

/// A [`Store`] that asks one of JavaScript.
#[derive(Debug)]
pub(crate) struct JsStore(StoreBridge);

impl JsStore {
    pub(crate) fn new(store: StoreBridge) -> Self {
        Self(store)
    }
}

#[async_trait(?Send)]
impl Store for JsStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        if reads.iter().all(|read| wire::is_empty(*read)) {
            return wire::Answer::default().found(reads);
        }
        let answer = answer(self.0.read(&wire::reads(reads))).await;
        let answer = answer.map_err(|error| failure(&error, StoreErrorKind::Unavailable))?;
        bytes(answer)?.found(reads)
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        // An error that does not say otherwise may hide that the commit was applied.
        let answer = answer(self.0.commit(&wire::commit(&commit))).await;
        let answer = answer.map_err(|error| failure(&error, StoreErrorKind::Unknown))?;
        if answer.is_null() {
            return Ok(CommitOutcome::Conflict);
        }
        let version = answer.as_f64().and_then(wire::version).ok_or_else(|| {
            let message = "the store answered a commit with what is no version";
            StoreError::new(StoreErrorKind::Unknown, message)
        })?;
        Ok(CommitOutcome::Committed(version))
    }
}

/// What a call gave, at once or as a promise: a store whose engine does not wait need not wait either.
async fn answer(called: Result<JsValue, JsValue>) -> Result<JsValue, JsValue> {
    match called?.dyn_into::<Promise>() {
        Ok(promise) => JsFuture::from(promise).await,
        Err(value) => Ok(value),
    }
}

fn bytes(answer: JsValue) -> Result<wire::Answer, StoreError> {
    match answer.dyn_into::<Uint8Array>() {
        Ok(bytes) => Ok(wire::Answer::new(bytes.to_vec())),
        Err(_) => Err(corrupt("the store answered with no bytes")),
    }
}

/// The error that was thrown: of the kind that it names itself, else of that one.
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
        text("message").unwrap_or_else(|| "the store threw what has no message".to_owned());
    StoreError::new(kind, message)
}
