import type { RequestId } from "@kiln/core/domain"
import type { RequestSource } from "./RequestSource.ts"

/** Bytes of a JSON body, inclusive. */
export const maxJsonBytes = 65_536

// RFC 9112, section 3.2.2: a server must understand a target that names itself. What it calls itself does not matter.
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i

/** The path and query of a target, its own characters. */
export const localTarget = (target: string): string => target.replace(ABSOLUTE_FORM, "")

/** Whether a local target lies under a prefix such as `/api/kiln`; all of them do under the empty one. */
export const isUnder = (prefix: string, local: string): boolean =>
  local.startsWith(prefix) && (prefix === "" || /^(?:[/?]|$)/.test(local.slice(prefix.length, prefix.length + 1)))

/**
 * One request and what will be said with its response. Path and query are the request's own characters, never decoded:
 * every path of the service is plain ASCII, so another spelling is another path.
 */
export class Exchange {
  readonly requestId: RequestId
  readonly source: RequestSource
  readonly method: string
  /** Below the prefix; empty, which is no path of the service, when the request is not under it. */
  readonly path: string
  /** Without the question mark; empty when there is none. Holds signatures: never logged. */
  readonly rawQuery: string
  /** Headers the response will have whatever it turns out to be, by lower-case name. */
  readonly responseHeaders: Record<string, string> = {}
  /** The route that took the request, for the log: a path with placeholders. */
  route: string | undefined = undefined
  /** When its key was found good, milliseconds by this process's monotonic clock. */
  admittedAt = 0
  /** Of the body, so far. */
  bytesRead = 0
  /** How much of a body is read and thrown away before it is refused. */
  discardLimit = 2 * maxJsonBytes

  constructor(requestId: RequestId, source: RequestSource, prefix = "") {
    this.requestId = requestId
    this.source = source
    this.method = source.method
    const local = localTarget(source.target)
    const target = isUnder(prefix, local) ? local.slice(prefix.length) : ""
    const question = target.indexOf("?")
    this.path = question === -1 ? target : target.slice(0, question)
    this.rawQuery = question === -1 ? "" : target.slice(question + 1)
  }

  /** The values of a header, one per line received; `undefined` when it was not sent. */
  header(lowerCaseName: string): ReadonlyArray<string> | undefined {
    return this.source.header(lowerCaseName)
  }

  /** The value of a header that must not come twice; `undefined` also when it did. */
  singleHeader(lowerCaseName: string): string | undefined {
    const values = this.header(lowerCaseName)
    return values?.length === 1 ? values[0] : undefined
  }

  /** Bytes of the body as announced; `undefined` when it comes in chunks or not at all. */
  get contentLength(): number | undefined {
    const announced = this.singleHeader("content-length")
    return announced === undefined ? undefined : Number(announced)
  }
}
