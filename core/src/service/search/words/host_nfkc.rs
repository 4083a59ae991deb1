//! Normalisation of texts by the host, where that is JavaScript: without the tables of Unicode, the
//! module is smaller.

use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast as _, JsValue};

#[wasm_bindgen]
extern "C" {
    type Text;

    #[wasm_bindgen(method, structural)]
    fn normalize(this: &Text, form: &str) -> String;
}

/// Returns a text in NFKC.
pub(super) fn nfkc(text: &str) -> String {
    let text: Text = JsValue::from_str(text).unchecked_into();
    text.normalize("NFKC")
}
