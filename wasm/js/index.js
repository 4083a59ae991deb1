// What every entry point of the package exports.

export { KnowledgeError, StoreError } from "./error.js";
export { KnowledgeService } from "./service.js";
