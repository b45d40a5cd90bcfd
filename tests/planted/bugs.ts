import type { Edit } from "./Edit.ts"

/** A bug planted into shipped code, and the violation that the simulation must report. */
export interface PlantedBug {
  /** What the code does wrong. */
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** A seed that gets it into trouble, and the promise it breaks there, as the simulation names it. */
  readonly seed: number
  readonly breaks: string
}

const core = (path: string, from: string, to: string): Edit => ({ file: `packages/core/src/${path}`, from, to })
const memory = (path: string, from: string, to: string): Edit => ({
  file: `packages/testing/src/memory/${path}`,
  from,
  to,
})

/** One for each promise at the heart, and some more. */
export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "no fence: any worker that once claimed a job may write to it",
    edits: [core("domain/Lease.ts", " && job.token === token", "")],
    seed: 4,
    breaks: "fencing",
  },
  {
    bug: "a job is taken over by its id alone, whether or not its lease has ended",
    edits: [
      core(
        "domain/Lease.ts",
        "job.claimableAt !== null && job.claimableAt <= now && !isOverdue(job, now)",
        "job.claimableAt !== null",
      ),
    ],
    seed: 1,
    breaks: "only lost workers are counted",
  },
  {
    bug: "an upload is checked and claimed in two steps",
    edits: [
      core(
        "domain/Upload.ts",
        'upload.claimedUntil !== null && upload.claimedUntil > now\n        ? "in_progress"',
        'false\n        ? "in_progress"',
      ),
    ],
    seed: 3,
    breaks: "uploads",
  },
  {
    bug: "the row is committed before the blob is written",
    edits: [
      core(
        "worker/writeFile.ts",
        "Effect.retry(blobs.put(blobKey, content, { maxBytes }), {",
        `Effect.retry(Effect.as(Effect.forkDetach(Effect.andThen(Effect.sleep(50), blobs.put(blobKey, content, { maxBytes }))), { bytes: (data as Uint8Array).length, sha256: createHash("sha256").update(data as Uint8Array).digest("hex") }) as ReturnType<typeof blobs.put>, {`,
      ),
      core(
        "worker/writeFile.ts",
        'import * as Stream from "effect/Stream"',
        'import { createHash } from "node:crypto"\nimport * as Stream from "effect/Stream"',
      ),
    ],
    seed: 1,
    breaks: "blob first, row second",
  },
  {
    bug: "an erasure removes the blobs before it checks the record",
    edits: [
      core(
        "engine/eraseJobData.ts",
        "const store = yield* JobStore",
        "const store = yield* JobStore\n  yield* purgeBlobs([{ blobPrefix: `jobs/${jobId.slice(4)}` }])",
      ),
    ],
    seed: 1,
    breaks: "no committed row names a missing blob",
  },
  {
    bug: "an idempotency key is looked up before the job is inserted, without a constraint",
    edits: [
      core("domain/acceptance.ts", "if (existing !== undefined)", "if (false as boolean && existing !== undefined)"),
      core(
        "engine/createJob.ts",
        "            Effect.flatMap(store.createJobs([prepare(draft.success, traceIn(fiber))]), ([outcome]) =>\n              Effect.fromResult(acceptedOf(outcome)),\n            ),",
        "            Effect.flatMap(store.findByIdempotencyKey(asked.grant.keyId, asked.idempotencyKey), (known) => known !== undefined ? Effect.succeed({ job: known, replayed: true }) : Effect.flatMap(store.createJobs([prepare(draft.success)]), ([outcome]) => Effect.fromResult(acceptedOf(outcome)))),",
      ),
    ],
    seed: 1,
    breaks: "one job per idempotency key",
  },
  {
    bug: "a heartbeat that is told `LeaseLost` does not end the attempt",
    edits: [core("worker/Heartbeat.ts", "    else lease.lose()", "    else void lease")],
    seed: 64,
    breaks: "a worker stops when its lease is lost",
  },
  {
    bug: "a worker measures its lease with its own wall clock",
    edits: [
      core(
        "worker/LeaseWatch.ts",
        "  now(): number {",
        "  wallMs(): number {\n    return this.#clock.currentTimeMillisUnsafe()\n  }\n  now(): number {",
      ),
      core(
        "worker/startAttempts.ts",
        "new HeldLease({ jobId: job.id, token }, askedAtMs, leaseRemainingMs, leaseDurationMs)",
        "new HeldLease({ jobId: job.id, token }, askedAtMs, (job.claimableAt ?? 0) - slots.watch.wallMs() + 0 * leaseRemainingMs, leaseDurationMs)",
      ),
    ],
    seed: 17,
    breaks: "only lost workers are counted",
  },
  {
    bug: "orphans are found but never removed",
    edits: [
      core(
        "worker/collectOrphans.ts",
        "for (const key of survey.removable)",
        "for (const key of survey.removable.slice(survey.removable.length))",
      ),
    ],
    seed: 36,
    breaks: "no orphan stays forever",
  },
  {
    bug: "the sweep removes blobs that a live attempt may still commit",
    edits: [
      core(
        "domain/Orphan.ts",
        'return !job.finished && blob.token === job.token ? undefined : "spent"',
        'return "spent"',
      ),
    ],
    seed: 83,
    breaks: "blob first, row second",
  },
  {
    bug: "a copy of the store treats blobs without a record as orphans",
    edits: [
      core("worker/collectOrphans.ts", '  if (reason === "ahead") return false', "  if (reason) return true"),
      core("worker/lineage.ts", "if (unknown.length > 0)", "if (unknown.length > 1_000)"),
    ],
    seed: 14,
    breaks: "no committed row names a missing blob",
  },
  {
    bug: "the first process of a copy does not wait until others notice it",
    edits: [
      core("worker/collectOrphans.ts", '  if (reason === "ahead") return false', "  if (reason) return true"),
      core("worker/BlobGuard.ts", "joined.atMs >= checksBeforeRemoval * (yield* checkIntervalMs)", "joined.atMs >= 0"),
    ],
    seed: 58,
    breaks: "no committed row names a missing blob",
  },
  {
    bug: "a checkpoint is stored but never read",
    edits: [core("worker/AttemptContext.ts", "Object.hasOwn(checkpoints, name)", "(false as boolean)")],
    seed: 3,
    breaks: "a checkpointed step is not paid for again",
  },
  {
    bug: "a sandbox job is given the live providers",
    edits: [core("worker/AttemptContext.ts", "this.#services.providers[this.mode]", "this.#services.providers.live")],
    seed: 1,
    breaks: "a job reaches only providers of its mode",
  },
  {
    bug: "the gate is checked when a job is claimed, but not before its steps",
    edits: [
      core(
        "worker/AttemptContext.ts",
        "return Effect.andThen(this.#gateIsOpen, this.#holdsLease)",
        "return this.#holdsLease",
      ),
    ],
    seed: 4,
    breaks: "turning a switch off stops provider calls",
  },
  {
    bug: "a worker that was frozen calls a provider before it checks its lease",
    edits: [
      core(
        "worker/AttemptContext.ts",
        "return Effect.andThen(this.#gateIsOpen, this.#holdsLease)",
        "return this.#gateIsOpen",
      ),
    ],
    seed: 1304,
    breaks: "no provider call begins without a lease",
  },
  {
    bug: "a worker that stops does not release its jobs",
    edits: [
      core("worker/writeEnd.ts", 'return write(attempt, "releaseJobs", { jobId: job.id, token })', "return lapsed"),
    ],
    seed: 86,
    breaks: "only lost workers are counted",
  },
  {
    bug: "an outage of kiln's own store counts as a failure of the job",
    edits: [
      core(
        "worker/writeEnd.ts",
        "return defer(attempt, unavailableDelayMs(end.what, job.attempts, attempts, circuit))",
        'return write(attempt, "deferJobs", { ...attempt.lease, delayMs: unavailableDelayMs(end.what, job.attempts, attempts, circuit), countsAsFailure: true, record: undefined })',
      ),
    ],
    seed: 3,
    breaks: "only providers' failures count as failures",
  },
  {
    bug: "a transfer that got no answer removes its blob without checking whether it was committed",
    edits: [core("engine/receiveUpload.ts", 'if (outcome === "Written") yield* blobs.remove', "yield* blobs.remove")],
    seed: 439,
    breaks: "no committed row names a missing blob",
  },
  {
    bug: "an attempt that got no answer removes its blobs without checking whether they were committed",
    edits: [
      core(
        "worker/RunAttempt.ts",
        "yield* Effect.forEach(own, ({ blobKey })",
        "yield* Effect.forEach(own.length < 0 ? own : written.map((blobKey) => ({ blobKey })), ({ blobKey })",
      ),
    ],
    seed: 1,
    breaks: "no committed row names a missing blob",
  },
  {
    bug: "callers that share a commit get each other's answers",
    edits: [core("engine/GroupCommit.ts", "offset += entry.items.length", "offset += 0")],
    seed: 34,
    breaks: "no job is lost",
  },
  {
    bug: "a worker waits for wake-ups and never polls",
    edits: [core("worker/Idling.ts", "[wakes, looksSoon, Effect.sleep(ms)]", "[wakes, looksSoon]")],
    seed: 17,
    breaks: "everything ends",
  },
  {
    bug: "a file is served to any request with its key, regardless of the job's state",
    edits: [
      memory("MemoryJobStore.ts", 'file !== undefined && job.retained === "kept"', "file !== undefined"),
      memory("jobs/eraseJobs.ts", "    files: Object.freeze([]),\n", ""),
    ],
    seed: 1,
    breaks: "legal transitions",
  },
  {
    bug: "every key of a project can read its jobs",
    edits: [core("domain/Access.ts", " && record.keyId === principal.keyId", "")],
    seed: 1,
    breaks: "nobody else sees a job",
  },
  {
    bug: "the charge is computed from the attempts, not from the usage",
    edits: [
      core(
        "worker/checkResult.ts",
        "const chargeOf = ({ mode, price }: Job",
        "const chargeOf = ({ attempts, mode, price }: Job",
      ),
      core(
        "worker/checkResult.ts",
        "chargeFor(price, usage)",
        "chargeFor(price, { ...usage, input_characters: attempts })",
      ),
    ],
    seed: 1,
    breaks: "exactly one charge",
  },
  {
    bug: "the charge is written after the transaction that completes the job",
    edits: [
      memory(
        "jobs/fencedVerbs.ts",
        "  enterCharge(state, written)\n",
        "  setImmediate(() => enterCharge(state, written))\n",
      ),
    ],
    seed: 1,
    breaks: "exactly one charge",
  },
  {
    bug: "a provider that reports that it is broken is called again immediately",
    edits: [core("domain/Circuit.ts", 'return now < circuit.until ? "paused" : "one_call"', 'return "one_call"')],
    seed: 13,
    breaks: "a broken provider is not called during its pause",
  },
  {
    bug: "a broken provider counts as a failure of the job that called it",
    edits: [
      core(
        "worker/AttemptEnd.ts",
        '    case "ProviderBroken":\n',
        '    case "ProviderBroken":\n      if (error._tag === "ProviderBroken") return internal(true)\n',
      ),
    ],
    seed: 15,
    breaks: "only providers' failures count as failures",
  },
  {
    bug: "jobs that were claimed together all call a provider at the same time, regardless of its limit",
    edits: [core("providers/GuardedProvider.ts", "permits === undefined ? once : permits.withPermit(once)", "once")],
    seed: 18,
    breaks: "a provider gets no more concurrent calls than its limit",
  },
  {
    bug: "a job that waits for its next attempt is shown as queued again",
    edits: [
      core(
        "engine/getJob.ts",
        "Effect.succeed(job)",
        'Effect.succeed({ ...job, status: job.status === "processing" && !job.held ? "queued" : job.status })',
      ),
    ],
    seed: 3,
    breaks: "a status never goes backwards",
  },
  {
    bug: "a failed job counts as unfinished when its data is erased",
    edits: [
      memory(
        "jobs/eraseJobs.ts",
        'if (!isFinished(job)) return { _tag: "Unfinished" }',
        'if (job.status !== "done") return { _tag: "Unfinished" }',
      ),
    ],
    seed: 3,
    breaks: "a finished job never changes",
  },
  {
    bug: "a stored request without a voice is read with an empty voice",
    edits: [
      core(
        "worker/attemptWork.ts",
        "readStored(attempt.claim.job.request)",
        'readStored({ voice: "", ...attempt.claim.job.request })',
      ),
    ],
    seed: 1,
    breaks: "no internal error",
  },
  {
    bug: "a done job is reported as canceled",
    edits: [
      memory(
        "jobs/cancelJobs.ts",
        'if (failed === undefined) return "AlreadyFinished"',
        'if (failed === undefined) return "Canceled"',
      ),
    ],
    seed: 3,
    breaks: "a job is canceled when an operator says so",
  },
  {
    bug: "an overdue job is canceled",
    edits: [
      memory(
        "jobs/expireJobs.ts",
        "overdueEvent(job, now), now)",
        'overdueEvent(job, now).event === "lost" ? overdueEvent(job, now) : { event: "canceled" }, now)',
      ),
    ],
    seed: 4,
    breaks: "legal transitions",
  },
  {
    bug: "every live job is priced as audio",
    edits: [
      core(
        "domain/acceptance.ts",
        "(valueOf(board().prices, gate.price) ?? null)",
        '(board().prices["svc-audio"] ?? null)',
      ),
    ],
    seed: 1,
    breaks: "the price is the one at acceptance",
  },
  {
    bug: "a claim is refused after its lease has ended although no other worker took the job over",
    edits: [
      memory(
        "jobs/fencedVerbs.ts",
        "  if (job === undefined) return undefined\n  const next",
        "  if (job === undefined || (job.claimableAt ?? now) < now) return undefined\n  const next",
      ),
    ],
    seed: 15,
    breaks: "a valid claim is not refused",
  },
  {
    bug: "an attempt gets another attempt's number",
    edits: [core("worker/AttemptContext.ts", "attempt: attempts,", "attempt: attempts + 1,")],
    seed: 1,
    breaks: "a worker acts only under a claim",
  },
  {
    bug: "a failed provider call is repeated immediately, within the attempt",
    edits: [
      core(
        "worker/AttemptContext.ts",
        'return (name, effect) => this.#named("lastStep", name)(Effect.andThen(this.#mayBuy, effect))',
        "return (_name, effect) => Effect.andThen(this.#mayBuy, Effect.retry(effect, { times: 1 }))",
      ),
    ],
    seed: 1,
    breaks: "provider calls are at most the attempts",
  },
  {
    bug: "the chunk in which format detection ends is stored incompletely",
    edits: [
      core("engine/receiveUpload.ts", "Effect.as(check(), pieces)", "Effect.as(check(), [pieces[0].subarray(0, 1)])"),
    ],
    seed: 1,
    breaks: "the stored bytes are the body of the successful PUT",
  },
  {
    bug: "a transcription gets its file without the first byte",
    edits: [core("worker/AttemptContext.ts", "openNamed(blobs, file)", "openNamed(blobs, file, { offset: 1 })")],
    seed: 1,
    breaks: "a provider receives the bytes that were uploaded",
  },
  {
    bug: "a download begins at the second byte",
    edits: [
      core("engine/openFile.ts", "openNamed(blobs, file, range)", "openNamed(blobs, file, range ?? { offset: 1 })"),
    ],
    seed: 1,
    breaks: "a file matches its row",
  },
  {
    bug: "a failed purge is never retried",
    edits: [
      core(
        "worker/prune.ts",
        "const due = yield* jobs.nextPurges(stepSize)",
        "const due = (yield* jobs.nextPurges(stepSize)).slice(stepSize)",
      ),
    ],
    seed: 2,
    breaks: "purges are retried until done",
  },
  {
    bug: "an upload that another job has used causes a defect",
    edits: [
      core(
        "engine/acceptedOf.ts",
        "      return Result.fail(uploadRefused[outcome.reason]())",
        '      if (outcome.reason === "already_used") throw new Error("an upload is used once")\n      return Result.fail(uploadRefused[outcome.reason]())',
      ),
    ],
    seed: 1,
    breaks: "no call of the engine dies",
  },
  {
    bug: "a transcription is requested without checking the gate",
    edits: [
      core(
        "worker/AttemptContext.ts",
        'return (name, effect) => this.#named("lastStep", name)(Effect.andThen(this.#mayBuy, effect))',
        "return (_name, effect) => effect",
      ),
    ],
    seed: 64,
    breaks: "no provider call begins without a lease",
  },
  {
    bug: "jobs that are completed together all get the first one's output",
    edits: [memory("jobs/fencedVerbs.ts", "output: keep(item.output)", "output: keep((items[0] ?? item).output)")],
    seed: 206,
    breaks: "a job gets only results that were made for it",
  },
  {
    bug: "a voice turn replies to its instructions",
    edits: [
      core("kinds/VoiceTurn.ts", "{ text: transcript.text, instructions", '{ text: instructions ?? "", instructions'),
    ],
    seed: 2,
    breaks: "a job gets only results that were made for it",
  },
  {
    bug: "data expires immediately",
    edits: [core("worker/prune.ts", "jobs.expireData(data, stepSize)", "jobs.expireData(0, stepSize)")],
    seed: 1,
    breaks: "nothing is deleted before its retention has passed",
  },
  {
    bug: "uploads that no job uses are kept forever",
    edits: [core("worker/prune.ts", "yield* pruned(uploadStore.expireUploads(stepSize))", "0")],
    seed: 6,
    breaks: "nothing stays long after its retention has passed",
  },
  {
    bug: "a transfer extends its claim only when it ends",
    edits: [
      core(
        "engine/receiveUpload.ts",
        "yield* Effect.sleep(leaseDurationMs / 3)",
        "yield* Effect.sleep(leaseDurationMs + 1)",
      ),
    ],
    seed: 13,
    breaks: "only lost transfers are taken over",
  },
  {
    bug: "a job may lose one worker too many",
    edits: [
      memory(
        "jobs/claimJobs.ts",
        "lostTooMany(job, request.maxLostWorkers)",
        "lostTooMany(job, request.maxLostWorkers + 1)",
      ),
    ],
    seed: 198,
    breaks: "budgets end a job",
  },
  {
    bug: "a worker takes one job more than it has slots",
    edits: [
      core(
        "worker/Room.ts",
        "{ live: concurrency, sandbox: concurrency }",
        "{ live: concurrency + 1, sandbox: concurrency + 1 }",
      ),
    ],
    seed: 1,
    breaks: "no more concurrent calls than slots",
  },
  {
    bug: "a project may fill all slots of a worker",
    edits: [core("worker/Slots.ts", '=== "share" ? projectShare(concurrency) : 0', '=== "share" ? 0 : 0')],
    seed: 1,
    breaks: "no project holds more than its share",
  },
  {
    bug: "an attempt that has ended frees its slot twice",
    edits: [
      core(
        "worker/RunAttempt.ts",
        "finally {\n        slots.free(attempt)",
        "finally {\n        slots.free(attempt)\n        slots.free(attempt)",
      ),
      core("worker/Slots.ts", "if (!attempts.delete(attempt)) return", "attempts.delete(attempt)"),
    ],
    seed: 1,
    breaks: "no more concurrent calls than slots",
  },
  {
    bug: "an attempt that a shared call has completed keeps its slot",
    edits: [core("worker/RunAttempt.ts", "finally {\n        slots.free(attempt)", "finally {\n        void attempt")],
    seed: 3,
    breaks: "everything ends",
  },
  {
    bug: "a worker that stops forgets the jobs that it has claimed and not begun",
    edits: [core("worker/Worker.ts", "Effect.andThen(claiming.begin, drain(", "Effect.andThen(Effect.void, drain(")],
    seed: 6,
    breaks: "everything ends",
  },
  {
    bug: "the watch over all leases forgets every lease but the first",
    edits: [core("worker/LeaseWatch.ts", "of this.leases) {", "of [...this.leases].slice(0, 1)) {")],
    seed: 4,
    breaks: "a worker stops before its lease ends",
  },
  {
    bug: "an attempt writes its end after its lease was lost",
    edits: [
      core("worker/fencedWriter.ts", "if (tried === undefined && !lease.holdsAt(watch.now()))", "if (watch.now() < 0)"),
      core("worker/readEnd.ts", 'if (attempt.lease.isLost) return { _tag: "LeaseLost" }', ""),
    ],
    seed: 3,
    breaks: "only providers' failures count as failures",
  },
  {
    bug: "a project's share counts only the jobs of this claim, not the slots it already holds",
    edits: [core("worker/Room.ts", "({ ...share })", "({ ...share, count: 0 })")],
    seed: 3,
    breaks: "no project holds more than its share",
  },
  {
    bug: "a completion of a failed job is treated as a repetition",
    edits: [
      core(
        "domain/RepeatedEnd.ts",
        'return job.status === "done"',
        'return job.status === "done" || job.status === "failed"',
      ),
    ],
    seed: 22,
    breaks: "fencing",
  },
]
