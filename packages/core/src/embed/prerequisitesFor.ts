import { isId, type JobId, requireOneOf } from "../domain/index.ts"
import { maxPrerequisites, type Submitted } from "../domain/Submitted.ts"
import type { SubmitOptions } from "./EmbeddedEngine.ts"
import { idOf } from "./toJobResult.ts"

const policies = ["fail", "run"]

/** Returns the part of a submission that names its prerequisites. Throws `TypeError` for invalid ones. */
export const prerequisitesFor = (
  after: SubmitOptions["after"],
  onFailure: SubmitOptions["onPrerequisiteFailure"],
): Submitted | undefined => {
  if (onFailure !== undefined) requireOneOf("onPrerequisiteFailure", onFailure, policies)
  if (after === undefined) {
    if (onFailure !== undefined) throw new TypeError("onPrerequisiteFailure needs the option after")
    return undefined
  }
  if (!Array.isArray(after) || after.length > maxPrerequisites)
    throw new TypeError(`after must be a list of up to ${maxPrerequisites} jobs or ids of jobs`)
  // A list that a program has built may be empty.
  if (after.length === 0) return undefined
  return { after: after.map(jobIdOf), ...(onFailure === "run" && { afterFailure: onFailure }) }
}

const jobIdOf = (job: NonNullable<SubmitOptions["after"]>[number], index: number): JobId => {
  const id = typeof job === "object" && job !== null && "id" in job ? idOf(job) : job
  if (typeof id !== "string" || !isId("job", id))
    throw new TypeError(
      `after[${index}] must be a job or the id of a job: await engine.submit(…) before you name its job`,
    )
  return id
}
