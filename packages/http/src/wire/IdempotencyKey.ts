export type ParsedIdempotencyKey =
  | { readonly ok: true; readonly key: string }
  | { readonly ok: false; readonly reason: "missing" | "invalid" }

const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"(.*)"$/

/**
 * Reads the values of the `Idempotency-Key` headers, one per header line, as an HTTP parser hands them over (without
 * the white space around them). 1 to 255 visible ASCII characters without spaces; one pair of outer quotes is not part
 * of the key (the header's draft standard writes it as a quoted string, most clients do not), so both spellings are the
 * same key. An empty header, or two of them, is invalid.
 */
export const parseIdempotencyKey = (values: ReadonlyArray<string> | undefined): ParsedIdempotencyKey => {
  const [value, second] = values ?? []
  if (value === undefined) return { ok: false, reason: "missing" }
  const key = QUOTED.exec(value)?.[1] ?? value
  return second === undefined && VISIBLE_ASCII.test(key) ? { ok: true, key } : { ok: false, reason: "invalid" }
}
