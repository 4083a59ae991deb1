/**
 * Error codes, for programs. Errors of the API:
 *
 * - `invalid_request`, `idempotency_key_required`, `unauthenticated`, `forbidden`, `not_found`,
 *   `method_not_allowed`, `conflict`, `role_in_use`, `slug_taken`, `endpoint_off`,
 *   `precondition_failed`, `payload_too_large`, `unsupported_media_type`,
 *   `idempotency_key_reused`, `created_resource_gone`, `quota_exceeded`, `rate_limited`: as on the
 *   server.
 * - `unavailable`: the service or its store is temporarily unavailable.
 * - `internal`: a defect. The outcome of the call is indeterminate; the service can be called
 *   again.
 *
 * Further errors of `KnowledgeService.open`:
 *
 * - `invalid_options`: the options are invalid.
 * - `other_sealing_key`: the secrets in the store are sealed with another key.
 * - `later_schema`: the store was written by a later version of the package.
 * - `earlier_schema`: the store was written by a version before the first release.
 * - `unfinished_restore`: a restore into the store was interrupted.
 * - `full`, `corrupt`: the store is full or corrupt.
 * - `unsupported`: the host has no `crypto.getRandomValues()`.
 *
 * Every call after `close`: `closed`.
 */
export type KnowledgeErrorCode =
  | "invalid_request"
  | "idempotency_key_required"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "conflict"
  | "role_in_use"
  | "slug_taken"
  | "endpoint_off"
  | "precondition_failed"
  | "payload_too_large"
  | "unsupported_media_type"
  | "idempotency_key_reused"
  | "created_resource_gone"
  | "quota_exceeded"
  | "rate_limited"
  | "internal"
  | "unavailable"
  | "invalid_options"
  | "other_sealing_key"
  | "later_schema"
  | "earlier_schema"
  | "unfinished_restore"
  | "full"
  | "corrupt"
  | "unsupported"
  | "closed";

/** An error of the service. */
export class KnowledgeError extends Error {
  constructor(
    parts: {
      code: KnowledgeErrorCode;
      message: string;
      details?: Record<string, unknown>;
      status?: number;
      requestId?: string;
    },
    options?: { cause?: unknown },
  );
  /** The error code, for programs. */
  readonly code: KnowledgeErrorCode;
  /**
   * Further facts; for `invalid_request` the invalid `fields`, for `not_found` the `kind`, for
   * `forbidden` the missing `permission`, if one is missing.
   */
  readonly details: Record<string, unknown>;
  /** The status of the response, if there was one. */
  readonly status: number | undefined;
  /** The `Request-Id` of the response, if there was one. */
  readonly requestId: string | undefined;
}

/**
 * The kind of a store's error. All but `unknown` mean that nothing was applied.
 *
 * - `unavailable`: the store is temporarily unavailable.
 * - `full`: the store is out of space.
 * - `corrupt`: stored data is damaged.
 * - `invalid`: an `add` to a value that is not a counter, or beyond 64 bits.
 * - `unknown`: the outcome of a commit is indeterminate; it may have been applied, as a whole.
 */
export type StoreErrorKind = "unavailable" | "full" | "corrupt" | "invalid" | "unknown";

/**
 * An error of a store. Any other error thrown by `read` is treated as `unavailable`, and one thrown
 * by `commit` as `unknown`.
 */
export class StoreError extends Error {
  constructor(kind: StoreErrorKind, message: string, options?: { cause?: unknown });
  readonly kind: StoreErrorKind;
}
