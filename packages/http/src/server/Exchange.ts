import type { IncomingMessage, ServerResponse } from "node:http"
import type { RequestId } from "@kiln/core/domain"

/** Bytes of a JSON body, inclusive. */
export const maxJsonBytes = 65_536

// RFC 9112, section 3.2.2: a server must understand a target that names itself. What it calls itself does not matter.
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i

/**
 * One request and what will be said with its response. Path and query are the request's own characters, never decoded:
 * every path of the service is plain ASCII, so another spelling is another path.
 */
export class Exchange {
  readonly requestId: RequestId
  readonly source: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  readonly path: string
  /** Without the question mark; empty when there is none. Holds signatures: never logged. */
  readonly rawQuery: string
  /** Headers the response will have whatever it turns out to be, by lower-case name. */
  readonly responseHeaders: Record<string, string> = {}
  /** The route that took the request, for the log: a path with placeholders. */
  route: string | undefined = undefined
  /** When its key was found good, unix milliseconds. */
  admittedAt = 0
  /** Of the body, so far. */
  bytesRead = 0
  /** How much of a body is read and thrown away before it is refused. */
  discardLimit = 2 * maxJsonBytes

  constructor(requestId: RequestId, source: IncomingMessage, response: ServerResponse) {
    this.requestId = requestId
    this.source = source
    this.response = response
    this.method = source.method ?? ""
    const target = (source.url ?? "").replace(ABSOLUTE_FORM, "")
    const question = target.indexOf("?")
    this.path = question === -1 ? target : target.slice(0, question)
    this.rawQuery = question === -1 ? "" : target.slice(question + 1)
  }

  /** The values of a header, one per line received; `undefined` when it was not sent. */
  header(lowerCaseName: string): ReadonlyArray<string> | undefined {
    return this.source.headersDistinct[lowerCaseName]
  }

  /** The value of a header that must not come twice; `undefined` also when it did. */
  singleHeader(lowerCaseName: string): string | undefined {
    const values = this.header(lowerCaseName)
    return values?.length === 1 ? values[0] : undefined
  }

  /** Bytes of the body as announced; `undefined` when it comes in chunks or not at all. */
  get contentLength(): number | undefined {
    const announced = this.source.headers["content-length"]
    return announced === undefined ? undefined : Number(announced)
  }
}
