export type ParsedIdempotencyKey =
  | { readonly ok: true; readonly key: string }
  | { readonly ok: false; readonly reason: "missing" | "invalid" }

const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"(.*)"$/

/**
 * Parses the values of the `Idempotency-Key` headers, one per header line, trimmed, as an HTTP parser returns them. A key
 * has 1 to 255 visible ASCII characters without spaces. One pair of outer quotes is not part of the key: the draft standard
 * specifies a quoted string, but most clients omit the quotes. An empty or repeated header is invalid.
 */
export const parseIdempotencyKey = (values: ReadonlyArray<string> | undefined): ParsedIdempotencyKey => {
  const [value, second] = values ?? []
  if (value === undefined) return { ok: false, reason: "missing" }
  const key = QUOTED.exec(value)?.[1] ?? value
  return second === undefined && VISIBLE_ASCII.test(key) ? { ok: true, key } : { ok: false, reason: "invalid" }
}
