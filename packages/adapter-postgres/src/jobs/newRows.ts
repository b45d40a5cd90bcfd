import { type Job, rankOf } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { laneName } from "./lanes.ts"
import type { RetriedJob } from "./retriedJobs.ts"

/** Returns an accepted job as it is written. */
export const newRow = (item: NewJob, job: Job, priceId: number | null, retried: RetriedJob | undefined) => {
  const { claimableAt, createdAt, deadlineAt, phaseStartedAt, queueLimitMs, runLimitMs } = job
  if (claimableAt === null) throw new TypeError("a new job lacks its times")
  // The trigger that gives a job its place in the queue derives these times from the delay.
  if (phaseStartedAt !== claimableAt || deadlineAt !== claimableAt + queueLimitMs)
    throw new TypeError("a new job waits from the end of its delay")
  return {
    item,
    retried,
    row: {
      id: job.id,
      project_id: job.projectId,
      key_id: job.keyId,
      mode: job.mode,
      kind: job.kind,
      kind_version: job.kindVersion,
      upload_id: job.uploadId,
      priority: rankOf(job.priority),
      kept: JSON.stringify(job.metadata),
      idempotency_key: job.idempotencyKey,
      fingerprint: job.fingerprint,
      price_id: priceId,
      queue_limit_ms: queueLimitMs,
      run_limit_ms: runLimitMs,
      delay_ms: claimableAt - createdAt,
      request: JSON.stringify(item.request),
    },
  }
}

/** An accepted job, ready to be written. Its times follow from when it is accepted. */
export type NewRow = ReturnType<typeof newRow>

/** The lanes of jobs, by name. */
export type Lanes = ReadonlyMap<string, number>

/** Returns the lane of a job. Throws if it is not among the lanes. */
export const laneOf = (lanes: Lanes, item: NewJob): number => {
  const lane = lanes.get(laneName(item))
  if (lane === undefined) throw new TypeError("a new job lacks its lane")
  return lane
}

type Row = NewRow["row"]

/** Returns the columns that are equal for most jobs of a call. */
const sharedOf = ({
  project_id,
  key_id,
  mode,
  kind,
  kind_version,
  priority,
  price_id,
  queue_limit_ms,
  run_limit_ms,
  delay_ms,
}: Row) => ({
  project_id,
  key_id,
  mode,
  kind,
  kind_version,
  priority,
  price_id,
  queue_limit_ms,
  run_limit_ms,
  delay_ms,
})

/** Whether two jobs have all of that in common. */
const areAlike = (a: Row, b: Row): boolean =>
  a.project_id === b.project_id &&
  a.key_id === b.key_id &&
  a.mode === b.mode &&
  a.kind === b.kind &&
  a.kind_version === b.kind_version &&
  a.priority === b.priority &&
  a.price_id === b.price_id &&
  a.queue_limit_ms === b.queue_limit_ms &&
  a.run_limit_ms === b.run_limit_ms &&
  a.delay_ms === b.delay_ms

/**
 * The jobs as `accept_jobs` takes them: what several have in common is sent once, and each job says where (from 1). Reading fields
 * is a good part of what a job costs the server.
 */
export const packRows = (rows: ReadonlyArray<NewRow>): { readonly items: string; readonly shared: string } => {
  const shared: Array<ReturnType<typeof sharedOf>> = []
  const places = new Map<string, number>()
  let last: Row | undefined
  let place = 0

  const placeOf = (row: Row): number => {
    const previous = last
    last = row
    if (previous !== undefined && areAlike(previous, row)) return place
    const fields = sharedOf(row)
    const name = JSON.stringify(fields)
    const known = places.get(name)
    if (known !== undefined) return known
    places.set(name, shared.push(fields))
    return shared.length
  }

  const items = rows.map(({ row }) => {
    place = placeOf(row)
    return {
      of: place,
      id: row.id,
      idempotency_key: row.idempotency_key,
      fingerprint: row.fingerprint,
      request: row.request,
      ...(row.kept !== "{}" && { kept: row.kept }),
      ...(row.upload_id !== null && { upload_id: row.upload_id }),
    }
  })
  return { items: JSON.stringify(items), shared: JSON.stringify(shared) }
}
