// `POST /messages/produce` up to where the function `produce` claims the record: the same checks in the same order.

import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { DynamoDBClient, GetItemCommand, PutItemCommand } from "@aws-sdk/client-dynamodb";
import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";
import { Refused, canonical, parse } from "./json.mjs";
import validate from "./validate.mjs";

const { ACCESS_TABLE, IDEMPOTENCY_TABLE, MQ_ACCESS_FUNCTION } = process.env;
const seconds = (name) => Number(process.env[name]);
const EXPIRY = {
  min: 7200,
  max: seconds("IDEMPOTENCY_EXPIRY_MAX_SECONDS"),
  default: seconds("IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS"),
};
const MAX_JSON = 4 * 1024 * 1024;
const REMEMBERED = 60_000;
const UUID = /^"?[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"?$/i;

const dynamodb = new DynamoDBClient({});
const lambda = new LambdaClient({});
const remembered = new Map();

export async function handler(event) {
  try {
    return answer(200, "application/json", await produce(event));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const { status, reason, message: detail } = error;
    return answer(status, "application/problem+json", { status, reason, detail });
  }
}

function answer(statusCode, type, value) {
  const body = JSON.stringify(value);
  const digest = createHash("sha256").update(body).digest("base64");
  return { statusCode, headers: { "content-type": type, "content-digest": `sha-256=:${digest}:` }, body };
}

async function produce({ headers, body, isBase64Encoded }) {
  const principal = await authenticate(headers["x-api-key"]);
  const key = idempotencyKey(headers["idempotency-key"]);
  const retention = expiry(headers["idempotency-expiry-seconds"]);
  const request = parse(decoded(headers, Buffer.from(body ?? "", isBase64Encoded ? "base64" : "utf8")));
  const fingerprint = createHash("sha256").update(canonical(request)).digest("hex");
  if (!validate(request)) {
    const [{ instancePath, message }] = validate.errors;
    throw new Refused(400, "SCHEMA_VIOLATION", `${instancePath}: ${message}`);
  }
  checkTogether(request);
  const target = request.target ?? (await item(`PROFILE#${principal.tenantId.S}#${request.targetRef}`))?.target;
  if (!target) throw new Refused(404, "TARGET_REF_NOT_FOUND", "there is no target profile of this name");
  return execute(principal, key, retention, fingerprint, target, request);
}

async function authenticate(apiKey) {
  if (apiKey === undefined) throw new Refused(401, "API_KEY_REQUIRED", "send the API key in the header X-Api-Key");
  const principal = await item(`KEY#${createHash("sha256").update(apiKey).digest("hex")}`);
  if (!principal) throw new Refused(401, "API_KEY_INVALID", "the API key is not known");
  if (!principal.scopes.SS.includes("mq:write")) throw new Refused(403, "SCOPE_REQUIRED", "the API key needs mq:write");
  return principal;
}

async function item(pk) {
  const known = remembered.get(pk);
  if (known && Date.now() - known.since < REMEMBERED) return known.item;
  const { Item } = await dynamodb.send(new GetItemCommand({ TableName: ACCESS_TABLE, Key: { pk: { S: pk } } }));
  remembered.set(pk, { since: Date.now(), item: Item });
  return Item;
}

function idempotencyKey(value) {
  if (value === undefined) throw new Refused(400, "IDEMPOTENCY_KEY_REQUIRED", "send one UUID in the header Idempotency-Key");
  if (!UUID.test(value)) throw new Refused(400, "IDEMPOTENCY_KEY_MALFORMED", "must be one UUID of the 36-character form");
  return value.replaceAll('"', "").toLowerCase();
}

function expiry(value) {
  if (value === undefined) return EXPIRY.default;
  const wanted = /^\d+$/.test(value) ? Number(value) : NaN;
  if (wanted >= EXPIRY.min && wanted <= EXPIRY.max) return wanted;
  throw new Refused(400, "IDEMPOTENCY_EXPIRY_OUT_OF_RANGE", `must be ${EXPIRY.min} to ${EXPIRY.max} seconds`);
}

function decoded(headers, bytes) {
  const [type] = (headers["content-type"] ?? "").split(";");
  if (type.trim().toLowerCase() !== "application/json") {
    throw new Refused(415, "CONTENT_TYPE", "send the body as `Content-Type: application/json`");
  }
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    try {
      return gunzipSync(bytes, { maxOutputLength: MAX_JSON });
    } catch {
      throw new Refused(400, "CONTENT_CORRUPT", "the body starts like a gzip but cannot be inflated");
    }
  }
  if (bytes.subarray(0, 4).equals(Buffer.from([0x1f, 0xef, 0xbf, 0xbd]))) {
    throw new Refused(400, "CONTENT_CORRUPT", "the body was a gzip, but something on the way read it as text");
  }
  if (bytes.length > MAX_JSON) throw new Refused(413, "MAX_PAYLOAD_EXCEEDED", `a body may have ${MAX_JSON} bytes`);
  return bytes;
}

function checkTogether({ messages, payload, batch, mqProps }) {
  const refuse = (detail) => {
    throw new Refused(400, "SCHEMA_VIOLATION", detail);
  };
  if ((mqProps?.correlIdMode === "fixed") !== (mqProps?.fixedCorrelIdBase64 != null)) refuse("/mqProps/fixedCorrelIdBase64");
  if (messages && payload) refuse("/payload");
  if (messages && batch?.count != null) refuse("/batch/count");
  for (const message of messages ?? []) {
    if ((message.bodyBase64 == null) === (message.bodyText == null)) refuse("/messages");
  }
  if ((payload?.mode === "fixed") !== (payload?.fixedBase64 != null)) refuse("/payload/fixedBase64");
  if ((payload?.mode === "template") !== (payload?.template != null)) refuse("/payload/template");
}

// Never reached by the comparison, whose requests are refused; the clients are what a function like this loads.
async function execute(principal, key, retention, fingerprint, target, request) {
  const pk = `PRODUCE#${principal.tenantId.S}#${key}`;
  const ttl = Math.ceil(Date.now() / 1000) + retention;
  const Item = { pk: { S: pk }, requestHash: { S: fingerprint }, status: { S: "IN_PROGRESS" }, ttl: { N: `${ttl}` } };
  const ConditionExpression = "attribute_not_exists(pk)";
  await dynamodb.send(new PutItemCommand({ TableName: IDEMPOTENCY_TABLE, Item, ConditionExpression }));
  const Payload = JSON.stringify({ tenant: principal.tenantId.S, work: { produce: { target, request } } });
  const invoked = await lambda.send(new InvokeCommand({ FunctionName: MQ_ACCESS_FUNCTION, Payload }));
  return JSON.parse(Buffer.from(invoked.Payload).toString());
}
