import * as Effect from "effect/Effect"
import { stepLabel } from "../domain/Child.ts"
import type { JobId, StoreUnavailable } from "../domain/index.ts"
import { type Progress, progressOfChildren } from "../domain/Progress.ts"
import type { JobDirectory } from "../ports/index.ts"

const unfinished: ReadonlySet<string> = new Set(["queued", "delayed", "processing"])

/** Returns the progress of a job. That of one that waits for its children, and reported none itself, is counted: "7 of 20". */
export const countedProgress = (
  directory: JobDirectory["Service"] | undefined,
  jobId: JobId,
  progress: Progress | null,
): Effect.Effect<Progress | null, StoreUnavailable> => {
  if (progress?.children === undefined || directory === undefined) return Effect.succeed(progress)
  const { step, total } = progress.children
  return Effect.map(directory.countJobs({ finishedWithinMs: 0, labels: [stepLabel({ jobId, step })] }), (counts) =>
    progressOfChildren(
      total,
      counts.reduce((sum, { count, status }) => (unfinished.has(status) ? sum + count : sum), 0),
    ),
  )
}
