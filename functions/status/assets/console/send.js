// A catalogue that is dropped on the page is sent: in a request, or as an upload if it is large.

import * as api from "./api.js";
import { h, swap } from "./dom.js";
import { announce, bytes, choice, failure, field } from "./parts.js";
import { sha256 } from "./sha256.js";
import { t } from "./texts.js";

// What a request takes, as it is sent.
const LARGEST_REQUEST = 4_500_000;

async function start(blob) {
  const reader = blob.stream().getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return value ?? new Uint8Array();
}

// The bytes to send, as gzip, and whether they are lines or an array.
async function prepare(file) {
  const isGzip = (await start(file.slice(0, 2))).join() === "31,139";
  const plain = isGzip ? new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))) : file;
  const first = new TextDecoder().decode(isGzip ? (await plain.body.getReader().read()).value : await start(file.slice(0, 4096)));
  const isArray = first.replace(/^\uFEFF/, "").trimStart().startsWith("[");
  const sent = isGzip ? file : await new Response(file.stream().pipeThrough(new CompressionStream("gzip"))).blob();
  return { sent, isArray };
}

// Sends a file under a key. Sent again with the same key, it is the same batch.
async function deliver(file, type, key, signal, say) {
  say("prepare", 0);
  const { sent, isArray } = await prepare(file);
  const headers = { "idempotency-key": key, "x-inova-load-type": type };
  const progress = (count) => say("send", count, sent.size);
  if (sent.size <= LARGEST_REQUEST) {
    const contentType = isArray ? "application/gzip" : "application/x-ndjson";
    return api.send("POST", api.address(api.products), { ...headers, "content-type": contentType }, sent, { own: true, progress, signal });
  }
  say("hash", 0);
  const announced = {
    content_type: isArray ? "application/json" : "application/x-ndjson",
    content_encoding: "gzip",
    content_length: sent.size,
    sha256: await sha256(sent, { progress: (count) => say("hash", count, sent.size), signal }),
  };
  const { batch_id, upload } = await api.post(api.uploads, announced, { headers, signal });
  if (upload) {
    // The browser sets the length itself, and refuses to be given it.
    const { "content-length": _, ...rest } = upload.headers;
    await api.send(upload.method, upload.url, rest, sent, { progress, signal });
  }
  return { batch_id };
}

export function sender() {
  const input = h("input", { type: "file", accept: ".json,.ndjson,.jsonl,.gz" });
  const type = choice(t("send.type"), "type", [
    ["delta", t("load.delta"), t("send.delta.hint")],
    ["full", t("load.full"), t("send.full.hint")],
  ], "delta");
  const zone = h("div.drop", {}, field(t("send.file"), input, t("send.hint")));
  const place = h("div");
  const button = h("button.primary", { type: "submit" }, t("send.do"));
  const form = h("form", {}, zone, type, h("div.actions", {}, button), place);
  const words = h("p", { role: "status" });
  const meter = h("progress", { max: 1, value: 0, "aria-label": t("send.progress") });
  let key = null;
  let abort = null;
  // Another file, or another type of load, is another request.
  const renew = () => (key = null);
  form.addEventListener("change", renew);
  for (const event of ["dragover", "dragenter"]) {
    zone.addEventListener(event, (each) => {
      each.preventDefault();
      zone.classList.add("over");
    });
  }
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    input.files = event.dataTransfer.files;
    renew();
    announce(input.files[0].name);
  });
  let said = "";
  function say(step, done, total) {
    const text = step === "send" ? t("send.step.send", { total: bytes(total) }) : t(step === "hash" ? "send.step.hash" : "send.step.prepare");
    // Once each, so that a screen reader is not interrupted by itself.
    if (text !== said) words.textContent = text;
    said = text;
    meter.value = total ? done / total : 0;
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [file] = input.files;
    if (!file) return input.focus();
    if (button.hasAttribute("aria-busy")) return undefined;
    button.setAttribute("aria-busy", "true");
    key ??= api.uuid();
    abort = new AbortController();
    // An upload goes on while other screens are shown, and ends with the key.
    const signal = AbortSignal.any([abort.signal, api.whileSignedIn()]);
    swap(place, words, meter, h("button", { type: "button", onclick: () => abort.abort() }, t("action.cancel")));
    try {
      const { batch_id: id } = await deliver(file, form.querySelector("input[name=type]:checked").value, key, signal, say);
      swap(place, h("p", { role: "status" }, t("send.done"), " ", h("a", { href: `#/batches/${id}` }, t("send.follow"))));
      key = null;
    } catch (problem) {
      if (problem.name === "AbortError") swap(place, h("p", { role: "status" }, t("send.cancelled")));
      else if (problem instanceof api.Problem || problem instanceof api.Unreachable) swap(place, failure(problem), h("p", {}, t("send.again")));
      // Bytes that begin as gzip and are none.
      else swap(place, h("div.state.failed", { role: "alert" }, h("p", {}, t("send.unreadable")), h("p.small", {}, String(problem.message))));
    } finally {
      button.removeAttribute("aria-busy");
      said = "";
    }
    return undefined;
  });
  return form;
}
