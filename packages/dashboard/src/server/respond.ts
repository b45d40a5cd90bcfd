import { randomUUID } from "node:crypto"
import { type AdminErrorCode, adminErrors } from "../api/errors.ts"

const common = { "cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" }

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
  requestId = `req_${randomUUID()}`,
): Response =>
  json(
    { error: { type: adminErrors[code].type, code, message, param: null, details: null, request_id: requestId } },
    adminErrors[code].status,
    { "x-request-id": requestId, ...headers },
  )
