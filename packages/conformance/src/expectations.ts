import { expect } from "@effect/vitest"
import type { Job } from "@kiln/core/domain"
import { applyEvent, type TransitionEvent } from "@kiln/core/rules"
import { illFormed } from "./model/illFormed.ts"
import { differingField, jobOriginFields, jobOwnFields, stateOf } from "./model/jobFields.ts"

export { stateOf }

/** Expects that the store moved the job exactly as the table says. */
export const expectMoved = (before: Job, event: TransitionEvent, now: number, after: Job): void => {
  const expected = applyEvent(stateOf(before), event, now)
  expect(expected, "the table allows the move").toBeDefined()
  expect(stateOf(after)).toEqual(expected)
  const fields = event.event === "replaced" ? jobOwnFields : jobOriginFields
  expect(differingField(fields, before, after), "what the caller asked for never changes").toBe(undefined)
}

/** Expects the rules that hold for every job at any time. */
export const expectWellFormed = (job: Job): void => {
  expect(illFormed(job)).toBe(undefined)
}
