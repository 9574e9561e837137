// SHA-256 (FIPS 180-4) of a file, slice by slice. An upload is announced with it, and may have
// gigabytes: `crypto.subtle` takes a file as a whole, and only where the page comes over TLS.

// The page answers between two slices.
const SLICE = 1_048_576;

const PRIMES = [];
for (let number = 2; PRIMES.length < 64; number += 1) if (PRIMES.every((prime) => number % prime)) PRIMES.push(number);
// The first 32 bits behind the point.
const bits = (root) => ((root % 1) * 2 ** 32) | 0;
const ROUNDS = Int32Array.from(PRIMES, (prime) => bits(Math.cbrt(prime)));
const START = PRIMES.slice(0, 8).map((prime) => bits(Math.sqrt(prime)));

const turn = (word, by) => (word >>> by) | (word << (32 - by));

// Adds whole blocks of 64 bytes to the state.
function absorb(state, bytes) {
  const view = new DataView(bytes.buffer);
  const words = new Int32Array(64);
  for (let at = 0; at < bytes.length; at += 64) {
    for (let index = 0; index < 16; index += 1) words[index] = view.getInt32(at + 4 * index);
    for (let index = 16; index < 64; index += 1) {
      const early = words[index - 15];
      const late = words[index - 2];
      const mixed = (turn(early, 7) ^ turn(early, 18) ^ (early >>> 3)) + (turn(late, 17) ^ turn(late, 19) ^ (late >>> 10));
      words[index] = words[index - 16] + words[index - 7] + mixed;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let index = 0; index < 64; index += 1) {
      const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[index] + words[index]) | 0;
      const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + first) | 0;
      d = c;
      c = b;
      b = a;
      a = (first + second) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] += word));
  }
}

// The last bytes of a file with the padding and the file's length.
function padded(bytes, length) {
  const whole = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  whole.set(bytes);
  whole[bytes.length] = 0x80;
  new DataView(whole.buffer).setBigUint64(whole.length - 8, BigInt(length) * 8n);
  return whole;
}

// The hash in hexadecimal digits. Tells how many bytes are done, and ends with its signal.
export async function sha256(blob, { progress = () => {}, signal } = {}) {
  const state = Int32Array.from(START);
  for (let at = 0; at <= blob.size; at += SLICE) {
    signal?.throwIfAborted();
    const bytes = new Uint8Array(await blob.slice(at, at + SLICE).arrayBuffer());
    absorb(state, at + SLICE > blob.size ? padded(bytes, blob.size) : bytes);
    progress(at + bytes.length);
  }
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}
