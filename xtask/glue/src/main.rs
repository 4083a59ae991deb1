//! The part of `cargo xtask wasm` that needs other crates.
//!
//! It writes the JavaScript and TypeScript files around a compiled WebAssembly module, and prints
//! the OpenAPI documents from which the package's types are generated: that of the public interface
//! and that of the operator's, one a line.
//!
//! It is a separate program because its dependencies take longer to compile than the rest of
//! `xtask`.

use std::error::Error;

use knowledge_core::api::openapi;
use knowledge_core::limits::Limits;
use wasm_bindgen_cli_support::Bindgen;

const USAGE: &str = "usage: xtask-glue MODULE DIRECTORY NAME, or xtask-glue openapi";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [command] if command == "openapi" => {
            let limits = Limits::default();
            println!("{}", openapi::document(&limits));
            println!("{}", openapi::operator_document(&limits));
            Ok(())
        }
        [module, directory, name] => glue(module, directory, name),
        _ => Err(USAGE.into()),
    }
}

fn glue(module: &str, directory: &str, name: &str) -> Result<(), Box<dyn Error>> {
    Bindgen::new()
        .input_path(module)
        .out_name(name)
        // An ES module for browsers, Node, Deno and Workers: the caller passes the bytes of the
        // module.
        .web(true)?
        // An instance is replaced after a trap, see `wasm/js/module.js`.
        .reset_state_function(true)
        // Types of internals are not needed; those of the interface are written by hand.
        .typescript(false)
        .generate(directory)?;
    Ok(())
}
