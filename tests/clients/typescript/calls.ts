// Calls with a client of openapi-typescript and openapi-fetch, as its user would write them.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const final = ["COMPLETED", "PARTIAL_FAIL", "FAILED", "EXPIRED"];
const named = { targetRef: "local-rabbit", target: { queue: "DEV.QUEUE.2" } };
const baseUrl = process.env["API"] ?? "";
const api = createClient<paths>({ baseUrl, headers: { "X-Api-Key": "local-dev-key-a" } });

const fresh = () => ({ header: { "Idempotency-Key": randomUUID() } });

async function depth(): Promise<number> {
  const { data, error } = await api.POST("/queue/depth", { body: named });
  assert(data?.currentDepth !== undefined, JSON.stringify(error));
  return data.currentDepth;
}

async function take(maxMessages: number, browseOnly = false): Promise<components["schemas"]["ConsumeResult"]> {
  const body = { ...named, maxMessages, waitSeconds: 0, browseOnly };
  const { data, error } = await api.POST("/messages/consume", { params: fresh(), body });
  assert(data, JSON.stringify(error));
  return data;
}

async function messages(): Promise<void> {
  while ((await take(10_000)).count > 0);
  const body = { ...named, batch: { count: 14 }, mqProps: { expiryMs: 3_000_000_000 } };
  const params = fresh();
  const first = await api.POST("/messages/produce", { params, body });
  const again = await api.POST("/messages/produce", { params, body });
  assert.equal(first.data?.enqueued, 14);
  assert.equal(again.response.headers.get("idempotent-replay"), "true");
  assert.deepEqual(again.data, first.data);
  assert.equal(await depth(), 14);
  const last = (await take(14, true)).messages[13];
  assert.strictEqual(last?.headers["sequence"], 13);
  assert(last.expiryMs !== null && last.expiryMs > 2 ** 31);
  assert.equal((await take(14)).count, 14);
  assert.equal(await depth(), 0);

  const headers = { n: { int32: "5" }, vip: true, none: null, list: [1, "a"] };
  await api.POST("/messages/produce", { params: fresh(), body: { ...named, messages: [{ bodyText: "{}", headers }] } });
  const [got] = (await take(1)).messages;
  assert.deepEqual({ ...got?.headers, ...headers }, got?.headers);
}

async function refusals(): Promise<void> {
  const missing = { targetRef: "local-rabbit", target: { queue: "NO.SUCH.QUEUE" } };
  const { error } = await api.POST("/queue/depth", { body: missing });
  assert(error && "reason" in error && error.reason === "QUEUE_NOT_FOUND", JSON.stringify(error));
  // API Gateway's own response.
  const large = { targetRef: "local-rabbit", messages: [{ bodyText: "x".repeat(7_000_000) }] };
  const answer = await api.POST("/messages/produce", { params: fresh(), body: large });
  assert.equal(answer.response.status, 413);
  assert(answer.error && "message" in answer.error, JSON.stringify(answer.error));
}

// What the types refuse.
export const mistakes = async (): Promise<void> => {
  // @ts-expect-error a text in place of a number
  await api.POST("/messages/produce", { params: fresh(), body: { targetRef: "a", batch: { count: "1" } } });
  // @ts-expect-error no idempotency key
  await api.POST("/messages/produce", { body: { targetRef: "a" } });
  // @ts-expect-error a parameter that does not exist
  await api.GET("/v1/inovafarma/batches", { params: { query: { limt: 1 } } });
};

async function products(): Promise<void> {
  const key = `typescript-${randomUUID()}`;
  const header = { "Idempotency-Key": key, "X-Inova-Load-Type": "delta" as const };
  const body = [
    { CNPJ: "11444777000161", SHOPID: 1, PRODUCTID: key, TITLE: "DIPIRONA 500MG", PRICE: "8.90" },
    { CNPJ: "05927228000146", SHOPID: 1, PRODUCTID: key, TITLE: "SORO", PRICE: 6.5 },
  ];
  const { data: received } = await api.POST("/v1/inovafarma/products", { params: { header }, body });
  const again = await api.POST("/v1/inovafarma/products", { params: { header }, body });
  assert(received);
  assert.deepEqual(again.data, received);
  const path = { batch_id: received.batch_id };
  let state: components["schemas"]["ProductBatch"] | undefined;
  for (let tries = 0; tries < 300 && !final.includes(state?.status ?? ""); tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    state = (await api.GET("/v1/inovafarma/batches/{batch_id}", { params: { path } })).data;
  }
  assert.deepEqual([state?.status, state?.items_processed, state?.items_failed], ["COMPLETED", 1, 1]);
  const errors = await api.GET("/v1/inovafarma/batches/{batch_id}/errors", { params: { path } });
  assert(errors.data && typeof errors.data !== "string");
  assert.deepEqual(errors.data.errors.map((error) => error.code), ["CNPJ_INVALID"]);
  const newest = await api.GET("/v1/inovafarma/batches", { params: { query: { limit: 1 } } });
  assert.equal(newest.data?.batches.length, 1);
}

async function operations(): Promise<void> {
  const tested = await api.POST("/connections/test", { body: { targetRef: "local-rabbit" } });
  assert(tested.data?.ok);
  assert((await api.GET("/status")).data?.version);
}

await messages();
await refusals();
await products();
await operations();
console.log("openapi-typescript: every call has the result that its types promise");
