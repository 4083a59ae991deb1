//! Errors at the JavaScript boundary: JSON, which `wasm/js/error.js` turns into a `KnowledgeError`.

use knowledge_core::Error;
use knowledge_core::service::OpenError;
use knowledge_core::store::StoreErrorKind;
use serde_json::{Value, json};
use wasm_bindgen::JsValue;

/// Returns an error with a code for programs, a message for people and details.
pub(crate) fn failure(code: &str, message: &str, details: &Value) -> JsValue {
    let failure = json!({ "code": code, "message": message, "details": details });
    JsValue::from_str(&failure.to_string())
}

/// Returns the error for invalid options.
pub(crate) fn invalid_options(message: &str) -> JsValue {
    failure("invalid_options", message, &json!({}))
}

/// Converts an error of a call by the host, which may see every detail.
pub(crate) fn of_service(error: &Error) -> JsValue {
    let details = match error {
        Error::Internal { detail } => json!({ "reason": detail }),
        Error::Unavailable {
            retry_after,
            detail,
        } => json!({ "reason": detail, "retry_after_seconds": retry_after.as_secs() }),
        Error::IndexIncomplete { retry_after } => {
            json!({ "retry_after_seconds": retry_after.as_secs() })
        }
        Error::NotFound { kind } => json!({ "kind": kind }),
        _ => json!({}),
    };
    failure(error.code(), &error.to_string(), &details)
}

/// Converts an error of opening a service over a store.
pub(crate) fn of_open(error: &OpenError) -> JsValue {
    let code = match error {
        OpenError::LaterSchema { .. } => "later_schema",
        OpenError::EarlierSchema { .. } => "earlier_schema",
        OpenError::Unfinished => "unfinished_restore",
        OpenError::OtherSealingKey { .. } | OpenError::Rekeying { .. } => "other_sealing_key",
        OpenError::Limit(_) => "invalid_options",
        OpenError::Store(error) => match error.kind() {
            StoreErrorKind::Full => "full",
            StoreErrorKind::Corrupt | StoreErrorKind::Invalid => "corrupt",
            _ => "unavailable",
        },
        _ => "unavailable",
    };
    failure(code, &error.to_string(), &json!({}))
}
