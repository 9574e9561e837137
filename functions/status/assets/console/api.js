// The public API. The key or token is in this module's memory and nowhere else, and goes to this
// page's own origin alone.

const BASE = new URL("../", import.meta.url);
const PRODUCTS = "v1/inovafarma/";

let credential = null;
let session = new AbortController();

export function isSignedIn() {
  return credential !== null;
}

// Takes a key, or a token, which has another form.
export function signIn(text) {
  const isToken = /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/.test(text);
  credential = isToken ? ["authorization", `Bearer ${text}`] : ["x-api-key", text];
}

export function signOut() {
  credential = null;
  session.abort();
  session = new AbortController();
}

// Aborts when the user signs out: for work that outlives its screen.
export const whileSignedIn = () => session.signal;

// The response to a request that failed, in the form of a problem (RFC 9457).
export class Problem extends Error {
  constructor(status, body, headers) {
    super(body?.detail ?? body?.message ?? "");
    this.status = status;
    this.title = body?.title ?? "";
    this.reason = body?.reason ?? "";
    this.errors = body?.errors ?? [];
    this.broker = body?.broker ?? null;
    this.traceId = body?.traceId ?? headers.get("x-trace-id") ?? "";
    this.retryAfter = Number(headers.get("retry-after")) || 0;
  }
}

// No response came: the connection broke, or never was.
export class Unreachable extends Error {}

// `crypto.randomUUID` is missing where the page does not come over TLS.
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  return url;
}

function headersOf(more) {
  return Object.fromEntries([...(credential ? [credential] : []), ...Object.entries(more)]);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function request(method, path, { query, headers = {}, body, signal } = {}) {
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: headersOf({ ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers }),
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  return response;
}

async function checked(response) {
  if (response.ok) return response;
  throw new Problem(response.status, parsed(await response.text()), response.headers);
}

async function json(method, path, options) {
  const response = await checked(await request(method, path, options));
  return response.json();
}

export const get = (path, options) => json("GET", path, options);
export const post = (path, body, options) => json("POST", path, { ...options, body });
// A change has a key, which its retries repeat.
export const change = (path, body, key, options = {}) => post(path, body, { ...options, headers: { "idempotency-key": key } });

export async function blob(path, options) {
  return (await checked(await request("GET", path, options))).blob();
}

// Readiness is a body under 503, too.
export async function readiness(signal) {
  const response = await request("GET", "health/ready", { signal });
  const body = parsed(await response.text());
  if (!body?.dependencies) throw new Problem(response.status, body, response.headers);
  return body;
}

// Sends bytes and tells how many have left. `fetch` cannot.
export function send(method, url, headers, bytes, { own = false, progress, signal }) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open(method, url);
    for (const [name, value] of Object.entries(own ? headersOf(headers) : headers)) xhr.setRequestHeader(name, value);
    xhr.upload.addEventListener("progress", (event) => progress(event.loaded));
    xhr.addEventListener("load", () => {
      if (xhr.status < 300) return resolve(parsed(xhr.responseText));
      const got = { get: (name) => (own ? xhr.getResponseHeader(name) : null) };
      return reject(new Problem(xhr.status, parsed(xhr.responseText), got));
    });
    xhr.addEventListener("error", () => reject(new Unreachable()));
    xhr.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    // A request that was not sent has no event of its end.
    if (signal?.aborted) return reject(new DOMException("", "AbortError"));
    signal?.addEventListener("abort", () => xhr.abort());
    xhr.send(bytes);
    return undefined;
  });
}

export const batches = (query, signal) => get(`${PRODUCTS}batches`, { query, signal });
export const batch = (id, signal) => get(`${PRODUCTS}batches/${encodeURIComponent(id)}`, { signal });
export const batchErrors = (id, query, signal) => get(`${PRODUCTS}batches/${encodeURIComponent(id)}/errors`, { query, signal });
export const replay = (id, body, key) => change(`${PRODUCTS}batches/${encodeURIComponent(id)}/replay`, body, key);
export const products = `${PRODUCTS}products`;
export const uploads = `${PRODUCTS}products/uploads`;

// All pages of a batch's errors as one file of lines.
export async function errorLines(id) {
  const parts = [];
  let cursor;
  do {
    const page = await batchErrors(id, { limit: 1000, cursor });
    parts.push(page.errors.map((error) => `${JSON.stringify(error)}\n`).join(""));
    cursor = page.next_cursor;
  } while (cursor);
  return new Blob(parts, { type: "application/x-ndjson" });
}
