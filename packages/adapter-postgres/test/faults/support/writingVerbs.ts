import { Effect } from "effect"
import type { Claim, ClaimRequest } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import type { OpenStores } from "./openStores.ts"

const {
  completionOf,
  digest,
  jobId,
  keyId,
  leaseDurationMs,
  maxTransfers,
  newApiKey,
  newJob,
  newUpload,
  noLimits,
  outputFile,
  ownerOf,
  projectId,
  queueLimitMs,
  transferWindowMs,
  uploadedFile,
  uploadId,
  usableForMs,
} = fixtures

/** What a verb is tried with: stores, and their clock. */
export interface Bench {
  readonly stores: OpenStores
  /** Milliseconds of store time go by. */
  readonly advance: (ms: number) => Promise<void>
}

/** One verb that writes: what must be there for it, and the call itself, which must be one transaction. */
export interface WritingVerb {
  readonly name: string
  /** The statement that commits, where it is not COMMIT. */
  readonly commit?: RegExp
  readonly run: (bench: Bench) => Promise<() => Effect.Effect<unknown, unknown>>
}

export const claimRequest: ClaimRequest = {
  runnable: (["sandbox", "live"] as const).map((mode) => ({ kind: "speech_synthesis", kindVersion: 1, mode })),
  limits: noLimits,
  limit: 2,
  leaseDurationMs,
  maxLostWorkers: 3,
}

const promise = Effect.runPromise

/** Three jobs, live ones with odd numbers. */
const create = (stores: OpenStores) =>
  promise(stores.jobs.createJobs([1, 2, 3].map((n) => newJob(n, { mode: n % 2 === 1 ? "live" : "sandbox" }))))

const claimed = async (stores: OpenStores): Promise<ReadonlyArray<Claim>> => {
  await create(stores)
  return (await promise(stores.jobs.claimJobs(claimRequest))).claims
}

const completions = (claims: ReadonlyArray<Claim>) =>
  claims.map((claim, n) => completionOf(claim, { files: [outputFile(claim, n)] }))

const finished = async ({ advance, stores }: Bench): Promise<ReadonlyArray<Claim>> => {
  const claims = await claimed(stores)
  await promise(stores.jobs.completeJobs(completions(claims)))
  await advance(1_000)
  return claims
}

const refs = (claims: ReadonlyArray<Claim>) => claims.map(({ job, token }) => ({ jobId: job.id, token }))

/** Upload 1 under transfer. */
const transfer = async ({ stores }: Bench) => {
  await promise(stores.uploads.createUploads([newUpload(1)]))
  const outcome = await promise(stores.uploads.claimUpload({ uploadId: uploadId(1), leaseDurationMs, maxTransfers }))
  if (outcome._tag !== "Claimed") throw new Error(`a new upload is ${outcome._tag}`)
  return { uploadId: uploadId(1), token: outcome.token }
}

const jobVerbs: ReadonlyArray<WritingVerb> = [
  {
    name: "createJobs",
    run: async ({ stores }) => {
      await create(stores)
      return () => stores.jobs.createJobs([newJob(4), newJob(2, { fingerprint: digest(99) }), newJob(5)])
    },
  },
  {
    name: "claimJobs",
    commit: /take_jobs/,
    run: async ({ stores }) => {
      await create(stores)
      return () => stores.jobs.claimJobs(claimRequest)
    },
  },
  {
    name: "createAndClaimJobs",
    commit: /take_jobs/,
    run: async ({ stores }) => {
      await create(stores)
      return () => stores.jobs.createAndClaimJobs([newJob(4)], claimRequest)
    },
  },
  {
    name: "claimJobs, under limits",
    commit: /take_jobs/,
    run: async ({ advance, stores }) => {
      await claimed(stores)
      await advance(leaseDurationMs)
      return () => stores.jobs.claimJobs({ ...claimRequest, limits: { perKind: {}, perProject: 2 } })
    },
  },
  {
    name: "claimJobs, of lost workers",
    run: async ({ advance, stores }) => {
      await claimed(stores)
      await advance(leaseDurationMs)
      return () => stores.jobs.claimJobs({ ...claimRequest, maxLostWorkers: 1 })
    },
  },
  {
    name: "extendLeases",
    run: async ({ advance, stores }) => {
      const claims = await claimed(stores)
      await advance(1_000)
      return () => stores.jobs.extendLeases(refs(claims).map((ref) => ({ ...ref, leaseDurationMs })))
    },
  },
  {
    name: "checkpointJobs",
    commit: /checkpoints/,
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      return () => stores.jobs.checkpointJobs(refs(claims).map((ref) => ({ ...ref, step: "heard", value: "a word" })))
    },
  },
  {
    name: "appendChunks",
    commit: /chunks/,
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      const items = refs(claims).map((ref) => ({ ...ref, attempt: 1, first: 0, values: ["a", "b"] }))
      return () => stores.jobs.appendChunks(items)
    },
  },
  {
    name: "completeJobs",
    commit: /end_jobs/,
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      return () => stores.jobs.completeJobs(completions(claims))
    },
  },
  {
    name: "completeAndClaimJobs",
    commit: /end_jobs/,
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      return () => stores.jobs.completeAndClaimJobs(completions(claims), claimRequest)
    },
  },
  {
    name: "failJobs",
    commit: /end_jobs/,
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      return () => stores.jobs.failJobs(refs(claims).map((ref) => ({ ...ref, errorCode: "content_rejected" })))
    },
  },
  {
    name: "cancelJobs",
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      return () => stores.jobs.cancelJobs(claims.map(({ job }) => job.id))
    },
  },
  {
    name: "rescheduleJobs",
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      await promise(stores.jobs.releaseJobs(claims.map(({ job, token }) => ({ jobId: job.id, token }))))
      return () => stores.jobs.rescheduleJobs(claims.map(({ job }) => ({ jobId: job.id, delayMs: 60_000 })))
    },
  },
  {
    name: "createJobs: a retry",
    run: async ({ stores }) => {
      const [failing] = await claimed(stores)
      if (failing === undefined) throw new Error("nothing was claimed")
      const { job, token } = failing
      await promise(stores.jobs.failJobs([{ jobId: job.id, token, errorCode: "content_rejected" }]))
      return () => stores.jobs.createJobs([newJob(50, { mode: job.mode, retryOf: job.id })])
    },
  },
  {
    name: "deferJobs",
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      return () => stores.jobs.deferJobs(refs(claims).map((ref) => ({ ...ref, delayMs: 5_000, countsAsFailure: true })))
    },
  },
  {
    name: "releaseJobs",
    run: async ({ stores }) => {
      const claims = await claimed(stores)
      return () => stores.jobs.releaseJobs(refs(claims))
    },
  },
  {
    name: "expireJobs",
    run: async ({ advance, stores }) => {
      await create(stores)
      await advance(queueLimitMs)
      return () => stores.jobs.expireJobs(2)
    },
  },
  {
    name: "eraseJobs",
    run: async (bench) => {
      const claims = await finished(bench)
      return () => bench.stores.jobs.eraseJobs(claims.map(({ job }) => ({ jobId: job.id, principal: ownerOf(job) })))
    },
  },
  {
    name: "expireData",
    run: async (bench) => {
      await finished(bench)
      return () => bench.stores.jobs.expireData(1_000, 10)
    },
  },
  {
    name: "deleteJobs",
    run: async (bench) => {
      await finished(bench)
      return () => bench.stores.jobs.deleteJobs(1_000, 10)
    },
  },
  {
    name: "postponePurges",
    run: async (bench) => {
      await finished(bench)
      const { purges } = await promise(bench.stores.jobs.expireData(1_000, 10))
      return () => bench.stores.jobs.postponePurges(purges.slice(0, 1))
    },
  },
  {
    name: "confirmPurges",
    run: async (bench) => {
      await finished(bench)
      const { purges } = await promise(bench.stores.jobs.expireData(1_000, 10))
      return () => bench.stores.jobs.confirmPurges(purges.slice(0, 1))
    },
  },
]

const uploadVerbs: ReadonlyArray<WritingVerb> = [
  {
    name: "createUploads",
    run:
      async ({ stores }) =>
      () =>
        stores.uploads.createUploads([newUpload(1), newUpload(2)]),
  },
  {
    name: "claimUpload",
    run: async ({ stores }) => {
      await promise(stores.uploads.createUploads([newUpload(1)]))
      return () => stores.uploads.claimUpload({ uploadId: uploadId(1), leaseDurationMs, maxTransfers })
    },
  },
  {
    name: "extendUpload",
    run: async (bench) => {
      const ref = await transfer(bench)
      await bench.advance(1_000)
      return () => bench.stores.uploads.extendUpload({ ...ref, leaseDurationMs })
    },
  },
  {
    name: "completeUpload",
    run: async (bench) => {
      const ref = await transfer(bench)
      return () => bench.stores.uploads.completeUpload({ ...ref, file: uploadedFile(ref.uploadId, ref.token) })
    },
  },
  {
    name: "releaseUpload",
    run: async (bench) => {
      const ref = await transfer(bench)
      return () => bench.stores.uploads.releaseUpload(ref)
    },
  },
  {
    name: "expireUploads",
    run: async (bench) => {
      await transfer(bench)
      await bench.advance(transferWindowMs + usableForMs)
      return () => bench.stores.uploads.expireUploads(10)
    },
  },
  {
    name: "deleteUploads",
    run: async (bench) => {
      await transfer(bench)
      await bench.advance(transferWindowMs + usableForMs)
      await promise(bench.stores.uploads.expireUploads(10))
      return () => bench.stores.uploads.deleteUploads(1_000, 10)
    },
  },
]

const otherVerbs: ReadonlyArray<WritingVerb> = [
  {
    name: "createProject",
    run:
      async ({ stores }) =>
      () =>
        stores.keys.createProject({ id: projectId(1), name: "one" }),
  },
  {
    name: "createFirstKey",
    run:
      async ({ stores }) =>
      () =>
        stores.keys.createFirstKey({ id: projectId(1), name: "one" }, newApiKey(1)),
  },
  {
    name: "revokeKey",
    run: async ({ stores }) => {
      await promise(stores.keys.createFirstKey({ id: projectId(1), name: "one" }, newApiKey(1)))
      return () => stores.keys.revokeKey(keyId(1))
    },
  },
  {
    name: "setPrice",
    run:
      async ({ stores }) =>
      () =>
        stores.board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.001" } }),
  },
  {
    name: "pauseKind",
    run:
      async ({ stores }) =>
      () =>
        stores.board.pauseKind("voice_turn", true),
  },
  {
    name: "limitProject",
    run:
      async ({ stores }) =>
      () =>
        stores.board.limitProject(projectId(1), 3),
  },
  {
    name: "setSwitch",
    run:
      async ({ stores }) =>
      () =>
        stores.board.setSwitch("ai", true),
  },
  {
    name: "removeSecret",
    run: async ({ stores }) => {
      await promise(stores.secrets.getOrCreate("signing", Uint8Array.of(1)))
      return () => stores.secrets.remove("signing")
    },
  },
]

/** Every verb of jobs and uploads that writes, and some of the others. */
export const writingVerbs: ReadonlyArray<WritingVerb> = [...jobVerbs, ...uploadVerbs, ...otherVerbs]

export const findJob = (stores: OpenStores, n: number) =>
  promise(stores.jobs.findJobs([{ jobId: jobId(n), principal: ownerOf(newJob(n)) }])).then(([job]) => job)
