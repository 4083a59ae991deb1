//! Errors as JavaScript gets them: the JSON that `wasm/js/error.js` makes a `KnowledgeError` of.

use knowledge_core::Error;
use knowledge_core::service::OpenError;
use knowledge_core::store::StoreErrorKind;
use serde_json::{Value, json};
use wasm_bindgen::JsValue;

/// An error with a code for programs, a message for people and what else there is to say.
pub(crate) fn failure(code: &str, message: &str, details: &Value) -> JsValue {
    let failure = json!({ "code": code, "message": message, "details": details });
    JsValue::from_str(&failure.to_string())
}

/// Options that cannot be in force.
pub(crate) fn invalid_options(message: &str) -> JsValue {
    failure("invalid_options", message, &json!({}))
}

/// An error of a call that the host makes by itself: it may know everything.
pub(crate) fn of_service(error: &Error) -> JsValue {
    let details = match error {
        Error::Internal { detail } => json!({ "reason": detail }),
        Error::Unavailable {
            retry_after,
            detail,
        } => json!({ "reason": detail, "retry_after_seconds": retry_after.as_secs() }),
        _ => json!({}),
    };
    failure(error.code(), &error.to_string(), &details)
}

/// Why a store cannot be served.
pub(crate) fn of_open(error: &OpenError) -> JsValue {
    let code = match error {
        OpenError::LaterSchema { .. } => "later_schema",
        OpenError::Unfinished => "unfinished_restore",
        OpenError::OtherSealingKey { .. } => "other_sealing_key",
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
