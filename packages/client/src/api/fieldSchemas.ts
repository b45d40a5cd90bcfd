import * as Schema from "effect/Schema"

export const PositiveUpTo = (maximum: number) =>
  Schema.Finite.check(Schema.isGreaterThan(0), Schema.isLessThanOrEqualTo(maximum))

const idBody = "[0-7][0-9a-hjkmnp-tv-z]{25}"

/** An identifier created by the server. It is opaque: clients only compare it. */
export const Id = (prefix: "job" | "upl" | "fil" | "req", description: string) =>
  Schema.String.annotate({ description, examples: [`${prefix}_01k9q3w5zr8x2v6m4n7p0t1c3d`] }).check(
    Schema.makeFilter((text: string) => text.startsWith(`${prefix}_`), {
      toJsonSchema: () => ({ pattern: `^${prefix}_${idBody}$` }),
    }),
  )
