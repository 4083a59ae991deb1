/**
 * What is wrong, for programs. Refusals of the interface:
 *
 * - `invalid_request`, `idempotency_key_required`, `unauthenticated`, `forbidden`, `not_found`, `method_not_allowed`,
 *   `conflict`, `role_in_use`, `slug_taken`, `endpoint_off`, `precondition_failed`, `payload_too_large`,
 *   `unsupported_media_type`, `idempotency_key_reused`, `rate_limited`: as the server's.
 * - `unavailable`: the service or its store cannot work now.
 * - `internal`: a defect. Whether what was called took effect is unknown; the service can be called again.
 *
 * Of `KnowledgeService.open` besides:
 *
 * - `invalid_options`: the options cannot be in force.
 * - `other_sealing_key`: the secrets in the store are sealed with another key.
 * - `later_schema`: the store is of a later version of the package.
 * - `unfinished_restore`: a restore into the store was interrupted.
 * - `full`, `corrupt`: the store said so.
 * - `unsupported`: the host has no `crypto.getRandomValues()`.
 *
 * And of whatever is called after `close`: `closed`.
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
  | "rate_limited"
  | "internal"
  | "unavailable"
  | "invalid_options"
  | "other_sealing_key"
  | "later_schema"
  | "unfinished_restore"
  | "full"
  | "corrupt"
  | "unsupported"
  | "closed";

/** A refusal or a failure of the service. */
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
  /** What is wrong, for programs. */
  readonly code: KnowledgeErrorCode;
  /** What else there is to say; for `invalid_request` its `fields`. */
  readonly details: Record<string, unknown>;
  /** The status of the answer, where there was one. */
  readonly status: number | undefined;
  /** The identifier of the answer, where there was one. */
  readonly requestId: string | undefined;
}

/**
 * What is known where a store has failed. All but `unknown` say that nothing was applied.
 *
 * - `unavailable`: the store cannot work now.
 * - `full`: there is no room left.
 * - `corrupt`: what is stored is not what was written.
 * - `invalid`: an `add` to what is no counter, or past its 64 bits.
 * - `unknown`: the answer to a commit was lost; it may have been applied, as a whole.
 */
export type StoreErrorKind = "unavailable" | "full" | "corrupt" | "invalid" | "unknown";

/** A failure of a store. Any other error that a store throws counts as `unavailable`, one of `commit` as `unknown`. */
export class StoreError extends Error {
  constructor(kind: StoreErrorKind, message: string, options?: { cause?: unknown });
  readonly kind: StoreErrorKind;
}
