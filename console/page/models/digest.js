// SHA-256 (FIPS 180-4), also in a page without https, to which browsers give no `crypto.subtle`.

/** First 32 bits of the fractional parts of a power of the first primes, as the standard has its constants. */
const constants = (/** @type {number} */ length, /** @type {number} */ power) => {
  const found = new Uint32Array(length);
  for (let prime = 2, index = 0; index < length; prime++) {
    let divisor = 2;
    while (divisor * divisor <= prime && prime % divisor !== 0) divisor++;
    if (divisor * divisor > prime) found[index++] = (prime ** power % 1) * 2 ** 32;
  }
  return found;
};

const ROUND = constants(64, 1 / 3);
const START = constants(8, 1 / 2);

const rotated = (/** @type {number} */ word, /** @type {number} */ bits) => (word >>> bits) | (word << (32 - bits));

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<Uint8Array>}
 */
export async function sha256(bytes) {
  return crypto.subtle ? new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)) : digest(bytes);
}

/**
 * @param {Uint8Array} bytes
 * @returns {Uint8Array}
 */
export function digest(bytes) {
  const padded = new DataView(new ArrayBuffer(((bytes.length + 72) >> 6) << 6));
  new Uint8Array(padded.buffer).set(bytes);
  padded.setUint8(bytes.length, 0x80);
  padded.setBigUint64(padded.byteLength - 8, BigInt(bytes.length) * 8n);
  const state = START.slice();
  const words = new Uint32Array(64);
  const at = (/** @type {Uint32Array} */ list, /** @type {number} */ index) => list[index] ?? 0;
  for (let block = 0; block < padded.byteLength; block += 64) {
    for (let index = 0; index < 64; index++) {
      const [early, late] = [at(words, index - 15), at(words, index - 2)];
      words[index] =
        index < 16
          ? padded.getUint32(block + index * 4)
          : at(words, index - 16) +
            (rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3)) +
            at(words, index - 7) +
            (rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10));
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
    for (let index = 0; index < 64; index++) {
      const mixed = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
      const first = (h + mixed + ((e & f) ^ (~e & g)) + at(ROUND, index) + at(words, index)) | 0;
      const second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    for (const [index, word] of [a, b, c, d, e, f, g, h].entries()) state[index] = at(state, index) + word;
  }
  const result = new DataView(new ArrayBuffer(32));
  state.forEach((word, index) => result.setUint32(index * 4, word));
  return new Uint8Array(result.buffer);
}
