//! Writes the JavaScript and TypeScript files around a compiled WebAssembly module.
//!
//! A program of its own because its dependencies take longer to compile than everything else that `xtask` does.

use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, directory, name] = arguments.as_slice() else {
        return Err("usage: xtask-glue MODULE DIRECTORY NAME".into());
    };
    Bindgen::new()
        .input_path(module)
        .out_name(name)
        // An ES module that browsers, Node, Deno and Workers load alike: the caller hands it the module's bytes.
        .web(true)?
        .typescript(true)
        .generate(directory)?;
    Ok(())
}
