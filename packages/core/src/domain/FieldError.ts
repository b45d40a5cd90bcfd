/** Why one field of a request is invalid. The value itself is never repeated. */
export type FieldReason =
  | "required"
  | "type"
  | "enum"
  | "min"
  | "max"
  | "max_length"
  | "empty"
  | "characters"
  | "unknown_field"

/** A rule a field can break, with its bound. */
export interface FieldRule {
  readonly reason: FieldReason
  /** Inclusive, of numbers. */
  readonly min?: number
  /** Inclusive, of numbers. */
  readonly max?: number
  /** The number must be greater than this. */
  readonly exclusiveMin?: number
  /** In Unicode code points. */
  readonly maxLength?: number
  readonly allowed?: ReadonlyArray<string>
  /** For people; does not name the field. */
  readonly message: string
}

export interface FieldError extends FieldRule {
  readonly field: string
}
