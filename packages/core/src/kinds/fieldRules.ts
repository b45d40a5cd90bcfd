import type { FieldRule } from "../domain/FieldError.ts"

/** Rules that a field may violate, for decoders with Effect Schema and without. */
export const fieldRules = {
  required: { reason: "required", message: "is required" },
  unknown: { reason: "unknown_field", message: "is not a field of this request" },
  notObject: { reason: "type", message: "must be an object" },
  type: (what: string) => ({ reason: "type", message: `must be ${what}` }),
  oneOf: (names: ReadonlyArray<string>) => ({
    reason: "enum",
    allowed: names,
    message: `must be one of: ${names.join(", ")}`,
  }),
  positive: { reason: "min", exclusiveMin: 0, message: "must be greater than 0" },
  atMost: (max: number) => ({ reason: "max", max, message: `must be at most ${max}` }),
} as const satisfies Record<string, FieldRule | ((limit: never) => FieldRule)>
