// Batches: the list, and one of them with its progress, its errors and its replay.

import { batch as load, batchErrors, batches, errorLines, replay, uuid } from "./api.js";
import { append, h, swap } from "./dom.js";
import {
  announce, ask, attempt, bar, bytes, chip, choice, duration, empty, facts, failure, field, live, loading, number, save, section, select, status,
  table, time,
} from "./parts.js";
import { sender } from "./send.js";
import { link, need, progress } from "./today.js";
import { t, word } from "./texts.js";

const STATUSES = ["AWAITING_UPLOAD", "RECEIVED", "CHUNKING", "PROCESSING", "COMPLETED", "PARTIAL_FAIL", "FAILED", "EXPIRED"];
const FINAL = ["COMPLETED", "PARTIAL_FAIL", "FAILED", "EXPIRED"];

const columns = () => [
  { title: t("batch"), cell: (batch) => link(batch) },
  { title: t("batch.status"), cell: progress },
  { title: t("batch.type"), cell: (batch) => word("load", batch.load_type) },
  { title: t("batch.received"), cell: (batch) => time(batch.received_at) },
  { title: t("batch.items"), number: true, cell: (batch) => number(batch.items_parsed) },
  { title: t("batch.failed"), number: true, cell: (batch) => number(batch.items_failed) },
];

export function list(main) {
  const place = h("div");
  const more = h("div");
  const filter = { status: "", load_type: "" };
  let stop = () => {};
  const chosen = (name, options) => select([["", t("filter.all")], ...options], "", { onchange: (event) => begin(name, event.target.value) });
  function begin(name, value) {
    filter[name] = value;
    stop();
    swap(more);
    // Pages that were asked for stay as they are; the newest is looked at again and again.
    stop = live(place, (signal) => batches({ ...filter, limit: 50 }, signal), (page) => {
      swap(place, page.batches.length ? table(t("batches.caption"), columns(), page.batches) : empty(page.next_cursor ? t("batches.noneHere") : t("batches.none")));
      if (!more.firstChild) swap(more, next(page.next_cursor));
    }, 4000);
  }
  function next(cursor) {
    if (!cursor) return null;
    const problem = h("div");
    const button = h("button", { type: "button" }, t("action.older"));
    button.addEventListener("click", async () => {
      const page = await attempt(button, problem, () => batches({ ...filter, limit: 50, cursor }));
      if (!page) return;
      const rest = next(page.next_cursor);
      swap(more, [...more.children].filter((each) => each !== button && each !== problem),
        page.batches.length ? table(t("batches.older"), columns(), page.batches) : null, rest);
    });
    return [button, problem];
  }
  main.append(
    h("h1", { tabindex: "-1" }, t("nav.batches")),
    section(t("send.title"), sender()),
    section(
      t("batches.title"),
      h("div.filters", {},
        field(t("batch.status"), chosen("status", STATUSES.map((each) => [each, word("status", each)]))),
        field(t("batch.type"), chosen("load_type", ["delta", "full"].map((each) => [each, word("load", each)])))),
      place,
      more,
    ),
  );
  begin("status", "");
  return () => stop();
}

function about(batch) {
  const end = batch.finished_at ? new Date(batch.finished_at) : new Date();
  return facts(
    [t("batch.type"), word("load", batch.load_type)],
    [t("batch.received"), time(batch.received_at)],
    batch.finished_at && [t("batch.finished"), time(batch.finished_at)],
    [t("batch.took"), duration(end - new Date(batch.received_at))],
    [t("batch.size"), bytes(batch.payload.bytes)],
    [t("batch.generation"), number(batch.generation)],
    batch.source && [t("batch.source"), h("code", {}, batch.source.key)],
    [t("batch.items"), number(batch.items_parsed)],
    [t("batch.processed"), number(batch.items_processed)],
    [t("batch.failed"), number(batch.items_failed)],
    batch.items_partial > 0 && [t("batch.partial"), number(batch.items_partial)],
  );
}

function chunks({ total, done, failed, pending }) {
  if (!total) return null;
  return [
    h("p", {}, bar(t("batch.progress"), done + failed, total), ` ${number(done + failed)}/${number(total)}`),
    facts([t("chunks.done"), number(done)], [t("chunks.failed"), number(failed)], [t("chunks.pending"), number(pending)]),
  ];
}

function changes(batch) {
  const { state, reason, would_deactivate: held } = batch.deactivation;
  return facts(
    ...Object.entries(batch.changes).map(([name, value]) => [word("change", name), number(value)]),
    batch.load_type === "full" && [t("batch.deactivation"), [word("deactivation", state), reason && ` (${word("reason", reason)})`, held > 0 && `: ${number(held)}`]],
  );
}

function items(batch) {
  const place = h("div");
  const head = h("div");
  const all = [];
  let cursor;
  async function page() {
    try {
      const found = await batchErrors(batch.batch_id, { limit: 100, cursor });
      all.push(...found.errors);
      cursor = found.next_cursor;
      show();
    } catch (problem) {
      swap(place, failure(problem, page));
    }
  }
  function show() {
    if (!all.length) return swap(place, empty(t("errors.none")));
    const counts = new Map();
    for (const { code } of all) counts.set(code, (counts.get(code) ?? 0) + 1);
    swap(head, h("ul.codes", {}, [...counts].map(([code, count]) => h("li", {}, h("code", {}, code), ` ${number(count)}${cursor ? "+" : ""}`))));
    swap(
      place,
      table(t("errors.caption"), [
        { title: t("errors.item"), cell: (error) => number(error.item_index) },
        { title: t("errors.code"), cell: (error) => h("code", {}, error.code) },
        { title: t("errors.field"), cell: (error) => error.field ?? "–" },
        { title: t("errors.detail"), cell: (error) => error.detail },
        { title: t("errors.product"), cell: ({ key }) => h("code", {}, [key.cnpj, key.shopid, key.productid].filter((part) => part !== undefined).join(" / ") || "–") },
      ], all),
      h("div.actions", {}, cursor && h("button", { type: "button", onclick: page, "data-key": "more" }, t("action.more"))),
    );
    return undefined;
  }
  const problem = h("div");
  const download = h("button", { type: "button" }, t("errors.download"));
  download.addEventListener("click", async () => {
    const lines = await attempt(download, problem, () => errorLines(batch.batch_id));
    if (!lines) return;
    swap(problem);
    save(lines, `errors-${batch.batch_id}.ndjson`);
  });
  swap(place, loading());
  page();
  return section(t("errors.title"), head, h("div.actions", {}, download), problem, place);
}

// What a replay would do, said before.
function consequences(batch, scope, confirms) {
  const again = scope === "all" ? t("replay.all.does", { items: number(batch.items_parsed) }) : t("replay.failed.does", { chunks: number(batch.chunks.failed) });
  return [
    h("p", {}, batch.chunks.total ? again : t("replay.payload.does")),
    h("p", {}, t("replay.safe")),
    confirms && h("p", {}, h("strong", {}, t("replay.deactivates", { count: number(batch.deactivation.would_deactivate) }))),
  ];
}

function replayer(batch) {
  const isHeld = batch.deactivation.state === "held";
  const scopes = choice(t("replay.scope"), "scope", [
    ["failed", t("replay.failed"), t("replay.failed.hint")],
    ["all", t("replay.all"), t("replay.all.hint")],
  ], "failed");
  const confirms = h("input", { type: "checkbox" });
  const button = h("button.primary", { type: "submit" }, t("replay.do"));
  const place = h("div");
  // Retries of one choice are one request; another choice is another one.
  let key = uuid();
  const form = h("form", {}, scopes, isHeld && h("p.choice", {}, h("label", {}, confirms, " ", t("replay.confirm", { count: number(batch.deactivation.would_deactivate) }))),
    h("div.actions", {}, button), place);
  form.addEventListener("change", () => (key = uuid()));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const scope = form.querySelector("input[name=scope]:checked").value;
    const asked = { title: t("replay.title"), body: consequences(batch, scope, confirms.checked), confirm: t("replay.do"), dangerous: confirms.checked };
    if (!(await ask(asked))) return;
    const body = confirms.checked ? { scope, confirm_deactivation: true } : { scope };
    const begun = await attempt(button, place, () => replay(batch.batch_id, body, key));
    if (begun) swap(place, h("p", { role: "status" }, t("replay.begun", { generation: number(begun.generation) })));
  });
  return section(t("replay.title"), form);
}

export function detail(main, id) {
  const [head, rest] = [h("div"), h("div")];
  let shown = null;
  let said = null;
  main.append(h("p", {}, h("a", { href: "#/batches" }, t("batches.back"))), h("h1", { tabindex: "-1" }, t("batch"), " ", h("code", {}, id)), head, rest);
  const stop = live(head, (signal) => load(id, signal), (batch) => {
    const why = need(batch);
    if (said && said !== batch.status) announce(word("status", batch.status));
    said = batch.status;
    swap(
      head,
      h("p.lead", {}, status(batch.status), why && [" ", chip(why[0], why[1])]),
      why && h("p", {}, why[2]),
      batch.error && h("div.state.failed", {}, h("p", {}, h("code", {}, batch.error.code)), h("p", {}, batch.error.detail)),
      batch.warnings.map((warning) => h("p.warning", {}, warning)),
      section(t("batch.progress"), chunks(batch.chunks), about(batch)),
      section(t("batch.changes"), changes(batch)),
    );
    // The forms are made once for each generation, so that nobody's choice is taken away.
    const state = `${batch.generation} ${FINAL.includes(batch.status)} ${batch.items_failed > 0}`;
    if (state !== shown) {
      shown = state;
      swap(rest);
      if (batch.items_failed > 0) append(rest, items(batch));
      if (FINAL.includes(batch.status) && batch.status !== "EXPIRED") append(rest, replayer(batch));
    }
  }, 2000);
  return stop;
}
