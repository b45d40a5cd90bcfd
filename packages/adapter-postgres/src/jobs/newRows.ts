import { type Job, rankOf } from "@kiln/core/domain"
import type { NewJob } from "@kiln/core/ports"
import { laneName } from "./lanes.ts"
import type { RetriedJob } from "./retriedJobs.ts"

/** A job that was decided to be accepted. */
export interface Accepted {
  readonly item: NewJob
  readonly job: Job
  readonly priceId: number | null
  readonly retried: RetriedJob | undefined
}

/** Builds the rows of accepted jobs, in the order of the items. */
export const rowsOf = (accepted: ReadonlyArray<Accepted>, lanes: ReadonlyMap<string, number>) =>
  accepted.map(({ item, job, priceId, retried }) => {
    const { claimableAt, createdAt, deadlineAt, phaseStartedAt, queueLimitMs, runLimitMs } = job
    const laneId = lanes.get(laneName(item))
    if (laneId === undefined || claimableAt === null) throw new TypeError("a new job lacks its lane or times")
    // The trigger that gives a job its place in the queue derives these times from the delay.
    if (phaseStartedAt !== claimableAt || deadlineAt !== claimableAt + queueLimitMs)
      throw new TypeError("a new job waits from the end of its delay")
    return {
      item,
      retried,
      laneId,
      claimableAt,
      row: {
        id: job.id,
        project_id: job.projectId,
        key_id: job.keyId,
        mode: job.mode,
        kind: job.kind,
        kind_version: job.kindVersion,
        upload_id: job.uploadId,
        priority: rankOf(job.priority),
        kept: JSON.stringify(item.metadata),
        idempotency_key: job.idempotencyKey,
        fingerprint: job.fingerprint,
        price_id: priceId,
        queue_limit_ms: queueLimitMs,
        run_limit_ms: runLimitMs,
        delay_ms: claimableAt - createdAt,
        request: JSON.stringify(item.request),
      },
    }
  })

/** An accepted job, ready to be written. */
export type NewRow = ReturnType<typeof rowsOf>[number]

type Row = NewRow["row"]

/** What most jobs of a call have in common. */
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
 * The jobs as `add_jobs` takes them: what several have in common is sent once, and each job says where (from 1). Reading fields
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
