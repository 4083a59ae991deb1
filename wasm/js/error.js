// Error classes.

/**
 * An error of the service.
 *
 * `code` is for programs, the message for people; `details` holds the rest of the response.
 */
export class KnowledgeError extends Error {
  constructor({ code, message, details = {}, status, requestId }, options) {
    super(message, options);
    this.name = "KnowledgeError";
    this.code = code;
    this.details = details;
    this.status = status;
    this.requestId = requestId;
  }
}

/**
 * An error of a store. The kind `unknown` means that a commit may have been applied, every other
 * kind that nothing was applied.
 */
export class StoreError extends Error {
  constructor(kind, message, options) {
    super(message, options);
    this.name = "StoreError";
    this.kind = kind;
  }
}
