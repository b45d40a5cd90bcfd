import { isReadonlyArrayNonEmpty, type NonEmptyReadonlyArray } from "effect/Array"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import { locateSyntaxError } from "../wire/locateSyntaxError.ts"
import { type Exchange, maxJsonBytes, Refusal } from "./Exchange.ts"
import type { BodyEnd, ReadOptions } from "./RequestSource.ts"

/** Timeout for a JSON body, or for the rest of a discarded body, in milliseconds. */
export const bodyLimitMs = 30_000

/** The sender disconnected during the body, so there is no response. */
export class BodyBroken extends Data.TaggedError("BodyBroken")<{}> {}

/** Passes the body to `take` piece by piece and counts it, until it ends or `take` returns false. */
const readBody = (
  exchange: Exchange,
  take: (piece: Uint8Array) => boolean,
  options?: ReadOptions,
): Effect.Effect<BodyEnd> =>
  exchange.source.readBody((piece) => {
    exchange.bytesRead += piece.length
    return take(piece)
  }, options)

/**
 * Requests the body. A body that a parser has already read is lost: treating it as empty would blame the client, and the
 * parsed value differs from the bytes (duplicate keys, for example).
 */
const beginBody = ({ source }: Exchange): Effect.Effect<void> =>
  source.isBodyTaken
    ? Effect.die(
        new TypeError(
          "the body was read before kiln got the request: mount kiln before body parsers such as express.json(), or exclude its paths from them",
        ),
      )
    : Effect.sync(() => source.sendContinue())

const inTime = ({ source }: Exchange, read: Effect.Effect<BodyEnd>): Effect.Effect<BodyEnd | "late"> =>
  source.hasArrived
    ? read
    : Effect.interruptible(
        Effect.timeoutOrElse(read, { duration: bodyLimitMs, orElse: () => Effect.succeed("late" as const) }),
      )

/** Reads the whole body into one buffer. Fails with `body_too_large` as soon as it exceeds `maxBytes`. */
export const readWholeBody = (exchange: Exchange, maxBytes: number): Effect.Effect<Uint8Array, Refusal | BodyBroken> =>
  Effect.suspend(() => {
    let whole: Uint8Array = new Uint8Array(0)
    let length = 0
    const read = readBody(exchange, (piece) => {
      if (exchange.bytesRead > maxBytes) return false
      // Most bodies arrive in one piece, which is used without a copy.
      if (length === 0) whole = piece
      else {
        if (exchange.bytesRead > whole.length) whole = grown(whole.subarray(0, length), 2 * exchange.bytesRead)
        whole.set(piece, length)
      }
      length = exchange.bytesRead
      return true
    })
    const all = Effect.flatMap(inTime(exchange, read), (end): Effect.Effect<Uint8Array, Refusal | BodyBroken> => {
      if (end === "complete") return Effect.succeed(whole.subarray(0, length))
      if (end === "broken") return Effect.fail(new BodyBroken())
      return Effect.fail(new Refusal({ code: end === "stopped" ? "body_too_large" : "request_timeout" }))
    })
    return Effect.andThen(beginBody(exchange), all)
  })

const grown = (bytes: Uint8Array, size: number): Uint8Array => {
  const larger = new Uint8Array(size)
  larger.set(bytes)
  return larger
}

/** Bytes of a batch of a streamed body. Each batch takes a step of the stream and a write; the pieces in it are as they arrived. */
const batchBytes = 262_144

/** Streams the body in batches, on demand: unread bytes stay with the sender. */
export const streamBody = (exchange: Exchange): Stream.Stream<Uint8Array, BodyBroken> =>
  Stream.fromPull(Effect.as(beginBody(exchange), nextPieces(exchange)))

const nextPieces = (exchange: Exchange): Pull.Pull<NonEmptyReadonlyArray<Uint8Array>, BodyBroken> =>
  Effect.suspend(() => {
    const pieces: Array<Uint8Array> = []
    const read = readBody(exchange, (piece) => pieces.push(piece) > 0, { minBytes: batchBytes, once: true })
    return Effect.flatMap(read, (end): Pull.Pull<NonEmptyReadonlyArray<Uint8Array>, BodyBroken> => {
      if (end === "broken") return Effect.fail(new BodyBroken())
      return isReadonlyArrayNonEmpty(pieces) ? Effect.succeed(pieces) : Cause.done()
    })
  })

/**
 * Reads and discards the rest of a body before it is rejected, because many clients read only after they have sent
 * everything, and would lose an earlier response. Gives up after `maxBytes` in total or 30 s, and immediately for tiny
 * pieces, which cost far more than their bytes.
 */
export const discardBody = (exchange: Exchange, maxBytes: number): Effect.Effect<void> =>
  Effect.suspend(() =>
    exchange.source.hasMoreBody()
      ? Effect.asVoid(
          inTime(
            exchange,
            readBody(exchange, () => exchange.bytesRead < maxBytes, { stopsAtTrickle: true }),
          ),
        )
      : Effect.void,
  )

const maxJsonDepth = 16

const messages: Partial<Record<string, string>> = {
  empty: "The body is empty. Send a JSON object.",
  encoding: "The body is not valid UTF-8. Encode the JSON as UTF-8.",
  not_an_object:
    "The body must be one JSON object, not an array, a string or another JSON value. Encode the object as JSON only once.",
  duplicate_key: "The body has a duplicate key in an object. Send each field once.",
  too_deep: `The body is nested more than ${maxJsonDepth} levels deep.`,
}

/** Returns what to change so that the body has a type that is accepted. */
const typeMessage = (exchange: Exchange, isEncoded: boolean): string => {
  if (isEncoded)
    return "Send the body without Content-Encoding, and without a Transfer-Encoding other than chunked: compressed bodies are not supported here."
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
  const isEncoded = hasEncodedBody(exchange)
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
    const parsed = parseJsonObject(bytes, { maxDepth: maxJsonDepth })
    if (parsed.ok) return Effect.succeed(parsed.value)
    const message = parsed.problem === "syntax" ? syntaxMessage(bytes) : messages[parsed.problem]
    return Effect.fail(new Refusal({ code: "invalid_json", ...(message !== undefined && { message }) }))
  })
}

export type JsonProblem = "empty" | "encoding" | "syntax" | "not_an_object" | "duplicate_key" | "too_deep"

export type ParsedJsonObject =
  | { readonly ok: true; readonly value: Record<string, unknown> }
  | { readonly ok: false; readonly problem: JsonProblem }

// Removes one byte order mark at the start; a second one is an ordinary character, and invalid JSON.
const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Parses a request body that must be one JSON object, more strictly than `JSON.parse`: bodies that parsers could interpret
 * differently (duplicate keys, invalid UTF-8, numbers out of range) are rejected.
 *
 * Accepts valid UTF-8 (one byte order mark allowed) with an object at the top, at most `maxDepth` levels of objects and
 * arrays (the outer object is level 1), no duplicate keys in any spelling, and only finite numbers.
 *
 * `__proto__` and `constructor` become ordinary own properties. Look up fields with `Object.hasOwn`, because an absent
 * field may be inherited. U+0000 and lone surrogates stay in strings; field rules reject them by name.
 *
 * The caller limits the size. If there are several problems, depth takes precedence over syntax.
 */
export const parseJsonObject = (bytes: Uint8Array, options: { readonly maxDepth: number }): ParsedJsonObject => {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return refused("encoding")
  }
  const members = countMembers(text, options.maxDepth)
  if (members === undefined) return refused("too_deep")

  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return refused(/^[ \t\r\n]*$/.test(text) ? "empty" : "syntax")
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return refused("not_an_object")

  const kept = countKeys(value)
  if (Number.isNaN(kept)) return refused("syntax")
  // JSON.parse keeps the last of equal keys, however they are escaped. So a text with more members than its value has
  // keys contains a duplicate.
  if (kept !== members) return refused("duplicate_key")
  return { ok: true, value: value as Record<string, unknown> }
}

const refused = (problem: JsonProblem): ParsedJsonObject => ({ ok: false, problem })

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a

/**
 * Counts the members of all objects in a JSON text (the colons outside strings); `undefined` if it nests too deeply. One
 * pass without recursion, so depth cannot exhaust the stack. The result for invalid JSON does not matter.
 */
const countMembers = (text: string, maxDepth: number): number | undefined => {
  let members = 0
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === COLON) members++
    // `[` and `{`, and `]` and `}`, differ only in the bit for letter case.
    else if ((code | 0x20) === 0x7b && ++depth > maxDepth) return undefined
    else if ((code | 0x20) === 0x7d) depth--
  }
  return members
}

/** Returns the position of the quote that ends a string. Uses native search, because bodies are mostly strings. */
const endOfString = (text: string, start: number): number => {
  let end = text.indexOf('"', start + 1)
  while (end !== -1) {
    let first = end
    while (text.charCodeAt(first - 1) === BACKSLASH) first--
    // An even number of backslashes escape each other and not the quote.
    if ((end - first) % 2 === 0) return end
    end = text.indexOf('"', end + 1)
  }
  return text.length
}

/** Counts the keys of all objects in a parsed value; NaN if a number became infinite (`1e999`). */
const countKeys = (value: unknown): number => {
  if (typeof value === "number") return Number.isFinite(value) ? 0 : NaN
  if (typeof value !== "object" || value === null) return 0
  let keys = 0
  if (Array.isArray(value)) for (const item of value) keys += countKeys(item)
  else for (const member of Object.values(value)) keys += 1 + countKeys(member)
  return keys
}

const OWS = "[ \\t]*"
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const QUOTED_STRING = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t \\x21-\\x7e\\x80-\\xff])*"'

const JSON_TYPE = new RegExp(`^${OWS}application/json(?=[ \\t;]|$)`, "i")

// RFC 9110 allows an empty parameter (`application/json;`).
const PARAMETER = new RegExp(`${OWS};${OWS}(?:(${TOKEN})=(${TOKEN}|${QUOTED_STRING}))?`, "y")
const REST = /[ \t]*$/y

/**
 * Returns whether the `Content-Type` headers (one value per header line) declare JSON in UTF-8: exactly one header,
 * `application/json`, with no charset or `utf-8`, quoted or not. Other well-formed parameters have no meaning for JSON and
 * are ignored.
 */
export const isJsonContentType = (values: ReadonlyArray<string> | undefined): boolean => {
  const [value, second] = values ?? []
  const type = value === undefined || second !== undefined ? null : JSON_TYPE.exec(value)
  if (value === undefined || type === null) return false
  let at = type[0].length
  for (;;) {
    PARAMETER.lastIndex = at
    const parameter = PARAMETER.exec(value)
    if (parameter === null) break
    const [, name = "", text = ""] = parameter
    if (name.toLowerCase() === "charset" && unquote(text).toLowerCase() !== "utf-8") return false
    at = PARAMETER.lastIndex
  }
  REST.lastIndex = at
  return REST.test(value)
}

const unquote = (text: string): string => (text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, "$1") : text)

/**
 * Returns whether the bytes of the body are encoded, by its sender (`Content-Encoding`) or on the way (`Transfer-Encoding: gzip,
 * chunked`). Node undoes `chunked` only, and would pass on the rest as it came.
 */
export const hasEncodedBody = (exchange: Pick<Exchange, "header">): boolean =>
  namesOther(exchange.header("content-encoding"), "identity") ||
  namesOther(exchange.header("transfer-encoding"), "chunked")

/** Returns whether one of the codings (one value per header line) is not `harmless`. */
const namesOther = (values: ReadonlyArray<string> | undefined, harmless: string): boolean =>
  values?.some((value) => value.split(",").some((coding) => !["", harmless].includes(coding.trim().toLowerCase()))) ===
  true
