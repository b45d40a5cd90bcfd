import { IdGenerator } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { type AdminErrorCode, adminErrors } from "../api/errors.ts"

const common = { "cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" }

const ids = Effect.runSync(Effect.provide(IdGenerator, IdGenerator.layer))

const accepted = /^[0-9A-Za-z][0-9A-Za-z._-]{6,126}[0-9A-Za-z]$/

/** Returns the request id of a caller's `X-Request-Id`, by the rule of `/v1`: the caller's own, or a new one. */
export const requestIdOf = (given: string | null | undefined): string =>
  typeof given === "string" && accepted.test(given) ? given : ids.next("req")

/** Returns a response with a JSON body. */
export const json = (body: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(JSON.stringify(body), {
    status,
    headers: { ...common, "content-type": "application/json; charset=utf-8", ...headers },
  })

/** Returns an error in the envelope of `/v1`. */
export const errorResponse = (
  code: AdminErrorCode,
  message: string = adminErrors[code].message,
  headers: Readonly<Record<string, string>> = {},
  requestId: string = requestIdOf(undefined),
): Response =>
  json(
    { error: { type: adminErrors[code].type, code, message, param: null, details: null, request_id: requestId } },
    adminErrors[code].status,
    { "x-request-id": requestId, ...headers },
  )
