//! Parser of URLs of the host, where that is JavaScript.

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    type URL;

    #[wasm_bindgen(constructor, catch)]
    fn new(text: &str) -> Result<URL, JsValue>;

    #[wasm_bindgen(method, getter)]
    fn href(this: &URL) -> String;
}

/// Parses a URL and returns it in its serialised form.
pub(super) fn serialize(text: &str) -> Option<String> {
    URL::new(text).ok().map(|url| url.href())
}
