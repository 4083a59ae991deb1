// For workerd, which compiles modules before they are asked for.

import wasm from "./knowledge_bg.wasm";

import { setSource } from "./module.js";

setSource(() => wasm);

export * from "./index.js";
