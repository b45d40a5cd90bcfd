import * as Effect from "effect/Effect"
import { isIdentityEncoding, isJsonContentType } from "../wire/JsonContentType.ts"
import { parseJsonObject } from "../wire/StrictJson.ts"
import { locateSyntaxError } from "../wire/locateSyntaxError.ts"
import { type BodyBroken, readWholeBody } from "./body.ts"
import { type Exchange, maxJsonBytes } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"

const maxDepth = 16

const messages: Partial<Record<string, string>> = {
  empty: "The body is empty. Send a JSON object.",
  encoding: "The body is not valid UTF-8. Encode the JSON as UTF-8.",
  not_an_object:
    "The body must be one JSON object, not an array, a string or another JSON value. Encode the object as JSON only once.",
  duplicate_key: "The body has a duplicate key in an object. Send each field once.",
  too_deep: `The body is nested more than ${maxDepth} levels deep.`,
}

/** Returns what to change so that the body has a type that is accepted. */
const typeMessage = (exchange: Exchange, isEncoded: boolean): string => {
  if (isEncoded) return "Send the body without Content-Encoding: compressed bodies are not supported here."
  const type = exchange.header("content-type")?.[0] ?? ""
  if (/^\s*multipart\//i.test(type))
    return "Send Content-Type: application/json, not a form. Upload the file first: create an upload with POST /v1/audio/uploads, PUT the file to its upload_url, and send its id as upload_id."
  return "Send Content-Type: application/json, and encode the body as UTF-8."
}

const syntaxMessage = (bytes: Uint8Array): string => {
  const place = locateSyntaxError(new TextDecoder().decode(bytes))
  if (place === undefined) return "The body has a number that is too large. Numbers can be at most 1.7e308."
  const where = `line ${place.line}, column ${place.column}`
  if (place.isEnd)
    return `The JSON ends too early, at ${where}. Send the whole body, with all closing quotes and brackets.`
  return `The body is not valid JSON at ${where}. Put names and strings in double quotes, write line breaks in strings as \\n, and remove commas before } and ].`
}

/** Reads the body as one JSON object. Rejects by content type (415), then by size (413), then by content (400). */
export const readJsonObject = (exchange: Exchange): Effect.Effect<Record<string, unknown>, Refusal | BodyBroken> => {
  const isEncoded = !isIdentityEncoding(exchange.header("content-encoding"))
  if (isEncoded || !isJsonContentType(exchange.header("content-type")))
    return Effect.fail(
      new Refusal({
        code: "unsupported_content_type",
        message: typeMessage(exchange, isEncoded),
        details: { expected: ["application/json"] },
      }),
    )
  if ((exchange.contentLength ?? 0) > maxJsonBytes) return Effect.fail(new Refusal({ code: "body_too_large" }))
  return Effect.flatMap(readWholeBody(exchange, maxJsonBytes), (bytes) => {
    const parsed = parseJsonObject(bytes, { maxDepth })
    if (parsed.ok) return Effect.succeed(parsed.value)
    const message = parsed.problem === "syntax" ? syntaxMessage(bytes) : messages[parsed.problem]
    return Effect.fail(new Refusal({ code: "invalid_json", ...(message !== undefined && { message }) }))
  })
}
