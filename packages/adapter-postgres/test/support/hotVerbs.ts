import { Effect } from "effect"
import { withSubmitted } from "@kiln/core/domain"
import { JobStore, RateLimitStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"

const { completionOf, digest, newJob, noLimits, outputFile, ownerOf, projectId, record } = fixtures

const runnable = [{ kind: "transcription", kindVersion: 1, mode: "sandbox" }] as const

/** The verbs that run all the time, on other jobs in each round (from 1). */
export const hotVerbs = Effect.fnUntraced(function* (round: number) {
  const jobs = yield* JobStore
  const { takePortions } = yield* RateLimitStore
  const created = Array.from({ length: 8 }, (_, n) =>
    newJob(1_000 * round + n, { kind: "transcription", projectId: projectId(100 + round) }),
  )
  yield* jobs.createJobs(created)
  for (const n of [10, 11])
    yield* jobs.createJobs([
      newJob(1_000 * round + n, { kind: "transcription", projectId: projectId(100 + round), queueCap: 100 + round }),
    ])
  // With everything that a creation looks up; not claimed, because their kind is another.
  const demanding = (n: number) =>
    newJob(1_000 * round + n, {
      projectId: projectId(100 + round),
      queueCap: 100 + round,
      metadata: withSubmitted({}, { tags: [`tag ${round}`] }),
      unique: { scope: digest(1_000 * round + n), while: "unfinished" },
    })
  yield* jobs.createJobs([demanding(20), demanding(21)])
  yield* jobs.createJobs([demanding(22)])
  const ask = { runnable, leaseDurationMs: 60_000 + round, maxLostWorkers: 3 }
  const decided = yield* jobs.claimJobs({ ...ask, limits: noLimits, limit: 5 })
  const byRules = yield* jobs.claimJobs({
    ...ask,
    limits: { perKind: { transcription: 1_000 }, perProject: 1_000 },
    limit: 4,
  })
  const claims = [...decided.claims, ...byRules.claims]
  const refs = claims.map(({ job, token }) => ({ jobId: job.id, token }))
  if (refs.length !== 9) return yield* Effect.die(new Error(`claimed ${refs.length} jobs of 9`))
  yield* jobs.extendLeases(refs.map((ref) => ({ ...ref, leaseDurationMs: 70_000 + round })))
  yield* jobs.checkClaims(refs)
  yield* jobs.checkpointJobs(refs.slice(0, 2).map((ref) => ({ ...ref, step: "a", value: 1 })))
  yield* jobs.completeJobs(
    claims.slice(0, 3).map((claim, n) => completionOf(claim, { files: [outputFile(claim, 10_000 + 100 * round + n)] })),
  )
  yield* jobs.failJobs(refs.slice(3, 5).map((ref) => ({ ...ref, errorCode: "internal_error" as const, record })))
  yield* jobs.deferJobs(refs.slice(5, 7).map((ref) => ({ ...ref, delayMs: 3_600_000, countsAsFailure: true, record })))
  yield* jobs.releaseJobs(refs.slice(7))
  const owned = created.map((job) => ({ jobId: job.id, principal: ownerOf(job) }))
  yield* jobs.findJobs(owned)
  yield* jobs.pollJobs(owned)
  yield* jobs.findByIdempotencyKey(newJob(1).keyId, `idempotency-${1_000 * round}`)
  yield* jobs.expireJobs(10)
  yield* jobs.cancelJobs([...refs.slice(5).map(({ jobId }) => jobId), ...created.map(({ id }) => id)])
  yield* jobs.eraseJobs(owned)
  yield* jobs.nextPurges(10)
  const policy = { perMinute: 60, burst: 10 }
  yield* takePortions([{ bucket: `requests ${round}`, policy, process: "p", unused: 0, wanted: 1, ttlMs: 10_000 }])
})
