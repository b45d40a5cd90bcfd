import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { type BuiltInKind, type EmbeddedEngine, type InputOf, KilnError, type UploadId } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { JobStore } from "@kiln/core/ports"
import { until } from "@kiln/service-lab"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { type Ack, said } from "./Ack.ts"
import { databaseOf, openEngine } from "./embedded.ts"
import {
  ageTemporaryFiles,
  blobKeys,
  brokenPromises,
  type JobRecord,
  readRecords,
  type Records,
  temporaryFiles,
} from "./Records.ts"
import { noise, sha256Of } from "./speech.ts"

/** The state of a data directory after its process was killed. */
export interface Recovery {
  /** Jobs somebody was told are accepted. */
  readonly accepted: number
  /** Of those: unfinished when the process was killed, and ended now. */
  readonly recovered: number
  readonly lost: number
  readonly duplicated: number
  /** What else is not as promised, in words; the lost and the duplicated are here too. */
  readonly violations: ReadonlyArray<string>
}

type Complain = (violation: string) => void

/** Checks what a killed process left, starts an engine over it, lets everything end, and checks again. */
export const recover = async (directory: string, acks: ReadonlyArray<Ack>): Promise<Recovery> => {
  const violations: Array<string> = []
  const complain: Complain = (violation) => void violations.push(violation)
  const before = existsSync(databaseOf(directory)) ? readRecords(directory) : undefined
  if (before !== undefined) judgeWreck(directory, acks, before, complain)
  ageTemporaryFiles(directory)
  const engine = await openEngine(directory)
  const outcome = { lost: 0, duplicated: 0 }
  try {
    await Promise.all([
      ...said(acks, "asked").map((asked) => askAgain(engine, acks, asked, outcome, complain)),
      ...said(acks, "announced").map(({ upload }) => useUpload(engine, acks, upload as UploadId, complain)),
    ])
    await tidied(engine, directory).catch(() => complain("orphans, purges or temporary files stay"))
  } finally {
    await engine.stop()
  }
  judgeEnd(directory, acks, complain)
  const ids = new Set(said(acks, "accepted").map(({ id }) => id))
  const wasFinished = (before?.jobs ?? []).filter(({ id, status }) => ids.has(id) && isFinal(status)).length
  return {
    accepted: ids.size,
    recovered: ids.size - wasFinished - outcome.lost,
    ...outcome,
    violations,
  }
}

const isFinal = (status: string): boolean => status === "done" || status === "failed"

/** Straight after the kill: what was acknowledged is there, what was erased is not, and no row says more than there is. */
const judgeWreck = (directory: string, acks: ReadonlyArray<Ack>, records: Records, complain: Complain): void => {
  records.integrity.forEach(complain)
  brokenPromises(directory, records.blobs).forEach(complain)
  const byId = new Map(records.jobs.map((job) => [job.id, job]))
  for (const { id, key } of said(acks, "accepted"))
    if (byId.get(id)?.idempotency_key !== key) complain(`${id} was accepted and is lost`)
  for (const { id, status } of said(acks, "finished"))
    if (byId.get(id)?.status !== status) complain(`${id} was ${status} and is ${String(byId.get(id)?.status)}`)
  const byOwner = new Map(records.blobs.map((blob) => [blob.owner, blob]))
  const erasedJobs = new Set(said(acks, "erased").map(({ id }) => id))
  for (const { bytes, sha256, upload } of said(acks, "received")) {
    const isErased = said(acks, "asked").some(
      ({ key, request }) => request["uploadId"] === upload && mayBeErased(acks, key),
    )
    const blob = byOwner.get(upload)
    if (blob === undefined ? !isErased : blob.sha256 !== sha256 || blob.bytes !== bytes)
      complain(`${upload} was received and is lost`)
  }
  const blobs = blobKeys(directory).join("\n")
  for (const id of erasedJobs)
    if (byId.get(id)?.retained !== "deleted" || byOwner.has(id) || blobs.includes(bodyOf(id)))
      complain(`${id} was erased and is still there`)
}

const bodyOf = (id: string): string => id.slice(4)

/** From a job's end on an erasure may be under way that nobody was told of. */
const mayBeErased = (acks: ReadonlyArray<Ack>, key: string): boolean => {
  const id = said(acks, "accepted").find((ack) => ack.key === key)?.id
  return said(acks, "finished").some((ack) => ack.id === id)
}

/** Sends a request again under its key, as its client would, and waits for the end of that job. */
const askAgain = async (
  engine: EmbeddedEngine<BuiltInKind>,
  acks: ReadonlyArray<Ack>,
  { key, kind, mode, request }: Extract<Ack, { say: "asked" }>,
  outcome: { lost: number; duplicated: number },
  complain: Complain,
): Promise<void> => {
  const known = said(acks, "accepted").find((ack) => ack.key === key)?.id
  try {
    const job = await engine.submit(kind as BuiltInKind["name"], request as InputOf<BuiltInKind>, {
      idempotencyKey: key,
      mode,
    })
    if (known !== undefined && job.id !== known) {
      outcome.duplicated += 1
      complain(`${known} was asked for again and is now ${job.id}`)
    }
    const ended = await engine.wait(job.id, { signal: AbortSignal.timeout(120_000) })
    const expected = key.startsWith("fail-") ? "failed" : "done"
    if (ended.status !== expected) complain(`${job.id} (${key}) ended ${ended.status}`)
    await judgeFiles(engine, acks, job.id, complain)
  } catch (error) {
    if (known !== undefined) outcome.lost += 1
    complain(`${known ?? key} does not end: ${String(error)}`)
  }
}

const judgeFiles = async (
  engine: EmbeddedEngine<BuiltInKind>,
  acks: ReadonlyArray<Ack>,
  id: string,
  complain: Complain,
) => {
  const job = await engine.get(id)
  const isGone = job.status !== "done" || job.output === null
  if (said(acks, "erased").some((ack) => ack.id === id)) return isGone ? undefined : complain(`${id} is back`)
  if (isGone) return
  for (const file of said(acks, "finished").flatMap((ack) => (ack.id === id ? ack.files : []))) {
    const bytes = await engine.readFile({ id: file.id })
    if (sha256Of(bytes) !== file.sha256) complain(`${file.id} of ${id} has other bytes`)
  }
}

/** An upload that nothing used yet must be good for a job; one whose transfer was cut off takes another. */
const useUpload = async (
  engine: EmbeddedEngine<BuiltInKind>,
  acks: ReadonlyArray<Ack>,
  upload: UploadId,
  complain: Complain,
): Promise<void> => {
  if (said(acks, "asked").some(({ request }) => request["uploadId"] === upload)) return
  try {
    if (!said(acks, "received").some((ack) => ack.upload === upload)) await receiveAgain(engine, upload)
    const ended = await engine.submitAndWait(
      "transcription",
      { uploadId: upload },
      { signal: AbortSignal.timeout(120_000) },
    )
    if (ended.status !== "done") complain(`a job over ${upload} ended ${ended.status}`)
  } catch (error) {
    complain(`${upload} is of no use: ${String(error)}`)
  }
}

const codeOf = (error: unknown): unknown => (error instanceof KilnError ? error.code : undefined)

const receiveAgain = (engine: EmbeddedEngine<BuiltInKind>, upload: UploadId): Promise<true> =>
  until(() =>
    engine.receiveUpload(upload, "audio/wav", noise(7, 1)).then(
      () => true as const,
      (error: unknown) => {
        if (codeOf(error) === "upload_already_completed") return true as const
        // The killed process's claim ends with its lease.
        if (codeOf(error) === "upload_in_progress") return undefined
        throw error
      },
    ),
  )

/**
 * Waits for the sweeps: until nothing is to be purged, and no blob was removed for six of their pauses, because a sweep on a busy
 * machine takes longer than its pause. Which keys rows name is asked of the store itself, at the end.
 */
const tidied = (engine: EmbeddedEngine<BuiltInKind>, directory: string): Promise<true> => {
  const { listPurges } = Context.get(embeddedContext(engine), JobStore)
  let quiet = 0
  let last = ""
  return until(async () => {
    const now = [...blobKeys(directory), ...temporaryFiles(directory)].join()
    quiet = now === last && (await Effect.runPromise(listPurges(1))).length === 0 ? quiet + 1 : 0
    last = now
    return quiet >= 60 && temporaryFiles(directory).length === 0 ? true : undefined
  }, 120_000)
}

const judgeEnd = (directory: string, acks: ReadonlyArray<Ack>, complain: Complain): void => {
  const records = readRecords(directory)
  if (records === undefined) return complain("there is no schema")
  records.integrity.forEach(complain)
  brokenPromises(directory, records.blobs).forEach(complain)
  const named = new Set(records.blobs.map(({ blob_key }) => blob_key))
  for (const key of blobKeys(directory)) if (!named.has(key)) complain(`${key} is an orphan that stays`)
  for (const prefix of records.purges) complain(`${prefix} is still to be purged`)
  for (const path of temporaryFiles(directory)) complain(`${path} stays`)
  for (const job of records.jobs) judgeJob(job, records, complain)
  const keys = new Set(said(acks, "asked").map(({ key }) => key))
  const unexpected = records.jobs.filter((job) => !keys.has(job.idempotency_key) && job.kind !== "transcription")
  for (const { id } of unexpected) complain(`${id} was never asked for`)
  const content = readFileSync(join(databaseOf(directory))).toString("latin1")
  for (const { id } of said(acks, "erased")) {
    const key = records.jobs.find((job) => job.id === id)?.idempotency_key ?? ""
    if (content.includes(`canary ${key}`)) complain(`the text of ${id} is still in the database`)
  }
}

const judgeJob = (job: JobRecord, { charged }: Records, complain: Complain): void => {
  if (!isFinal(job.status)) complain(`${job.id} is ${job.status}`)
  if (job.status === "done" && job.attempts !== job.lost_workers + 1)
    complain(`${job.id} took ${job.attempts} attempts and lost ${job.lost_workers} workers`)
  const charges = charged.filter((id) => id === job.id).length
  if (charges !== (job.mode === "live" && job.status === "done" ? 1 : 0)) complain(`${job.id} has ${charges} charges`)
}
