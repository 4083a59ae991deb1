// Counters in the format of every backend: decimal digits, within 64 bits.

import { StoreError } from "../error.js";

const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Returns the value of a counter after the addition of `delta`; an absent counter is 0. */
export function addTo(current, delta) {
  let sum = delta;
  if (current !== undefined) {
    const digits = decoder.decode(current);
    const number = /^[+-]?[0-9]+$/.test(digits) ? BigInt(digits.replace(/^\+/, "")) : undefined;
    if (number === undefined || number < MIN || number > MAX) {
      throw new StoreError("invalid", "cannot add to a value that is not a counter");
    }
    sum += number;
  }
  if (sum < MIN || sum > MAX) throw new StoreError("invalid", "the sum of a counter exceeds 64 bits");
  return encoder.encode(String(sum));
}
