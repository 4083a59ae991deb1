export * from "./index.js";

/** What the module is made of: its bytes, the compiled module, where it is fetched from, or the answer to that. */
export type ModuleSource = BufferSource | WebAssembly.Module | URL | string | Request | Response;

/**
 * Says where the module comes from, `knowledge-wasm/knowledge_bg.wasm`, and loads it. Called before a service is opened; once
 * the module is loaded, it does nothing.
 */
export function initialise(source: ModuleSource | Promise<ModuleSource>): Promise<void>;
