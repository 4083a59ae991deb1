// Why and when a key, a webhook or a subscription has ended, in words.

import { fullTime } from "../ui/format.js";

/** @import { EndedReason } from "../../../wasm/pkg/operations.js" */

const TAKE_OVER = " Rotate the secret to take it over.";
/** @type {Record<EndedReason, string>} */
const REASONS = {
  permission_missing: "Its member lacks the permission or cannot see this workspace. It works again once that changes.",
  credential_revoked: "The scoped token that created it was revoked.",
  credential_expired: "The scoped token that created it has expired.",
  ended_with_credential: "It was ended with the credential that created it.",
  member_removed: "Its member was removed.",
};

/**
 * Explains why something has ended or is suspended, and when if that is known; `null` if it is not.
 * @param {EndedReason | null} reason
 * @param {string | null} at
 * @param {boolean} [hasSecret] False for a token, which nobody can take over.
 */
export function endingText(reason, at, hasSecret = true) {
  if (reason === null) return null;
  const isOver = hasSecret && reason !== "permission_missing";
  const text = `${REASONS[reason] ?? reason}${isOver ? TAKE_OVER : ""}`;
  return at === null ? text : `Ended ${fullTime(at)}. ${text}`;
}
