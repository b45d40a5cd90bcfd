import type * as Stream from "effect/Stream"
import { errorCatalogue } from "@kiln/client/api"
import { envelopeOf, type Refusal } from "./Refusal.ts"

/** The result of a handler, which each type of server turns into a response. */
export interface Reply {
  readonly status: number
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  /** Bytes are sent without a copy for each response. */
  readonly body: string | Uint8Array<ArrayBuffer> | Stream.Stream<Uint8Array, unknown> | undefined
}

export const jsonHeaders = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" }

export const jsonReply = (status: number, body: object, headers?: Readonly<Record<string, string>>): Reply => ({
  status,
  headers: headers === undefined ? jsonHeaders : { ...jsonHeaders, ...headers },
  body: JSON.stringify(body),
})

export const noContent: Reply = { status: 204, headers: { "cache-control": "no-store" }, body: undefined }

export const refusalReply = (refusal: Refusal, requestId: string): Reply => {
  const entry = errorCatalogue[refusal.code]
  return jsonReply(entry.status, envelopeOf(refusal, requestId), { ...entry.headers, ...refusal.headers })
}
