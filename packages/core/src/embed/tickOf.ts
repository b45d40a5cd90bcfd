import type { Submitted } from "../domain/Submitted.ts"
import type { AttemptTick } from "./AttemptTypes.ts"

/** Returns the tick that a job is for; `undefined` if no schedule submitted it. */
export const tickOf = ({ schedule }: Submitted): AttemptTick | undefined => {
  if (schedule === undefined) return undefined
  const { name, previousAt, tickAt } = schedule
  return { name, tickAt: new Date(tickAt), previousAt: previousAt === null ? null : new Date(previousAt) }
}
