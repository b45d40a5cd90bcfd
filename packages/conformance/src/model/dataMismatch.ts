import { type Job, jobBlobPrefix } from "@kiln/core/domain"
import { strongerWarning, type jobTransitions } from "@kiln/core/rules"
import { differingField, jobDataFields, sameValue } from "./jobFields.ts"

type Data = Pick<Job, (typeof jobDataFields)[number]>

/**
 * Returns why this event cannot have turned one job's data into the other's; `undefined` if it can. Assumes that `after` is
 * well-formed. Data changes in four moves only: a checkpoint adds or replaces one step, completion sets output, files, warning
 * and charge, a failure may set what the job tells its caller, erasure blanks.
 */
export const dataMismatch = (before: Job, after: Job, event: keyof typeof jobTransitions): string | undefined => {
  switch (event) {
    case "checkpointed":
      return checkpointMismatch(before, after)
    case "completed":
      return completionMismatch(before, after)
    case "failed":
    case "refused":
      return unlike({ ...before, output: after.output }, after)
    case "erased":
      return erasureMismatch(before, after)
    default:
      return unlike(before, after)
  }
}

const unlike = (expected: Data, after: Job): string | undefined => {
  const field = differingField(jobDataFields, expected, after)
  return field === undefined ? undefined : `it must not change ${field}`
}

const checkpointMismatch = (before: Job, after: Job): string | undefined => {
  const [old, kept] = [before.checkpoints, after.checkpoints]
  const changed = Object.keys(kept).filter((step) => !Object.hasOwn(old, step) || !sameValue(old[step], kept[step]))
  if (changed.length > 1) return "it must store only one step"
  if (Object.keys(old).some((step) => !Object.hasOwn(kept, step))) return "it must keep earlier steps"
  return unlike({ ...before, checkpoints: kept }, after)
}

const completionMismatch = (before: Job, after: Job): string | undefined => {
  const blobPrefix = `${jobBlobPrefix(before.id)}/${before.token}/`
  if (after.files.some((file) => !file.blobKey.startsWith(blobPrefix)))
    return "its files must be under the attempt's key"
  if (new Set(after.files.map((file) => file.name)).size < after.files.length) return "names of files must be unique"
  const { charge, files, output, warningCode } = after
  return unlike({ ...before, checkpoints: {}, charge, files, output, warningCode }, after)
}

const erasureMismatch = (before: Job, after: Job): string | undefined => {
  const { retained } = after
  if (retained === "kept") return "it must remove the data"
  // What expired by age can still be deleted on request; nothing comes back from that.
  if (before.retained === "deleted") return "deleted data must not be deleted again"
  const warning = retained === "deleted" ? "data_deleted" : "data_expired"
  const warningCode = strongerWarning(before.warningCode ?? undefined, warning) ?? null
  return unlike({ ...before, retained, request: null, checkpoints: {}, output: null, files: [], warningCode }, after)
}
