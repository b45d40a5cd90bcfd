import type { FieldError } from "../domain/index.ts"
import { likelyName } from "../domain/nearestName.ts"

/** Unknown fields whose messages name the nearest known one. A request can have thousands of them. */
const maxCorrected = 20

/** Returns the errors with messages about unknown fields that name the nearest known one, or list the known ones. */
export const correctUnknown = (
  errors: ReadonlyArray<FieldError>,
  declared: ReadonlyArray<string>,
): ReadonlyArray<FieldError> => {
  let unknown = 0
  return errors.map((error) =>
    error.reason === "unknown_field" && unknown++ < maxCorrected ? corrected(error, declared) : error,
  )
}

const corrected = (error: FieldError, declared: ReadonlyArray<string>): FieldError => {
  const likely = likelyName(error.field.slice(0, 100), declared)
  const hint = likely === undefined ? ` (fields: ${declared.join(", ")})` : `; did you mean "${likely}"?`
  return { ...error, message: error.message + hint }
}
