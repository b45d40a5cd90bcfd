import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type TakeByAddress, tooMany } from "../server/limitAddresses.ts"
import type { Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"

/** A document that is the same for every caller. */
export interface StaticDocument {
  readonly text: string
  /** By lower-case name; `content-type` among them. */
  readonly headers: Readonly<Record<string, string>>
}

interface Variant {
  readonly tag: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** Below the maximum, which takes a second for the largest document. */
const brotliQuality = 9
const gzipLevel = 6

/**
 * Serves a document that is built and compressed once, on the first request, without blocking the event loop. All responses share
 * its bytes, so responses that nobody reads cost no memory. Honors `Accept-Encoding`, and returns 304 if `If-None-Match` matches.
 * Every other request except HEAD takes a rate limit token of the client's address, because the larger documents cost
 * milliseconds to send and need no key.
 */
export const serveStatic = (make: Effect.Effect<StaticDocument>, take: TakeByAddress): Effect.Effect<Handler> =>
  Effect.map(Effect.cached(Effect.flatMap(make, encode)), (encoded): Handler => {
    return Effect.fnUntraced(function* (exchange) {
      const { headers, variants } = yield* encoded
      const coding = preferredCoding(exchange.header("accept-encoding"))
      const { bytes, tag } = variants[coding]
      const { "content-type": _, ...unsent } = headers
      const known = { etag: tag, vary: "accept-encoding" }
      if (matchesEntityTag(exchange.header("if-none-match"), tag))
        return { status: 304, headers: { ...unsent, ...known }, body: undefined } satisfies Reply
      if (exchange.method !== "HEAD") {
        const decision = take(exchange, yield* Clock.currentTimeMillis)
        if (!decision.allowed) return yield* Effect.fail(tooMany("pages", decision, tooManyPages))
      }
      const encoding = coding === "identity" ? {} : { "content-encoding": coding }
      return { status: 200, headers: { ...headers, ...known, ...encoding }, body: bytes } satisfies Reply
    })
  })

const tooManyPages = "Too many pages were requested from this address. Wait for the number of seconds in Retry-After."

const encode = ({ headers, text }: StaticDocument) =>
  Effect.promise(async () => {
    const plain = bytesOf(Buffer.from(text))
    const hash = createHash("sha256").update(plain).digest("base64url").slice(0, 22)
    const variant = (suffix: string, bytes: Uint8Array<ArrayBuffer>): Variant => ({ tag: `"${hash}${suffix}"`, bytes })
    const [br, gz] = await Promise.all([
      promisify(brotliCompress)(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: brotliQuality } }),
      promisify(gzip)(plain, { level: gzipLevel }),
    ])
    const variants: Readonly<Record<ContentCoding, Variant>> = {
      identity: variant("", plain),
      br: variant("-br", bytesOf(br)),
      gzip: variant("-gzip", bytesOf(gz)),
    }
    return { headers, variants }
  })

/** Copies bytes out of a pool or a larger buffer. */
const bytesOf = (buffer: Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(buffer)

/** Supported encodings of a body, in order of preference. */
const contentCodings = ["br", "gzip"] as const

export type ContentCoding = (typeof contentCodings)[number] | "identity"

const ENTRY = /^([!#$%&'*+.^_`|~0-9a-z-]+)(?:\s*;\s*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/

/**
 * Returns the best coding for an `Accept-Encoding`, with `br` before `gzip` at equal weight; `identity` without the header or
 * without a better match. Malformed entries are ignored.
 */
export const preferredCoding = (values: ReadonlyArray<string> | undefined): ContentCoding => {
  const weights = new Map<string, number>()
  for (const entry of (values ?? []).join(",").slice(0, 1_024).toLowerCase().split(",")) {
    const [, name, weight] = ENTRY.exec(entry.trim()) ?? []
    if (name !== undefined) weights.set(name, Number(weight ?? 1))
  }
  const weightOf = (coding: string) => weights.get(coding) ?? weights.get("*") ?? 0
  const [best] = contentCodings.toSorted((one, other) => weightOf(other) - weightOf(one))
  return best !== undefined && weightOf(best) > 0 && weightOf(best) >= (weights.get("identity") ?? 0)
    ? best
    : "identity"
}

/** Returns whether an `If-None-Match` contains this entity tag, by the weak comparison that RFC 9110 defines for GET. */
export const matchesEntityTag = (values: ReadonlyArray<string> | undefined, tag: string): boolean =>
  (values ?? [])
    .join(",")
    .split(",")
    .some((one) => one.trim() === "*" || one.trim().replace(/^W\//, "") === tag)
