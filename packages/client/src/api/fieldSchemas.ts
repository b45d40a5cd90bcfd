import { Schema } from "effect"

/** Text counted in Unicode code points, as the limits are, not in UTF-16 units. */
export const TextUpTo = (maxLength: number) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => text.trim() !== "", {
      message: "at least one character that is not white space",
      toJsonSchema: () => [{ minLength: 1 }, true],
    }),
    Schema.makeFilter((text: string) => text.length <= maxLength || [...text].length <= maxLength, {
      message: `at most ${maxLength} characters`,
      toJsonSchema: () => ({ maxLength }),
    }),
  )

export const IntegerBetween = (minimum: number, maximum: number) =>
  Schema.Int.check(Schema.isBetween({ minimum, maximum }))

export const PositiveUpTo = (maximum: number) =>
  Schema.Finite.check(Schema.isGreaterThan(0), Schema.isLessThanOrEqualTo(maximum))

const idBody = "[0-7][0-9a-hjkmnp-tv-z]{25}"

/** An identifier the server made. Opaque: clients compare it and nothing else. */
export const Id = (prefix: "job" | "upl" | "fil" | "req", description: string) =>
  Schema.String.annotate({ description, examples: [`${prefix}_01k9q3w5zr8x2v6m4n7p0t1c3d`] }).check(
    Schema.makeFilter((text: string) => text.startsWith(`${prefix}_`), {
      toJsonSchema: () => ({ pattern: `^${prefix}_${idBody}$` }),
    }),
  )
