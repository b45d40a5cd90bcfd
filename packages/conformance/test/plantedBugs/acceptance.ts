import { hidden, plant } from "./PlantedBug.ts"

/** In accepting jobs. */
export const acceptance = [
  plant("jobs/createJobs.ts", "JobStore.createJobs: idempotency", "a reused key replays another request's job", [
    "existing.fingerprint === item.fingerprint ?",
    "true ?",
  ]),
  plant("MemoryState.ts", "JobStore.createJobs: idempotency", "idempotency keys are shared by all API keys", [
    "`${keyId} ${idempotencyKey}`",
    "idempotencyKey",
  ]),
  hidden(
    plant(
      "MemoryJobStore.ts",
      "JobStore.createJobs: idempotency",
      "idempotency is checked first and written later",
      [
        "createJobs: (jobs) => step((now) => createJobs(state, jobs, now)),",
        `createJobs: (jobs) => Effect.gen(function* () {
        const seen = jobs.some((job) => findByIdempotencyKey(state, job.keyId, job.idempotencyKey) !== undefined)
        yield* Effect.yieldNow
        return yield* step((now) => createJobs(seen || jobs.length > 1 ? state : { ...state, jobByIdempotencyKey: new Map() }, jobs, now))
      }),`,
      ],
      ["import { type FileId", 'import { Effect } from "effect"\nimport { type FileId'],
    ),
  ),
  plant("jobs/createJobs.ts", "JobStore.createJobs: gate", "forced-off switches are ignored", [
    "withForcedOff(board, item.forcedOff)",
    "withForcedOff(board, [])",
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: gate", "the price is not kept with the job", [
    "price: price === null ? null : keep(price),",
    "price: null,",
  ]),
  plant("MemorySwitchboard.ts", "Switchboard.publishWorker", "a worker's word counts a millisecond too long", [
    "now < worker.until",
    "now <= worker.until",
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: gate", "a price may lack a meter of the job's kind", [
    "missingPrerequisites(item.gate,",
    "missingPrerequisites({ ...item.gate, meters: [] },",
  ]),
  plant("MemorySwitchboard.ts", "JobStore.createJobs: gate", "a worker that stopped is forgotten at once", [
    "lastServedAt: Object.fromEntries(state.servedKinds)",
    "lastServedAt: {}",
  ]),
  plant("MemorySwitchboard.ts", "Switchboard.publishWorker", "a worker that stops leaves an old time behind", [
    "ttlMs > 0 ? now - lastServedStepMs : now",
    "now - lastServedStepMs",
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: upload", "an upload is not consumed", [
    "{ ...upload, jobId: job.id }",
    "upload",
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: upload", "another key's upload may be used", [
    "record.keyId === item.keyId && ",
    "",
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: upload", "an upload in transfer counts as ready", [
    "return uploadRefusal(upload, now, item.maxTransfers)",
    'const refusal = uploadRefusal(upload, now, item.maxTransfers); return refusal === "not_ready" ? undefined : refusal',
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: queue cap", "the queue cap lets one too many in", [
    ">= item.queueCap",
    "> item.queueCap",
  ]),
  plant("MemoryState.ts", "JobStore.createJobs: queue cap", "finished jobs keep their place in the queue cap", [
    "(state.unfinishedByProject.get(job.projectId) ?? 1) - 1",
    "(state.unfinishedByProject.get(job.projectId) ?? 1) - 0",
  ]),
  hidden(
    plant("MemoryState.ts", "JobStore.createJobs", "the store keeps its caller's object", [
      "freeze(structuredClone(value))",
      "value",
    ]),
  ),
]
