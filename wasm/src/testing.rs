//! Entry points for the package's tests: the test kit, run over stores in JavaScript.

use std::sync::Arc;

use async_trait::async_trait;
use js_sys::Promise;
use js_sys::futures::JsFuture;
use knowledge_core::store::{KeyRange, Read, Store};
use knowledge_store::conformance::{self, Harness, Lifetime};
use knowledge_testing::conversation;
use knowledge_testing::fixture;
use knowledge_testing::non_interference;
use knowledge_testing::simulation::{self, Config};
use serde_json::json;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::service::open_service;
use crate::store::{JsStore, StoreBridge};
use crate::{error, task};

#[wasm_bindgen]
extern "C" {
    /// A factory of the stores under test.
    pub type JsHarness;

    #[wasm_bindgen(method, getter, js_name = isDurable)]
    fn is_durable(this: &JsHarness) -> bool;
    #[wasm_bindgen(method)]
    fn open(this: &JsHarness) -> Promise;
    #[wasm_bindgen(method)]
    fn reopen(this: &JsHarness) -> Promise;
    #[wasm_bindgen(method, js_name = caseBegins)]
    fn case_begins(this: &JsHarness, name: &str);
}

async fn store(opening: Promise) -> Arc<dyn Store> {
    let opened = JsFuture::from(opening).await;
    let opened = opened.expect("the harness opens a store");
    Arc::new(JsStore::new(opened.unchecked_into::<StoreBridge>()))
}

#[async_trait(?Send)]
impl Harness for JsHarness {
    fn lifetime(&self) -> Lifetime {
        if self.is_durable() {
            Lifetime::Durable
        } else {
            Lifetime::Volatile
        }
    }

    async fn open(&self) -> Arc<dyn Store> {
        store(JsHarness::open(self)).await
    }

    async fn reopen(&self, closed: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(closed);
        store(JsHarness::reopen(self)).await
    }

    fn case_begins(&self, case: &'static str) {
        JsHarness::case_begins(self, case);
    }
}

/// Runs the conformance suite; returns the cases that passed, were skipped and failed, and whether
/// a store that was read has marks, as JSON.
#[wasm_bindgen]
pub fn conformance(harness: JsHarness) -> u32 {
    task::spawn(async move {
        let report = conformance::survey(&harness).await;
        let failed = report.failed.iter();
        let failed = failed.map(|failed| json!({ "name": failed.name, "message": failed.message }));
        let opened = store(JsHarness::open(&harness)).await;
        let read = opened.read(&[Read::all(&KeyRange::all())]).await;
        read.expect("an empty store can be read");
        let report = json!({
            "hasMarks": opened.mark(b"acme").is_some(),
            "cases": conformance::case_names().count(),
            "passed": report.passed,
            "excused": report.skipped,
            "failed": failed.collect::<Vec<_>>(),
        });
        Ok(JsValue::from_str(&report.to_string()))
    })
}

/// Runs random operations from a seed over `cases` new stores and compares each with the model.
#[wasm_bindgen]
pub fn simulate(harness: JsHarness, seed: u32, cases: u32, is_faulty: bool) -> u32 {
    task::spawn(async move {
        let config = Config::new(cases).with_seed(seed.into());
        let config = if is_faulty {
            config.with_faults()
        } else {
            config
        };
        let harness = &harness;
        simulation::check_store(&config, || async move { store(harness.open()).await }).await;
        Ok(JsValue::UNDEFINED)
    })
}

/// Checks over `cases` pairs of new stores that hidden things change no response, from a seed.
#[wasm_bindgen(js_name = checkNonInterference)]
pub fn check_non_interference(harness: JsHarness, seed: u32, cases: u32) -> u32 {
    task::spawn(async move {
        let config = Config::new(cases).with_seed(seed.into());
        let harness = &harness;
        let make_store = || async move { store(harness.open()).await };
        non_interference::check_non_interference(&config, make_store).await;
        Ok(JsValue::UNDEFINED)
    })
}

/// Runs random requests from a seed; returns requests, responses and final state.
///
/// The format is that of [`conversation`].
#[wasm_bindgen]
pub fn converse(harness: JsHarness, seed: u32) -> u32 {
    task::spawn(async move {
        let store = store(harness.open()).await;
        let held = conversation::run(store, seed.into()).await;
        Ok(JsValue::from_str(&held))
    })
}

/// Seeds an empty store for the server's HTTP suite; returns the fixture as JSON.
#[wasm_bindgen]
pub fn seed(store: StoreBridge, options: String) -> u32 {
    task::spawn(async move {
        let (service, _) = open_service(store, &options).await?;
        let fixture = fixture::seed(&service).await;
        let fixture = fixture.map_err(|error| error::of_service(&error))?;
        let json = serde_json::to_string(&fixture).expect("a fixture has string keys");
        Ok(JsValue::from_str(&json))
    })
}

/// Panics in a task, with this message.
#[wasm_bindgen]
pub fn panic(message: String) -> u32 {
    task::spawn(async move { panic!("{message}") })
}
