import { hidden, plant } from "./PlantedBug.ts"

/** In accepting jobs. */
export const acceptance = [
  plant("domain/acceptance.ts", "JobStore.createJobs: idempotency", "a reused key replays another request's job", [
    "existing.fingerprint === fingerprint ?",
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
      ["import { cancelJobs }", 'import { Effect } from "effect"\nimport { cancelJobs }'],
    ),
  ),
  hidden(
    plant("jobs/createJobs.ts", "JobStore.createJobs: unique jobs", "a job does not take its scope", [
      "if (item.unique !== undefined) state.scopes.set(item.unique.scope, job.id)",
      "",
    ]),
  ),
  hidden(
    plant("jobs/createJobs.ts", "JobStore.createJobs: unique jobs", "a retry leaves the scope to the failed job", [
      "if (holder === retryOf)",
      "if (false)",
    ]),
  ),
  hidden(
    plant("domain/acceptance.ts", "JobStore.createJobs: unique jobs", "a running job no longer has its scope", [
      '(unique.while === "unfinished" && status === "processing")',
      "false",
    ]),
  ),
  plant("domain/acceptance.ts", "JobStore.createJobs: gate", "forced-off switches are ignored", [
    "withForcedOff(facts.board(), job.forcedOff)",
    "withForcedOff(facts.board(), [])",
  ]),
  plant("domain/acceptance.ts", "JobStore.createJobs: gate", "the price is not kept with the job", [
    "  price,\n",
    "  price: null,\n",
  ]),
  plant(
    "MemorySwitchboard.ts",
    "Switchboard.publishWorker",
    "a worker's published kinds count a millisecond too long",
    ["now < worker.until", "now <= worker.until"],
  ),
  plant("domain/acceptance.ts", "JobStore.createJobs: gate", "a price may lack a meter of the job's kind", [
    "missingPrerequisites(job.gate,",
    "missingPrerequisites({ ...job.gate, meters: [] },",
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
  plant("domain/Access.ts", "JobStore.createJobs: upload", "another key's upload may be used", [
    "record.keyId === principal.keyId && ",
    "",
  ]),
  plant("domain/acceptance.ts", "JobStore.createJobs: upload", "an upload in transfer counts as ready", [
    'return upload === undefined ? "not_found" : uploadRefusal(upload, facts.now, maxTransfers)',
    'const refusal = upload === undefined ? "not_found" : uploadRefusal(upload, facts.now, maxTransfers); return refusal === "not_ready" ? undefined : refusal',
  ]),
  plant("domain/acceptance.ts", "JobStore.createJobs: queue cap", "the queue cap admits one job too many", [
    ">= job.queueCap",
    "> job.queueCap",
  ]),
  plant("MemoryState.ts", "JobStore.createJobs: queue cap", "finished jobs keep their place in the queue cap", [
    "(state.unfinishedByProject.get(job.projectId) ?? 1) - 1",
    "(state.unfinishedByProject.get(job.projectId) ?? 1) - 0",
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: spend cap", "what a job may cost is not reserved", [
    "state.reservations.set(id, { owners, currency: price.currency, amount })",
    ";",
  ]),
  plant("MemoryState.ts", "JobStore: reservations under spend caps", "a reservation outlives its job", [
    "state.reservations.delete(job.id)",
    ";",
  ]),
  plant("MemoryState.ts", "JobStore: reservations under spend caps", "a reservation ends with an attempt", [
    "  if (finishes) {",
    "  if (before?.held === true && !job.held) state.reservations.delete(job.id)\n  if (finishes) {",
  ]),
  plant("jobs/createJobs.ts", "JobStore.createJobs: spend cap", "what was spent is read before the transaction", [
    "[item.keyId, item.projectId].flatMap((owner) => readSpending(state, owner, now) ?? [])",
    '[item.keyId, item.projectId].flatMap((owner) => { const spending = readSpending(state, owner, now); return spending === undefined ? [] : [{ ...spending, reserved: [...state.jobs.values()].some(({ createdAt }) => createdAt === now) ? "0" : spending.reserved }] })',
  ]),
  plant(
    "spending.ts",
    "JobStore: reservations under spend caps",
    "what deleted jobs have cost is forgotten",
    [".filter(({ keyId, projectId }) =>", ".filter(({ jobId, keyId, projectId }) => state.jobs.has(jobId) && ("],
    ["keyId === owner || projectId === owner)", "keyId === owner || projectId === owner))"],
  ),
  hidden(
    plant("MemoryState.ts", "JobStore.createJobs", "the store keeps its caller's object", [
      "freeze(structuredClone(value))",
      "value",
    ]),
  ),
]
