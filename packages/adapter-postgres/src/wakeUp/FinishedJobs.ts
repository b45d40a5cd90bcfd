import type { JobId } from "@kiln/core/domain"

/** A plain name, see `connectionOptions`: no longer than leaves room for what stands before it in the 63 bytes of a name. */
interface InSchema {
  readonly schema: string
}

/** One channel for each schema of a database; there may be work. The payload is the sender's mark, by which it knows its own. */
export const workChannel = ({ schema }: InSchema): string => `kiln_${schema}`

/** Jobs that ended, see `FinishedJobs.ts`. No schema has a dot in its name, so no two channels are the same. */
export const finishedChannel = ({ schema }: InSchema): string => `kiln.${schema}`

/** Bytes of one notification; the server takes fewer than 8,000. */
const mostBytes = 7_900
/** Jobs one round tells of by their ids. Beyond that, whoever waits for one has to look. */
const mostJobs = 2_000

/** The payload of a notification: the sender's mark, then ids, or a star for any. */
const text = (mark: string, jobs: string): string => `${mark} ${jobs}`

export const readFinished = (
  payload: string,
): { readonly mark: string; readonly jobs: ReadonlyArray<JobId> | "any" } => {
  const [mark = "", jobs = "*"] = payload.split(" ", 2)
  return { mark, jobs: jobs === "*" ? "any" : jobs.split(",").filter(isJobId) }
}

const isJobId = (id: string): id is JobId => id.startsWith("job_")

/** Jobs that ended in this process, until they are told to others. */
export class FinishedJobs {
  #jobs = new Set<JobId>()
  #tooMany = false

  add(jobs: ReadonlyArray<JobId>): void {
    for (const id of jobs) {
      if (this.#jobs.size >= mostJobs) this.#tooMany = true
      else this.#jobs.add(id)
    }
  }

  /** Everything that was added since the last time, as payloads. */
  take(mark: string): ReadonlyArray<string> {
    const [jobs, tooMany] = [this.#jobs, this.#tooMany]
    this.#jobs = new Set()
    this.#tooMany = false
    return tooMany ? [text(mark, "*")] : payloadsOf(mark, jobs)
  }
}

const payloadsOf = (mark: string, jobs: ReadonlySet<JobId>): ReadonlyArray<string> => {
  const payloads: Array<string> = []
  let ids = ""
  for (const id of jobs) {
    const longer = ids === "" ? id : `${ids},${id}`
    if (Buffer.byteLength(text(mark, longer)) > mostBytes) {
      payloads.push(text(mark, ids))
      ids = id
    } else ids = longer
  }
  return ids === "" ? payloads : [...payloads, text(mark, ids)]
}
