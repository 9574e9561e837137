// Queues: targets, and one queue with its depth, its messages, and what can be done to them.

import { change, get, post, uuid } from "./api.js";
import { messages } from "./bodies.js";
import { h, swap } from "./dom.js";
import {
  ask, attempt, chart, chip, duration, empty, facts, failure, field, live, loading, number, section, select, table,
} from "./parts.js";
import { locale, t, word } from "./texts.js";

// What is kept of the depth while one looks.
const SAMPLES = 300;

const isName = (queue) => !queue.includes("*");
const path = (target, queue) => `#/queues/${encodeURIComponent(target)}/${encodeURIComponent(queue)}`;
const where = (target, queue) => ({ targetRef: target, target: { queue } });

function card(target) {
  const known = target.queues.filter(isName);
  const input = h("input", { type: "text", required: true, maxlength: "255", spellcheck: "false", autocomplete: "off" });
  const open = h("form.inline", {}, field(t("queue.other"), input), h("button", { type: "submit" }, t("action.open")));
  open.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = path(target.name, input.value);
  });
  return section(
    target.name,
    facts([t("queue.broker"), word("broker", target.broker)], [t(`queue.place.${target.broker === "ibmmq" ? "ibmmq" : "rabbitmq"}`), target.queueManager ?? "–"]),
    known.length > 0 && h("ul.links", {}, known.map((queue) => h("li", {}, h("a", { href: path(target.name, queue) }, queue)))),
    known.length < target.queues.length && open,
  );
}

export function list(main) {
  const place = h("div", {}, loading());
  main.append(h("h1", { tabindex: "-1" }, t("nav.queues")), place);
  async function show() {
    try {
      const { targets } = await get("targets");
      swap(place, targets.length ? targets.map(card) : empty(t("queue.noTargets"), h("p", {}, h("code", {}, "integrahub profile create …"))));
    } catch (problem) {
      swap(place, failure(problem, show));
    }
  }
  show();
}

function depth(place, target, queue) {
  const samples = [];
  return live(place, (signal) => post("queue/depth", where(target, queue), { signal }), (found) => {
    samples.push(found);
    if (samples.length > SAMPLES) samples.shift();
    swap(
      place,
      facts(
        [t("queue.depth"), number(found.currentDepth)],
        [t("queue.max"), number(found.maxDepth)],
        [t("queue.readers"), number(found.openInputCount)],
        [t("queue.writers"), number(found.openOutputCount)],
      ),
      chart(t("queue.depthOver"), [t("queue.depth")], [samples.map((each) => each.currentDepth)],
        (at) => new Date(samples[at].measuredAt).toLocaleTimeString(locale())),
    );
  }, 2000);
}

function numberInput(value, most) {
  return h("input", { type: "number", min: "1", max: String(most), value: String(value), required: true, inputmode: "numeric" });
}

function browser(target, queue) {
  const count = numberInput(10, 200);
  const button = h("button.primary", { type: "submit" }, t("browse.do"));
  const place = h("div");
  const form = h("form.inline", {}, field(t("browse.count"), count, t("browse.hint")), button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = { ...where(target, queue), browseOnly: true, maxMessages: Number(count.value), waitSeconds: 0 };
    const found = await attempt(button, place, () => post("messages/consume", body));
    if (found) swap(place, messages(found));
  });
  return section(t("browse.title"), form, place);
}

// `name: value` lines as headers of a message.
function headersOf(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf(":");
    return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

// A form under a key that stays the same until the form changes or its request is done.
function keyed(form, button, place, work) {
  let key = null;
  form.addEventListener("input", () => (key = null));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    key ??= uuid();
    const done = await attempt(button, place, () => work(key));
    if (done) {
      key = null;
      swap(place, done);
    }
  });
}

function putter(target, queue) {
  const text = h("textarea", { rows: "4", required: true, spellcheck: "false" });
  const type = h("input", { type: "text", placeholder: "application/json", spellcheck: "false" });
  const headers = h("textarea", { rows: "2", spellcheck: "false" });
  const button = h("button.primary", { type: "submit" }, t("put.do"));
  const place = h("div");
  const form = h("form", {}, field(t("put.body"), text), field(t("put.type"), type), field(t("put.headers"), headers, t("put.headers.hint")),
    h("div.actions", {}, button), place);
  keyed(form, button, place, async (key) => {
    const message = { bodyText: text.value, headers: headersOf(headers.value) };
    if (type.value) message.contentType = type.value;
    const done = await change("messages/produce", { ...where(target, queue), messages: [message] }, key);
    return [h("p", { role: "status" }, t("put.done"), " ", h("code", {}, done.firstMsgIdBase64)), done.warnings.map((warning) => h("p.warning", {}, warning))];
  });
  return section(t("put.title"), form);
}

function taker(target, queue) {
  const count = numberInput(1, 1000);
  const button = h("button.danger", { type: "submit" }, t("take.do"));
  const place = h("div");
  const form = h("form", {}, field(t("take.count"), count, t("take.hint")), h("div.actions", {}, button), place);
  keyed(form, button, place, async (key) => {
    const max = Number(count.value);
    const say = (text) => h("p", {}, text);
    const sure = (await ask({ title: t("take.title"), body: say(t("take.first", { count: number(max), queue })), confirm: t("action.continue") })) &&
      (await ask({ title: t("take.title"), body: say(t("take.second")), confirm: t("take.do"), typed: queue }));
    if (!sure) return h("p", { role: "status" }, t("take.not"));
    return messages(await change("messages/consume", { ...where(target, queue), maxMessages: max, waitSeconds: 0, ack: "commit" }, key));
  });
  return section(t("take.title"), form);
}

function plan(found) {
  const why = new Map();
  for (const each of found.messages) if (each.outcome === "stayed") why.set(each.reason, (why.get(each.reason) ?? 0) + 1);
  return [
    found.warnings.map((warning) => h("p.warning", {}, warning)),
    facts([t("move.moved"), number(found.moved)], [t("move.stayed"), number(found.stayed)], found.remaining !== null && [t("move.remaining"), number(found.remaining)],
      found.possibleDuplicates > 0 && [t("move.duplicates"), number(found.possibleDuplicates)], found.possiblyMoved > 0 && [t("move.possibly"), number(found.possiblyMoved)]),
    found.destinations.length > 0 && table(t("move.destinations"), [
      { title: t("queue"), cell: (each) => each.queue },
      { title: t("move.moved"), number: true, cell: (each) => number(each.moved) },
    ], found.destinations),
    why.size > 0 && h("ul", {}, [...why].map(([reason, count]) => h("li", {}, `${number(count)}: ${word("stays", reason)}`))),
    found.truncated && h("p.small", {}, t("move.truncated")),
  ];
}

function mover(target, queue) {
  const to = select([["origin", t("move.origin")], ["queue", t("move.queue")]], "origin");
  const name = h("input", { type: "text", maxlength: "255", spellcheck: "false", autocomplete: "off" });
  const max = numberInput(100, 1000);
  const look = h("button.primary", { type: "submit" }, t("move.preview"));
  const place = h("div");
  const other = h("div", { hidden: true }, field(t("move.name"), name));
  const form = h("form", {}, field(t("move.to"), to), other, field(t("move.max"), max), h("div.actions", {}, look), place);
  const request = () => ({ from: where(target, queue), to: to.value === "origin" ? "origin" : { queue: name.value }, max: Number(max.value) });
  form.addEventListener("input", () => {
    other.hidden = to.value === "origin";
    name.required = !other.hidden;
    // What was shown is of another request.
    swap(place);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = request();
    const found = await attempt(look, place, () => post("messages/move", { ...asked, dryRun: true }));
    if (!found) return;
    const result = h("div");
    const button = h("button.danger", { type: "button" }, t("move.do", { count: number(found.moved) }));
    // The key belongs to this preview: a retry moves the rest.
    const key = uuid();
    button.addEventListener("click", async () => {
      const done = await attempt(button, result, () => change("messages/move", asked, key));
      if (!done) return;
      swap(place, h("p", { role: "status" }, h("strong", {}, t("move.done"))), plan(done));
    });
    swap(place, h("p", { role: "status" }, h("strong", {}, t("move.would"))), plan(found), found.moved > 0 && h("div.actions", {}, button), result);
  });
  return section(t("move.title"), form);
}

function step(each) {
  const [kind, state] = each.skipped ? ["none", t("step.skipped")] : each.ok ? ["good", t("step.ok")] : ["bad", t("step.failed")];
  return h(`li.${kind}`, {}, chip(kind, word("step", each.name)), ` ${state}`, each.durationMs !== undefined && ` · ${duration(each.durationMs)}`,
    each.detail && h("p", {}, h("code", {}, each.code), " ", each.detail));
}

function tester(target, queue) {
  const button = h("button", { type: "button" }, t("connection.do"));
  const place = h("div");
  button.addEventListener("click", async () => {
    const found = await attempt(button, place, () => post("connections/test", where(target, queue)));
    if (!found) return;
    const { broker } = found;
    swap(
      place,
      h("p", { role: "status" }, found.ok ? chip("good", t("connection.good")) : chip("bad", t("connection.bad")),
        broker && ` ${broker.product} ${broker.version ?? ""}`, found.latencyMs !== null && ` · ${duration(found.latencyMs)}`),
      found.blocked && h("p.warning", {}, found.blocked),
      h("ol.steps", {}, found.steps.map(step)),
    );
  });
  return section(t("connection.title"), h("p", {}, t("connection.hint")), button, place);
}

export function detail(main, target, queue) {
  const place = h("div");
  main.append(
    h("p", {}, h("a", { href: "#/queues" }, t("queue.back"))),
    h("h1", { tabindex: "-1" }, queue, " ", h("span.small", {}, target)),
    section(t("queue.depth"), place),
    browser(target, queue),
    putter(target, queue),
    mover(target, queue),
    taker(target, queue),
    tester(target, queue),
  );
  return depth(place, target, queue);
}
