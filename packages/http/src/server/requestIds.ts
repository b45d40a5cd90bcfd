import type { RequestSource } from "./RequestSource.ts"

/** Identifiers that proxies and callers usually send: UUIDs, hexadecimal digests, ULIDs. Safe in logs, headers and JSON. */
const ACCEPTED = /^[0-9A-Za-z](?:[0-9A-Za-z._-]{6,126})[0-9A-Za-z]$/

/** Returns the request's own `X-Request-Id`; `undefined` if it has none, several, or one that is not acceptable. */
export const givenRequestId = (source: RequestSource): string | undefined => {
  const values = source.header("x-request-id")
  const [value] = values ?? []
  return value !== undefined && values?.length === 1 && ACCEPTED.test(value) ? value : undefined
}
