// Messages as people read them: bodies as text, JSON, XML or bytes, properties, and deaths.

import { h, swap } from "./dom.js";
import { bytes, facts, field, number, save, select, table, time } from "./parts.js";
import { t } from "./texts.js";

// More of a body than this is for an editor.
const SHOWN = 262_144;
// Levels that are indented. A body of brackets alone would become gigabytes of spaces.
const DEEPEST = 50;

function decoded(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

const indent = (depth) => "  ".repeat(Math.max(0, Math.min(depth, DEEPEST)));
const hex = (value, width) => value.toString(16).padStart(width, "0");

export function dump(octets) {
  const lines = [];
  for (let at = 0; at < octets.length; at += 16) {
    const line = [...octets.subarray(at, at + 16)];
    const shown = line.map((octet) => (octet > 31 && octet < 127 ? String.fromCharCode(octet) : "."));
    lines.push(`${hex(at, 8)}  ${line.map((octet) => hex(octet, 2)).join(" ").padEnd(47)}  ${shown.join("")}`);
  }
  return lines.join("\n");
}

// JSON with line breaks, and every number as it was written: a parser would change long ones.
export function prettyJson(text) {
  JSON.parse(text);
  let depth = 0;
  const parts = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g) ?? [];
  return parts.map((part, index) => {
    const line = `\n${indent(depth + ("{[".includes(part) ? 1 : "]}".includes(part) ? -1 : 0))}`;
    if ("{[".includes(part)) {
      if ("]}".includes(parts[index + 1] ?? " ")) return part;
      depth += 1;
      return part + line;
    }
    if ("]}".includes(part)) {
      if ("{[".includes(parts[index - 1] ?? " ")) return part;
      depth -= 1;
      return line + part;
    }
    if (part === ",") return part + line;
    return part === ":" ? ": " : part;
  }).join("");
}

// XML with a line for each element that has others. It is indented as text and never interpreted.
export function prettyXml(text) {
  let depth = 0;
  const lines = [];
  for (const part of text.replace(/>\s*</g, ">\n<").split("\n")) {
    const closes = /^<\//.test(part);
    const opens = /^<[^!?/][^>]*[^/]>$/.test(part) || /^<[^!?/]>$/.test(part);
    if (closes) depth -= 1;
    lines.push(indent(depth) + part);
    if (opens) depth += 1;
  }
  return lines.join("\n");
}

function forms(message, octets) {
  const text = message.bodyText;
  const found = [["hex", () => dump(octets)]];
  if (text === undefined) return found;
  found.unshift(["text", () => text]);
  // What is cut has no form.
  if (octets.length === SHOWN) return found;
  if (/^\s*[[{]/.test(text)) {
    try {
      const pretty = prettyJson(text);
      found.unshift(["json", () => pretty]);
    } catch {
      // It only begins like JSON.
    }
  } else if (/^\s*</.test(text)) found.unshift(["xml", () => prettyXml(text)]);
  return found;
}

function body(message) {
  if (message.bodyBase64 === null) {
    return h("p", {}, t("body.stored", { size: bytes(message.bodySize) }));
  }
  const octets = decoded(message.bodyBase64);
  if (!octets.length) return h("p", {}, t("body.empty"));
  const known = forms(message, octets.subarray(0, SHOWN));
  const place = h("pre", { tabindex: "0", role: "group", "aria-label": t("body") });
  const show = (name) => {
    const text = known.find(([own]) => own === name)[1]();
    place.textContent = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
  };
  const chooser = select(known.map(([name]) => [name, t(`body.${name}`)]), known[0][0], { onchange: (event) => show(event.target.value) });
  show(known[0][0]);
  const download = () => save(new Blob([octets]), `message-${(message.msgIdBase64 ?? "").replace(/\W/g, "").slice(0, 24) || "body"}.bin`);
  return [
    h("div.filters", {}, field(t("body.as"), chooser), h("button", { type: "button", onclick: download }, t("body.download"))),
    octets.length > SHOWN && h("p.small", {}, t("body.cut")),
    place,
  ];
}

const SKIPPED = ["bodyBase64", "bodyText", "headers", "deaths", "msgIdBase64"];
const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

function properties(message) {
  const own = Object.entries(message).filter(([name, value]) => !SKIPPED.includes(name) && value !== null);
  const headers = Object.entries(message.headers).map(([name, value]) => [`headers.${name}`, value]);
  return facts(...[...own, ...headers].map(([name, value]) => [h("code", {}, name), shown(value)]));
}

function deaths(message) {
  if (!message.deaths.length) return null;
  return table(t("death.caption"), [
    { title: t("queue"), cell: (death) => death.queue ?? "–" },
    { title: t("death.reason"), cell: (death) => death.reason ?? "–" },
    { title: t("death.count"), number: true, cell: (death) => number(death.count) },
    { title: t("death.at"), cell: (death) => time(death.at) },
  ], message.deaths);
}

function sizeOf(message) {
  if (message.bodyBase64 === null) return message.bodySize;
  return Math.floor((message.bodyBase64.length * 3) / 4) - (/=*$/.exec(message.bodyBase64)?.[0].length ?? 0);
}

// A message, closed; its body is written when somebody opens it.
function one(message, index) {
  const place = h("div");
  const details = h("details.message", {},
    h("summary", {}, h("strong", {}, `${index + 1}`), " ", h("code", {}, message.msgIdBase64 ?? "–"), ` · ${bytes(sizeOf(message))}`,
      message.putAt && [" · ", time(message.putAt)], message.deaths.length > 0 && ` · ${t("death.died")}`),
    place);
  details.addEventListener("toggle", () => {
    if (details.open && !place.firstChild) swap(place, body(message), h("details", {}, h("summary", {}, t("message.properties")), properties(message)), deaths(message));
  });
  return details;
}

export function messages({ messages: all, truncated, warnings, deliveryInDoubt }) {
  return [
    warnings.map((warning) => h("p.warning", {}, warning)),
    deliveryInDoubt && h("p.warning", {}, t("message.inDoubt")),
    h("p", { role: "status" }, all.length ? t("message.count", { count: number(all.length) }) : t("message.none")),
    all.map(one),
    truncated && h("p.small", {}, t("message.truncated")),
  ];
}
