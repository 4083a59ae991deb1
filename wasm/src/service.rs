//! The service as JavaScript uses it.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use knowledge_core::Error;
use knowledge_core::api::{AdminApi, Api};
use knowledge_core::model::Timestamp;
use knowledge_core::service::{DispatchLimits, KnowledgeService};
use serde_json::json;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::sender::{FetchSender, SenderBridge};
use crate::store::{JsStore, StoreBridge};
use crate::{error, exchange, host, options, task};

/// An open service. Asynchronous methods return the number of their task.
#[derive(Clone, Debug)]
#[wasm_bindgen]
pub struct Service {
    api: Api,
    admin: AdminApi,
    client_address_header: Option<String>,
}

/// Opens a service over a store, with options in JSON.
#[wasm_bindgen]
pub fn open(store: StoreBridge, options: String) -> u32 {
    task::spawn(async move {
        let (service, given) = open_service(store, &options).await?;
        let service = Service {
            admin: AdminApi::new(service.clone()),
            api: Api::new(service).trust_origins(given.trusted_origins),
            client_address_header: given.client_address_header,
        };
        Ok(service.into())
    })
}

/// Opens a service over a store; returns it with the options.
pub(crate) async fn open_service(
    store: StoreBridge,
    options: &str,
) -> Result<(KnowledgeService, options::GivenOptions), JsValue> {
    let given = options::GivenOptions::parse(options);
    let given = given.map_err(|message| error::invalid_options(&message))?;
    let options = given.options();
    let options = options.map_err(|message| error::invalid_options(&message))?;
    let env = host::env().map_err(|missing| {
        let message = format!("globalThis.crypto is required: {missing}");
        error::failure("unsupported", &message, &json!({}))
    })?;
    let store = Arc::new(JsStore::new(store));
    let service = KnowledgeService::open(store, env, options).await;
    let service = service.map_err(|error| error::of_open(&error))?;
    Ok((service, given))
}

#[wasm_bindgen]
impl Service {
    /// Returns the maximum size of a request body, in bytes.
    #[wasm_bindgen(getter, js_name = bodyBytesMax)]
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        self.api.service().limits().body_bytes_max
    }

    /// Handles a request; if `is_operator`, one to the operator API.
    pub fn handle(
        &self,
        is_operator: bool,
        method: &str,
        target: &str,
        headers: &str,
        body: Vec<u8>,
    ) -> u32 {
        let service = self.clone();
        let request = exchange::request(method, target, headers, body);
        let request =
            request.map_err(|error| self.error_response(is_operator, method, target, error));
        task::spawn_responding(async move {
            match request {
                Ok(request) if is_operator => service.admin.handle(request).await,
                Ok(mut request) => {
                    let header = service.client_address_header.as_deref();
                    exchange::add_client(&mut request, header);
                    service.api.handle(request).await
                }
                Err(response) => response,
            }
        })
    }

    /// Begins the error response to a request that [`handle`](Self::handle) did not complete.
    ///
    /// The status is 413 or 400 if its body was not read to the end, and 500 after a panic.
    pub fn reject(&self, is_operator: bool, method: &str, target: &str, status: u16) -> u32 {
        let error = match status {
            413 => Error::PayloadTooLarge {
                bytes_max: self.body_bytes_max(),
            },
            400 => Error::unreadable_body(),
            _ => Error::internal("the module crashed"),
        };
        let response = self.error_response(is_operator, method, target, error);
        task::spawn_responding(std::future::ready(response))
    }

    fn error_response(
        &self,
        is_operator: bool,
        method: &str,
        target: &str,
        error: Error,
    ) -> Response<Bytes> {
        if is_operator {
            return self.admin.reject(error);
        }
        let (method, uri) = exchange::parse_rejected(method, target);
        self.api.reject(&method, &uri, &error)
    }

    /// Checks that the store responds.
    pub fn ready(&self) -> u32 {
        let service = self.api.service().clone();
        task::spawn(async move {
            let ready = service.ready().await;
            ready.map_err(|error| error::of_service(&error))?;
            Ok(JsValue::UNDEFINED)
        })
    }

    /// Runs tasks that are due at `now`, in milliseconds since the Unix epoch.
    ///
    /// Without a time it takes the current one.
    pub fn maintain(&self, now: Option<f64>) -> u32 {
        let service = self.api.service().clone();
        task::spawn(async move {
            let done = service.maintain(time(&service, now)).await;
            let done = done.map_err(|error| error::of_service(&error))?;
            Ok(json(&json!({
                "swept": done.purged,
                "auditPagesSwept": done.audit_pages_purged,
                "holdersRewritten": done.holders_rewritten,
                "oldestDue": done.oldest_due.map(Timestamp::as_millis),
                "hasMore": done.has_more,
            })))
        })
    }

    /// Runs one dispatch pass at `now`, with limits in parallel and in total.
    ///
    /// The defaults are the current time and the limits of [`DispatchLimits`].
    pub fn dispatch(
        &self,
        bridge: SenderBridge,
        now: Option<f64>,
        at_once_max: Option<u32>,
        attempts_max: Option<u32>,
    ) -> u32 {
        let mut limits = DispatchLimits::default();
        if let Some(max) = at_once_max {
            limits.at_once_max = max as usize;
        }
        if let Some(max) = attempts_max {
            limits.attempts_max = max as usize;
        }
        let service = self.api.service().clone();
        let addresses = service.webhook_addresses().clone();
        task::spawn(async move {
            let sender = FetchSender { bridge, addresses };
            let done = service
                .dispatcher()
                .dispatch(&sender, time(&service, now), limits)
                .await;
            let done = done.map_err(|error| error::of_service(&error))?;
            Ok(json(&json!({
                "attempts": done.attempts,
                "delivered": done.delivered,
                "nextDue": done.next_due.map(Timestamp::as_millis),
                "hasMore": done.has_more,
            })))
        })
    }
}

fn time(service: &KnowledgeService, now: Option<f64>) -> Timestamp {
    // Exact: a whole number of milliseconds, below 2^53.
    now.map_or_else(
        || service.env().now(),
        |millis| Timestamp::from_millis(millis as i64),
    )
}

fn json(value: &serde_json::Value) -> JsValue {
    JsValue::from_str(&value.to_string())
}
