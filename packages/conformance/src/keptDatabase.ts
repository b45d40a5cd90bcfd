import { readFileSync } from "node:fs"
import { gunzipSync } from "node:zlib"

/** Longer than the leases and the delays in a kept database, and shorter than the time its jobs may wait. */
const ageMs = 2 * 3_600_000

/**
 * Reads the statements of a database that `scripts/keepDatabases.ts` kept, `kept/NAME.sql.gz`. Its times are moved, so that it was
 * left two hours before `now`.
 */
export const readKeptDatabase = (file: URL, now: number): string => {
  const text = gunzipSync(readFileSync(file)).toString("utf8")
  const [, keptAt] = /^-- kept at (\d+)\n/.exec(text) ?? []
  const later = now - ageMs - Number(keptAt)
  return text.replaceAll(/(?<![\w.])1[789]\d{11}(?!\w)/g, (time) => String(Number(time) + later))
}

/** The ends of the jobs of a kept database. */
export interface KeptJobs {
  readonly done: number
  readonly failed: number
  /** Those of `done` that the schedule created while the engine ran. */
  readonly scheduled: number
}

interface EndingJob {
  readonly status: string
  readonly createdAt: Date
}

/** An engine that runs on a kept database. */
interface RunningEngine {
  readonly operator: {
    readonly listAll: () => AsyncIterable<EndingJob>
  }
}

/** Waits until the schedule of a kept database has created a job and all jobs have ended. */
export const finishKeptJobs = async ({ operator }: RunningEngine, now: number): Promise<KeptJobs> => {
  const deadline = performance.now() + 60_000
  while (true) {
    const jobs: Array<EndingJob> = []
    for await (const job of operator.listAll()) jobs.push(job)
    const done = jobs.filter(({ status }) => status === "done")
    const failed = jobs.filter(({ status }) => status === "failed").length
    const scheduled = done.filter(({ createdAt }) => createdAt.getTime() > now - ageMs / 2).length
    if (scheduled > 0 && done.length + failed === jobs.length) return { done: done.length, failed, scheduled }
    if (performance.now() > deadline) throw new Error(`unfinished jobs: ${JSON.stringify(jobs, null, 1)}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
