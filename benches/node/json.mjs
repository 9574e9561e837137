// JSON as the gateway reads it: UTF-8, no member twice, integers within 2^53, and its canonical form.

export class Refused extends Error {
  constructor(status, reason, detail) {
    super(detail);
    Object.assign(this, { status, reason });
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const MAX_DEPTH = 64;

export function parse(bytes) {
  let text, value;
  try {
    text = utf8.decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    throw new Refused(400, "MALFORMED_JSON", error.message);
  }
  checkTokens(text);
  return value;
}

// Goes through the tokens of valid JSON for what JSON.parse lets pass.
function checkTokens(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[{}[\],:]/g;
  const open = [];
  let name;
  for (const [token] of text.matchAll(tokens)) {
    if (token === "{" || token === "[") {
      open.push(token === "{" ? new Set() : undefined);
      if (open.length > MAX_DEPTH) throw new Refused(400, "MALFORMED_JSON", "nested deeper than 64 levels");
    } else if (token === "}" || token === "]") {
      open.pop();
    } else if (token === ":") {
      const members = open.at(-1);
      if (members.has(name)) throw new Refused(400, "DUPLICATE_MEMBER", `${name} stands there more than once`);
      members.add(name);
    } else if (token[0] === '"') {
      name = token.includes("\\") ? JSON.parse(token) : token.slice(1, -1);
      if (!name.isWellFormed()) throw new Refused(400, "MALFORMED_JSON", "a lone surrogate");
    } else if (token !== "," && (/^-?\d+$/.test(token) ? !Number.isSafeInteger(Number(token)) : !Number.isFinite(Number(token)))) {
      throw new Refused(400, "NUMBER_OUT_OF_RANGE", `${token} is beyond 2^53-1; send it as a string`);
    }
  }
}

// RFC 8785.
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}
