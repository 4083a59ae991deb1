/// <reference lib="esnext.disposable" />
import type { BulkResult, BulkUpdate, DashboardSummary, DirectCalls, Operations } from "./operations.js";
import type { Provisioning } from "./provisioning.js";
import type { Store } from "./store.js";

export * from "./error.js";
export type * from "./operations.js";
export type * from "./provisioning.js";
export type * from "./store.js";

/**
 * Configurable limits: the server's settings under `[limits]`, which are in snake case and omit the
 * unit of a time. `deliveryRetentionSeconds` is the server's `webhooks.retention`.
 */
export interface Limits {
  bulkMemoriesMax?: number;
  contentBytesMax?: number;
  bodyBytesMax?: number;
  nameCharsMax?: number;
  urlCharsMax?: number;
  webhooksPerWorkspaceMax?: number;
  pingsPerHostMax?: number;
  inboundWebhooksPerWorkspaceMax?: number;
  connectorsPerWorkspaceMax?: number;
  mcpKeysPerWorkspaceMax?: number;
  customRolesPerOrgMax?: number;
  memoriesPerOrgMax?: number;
  recallsPerOrgMax?: number;
  chatsPerOrgMax?: number;
  chatMessagesPerOrgMax?: number;
  sourcesPerOrgMax?: number;
  membersPerOrgMax?: number;
  tokensPerMemberMax?: number;
  tokenLifetimeMaxSeconds?: number;
  endpointsPerOrgMax?: number;
  auditBytesPerDayMax?: number;
  searchedMemoriesMax?: number;
  searchIndexBytesMax?: number;
  subscriptionsPerRecallMax?: number;
  idempotencyRetentionSeconds?: number;
  auditRetentionSeconds?: number;
  activityRetentionSeconds?: number;
  deliveryRetentionSeconds?: number;
}

/** Options of a service. */
export interface Options {
  /**
   * The key that seals stored signing secrets: 32 random bytes, raw or in base64. A store opens
   * only with the key that it was first opened with.
   */
  sealingKey: Uint8Array | string;
  /**
   * The public base URL of the service, for the URLs of inbound webhooks: an `http` or `https` URL
   * without credentials or a query.
   */
  publicUrl?: string;
  /**
   * Origins whose pages may write with a session cookie, besides the service's own. Each is written
   * as browsers send it, such as `https://app.example.com`.
   */
  trustedOrigins?: string[];
  /**
   * The header in which the host tells the address of the client, such as `cf-connecting-ip`. The
   * audit log records it. Name only a header that the host sets itself: without the option the
   * address is unknown.
   */
  clientAddressHeader?: string;
  /**
   * The reads that the audit log records: by default none; with `confidential`, those that return
   * the title or the content of a confidential or restricted memory.
   */
  auditReads?: "none" | "confidential";
  limits?: Limits;
  /** Permitted targets of deliveries. */
  webhooks?: {
    /** Permitted ranges besides public addresses, such as `10.1.0.0/16`. */
    allow?: string[];
    /** True if plain `http` is permitted too. */
    allowHttp?: boolean;
  };
}

/** Report of one call of `maintain`. */
export interface Maintained {
  /** Number of tasks done, without the daily check of each audit log. */
  swept: number;
  /** Number of expired pages of audit logs that were purged. */
  auditPagesSwept: number;
  /** Number of members with a deleted role that were given its replacement. */
  holdersRewritten: number;
  /** Due time of the oldest task; `null` if none was due. */
  oldestDue: Date | null;
  /** True if more is due now: call again. */
  hasMore: boolean;
}

/** Limits of one dispatch pass, chosen by the limits of the host; the rest waits for the next. */
export interface DispatchLimits {
  /**
   * Maximum number of concurrent deliveries; 64 by default. It must not exceed the host's
   * connections: if `fetch` waits for one, that counts towards the 15 s of the delivery. At most
   * half of them, and at most 8, go to one endpoint, so that an unresponsive one does not block the
   * others.
   */
  atOnceMax?: number;
  /** Maximum number of attempts, each of which calls `fetch` once; 1,024 by default. */
  attemptsMax?: number;
}

/** Report of one dispatch pass. */
export interface Dispatched {
  /** Number of attempts. */
  attempts: number;
  /** Number of successful attempts. */
  delivered: number;
  /** Due time of the next attempt, if none is due now. */
  nextDue: Date | null;
  /** True if more is due now: call again. */
  hasMore: boolean;
}

/** The whole response to a direct call. */
export interface Answer<Body> {
  status: number;
  /** The headers by lower-case name, such as `etag` and `idempotent-replayed`. */
  headers: Map<string, string>;
  body: Body;
}

/** The parts of a request that are read; a `Request` of the host has them. */
export type RequestLike = Pick<Request, "method" | "url" | "headers" | "body">;

/**
 * The workspace knowledge service over one store. It rejects with a `KnowledgeError`, or with a
 * `TypeError` for an argument of the wrong type. After a defect (`internal`) its next call reopens
 * it.
 */
export class KnowledgeService {
  private constructor();

  /** Opens a service over a store; an empty store is initialised. */
  static open(store: Store, options: Options): Promise<KnowledgeService>;

  /** The operator API, without authentication: a caller can do everything. */
  readonly provision: Provisioning;

  /**
   * Handles a request as the server does, with the same statuses, headers and bytes. A defect gives
   * a 500.
   */
  fetch(request: RequestLike): Promise<Response>;

  /**
   * Calls an operation directly, and returns the whole response. The credential is a token or a
   * session. Messages to inbound webhooks, which are signed, are the only operation without a
   * direct call.
   */
  call<Id extends keyof Operations>(
    operationId: Id,
    credential: string,
    parameters?: Operations[Id]["parameters"],
  ): Promise<Answer<Operations[Id]["answer"]>>;

  /** Changes attributes of many memories: `bulkUpdateMemories` with positional arguments. */
  bulkUpdate(token: string, idempotencyKey: string, update: BulkUpdate): Promise<BulkResult>;

  /** Returns the summary of a workspace: `getDashboardSummary` with positional arguments. */
  dashboardSummary(token: string, workspaceId: string): Promise<DashboardSummary>;

  /** Frees the memory of the service. Calls under way are completed; later ones are rejected. */
  close(): void;
  /** Closes the service at the end of a `using` block. */
  [Symbol.dispose](): void;

  /** Rejects if the store does not respond. */
  ready(): Promise<void>;

  /**
   * Runs a limited number of maintenance tasks that are due at `now`, by default the current time.
   * Call it again while the report has `hasMore`.
   */
  maintain(now?: Date | number): Promise<Maintained>;

  /**
   * Runs one dispatch pass at `now`, by default the current time. Call it from an alarm or a cron
   * trigger. `fetch` resolves names by itself and does not report the address: only an address in
   * the URL is checked, not the addresses of a name. If the runtime can reach a private network,
   * pass a `fetch` that rejects it.
   *
   * A custom `fetch` must honour two options: `redirect: "manual"`, because a followed redirect
   * sends the event to an endpoint that is not registered, and `signal`, which aborts the exchange
   * after 15 s. If it ignores them, the response to a redirected request is discarded and the pass
   * continues after 15 s, but the requests have been sent.
   *
   * If the host limits the requests of one invocation, pass matching limits: a Cloudflare Worker
   * has 6 concurrent connections and, depending on its plan, 50 or more subrequests.
   */
  dispatch(
    fetch: (url: string, init: RequestInit) => Promise<Response>,
    now?: Date | number,
    limits?: DispatchLimits,
  ): Promise<Dispatched>;
}

export interface KnowledgeService extends DirectCalls {}
