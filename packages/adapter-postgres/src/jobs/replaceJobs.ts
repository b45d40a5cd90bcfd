import { sql } from "kysely"
import type { KeyId } from "@kiln/core/domain"
import { type BoundKey, keylessPrefix } from "@kiln/core/rules"
import type { NewJob } from "@kiln/core/ports"
import { isReplacedKey, Superseded } from "../connection/postgresErrors.ts"
import type { Session, Transaction } from "../connection/Session.ts"
import { batchStatement, type Given, integer, query, statement, text } from "../Statement.ts"
import { jobOf, jobsByIdempotencyKey, jobsBySeq } from "./jobRow.ts"
import type { NewRow } from "./insertJobs.ts"

/** A waiting job with another request, as it is written. Its delay counts from its creation. */
export interface Replacing extends NewRow {
  /** All of its labels, also those of prerequisites that the new request does not name. */
  readonly labels: ReadonlyArray<string>
  /** Whether the key that it had stays bound to it, because a caller gave it. */
  readonly remembers: boolean
}

/** Whether a job that has the scope of this one gets its request. */
export const replaces = ({ unique }: NewJob): boolean => unique?.replaces === true

/** Whether a key is a caller's, and so stays bound to a job that gets another. */
export const isCallersKey = (idempotencyKey: string): boolean => !idempotencyKey.startsWith(keylessPrefix)

type ReplaceJob = Omit<NewRow["row"], "project_id" | "key_id" | "mode" | "kind"> & {
  readonly labels: string | null
  readonly remembers: boolean
}

const replaceStatement = statement((given: Given<ReplaceJob>) =>
  query.selectNoFrom(
    sql<boolean>`"kiln".replace_job(${given.id}::text, ${given.kind_version}::bigint, ${given.upload_id}::text, ${given.priority}::smallint,
      ${given.kept}::text, ${given.idempotency_key}::text, ${given.fingerprint}::text, ${given.price_id}::bigint, ${given.queue_limit_ms}::bigint,
      ${given.run_limit_ms}::bigint, ${given.delay_ms}::bigint, ${given.request}::text, ${given.labels}::json, ${given.remembers}::boolean)`.as(
      "isReplaced",
    ),
  ),
)

/** Writes new requests of waiting jobs, which this transaction has locked, in the order in which they came. Their lanes exist. */
export const replaceJobs = async (tx: Transaction, replaced: ReadonlyArray<Replacing>): Promise<void> => {
  if (replaced.length === 0) return
  const answers = await Promise.all(
    replaced.map(({ labels, remembers, row: { key_id: _, kind: __, mode: ___, project_id: ____, ...row } }) => {
      return tx.get(replaceStatement, {
        ...row,
        labels: labels.length === 0 ? null : JSON.stringify(labels),
        remembers,
      })
    }),
  ).catch((error: unknown) => {
    throw isReplacedKey(error) ? new Superseded() : error
  })
  if (answers.some((answer) => answer?.isReplaced !== true)) throw new Superseded()
}

/** Keeps jobs that wait for their first attempt from being claimed, until the transaction ends. In the order of their ids, as every verb locks them. */
export const lockWaiting = batchStatement({ seq: integer() }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq"))
    .innerJoin("queue", "queue.id", "jobs.id")
    .select("queue.id")
    .where("queue.status", "=", "queued")
    .orderBy("queue.id")
    .forUpdate("queue"),
)

const replacedKeys = batchStatement({ keyId: text<KeyId>(), idempotencyKey: text() }, (item) =>
  query
    .selectFrom("replaced_keys")
    .innerJoin(item, (join) =>
      join
        .onRef("item.keyId", "=", "replaced_keys.key_id")
        .onRef("item.idempotencyKey", "=", "replaced_keys.idempotency_key"),
    )
    .select(["replaced_keys.job_seq as seq", "item.keyId", "item.idempotencyKey", "replaced_keys.fingerprint"]),
)

/** An idempotency key, with what it is bound to. */
export interface Bound extends BoundKey {
  readonly keyId: KeyId
  readonly idempotencyKey: string
}

/**
 * Returns the jobs that these keys are bound to. The keys of requests that were replaced are looked up after those of the jobs: a key
 * moves in that direction.
 */
export const boundKeys = async (
  session: Session,
  items: ReadonlyArray<{ readonly keyId: KeyId; readonly idempotencyKey: string }>,
): Promise<ReadonlyArray<Bound>> => {
  const callers = items.filter(({ idempotencyKey }) => isCallersKey(idempotencyKey))
  const [own, replaced] = await Promise.all([
    session.batch(jobsByIdempotencyKey, items),
    session.batch(replacedKeys, callers),
  ])
  const bound = own.map((row): Bound => {
    const { fingerprint, idempotencyKey, keyId } = row
    return { job: jobOf(row), fingerprint, idempotencyKey, keyId }
  })
  if (replaced.length === 0) return bound
  const seqs = [...new Set(replaced.map(({ seq }) => seq))].map((seq) => ({ seq }))
  const jobs = new Map((await session.batch(jobsBySeq, seqs)).map((row) => [row.seq, jobOf(row)]))
  return [
    ...bound,
    ...replaced.flatMap(({ seq, ...key }): ReadonlyArray<Bound> => {
      const job = jobs.get(seq)
      return job === undefined ? [] : [{ ...key, job }]
    }),
  ]
}
