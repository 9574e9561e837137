// Requests: what happened to one of them, found by its operation and idempotency key.

import { get } from "./api.js";
import { h, swap } from "./dom.js";
import { announce, bytes, chip, duration, empty, facts, field, live, number, section, select, status, time } from "./parts.js";
import { locale, t, word } from "./texts.js";

const OPERATIONS = ["produce", "consume", "move", "tests", "stop", "ingest", "upload", "replay"];

const path = (operation, key) => `requests/${encodeURIComponent(operation)}/${encodeURIComponent(key)}`;
// A count that is null stands for any number.
const count = (value) => (value === null ? t("request.any") : number(value));

function finder(operation, key) {
  const chosen = select(OPERATIONS.map((name) => [name, word("operation", name)]), OPERATIONS.includes(operation) ? operation : OPERATIONS[0]);
  const input = h("input", { type: "text", required: true, maxlength: "255", value: key, spellcheck: "false", autocomplete: "off" });
  const form = h("form.inline", {}, field(t("request.operation"), chosen), field(t("request.key"), input, t("request.key.hint")),
    h("button.primary", { type: "submit" }, t("request.do")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = `#/${path(chosen.value, input.value.trim())}`;
    // The same address again is the same question again.
    if (location.hash === wanted) globalThis.dispatchEvent(new Event("hashchange"));
    else location.hash = wanted;
  });
  return form;
}

// A point in time, with how long ago it was.
const moment = (text) => [` ${new Date(text).toLocaleString(locale(), { dateStyle: "medium", timeStyle: "medium" })} (`, time(text), ")"];

const entry = (kind, text, at, ...more) => h(`li.${kind}`, {}, chip(kind, text), at && moment(at), more);

function ending(request) {
  const took = request.durationMs !== null && h("p", {}, t("request.took", { duration: duration(request.durationMs) }));
  if (request.status === "COMPLETED") {
    return [entry("good", t("request.completed"), request.endedAt, request.httpStatus !== null && h("p", {}, `HTTP ${request.httpStatus}`), took),
      entry("none", t("request.replays"), null)];
  }
  if (request.status === "FAILED") {
    return [entry("bad", t("request.failed"), request.endedAt, h("p", {}, request.reason && h("code", {}, request.reason), " ", request.detail), took),
      entry("none", t("request.again"), null)];
  }
  return [entry("busy", t(request.status === "PREPARED" ? "request.prepared" : "request.open"), request.updatedAt),
    request.leaseEndsAt && entry("none", t("request.lease"), request.leaseEndsAt)];
}

// What is known of a request, in the order in which it happened.
function events(request) {
  const { done, inDoubt, possibleDuplicates, place, leftBehind } = request.progress;
  return [
    entry("good", t("request.claimed"), request.claimedAt, request.keyName && h("p", {}, t("request.by", { key: request.keyName }))),
    leftBehind.map((left) => entry("warn", t("request.left", { place: left.place ?? t("request.elsewhere") }), null,
      h("p", {}, t("request.counts", { done: number(left.done), doubt: count(left.inDoubt) })))),
    request.attempts > 1 && entry("warn", t("request.attempt", { count: number(request.attempts) }), null),
    (done > 0 || inDoubt !== 0) && entry(inDoubt === 0 ? "good" : "warn", t("request.progress"), null,
      h("p", {}, t("request.counts", { done: number(done), doubt: count(inDoubt) }), place && ` · ${place}`)),
    possibleDuplicates !== 0 && entry("warn", t("request.duplicates", { count: count(possibleDuplicates) }), null),
    request.doubtNotedAt && entry("warn", t("request.doubt"), request.doubtNotedAt),
    ending(request),
    entry("none", t("request.expires"), request.expiresAt),
  ];
}

function story(request) {
  return [
    h("p.lead", {}, status(request.status)),
    section(t("request.timeline"), h("ol.steps", {}, events(request))),
    section(t("request.about"), facts(
      [t("request.operation"), word("operation", request.operation)],
      [t("request.key"), h("code", {}, request.idempotencyKey)],
      request.target && [t("request.target"), h("code", {}, request.target)],
      [t("request.attempts"), number(request.attempts)],
      request.messages > 0 && [t("request.messages"), number(request.messages)],
      request.bytes > 0 && [t("request.bytes"), bytes(request.bytes)],
      request.traceIds.length > 0 && [t("request.traces"), request.traceIds.map((id) => h("div", {}, h("code", {}, id)))],
    )),
  ];
}

// The timeline; `null` if there is no such request.
async function load(operation, key, signal) {
  try {
    return await get(`v1/${path(operation, key)}`, { signal });
  } catch (problem) {
    if (problem.reason !== "REQUEST_NOT_FOUND") throw problem;
    return null;
  }
}

export function show(main, operation = "", key = "") {
  const place = h("div");
  main.append(h("h1", { tabindex: "-1" }, t("nav.requests")), section(t("request.find"), finder(operation, key)), place);
  if (!key) {
    swap(place, empty(t("request.empty")));
    return undefined;
  }
  let said = null;
  return live(place, (signal) => load(operation, key, signal), (request) => {
    const what = request ? word("status", request.status) : t("request.none");
    if (said !== what) announce(what);
    said = what;
    swap(place, request ? story(request) : empty(t("request.none"), h("p", {}, t("request.none.why"))));
    return request !== null && request.endedAt === null;
  }, 3000);
}
