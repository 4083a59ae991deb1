export * from "./index.js";

/** A source of the module: its bytes, the compiled module, an address, a request, or a response. */
export type ModuleSource = BufferSource | WebAssembly.Module | URL | string | Request | Response;

/**
 * Sets the source of the module (`knowledge-wasm/knowledge_bg.wasm`), and loads it. Call it before
 * a service is opened; once the module is loaded, it does nothing.
 */
export function initialise(source: ModuleSource | Promise<ModuleSource>): Promise<void>;
