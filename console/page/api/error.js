// Errors of requests, and explanations of them that say what to do.

/** @typedef {import("../../../wasm/pkg/operations.js").FieldProblem} FieldProblem */

/** An error response, or no response at all. */
export class ApiError extends Error {
  /**
   * @param {object} error
   * @param {number} error.status Status of the response; 0 if there was none.
   * @param {string} error.code Error code, or `network`.
   * @param {string} error.message
   * @param {{ fields?: FieldProblem[], holder_count?: number, limit?: string, permission?: string | null }} [error.details]
   * @param {string | null} [error.requestId]
   */
  constructor({ status, code, message, details = {}, requestId = null }) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
  }

  /**
   * Reads an error response, whose error is in its body or in its headers.
   * @param {import("./client.js").Answer} answer
   */
  static of({ status, headers, text }) {
    const isJson = headers.get("content-type")?.startsWith("application/json");
    const body = isJson && text !== "" ? JSON.parse(text) : null;
    return new ApiError({
      status,
      code: body?.error ?? headers.get("error-code") ?? "unknown",
      message: body?.message ?? headers.get("error-message") ?? `the server answered ${status}`,
      details: body?.details,
      requestId: headers.get("request-id"),
    });
  }

  /**
   * Returns the error of a successful response that is not one of the API.
   * @param {number} status
   */
  static foreign(status) {
    return new ApiError({
      status,
      code: "foreign",
      message: `an answer with status ${status} is not from this server`,
    });
  }

  /**
   * Returns the error of a request without a response.
   * @param {boolean} isRepeatable True if the request can be repeated without an effect of its own.
   */
  static network(isRepeatable) {
    const message = isRepeatable ? "the server cannot be reached" : "the connection was lost before the answer arrived";
    return new ApiError({ status: 0, code: isRepeatable ? "network" : "network_unknown", message });
  }
}

/** @type {Record<string, { title: string, advice: string }>} */
const EXPLANATIONS = {
  conflict: { title: "Somebody else is changing the same things", advice: "Nothing was changed. Try again." },
  endpoint_off: { title: "The endpoint is inactive", advice: "Activate it first, then repeat this." },
  foreign: {
    title: "The answer is not from this server",
    advice: "A proxy or the sign-in page of your network answered instead. Reload the page, or ask who runs it.",
  },
  forbidden: {
    title: "You may not do this",
    advice: "Ask an administrator of your organisation for access.",
  },
  internal: { title: "The server failed", advice: "Try again. If it persists, give the operator the request number." },
  invalid_request: { title: "Something entered is not valid", advice: "Correct it and try again." },
  network: {
    title: "The server cannot be reached",
    advice: "Nothing is lost. Check your connection and try again: the request takes effect once.",
  },
  network_unknown: {
    title: "The connection was lost",
    advice: "It may or may not have been done. Look at the list before you repeat it.",
  },
  not_found: { title: "Not found", advice: "It does not exist, was deleted, or is not shared with you." },
  precondition_failed: {
    title: "Somebody else changed it meanwhile",
    advice: "Nothing was changed. Open it again to see the current state.",
  },
  quota_exceeded: { title: "The quota is exhausted", advice: "Delete something first, or ask the operator for more." },
  rate_limited: { title: "Too many requests", advice: "Wait a moment and try again." },
  role_in_use: { title: "Members hold this role", advice: "Choose the role that they get instead." },
  sign_out: { title: "You may still be signed in on this device", advice: "Try again before you leave it." },
  slug_taken: { title: "This name is taken", advice: "Choose another one." },
  unauthenticated: { title: "You are signed out", advice: "Sign in again." },
  unavailable: { title: "The service is busy", advice: "It may or may not have been done. Look again in a moment." },
};

/**
 * Explains an error to the user of the page.
 * @param {ApiError} error
 * @returns {{ title: string, advice: string }}
 */
export function explain(error) {
  return EXPLANATIONS[error.code] ?? { title: "That did not work", advice: "Try again." };
}

/**
 * Returns the problem of one field of a form, or an empty text.
 * @param {ApiError | null} error
 * @param {string} name
 */
export function fieldProblem(error, name) {
  const problems = error?.details.fields?.filter(({ path }) => path.split(/[.[]/)[0] === name) ?? [];
  return problems.map(({ message }) => message).join("; ");
}
