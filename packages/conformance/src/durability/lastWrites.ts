import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Job } from "@kiln/core/domain"
import { withDelivery } from "@kiln/core/rules"
import {
  type ClaimRequest,
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  ScheduleStore,
  SecretStore,
  type StorePortName,
  Switchboard,
  UploadStore,
  type WriteVerb,
} from "@kiln/core/ports"
import { advance, claim, claimRequest, create, createAndClaim, first, openAudioGate } from "../arrange.ts"
import type { PlaceCheck } from "../capabilities.ts"
import type { Stores } from "../Check.ts"
import {
  audioGate,
  completionOf,
  digest,
  jobId,
  keyId,
  leaseDurationMs,
  maxTransfers,
  newApiKey,
  newJob,
  newLiveJob,
  newUpload,
  ownerOf,
  projectId,
  record,
  standings,
  uploadedFile,
  uploadId,
} from "../fixtures.ts"

type Step = Effect.Effect<unknown, unknown, Stores>
type Steps = { readonly [Port in StorePortName as WriteVerb<Port> extends never ? never : Port]: StepsOf<Port> }
// No verb reads how far the ledger was closed: listCharges has a check of its own below.
type StepsOf<Port extends StorePortName> = { readonly [Verb in Exclude<WriteVerb<Port>, "listCharges">]: Step }

/** The claim of a job, as its record shows it. */
const held = Effect.fnUntraced(function* (n: number) {
  const directory = yield* JobDirectory
  const job: Job | undefined = first(yield* directory.readJobs([jobId(n)]))
  if (job === undefined) throw new Error(`${jobId(n)} does not exist`)
  return { job, jobId: job.id, token: job.token }
})

const onJobs = <A>(use: (store: JobStore["Service"]) => Effect.Effect<A, unknown, Stores>) =>
  Effect.flatMap(JobStore, use)
const onUploads = <A>(use: (store: UploadStore["Service"]) => Effect.Effect<A, unknown, Stores>) =>
  Effect.flatMap(UploadStore, use)
const onKeys = <A>(use: (keys: KeyDirectory["Service"]) => Effect.Effect<A, unknown, Stores>) =>
  Effect.flatMap(KeyDirectory, use)
const onBoard = <A>(use: (board: Switchboard["Service"]) => Effect.Effect<A, unknown, Stores>) =>
  Effect.flatMap(Switchboard, use)

const imageRequest: ClaimRequest = {
  ...claimRequest,
  runnable: [{ kind: "image_generation", kindVersion: 1, mode: "sandbox" }],
}
const transfer = { uploadId: uploadId(1), token: 1 }

/** Each writing verb as the last step before closing. Each step starts from the state that the previous ones left. */
const steps: Steps = {
  KeyDirectory: {
    createFirstKey: onKeys((keys) => keys.createFirstKey({ id: projectId(1), name: "default" }, newApiKey(1))),
    createProject: onKeys((keys) => keys.createProject({ id: projectId(2), name: "two" })),
    disableProject: onKeys((keys) => keys.disableProject(projectId(2), true)),
    createKey: onKeys((keys) => keys.createKey(newApiKey(2, { expiresAt: 0 }))),
    limitKey: onKeys((keys) => keys.limitKey(keyId(2), { read: { perMinute: 0, burst: 0 } })),
    revokeKey: onKeys((keys) => keys.revokeKey(keyId(2))),
    rotateKey: onKeys((keys) => keys.rotateKey({ keyId: keyId(1), secretHash: digest(11), overlapMs: 60_000 })),
    pruneKeys: onKeys((keys) => keys.pruneKeys(projectId(1), 0)),
    touchKeys: onKeys((keys) => keys.touchKeys([{ keyId: keyId(1), usedAt: 7 }])),
  },
  Switchboard: {
    pauseKind: onBoard((board) => board.pauseKind("image_generation", true)),
    limitProject: onBoard((board) => board.limitProject(projectId(1), 3)),
    setSwitch: onBoard((board) => board.setSwitch("ai", true)),
    setPrice: onBoard((board) => board.setPrice({ name: audioGate.price, currency: "usd", unitAmounts: {} })),
    activatePrice: onBoard((board) => board.activatePrice(audioGate.price, true)),
    setSpendCap: onBoard((board) => board.setSpendCap(projectId(1), { currency: "usd", day: "1", month: "9" })),
    publishWorker: onBoard((board) =>
      board.publishWorker({ workerId: "w", liveKinds: [], providers: standings, ttlMs: 86_400_000 }),
    ),
  },
  UploadStore: {
    createUploads: onUploads((uploads) =>
      uploads.createUploads([newUpload(1), newUpload(2), newUpload(3, { usableForMs: 0 })]),
    ),
    claimUpload: onUploads((uploads) =>
      uploads.claimUpload({ uploadId: uploadId(1), leaseDurationMs: 1_000, maxTransfers }),
    ),
    extendUpload: onUploads((uploads) => uploads.extendUpload({ ...transfer, leaseDurationMs })),
    completeUpload: onUploads((uploads) =>
      uploads.completeUpload({ ...transfer, file: uploadedFile(transfer.uploadId, transfer.token) }),
    ),
    releaseUpload: onUploads((uploads) =>
      Effect.andThen(
        uploads.claimUpload({ uploadId: uploadId(2), leaseDurationMs, maxTransfers }),
        uploads.releaseUpload({ uploadId: uploadId(2), token: 1 }),
      ),
    ),
    expireUploads: onUploads((uploads) => uploads.expireUploads(10)),
    deleteUploads: onUploads((uploads) => uploads.deleteUploads(0, 10)),
  },
  JobStore: {
    createJobs: onJobs((jobs) =>
      jobs.createJobs([
        ...[1, 2, 3, 4].map((n) => newJob(n)),
        // Of a kind that nobody runs.
        ...[5, 6].map((n) => newJob(n, { kind: "unknown", limits: { queueLimitMs: 1_000 * n, runLimitMs: 1 } })),
      ]),
    ),
    createAndClaimJobs: onJobs((jobs) =>
      jobs.createAndClaimJobs([newJob(7, { kind: "image_generation" })], imageRequest),
    ),
    claimJobs: claim(),
    extendLeases: Effect.flatMap(held(1), (ref) =>
      onJobs((jobs) => jobs.extendLeases([{ ...ref, leaseDurationMs: 2 * leaseDurationMs }])),
    ),
    signalJobs: onJobs((jobs) => jobs.signalJobs([{ jobId: jobId(5), name: "approved", value: { by: "é😀" } }])),
    checkpointJobs: Effect.flatMap(held(1), (ref) =>
      onJobs((jobs) => jobs.checkpointJobs([{ ...ref, step: "reply", value: { text: "é😀" } }])),
    ),
    appendChunks: Effect.flatMap(held(1), (ref) =>
      onJobs((jobs) => jobs.appendChunks([{ ...ref, attempt: 1, first: 0, values: ["é😀"] }])),
    ),
    completeJobs: Effect.flatMap(held(1), (ref) => onJobs((jobs) => jobs.completeJobs([completionOf(ref)]))),
    completeAndClaimJobs: Effect.gen(function* () {
      const jobs = yield* JobStore
      // Unless the creation has claimed it.
      yield* jobs.claimJobs(imageRequest)
      return yield* jobs.completeAndClaimJobs([completionOf(yield* held(7))], claimRequest)
    }),
    failJobs: Effect.flatMap(held(2), (ref) =>
      onJobs((jobs) => jobs.failJobs([{ ...ref, errorCode: "content_rejected", record }])),
    ),
    deferJobs: Effect.flatMap(held(3), (ref) =>
      onJobs((jobs) => jobs.deferJobs([{ ...ref, delayMs: 1_000, countsAsFailure: true, record, wait }])),
    ),
    releaseJobs: Effect.flatMap(held(4), (ref) => onJobs((jobs) => jobs.releaseJobs([ref]))),
    rescheduleJobs: onJobs((jobs) => jobs.rescheduleJobs([{ jobId: jobId(5), delayMs: 60_000, priority: "high" }])),
    cancelJobs: onJobs((jobs) => jobs.cancelJobs([jobId(5)])),
    expireJobs: Effect.andThen(
      advance(6_000),
      onJobs((jobs) => jobs.expireJobs(10)),
    ),
    eraseJobs: onJobs((jobs) => jobs.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])),
    expireData: onJobs((jobs) => jobs.expireData(0, 10)),
    publishRetention: onJobs((jobs) =>
      jobs.publishRetention({
        publisher: "p",
        program: "a",
        rules: [{ kind: "transcription", dataMs: 1, jobsMs: null }],
        ttlMs: 86_400_000,
        graceMs: 0,
      }),
    ),
    postponePurges: onJobs((jobs) => Effect.flatMap(jobs.listPurges(1), jobs.postponePurges)),
    hastenPurges: onJobs((jobs) => jobs.hastenPurges),
    confirmPurges: onJobs((jobs) => Effect.flatMap(jobs.listPurges(10), jobs.confirmPurges)),
    deleteJobs: onJobs((jobs) => jobs.deleteJobs(0, 10)),
    writeLineage: onJobs((jobs) => jobs.writeLineage(0, "{}")),
  },
  SecretStore: {
    getOrCreate: Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("signing", Uint8Array.of(1, 255))),
    replace: Effect.flatMap(SecretStore, (secrets) =>
      secrets.replace("signing", Uint8Array.of(1, 255), Uint8Array.of(2)),
    ),
    remove: Effect.flatMap(SecretStore, (secrets) => secrets.remove("signing")),
  },
  ScheduleStore: {
    writeSchedule: Effect.flatMap(ScheduleStore, (schedules) =>
      schedules.writeSchedule("nightly", 0, { nextAt: 7, document: "{}" }),
    ),
  },
  DeliveryStore: {
    claimDeliveries: Effect.gen(function* () {
      const job = newJob(90)
      yield* create({ ...job, metadata: withDelivery(job.metadata) })
      yield* onJobs((jobs) => jobs.cancelJobs([job.id]))
      const deliveries = yield* DeliveryStore
      return yield* deliveries.claimDeliveries({ kinds: [job.kind], limit: 1, leaseDurationMs })
    }),
    redeliver: Effect.flatMap(DeliveryStore, (deliveries) =>
      deliveries.redeliver([{ jobId: newJob(91).id, kind: newJob(91).kind }]),
    ),
    settleDeliveries: Effect.flatMap(DeliveryStore, (deliveries) =>
      deliveries.settleDeliveries([{ jobId: newJob(90).id, token: 1, retryInMs: 5, counts: true }]),
    ),
  },
}

const wait = { reason: "provider", subject: "speech", cause: "quota" } as const

/** Results of reading verbs: a verb that writes would save changes that the one before it left unsaved. */
const shown = Effect.gen(function* () {
  const [jobs, uploads, keys, board] = [yield* JobStore, yield* UploadStore, yield* KeyDirectory, yield* Switchboard]
  const directory = yield* JobDirectory
  const { document, version } = yield* jobs.readLineage
  return {
    lineage: { document, version },
    jobs: yield* directory.readJobs([1, 2, 3, 4, 5, 6, 7].map(jobId)),
    attempts: yield* Effect.forEach([1, 2, 3], (n) => directory.listAttempts(jobId(n))),
    waits: yield* directory.listWaits([jobId(3)]),
    signals: yield* (yield* JobStore).listSignals(jobId(5)),
    chunks: yield* jobs.readChunks([{ jobId: jobId(1), from: 0, limit: 9 }]),
    purges: yield* jobs.listPurges(10),
    duePurges: yield* jobs.nextPurges(10),
    retention: yield* jobs.readRetention,
    uploads: yield* Effect.forEach([1, 2, 3], (n) => uploads.findUpload(uploadId(n))),
    board: yield* board.readBoard,
    prices: yield* board.listPrices,
    spending: yield* board.listSpending,
    workers: yield* board.listWorkers,
    projects: yield* keys.listProjects,
    keys: yield* keys.listKeys,
    key: yield* keys.findKey(digest(1)),
    newSecret: yield* keys.identifyKey(digest(11)),
    schedules: (yield* (yield* ScheduleStore).listSchedules).schedules,
    deliveries: yield* (yield* DeliveryStore).listDeliveries(10),
  }
})

const shownSecret = Effect.flatMap(SecretStore, (secrets) => secrets.find("signing"))

const charge = { currency: "usd", amount: "0", lineItems: [] }

export const lastWriteChecks: ReadonlyArray<PlaceCheck<Stores>> = [
  {
    name: "after closing and reopening, the last write of any verb is there",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      let before: unknown = yield* session(shown)
      for (const [port, verbs] of Object.entries(steps))
        for (const [verb, step] of Object.entries<Step>(verbs)) {
          const look: Effect.Effect<unknown, unknown, Stores> = port === "SecretStore" ? shownSecret : shown
          const after = yield* session(Effect.andThen(step, look))
          expect(after, `${port}.${verb} changes something`).not.toEqual(before)
          expect(yield* session(look), `what ${port}.${verb} wrote`).toEqual(after)
          before = after
        }
    }),
  },
  {
    name: "after closing and reopening, no charge gets a time before an `until` that was returned earlier",
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      const list = onJobs((jobs) => jobs.listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 }))
      yield* session(Effect.andThen(openAudioGate, createAndClaim(newLiveJob(1))))
      const { until } = yield* session(list)
      yield* session(
        Effect.flatMap(held(1), (ref) => onJobs((jobs) => jobs.completeJobs([completionOf(ref, { charge })]))),
      )
      const { entries } = yield* session(list)
      expect(
        entries.map(({ chargedAt }) => chargedAt >= until),
        "what JobStore.listCharges wrote",
      ).toEqual([true])
    }),
  },
]
