import { Refusal } from "../server/Exchange.ts"
import { likelyName } from "@kiln/core/domain"

/** Refuses a field, and says what can be sent instead. */
export const refuseField = (param: string, message: string): Refusal =>
  new Refusal({
    code: "invalid_request",
    param,
    message,
    details: { errors: [{ param, reason: "enum", message }] },
  })

type Fields = Readonly<Record<string, unknown>>

/** The values of a field that change nothing, so that they are accepted; an empty list for a field that cannot be served. */
export type Accepted = Readonly<Record<string, ReadonlyArray<unknown>>>

const shown = (value: unknown): string => JSON.stringify(value)

/** Whether a field can say something: clients also send empty texts for what they leave out. */
const isServed = (values: ReadonlyArray<unknown> | undefined): boolean => values?.some((value) => value !== "") === true

/** Returns why the fields cannot be served. `read` lists those that the endpoint reads itself. */
export const fieldProblem = (fields: Fields, read: ReadonlyArray<string>, accepted: Accepted): Refusal | undefined => {
  for (const [name, value] of Object.entries(fields)) {
    if (read.includes(name) || value === null || value === undefined) continue
    const values = Object.hasOwn(accepted, name) ? accepted[name] : undefined
    if (values === undefined) {
      const known = [...read, ...Object.keys(accepted).filter((field) => isServed(accepted[field]))]
      const safe = name.slice(0, 64).toWellFormed()
      const likely = likelyName(safe, known)
      const hint = likely === undefined ? "." : `; did you mean "${likely}"?`
      return refuseField(safe, `"${safe}" is not a field of this request${hint} The fields are ${known.join(", ")}.`)
    }
    if (values.includes("*") || values.includes(value)) continue
    if (name === "stream" || name === "stream_format")
      return refuseField(
        name,
        `Streaming is not supported: leave ${name} out. The response is sent once the job has ended.`,
      )
    return refuseField(
      name,
      !isServed(values)
        ? `${name} is not supported: leave it out.`
        : `${name} must be ${values.map(shown).join(" or ")}, or left out.`,
    )
  }
  return undefined
}
