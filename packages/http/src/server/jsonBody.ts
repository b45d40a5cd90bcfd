import * as Effect from "effect/Effect"
import { isIdentityEncoding, isJsonContentType } from "../wire/JsonContentType.ts"
import { parseJsonObject } from "../wire/StrictJson.ts"
import { type BodyBroken, readWholeBody } from "./body.ts"
import { type Exchange, maxJsonBytes } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"

const maxDepth = 16

const messages: Partial<Record<string, string>> = {
  empty: "The body is empty. Send a JSON object.",
  encoding: "The body is not valid UTF-8.",
  not_an_object: "The body must be a JSON object, not another JSON value.",
  duplicate_key: "The body has a duplicate key in an object.",
  too_deep: `The body is nested more than ${maxDepth} levels deep.`,
}

/** Reads the body as one JSON object. Rejects by content type (415), then by size (413), then by content (400). */
export const readJsonObject = (exchange: Exchange): Effect.Effect<Record<string, unknown>, Refusal | BodyBroken> => {
  if (!isJsonContentType(exchange.header("content-type")) || !isIdentityEncoding(exchange.header("content-encoding")))
    return Effect.fail(new Refusal({ code: "unsupported_content_type", details: { expected: ["application/json"] } }))
  if ((exchange.contentLength ?? 0) > maxJsonBytes) return Effect.fail(new Refusal({ code: "body_too_large" }))
  return Effect.flatMap(readWholeBody(exchange, maxJsonBytes), (bytes) => {
    const parsed = parseJsonObject(bytes, { maxDepth })
    if (parsed.ok) return Effect.succeed(parsed.value)
    const message = messages[parsed.problem]
    return Effect.fail(new Refusal({ code: "invalid_json", ...(message !== undefined && { message }) }))
  })
}
