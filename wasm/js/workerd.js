// Entry point for workerd, which compiles modules in advance.

import wasm from "./knowledge_bg.wasm";

import { setSource } from "./module.js";

setSource(() => wasm);

export * from "./index.js";
