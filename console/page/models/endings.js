// Why and when a key, a webhook or a subscription has ended, in words.

import { fullTime } from "../ui/format.js";

/** @import { EndedReason } from "../../../wasm/pkg/operations.js" */

/** @type {Record<EndedReason, string>} */
const REASONS = {
  permission_missing: "Its member lacks the permission or cannot see this workspace. It works again once that changes.",
  credential_revoked: "The scoped token that created it was revoked. Rotate the secret to take it over.",
  credential_expired: "The scoped token that created it has expired. Rotate the secret to take it over.",
  ended_with_credential: "It was ended with the credential that created it. Rotate the secret to take it over.",
  member_removed: "Its member was removed. Rotate the secret to take it over.",
};

/**
 * Explains why something has ended or is suspended, and when if that is known; `null` if it is not.
 * @param {EndedReason | null} reason
 * @param {string | null} at
 */
export function endingText(reason, at) {
  if (reason === null) return null;
  const text = REASONS[reason] ?? reason;
  return at === null ? text : `Ended ${fullTime(at)}. ${text}`;
}
