import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type TakeByAddress, tooMany } from "../server/limitAddresses.ts"
import type { Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { type ContentCoding, matchesEntityTag, preferredCoding } from "../wire/ContentCoding.ts"

/** What is the same for everybody, from the first request on. */
export interface StaticDocument {
  readonly text: string
  /** By lower-case name; `content-type` among them. */
  readonly headers: Readonly<Record<string, string>>
}

interface Variant {
  readonly tag: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** Below the best of either: three megabytes take a tenth of a second. */
const brotliQuality = 5
const gzipLevel = 6

/**
 * Serves a document that is made and compressed once, when it is first asked for; compression does not hold up the event loop.
 * All answers share its bytes, so that answers nobody reads cost no memory. Encoded as `Accept-Encoding` prefers, 304 where
 * `If-None-Match` names what would be sent. Everything but that and HEAD takes a token of the client's address: the larger
 * documents cost milliseconds to send, and anybody may ask for them.
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

const tooManyPages = "Too many pages were sent to this address. Wait as long as Retry-After says."

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

/** In memory of their own, neither a pool's nor a larger buffer's. */
const bytesOf = (buffer: Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(buffer)
