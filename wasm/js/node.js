// Entry point for Node.js: the module is read from its file and compiled synchronously. Asynchronous
// loading tests whether its source is a `Request`, and Node.js takes 20 ms to load that class.

import { readFileSync } from "node:fs";

import { setSource } from "./module.js";

setSource(() => new WebAssembly.Module(readFileSync(new URL("./knowledge_bg.wasm", import.meta.url))));

export * from "./index.js";
