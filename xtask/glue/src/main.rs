//! What `cargo xtask wasm` needs of other crates: the JavaScript and TypeScript files around a compiled WebAssembly
//! module, and the description of the interface that the package's types are made of.
//!
//! A program of its own because its dependencies take longer to compile than everything else that `xtask` does.

use std::error::Error;

use knowledge_core::api::openapi;
use knowledge_core::limits::Limits;
use wasm_bindgen_cli_support::Bindgen;

const USAGE: &str = "usage: xtask-glue MODULE DIRECTORY NAME, or xtask-glue openapi";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [what] if what == "openapi" => {
            println!("{:#}", openapi::document(&Limits::default()));
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
        // An ES module that browsers, Node, Deno and Workers load alike: the caller hands it the module's bytes.
        .web(true)?
        // An instance that has trapped is replaced, see `wasm/js/module.js`.
        .reset_state_function(true)
        // The types of what is inside the package concern nobody: those of its interface are written by hand.
        .typescript(false)
        .generate(directory)?;
    Ok(())
}
