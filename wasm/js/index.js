// Exports of every entry point of the package.

export { KnowledgeError, StoreError } from "./error.js";
export { KnowledgeService } from "./service.js";
