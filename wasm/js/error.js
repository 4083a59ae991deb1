// What goes wrong, as objects.

/**
 * A refusal or a failure of the service.
 *
 * `code` is for programs, the message for people; `details` has what else the answer says.
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
 * A failure of a store. Its kind says what is known of the commit that failed: all but `unknown` say that nothing was
 * applied.
 */
export class StoreError extends Error {
  constructor(kind, message, options) {
    super(message, options);
    this.name = "StoreError";
    this.kind = kind;
  }
}
