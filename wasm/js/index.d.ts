/// <reference lib="esnext.disposable" />
import type { BulkResult, BulkUpdate, DashboardSummary, DirectCalls, Operations } from "./operations.js";
import type { Provisioning } from "./provisioning.js";
import type { Store } from "./store.js";

export * from "./error.js";
export type * from "./operations.js";
export type * from "./provisioning.js";
export type * from "./store.js";

/**
 * The limits that can be set: the server's settings under `[limits]`, where they stand in snake case and times without
 * their unit. `deliveryRetentionSeconds` is its `webhooks.retention`.
 */
export interface Limits {
  bulkMemoriesMax?: number;
  contentBytesMax?: number;
  bodyBytesMax?: number;
  nameCharsMax?: number;
  urlCharsMax?: number;
  webhooksPerWorkspaceMax?: number;
  inboundWebhooksPerWorkspaceMax?: number;
  connectorsPerWorkspaceMax?: number;
  mcpKeysPerWorkspaceMax?: number;
  customRolesPerOrgMax?: number;
  subscriptionsPerRecallMax?: number;
  idempotencyRetentionSeconds?: number;
  auditRetentionSeconds?: number;
  deliveryRetentionSeconds?: number;
}

/** What a service is opened with. */
export interface Options {
  /**
   * Seals the signing secrets that are stored: 32 random bytes, or these in base64. A store is opened with the key that
   * it was first opened with.
   */
  sealingKey: Uint8Array | string;
  /**
   * Where the service is reached from outside: the beginning of the URLs of inbound webhooks. An `http` or `https` URL without
   * credentials or a query.
   */
  publicUrl?: string;
  /**
   * Origins whose pages may write with a session cookie, as the service's own may. Each as browsers send it:
   * `https://app.example.com`.
   */
  trustedOrigins?: string[];
  limits?: Limits;
  /** Where deliveries may go. */
  webhooks?: {
    /** Ranges besides public addresses, such as `10.1.0.0/16`. */
    allow?: string[];
    /** Whether over plain `http` too. */
    allowHttp?: boolean;
  };
}

/** What one call of `maintain` did. */
export interface Maintained {
  swept: number;
  auditPagesSwept: number;
  holdersRewritten: number;
  /** Since when the oldest of what was due had been due; `null` where nothing was. */
  oldestDue: Date | null;
  /** Whether there is more to do now: call again. */
  hasMore: boolean;
}

/** How much a round of deliveries may do: as much as the host lets one invocation do. What does not fit waits for the next. */
export interface DispatchLimits {
  /**
   * How many deliveries are under way at once; 64 without. No more than the host has connections for: where it lets a
   * `fetch` wait for one, the 15 s of that delivery pass without anything being sent. At most half of them, and at most 8,
   * go to one endpoint, so that one that does not answer holds up nobody else.
   */
  atOnceMax?: number;
  /** How many attempts are made, each one call of `fetch`; 1,024 without. */
  attemptsMax?: number;
}

/** What one round of deliveries did. */
export interface Dispatched {
  attempts: number;
  delivered: number;
  /** When something is due next, where nothing is now. */
  nextDue: Date | null;
  /** Whether there is more to do now: call again. */
  hasMore: boolean;
}

/** A whole answer of a direct call. */
export interface Answer<Body> {
  status: number;
  /** The headers of the answer, by their names in lower case: `etag`, `idempotent-replayed` and the like. */
  headers: Map<string, string>;
  body: Body;
}

/** What of a request is read: a `Request` of the host is one. */
export type RequestLike = Pick<Request, "method" | "url" | "headers" | "body">;

/**
 * The workspace knowledge service over one store. Errors are `KnowledgeError`s; arguments that are none of their types are
 * `TypeError`s. After a defect (`internal`) it opens itself again with its next call.
 */
export class KnowledgeService {
  private constructor();

  /** Serves a store; an empty one is made ready. */
  static open(store: Store, options: Options): Promise<KnowledgeService>;

  /** The operator's side: whoever can call it can do everything. */
  readonly provision: Provisioning;

  /** Answers a request as the server does: the same statuses, headers and bytes. A defect is its 500. */
  fetch(request: RequestLike): Promise<Response>;

  /** Makes a direct call of any operation but a signed message to an inbound webhook, and gives its whole answer. The credential is a token or a session. */
  call<Id extends keyof Operations>(
    operationId: Id,
    credential: string,
    parameters?: Operations[Id]["parameters"],
  ): Promise<Answer<Operations[Id]["answer"]>>;

  /** Changes attributes of many memories: `bulkUpdateMemories` with its parts as arguments. */
  bulkUpdate(token: string, idempotencyKey: string, update: BulkUpdate): Promise<BulkResult>;

  /** The summary of a workspace: `getDashboardSummary` with its parts as arguments. */
  dashboardSummary(token: string, workspaceId: string): Promise<DashboardSummary>;

  /** Gives back what the service holds of memory: nothing can be called after that. What is under way comes to its end. */
  close(): void;
  /** Closes it, at the end of a `using`. */
  [Symbol.dispose](): void;

  /** Fails where the store does not answer. */
  ready(): Promise<void>;

  /** Does a bounded part of what is due at a time, else now: call again while it says that there is more. */
  maintain(now?: Date | number): Promise<Maintained>;

  /**
   * Makes a round of deliveries, at a time, else now: from an alarm or a cron trigger. `fetch` looks names up by itself and
   * tells nobody what it connects to: an address is checked where it stands in the URL, and not where a name leads to
   * it. Where the runtime reaches a private network, give a `fetch` that refuses it.
   *
   * A `fetch` of your own passes on what it is given: `redirect: "manual"`, since a delivery that follows a redirect reaches
   * somebody who was not registered, and `signal`, which ends it after 15 s. An answer that it was redirected to counts as
   * none, and nobody waits longer for it; but what it has sent has been sent.
   *
   * Where the host bounds what one invocation may fetch, give limits that fit: a Cloudflare Worker has 6 connections at
   * once, and 50 subrequests or more, as its plan says.
   */
  dispatch(
    fetch: (url: string, init: RequestInit) => Promise<Response>,
    now?: Date | number,
    limits?: DispatchLimits,
  ): Promise<Dispatched>;
}

export interface KnowledgeService extends DirectCalls {}
