// The body of a produce, as openapi.yaml and the function `produce` have it.

const object = (properties, required = []) => ({ type: "object", additionalProperties: false, properties, required });
const optional = (schema) => ({ ...schema, nullable: true });
const integer = (minimum, maximum) => ({ type: "integer", minimum, maximum });
const string = { type: "string" };
const base64 = { type: "string", pattern: "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$" };
const secret = { type: "string", pattern: "^(?:secret|ssm)://[A-Za-z0-9/_+=.@-]{1,512}$" };
const headers = {
  type: "object",
  propertyNames: { minLength: 1, maxLength: 255, not: { enum: ["idempotencyKey", "sequence"] } },
  additionalProperties: string,
};

const target = object({
  broker: optional({ type: "string", enum: ["ibmmq", "rabbitmq", null] }),
  queueManager: optional(string),
  queue: optional({ type: "string", minLength: 1, maxLength: 255, pattern: "^[^\\u0000-\\u001f\\u007f]*$" }),
  channel: optional(string),
  connName: optional(string),
  ccdtUrl: optional(string),
  ssl: optional(
    object({
      enabled: optional({ type: "boolean" }),
      keyStoreRef: optional(secret),
      trustStoreRef: optional(secret),
      cipherSpec: optional(string),
    }),
  ),
  auth: optional(object({ user: optional(string), passwordRef: optional(secret) })),
});

export const produce = object({
  target: optional(target),
  targetRef: optional(string),
  batch: object({
    count: optional(integer(1, 100_000)),
    messageSizeBytes: optional(integer(0, 4_194_304)),
    rateLimitPerSec: optional(integer(1, 1_000_000)),
    transaction: object({ enabled: { type: "boolean" }, txSize: integer(1, 100_000), atomic: { type: "boolean" } }),
  }),
  payload: optional(
    object({
      mode: { type: "string", enum: ["random", "fixed", "template"] },
      fixedBase64: optional(base64),
      template: optional(string),
    }),
  ),
  messages: optional({
    type: "array",
    minItems: 1,
    items: object({
      bodyBase64: optional(base64),
      bodyText: optional(string),
      headers,
      correlIdBase64: optional(base64),
    }),
  }),
  mqProps: object({
    persistence: { type: "string", enum: ["persistent", "nonpersistent"] },
    priority: integer(0, 9),
    expiryMs: optional(integer(0, 4_294_967_295)),
    correlIdMode: { type: "string", enum: ["none", "echoMsgId", "fixed"] },
    fixedCorrelIdBase64: optional(base64),
  }),
  headers,
});
