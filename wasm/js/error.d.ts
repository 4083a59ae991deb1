/** A refusal or a failure of the service. */
export class KnowledgeError extends Error {
  constructor(
    parts: {
      code: string;
      message: string;
      details?: Record<string, unknown>;
      status?: number;
      requestId?: string;
    },
    options?: { cause?: unknown },
  );
  /** What is wrong, for programs: `not_found`, `invalid_request` and the like. */
  readonly code: string;
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
