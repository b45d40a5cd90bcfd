/** Supported encodings of a body, in order of preference. */
export const contentCodings = ["br", "gzip"] as const
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
