import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import fc from "fast-check"
import { type AttemptWait, errorCodes, jobBlobKey, type Json, type Priority } from "@kiln/core/domain"
import {
  type Completion,
  type EraseOutcome,
  JobStore,
  type PruneResult,
  type Purge,
  type RetentionAge,
} from "@kiln/core/ports"
import {
  charge,
  fileId,
  jobId,
  keyId,
  outputFile,
  ownerOf,
  projectId as projectOf,
  record as fixtureRecord,
} from "../fixtures.ts"
import { claimArguments, claimJobs, compareClaims, recordClaims } from "./claimJobs.ts"
import { createAndClaimJobs, createJobs, delays, followUpsFrom, mode, owner, someFollowUps } from "./createJobs.ts"
import type { History, KnownClaim } from "./History.ts"
import { type Operation, operation } from "./Operation.ts"
import { type Choice, latest, pick, pickFrom, record, unordered } from "./pick.ts"

const byPrefix = (purges: ReadonlyArray<Purge>) => unordered(purges, (purge) => purge.blobPrefix)
const sortedPrune = ({ count, purges }: PruneResult): PruneResult => ({ count, purges: byPrefix(purges) })
const sortedErasure = (outcome: EraseOutcome): EraseOutcome =>
  "purges" in outcome ? { ...outcome, purges: byPrefix(outcome.purges) } : outcome

/** The state of a claim's job, as seen by a worker that still acts on it. */
const fateOf = ({ jobId: id, token }: KnownClaim, { present }: History): string | undefined => {
  const job = present.get(id)
  if (job === undefined) return "removed"
  if (job.retained !== "kept") return "erased"
  if (job.finishedAt !== null) return job.status
  if (job.token === token) return undefined
  return `${job.held ? "held" : "waiting"} ${job.token > token + 2 ? "since long" : "by another"}`
}

/** A claim that holds its job, or one that was handed out some time ago; now and then with a token that never was. */
const heldClaim = record({ pick, wrong: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 0, 1, -1) })
const claimFrom = (args: { readonly pick: Choice; readonly wrong: number }, history: History): KnownClaim => {
  const { ended, held, superseded } = history.seen
  const claim = pickFrom(args.pick, { present: held, ever: history.claims, superseded, ended })
  if (claim === undefined) return { jobId: jobId(9_999), token: 1, live: false }
  const fate = fateOf(claim, history)
  if (fate !== undefined) history.sighted(`a zombie meets a job ${fate}`)
  return { ...claim, token: claim.token + args.wrong }
}
const claimsArguments = fc.array(heldClaim, { minLength: 1, maxLength: 3 })

/** Whether the attempt failed with a record. */
const recorded = fc.constantFrom(true, true, false)
const recordOf = (isRecorded: boolean, history: History) =>
  isRecorded ? { record: { ...fixtureRecord, message: `failure ${history.nextNumber++}` } } : {}

const completionsArguments = record({
  claims: claimsArguments,
  warningCode: fc.constantFrom(null, "output_truncated" as const),
  wrongCharge: fc.constantFrom(false, false, false, false, true),
  followUps: someFollowUps,
})
type CompletionsArguments = typeof completionsArguments extends fc.Arbitrary<infer A> ? A : never

const completionsFrom = (
  { claims, followUps, warningCode, wrongCharge }: CompletionsArguments,
  history: History,
): ReadonlyArray<Completion> =>
  claims.map((args, index) => {
    const claim = claimFrom(args, history)
    return {
      ...claim,
      output: { text: `by ${claim.token}` },
      files: [outputFile({ job: { id: claim.jobId }, token: claim.token }, history.nextNumber++)],
      warningCode,
      charge: claim.live !== wrongCharge ? charge : null,
      // Of several completions, the first one brings them.
      ...(index === 0 && followUps.length > 0 && { followUps: followUpsFrom(followUps, history) }),
    }
  })

/** A store that did not claim is asked to, so this may be two steps. */
const completeAndClaimJobs = operation(
  "completeAndClaimJobs",
  fc.tuple(completionsArguments, claimArguments),
  ([args, request], history) => {
    const items = completionsFrom(args, history)
    return Effect.flatMap(JobStore, (store) =>
      Effect.flatMap(store.completeAndClaimJobs(items, request), ({ claimed, completed }) =>
        Effect.map(claimed === undefined ? store.claimJobs(request) : Effect.succeed(claimed), (claims) => ({
          completed,
          claims,
          ended: items.flatMap(({ jobId: id }, at) => (completed[at] === "Written" ? [id] : [])),
        })),
      ),
    )
  },
  {
    atomic: false,
    compare: (expected, actual) => {
      expect(actual.completed, "completed").toEqual(expected.completed)
      compareClaims(expected.claims, actual.claims)
    },
    record: ({ claims, ended }, history, [, request]) => recordClaims(claims, history, request, ended),
  },
)

/** In unix milliseconds, most of which are past or reached soon. */
const parkTimes = fc.constantFrom(undefined, undefined, 0, 5_000, 20_000)

const signalJobs = operation(
  "signalJobs",
  fc.array(
    record({ pick, name: fc.constantFrom("a", "a", "b"), value: fc.nat(1), owner: fc.constantFrom(0, 0, 0, 1, 2) }),
    {
      minLength: 1,
      maxLength: 3,
    },
  ),
  (picks, history) => {
    const items = picks.map(({ name, owner, pick: choice, value }) => {
      const known = pickFrom(choice, {
        present: [...history.seen.unfinished, ...history.seen.waiting],
        ended: history.seen.finished,
        ever: history.jobs,
      })
      const {
        keyId: key,
        mode,
        projectId,
      } = known?.principal ?? { ...ownerOf({ keyId: keyId(1), mode: "sandbox", projectId: projectOf(1) }) }
      return {
        jobId: known?.jobId ?? jobId(9_999),
        name,
        value: { n: value },
        ...(owner === 1 && { owner: { projectId, keyId: key, mode } }),
        ...(owner === 2 && { owner: { projectId, keyId: keyId(8) } }),
      }
    })
    return Effect.flatMap(JobStore, (store) => store.signalJobs(items))
  },
)

const rescheduleJobs = operation(
  "rescheduleJobs",
  fc.array(
    record({
      pick,
      delayMs: fc.constantFrom(0, 0, 0, 1, 700, 5_000, undefined, undefined),
      priority: fc.constantFrom<Array<Priority | undefined>>(undefined, undefined, "normal", "high", "low", -4),
      queuedOnly: fc.boolean(),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  (picks, history) => {
    const items = picks.map(({ delayMs, pick: choice, priority, queuedOnly }) => {
      const known = pickFrom(choice, {
        present: history.seen.unfinished,
        ended: history.seen.finished,
        ever: history.jobs,
      })
      return { jobId: known?.jobId ?? jobId(9_999), delayMs, priority, queuedOnly }
    })
    return Effect.flatMap(JobStore, (store) => store.rescheduleJobs(items))
  },
)

const fenced: ReadonlyArray<fc.Arbitrary<Operation>> = [
  operation(
    "extendLeases",
    fc.tuple(claimsArguments, fc.constantFrom(200, 1_000, 5_000)),
    ([claims, leaseDurationMs], history) => {
      const items = claims.map((claim) => ({ ...claimFrom(claim, history), leaseDurationMs }))
      return Effect.flatMap(JobStore, (store) => store.extendLeases(items))
    },
  ),
  operation(
    "checkpointJobs",
    fc.tuple(claimsArguments, fc.constantFrom("reply", "speak"), fc.jsonValue({ maxDepth: 2 })),
    ([claims, step, value], history) => {
      // -0 does not survive JSON.
      const items = claims.map((claim) => ({
        ...claimFrom(claim, history),
        step,
        value: JSON.parse(JSON.stringify(value)) as Json,
      }))
      return Effect.flatMap(JobStore, (store) => store.checkpointJobs(items))
    },
  ),
  operation(
    "appendChunks",
    fc.tuple(claimsArguments, fc.nat(2), fc.array(fc.string({ maxLength: 3 }), { maxLength: 3 })),
    ([claims, back, values], history) =>
      Effect.flatMap(JobStore, (store) =>
        Effect.flatMap(
          Effect.forEach(claims, (claim) => {
            const ref = claimFrom(claim, history)
            return Effect.map(store.countChunks(ref.jobId), ({ count }) => ({
              ...ref,
              attempt: ref.token,
              // Sometimes as a repeat.
              first: Math.max(0, count - back),
              values,
            }))
          }),
          store.appendChunks,
        ),
      ),
    { atomic: false },
  ),
  operation("completeJobs", completionsArguments, (args, history) => {
    const items = completionsFrom(args, history)
    return Effect.flatMap(JobStore, (store) => store.completeJobs(items))
  }),
  operation(
    "failJobs",
    fc.tuple(claimsArguments, fc.constantFrom(...errorCodes), recorded, fc.constantFrom(undefined, "no such page")),
    ([claims, errorCode, isRecorded, message], history) => {
      const items = claims.map((claim) => ({
        ...claimFrom(claim, history),
        errorCode,
        ...(message !== undefined && { message }),
        ...recordOf(isRecorded, history),
      }))
      return Effect.flatMap(JobStore, (store) => store.failJobs(items))
    },
  ),
  operation(
    "deferJobs",
    fc.tuple(claimsArguments, delays, fc.boolean(), recorded),
    ([claims, delayMs, countsAsFailure, isRecorded], history) => {
      const items = claims.map((claim) => ({
        ...claimFrom(claim, history),
        delayMs,
        countsAsFailure,
        ...(isRecorded ? recordOf(isRecorded, history) : { wait: waits[countsAsFailure ? 1 : 0] }),
      }))
      return Effect.flatMap(JobStore, (store) => store.deferJobs(items))
    },
  ),
  operation(
    "deferJobs",
    fc.tuple(
      claimsArguments,
      fc.constantFrom("children", "after", "after", "children", "signal", "signal", "sleep"),
      parkTimes,
    ),
    ([claims, reason, until], history) => {
      const items = claims.map((claim) => ({
        ...claimFrom(claim, history),
        delayMs: 0,
        countsAsFailure: false,
        park: { reason, subject: reason === "children" ? "parts" : "a", until },
      }))
      return Effect.flatMap(JobStore, (store) => store.deferJobs(items))
    },
  ),
  operation("releaseJobs", claimsArguments, (claims, history) => {
    const items = claims.map((claim) => claimFrom(claim, history))
    return Effect.flatMap(JobStore, (store) => store.releaseJobs(items))
  }),
]

/** Limits are above anything a history makes: which of several equally old records goes first is no promise. */
const LIMIT = 10_000

/** Ages of data and of records: the same for all kinds, or another for one of them. */
const dataAges = fc.constantFrom<RetentionAge>(0, 1, 400, 1_000, 3_000, { others: 3_000, byKind: { transcription: 1 } })
const recordAges = fc.constantFrom<RetentionAge>(1_000, 3_000, 9_000, {
  others: 9_000,
  byKind: { transcription: 1_000 },
})

const sweeps: ReadonlyArray<fc.Arbitrary<Operation>> = [
  operation("expireJobs", fc.constant(LIMIT), (limit) =>
    Effect.flatMap(JobStore, (store) => Effect.map(store.expireJobs(limit), (ids) => ids.toSorted())),
  ),
  operation("expireData", dataAges, (olderThanMs) =>
    Effect.flatMap(JobStore, (store) => Effect.map(store.expireData(olderThanMs, LIMIT), sortedPrune)),
  ),
  operation("deleteJobs", recordAges, (olderThanMs) =>
    Effect.flatMap(JobStore, (store) => Effect.map(store.deleteJobs(olderThanMs, LIMIT), sortedPrune)),
  ),
  operation(
    "confirmPurges",
    fc.nat(3),
    (count) =>
      Effect.flatMap(JobStore, (store) =>
        Effect.flatMap(store.listPurges(LIMIT), (purges) => store.confirmPurges(byPrefix(purges).slice(0, count))),
      ),
    { atomic: false },
  ),
]

const eraseJobs = operation(
  "eraseJobs",
  fc.array(record({ pick, foreign: fc.constantFrom(false, false, false, false, true) }), {
    minLength: 1,
    maxLength: 3,
  }),
  (picks, history) => {
    const items = picks.flatMap((args) => {
      const known = pickFrom(args.pick, { present: history.seen.finished, ever: history.jobs })
      return known === undefined
        ? []
        : [args.foreign ? { ...known, principal: { ...known.principal, keyId: keyId(8) } } : known]
    })
    return Effect.flatMap(JobStore, (store) =>
      Effect.map(store.eraseJobs(items), (outcomes) => outcomes.map(sortedErasure)),
    )
  },
)

const checkClaims = operation("checkClaims", claimsArguments, (claims, history) => {
  const items = claims.map((claim) => claimFrom(claim, history))
  return Effect.flatMap(JobStore, (store) => store.checkClaims(items))
})

const reads: ReadonlyArray<fc.Arbitrary<Operation>> = [
  // Every job is read as its owner after each step; here as somebody else.
  operation("findJobs", fc.tuple(fc.nat(6), owner, mode), ([back, who, as], history) => {
    const id = latest(history.jobs, back)?.jobId ?? jobId(9_999)
    const items = [{ jobId: id, principal: ownerOf({ ...who, mode: as }) }]
    return Effect.flatMap(JobStore, (store) => Effect.all([store.findJobs(items), store.pollJobs(items)]))
  }),
  operation("findByIdempotencyKey", fc.tuple(owner, fc.nat(3)), ([{ keyId: key }, n]) =>
    Effect.flatMap(JobStore, (store) => store.findByIdempotencyKey(key, `pooled-${n}`)),
  ),
  operation("findFile", fc.nat(8), (back, history) =>
    Effect.flatMap(JobStore, (store) =>
      store.findFile(latest(history.seen.files, back)?.fileId ?? fileId(Math.max(0, history.nextNumber - 1 - back))),
    ),
  ),
  operation(
    "findOrphans",
    fc.array(record({ back: fc.nat(12), token: fc.integer({ min: 1, max: 4 }) }), { maxLength: 6 }),
    (picks, history) => {
      const blobs = picks.map(({ back, token }) => {
        const id = latest(history.jobs, back)?.jobId ?? jobId(9_999)
        return { blobKey: jobBlobKey(id, token, "audio"), jobId: id, token }
      })
      const file = latest(history.seen.files, 0)
      if (file !== undefined)
        blobs.push({ blobKey: file.blobKey, jobId: file.jobId, token: Number(file.blobKey.split("/")[2]) })
      return Effect.flatMap(JobStore, (store) => store.findOrphans(blobs))
    },
  ),
]

/** At the very time of an entry, or a millisecond beside it. */
const entryTime = record({ back: fc.nat(6), delta: fc.constantFrom(-1, 0, 0, 1) })
const ledgerPage = record({
  from: fc.option(entryTime, { freq: 2, nil: undefined }),
  to: fc.option(entryTime, { freq: 2, nil: undefined }),
  after: fc.option(record({ back: fc.nat(6), byTime: fc.boolean() }), { freq: 2, nil: null }),
  limit: fc.constantFrom(0, 1, 2, LIMIT, LIMIT),
})

const listCharges = operation("listCharges", ledgerPage, ({ after, from, limit, to }, { ledger }) => {
  const entries = [...ledger.values()]
  const timeOf = (at: typeof from, otherwise: number): number =>
    at === undefined ? otherwise : (latest(entries, at.back)?.chargedAt ?? 0) + at.delta
  const entry = after === null ? undefined : latest(entries, after.back)
  return Effect.flatMap(JobStore, (store) =>
    store.listCharges({
      from: timeOf(from, 0),
      to: timeOf(to, Number.MAX_SAFE_INTEGER),
      // An entry that is there, or the place of one that is not.
      after: entry === undefined ? null : after?.byTime === true ? { ...entry, jobId: jobId(0) } : entry,
      limit,
    }),
  )
})

/** With their weights. */
const waits: ReadonlyArray<AttemptWait> = [
  { reason: "provider", subject: "speech", cause: "quota" },
  { reason: "children", subject: null, cause: null },
]

export const jobOperations: ReadonlyArray<fc.WeightedArbitrary<Operation>> = [
  { weight: 14, arbitrary: createJobs },
  { weight: 12, arbitrary: claimJobs },
  { weight: 4, arbitrary: createAndClaimJobs },
  { weight: 4, arbitrary: completeAndClaimJobs },
  ...fenced.map((arbitrary) => ({ weight: 3, arbitrary })),
  ...sweeps.map((arbitrary) => ({ weight: 1, arbitrary })),
  { weight: 3, arbitrary: eraseJobs },
  { weight: 3, arbitrary: signalJobs },
  { weight: 2, arbitrary: rescheduleJobs },
  ...reads.map((arbitrary) => ({ weight: 1, arbitrary })),
  { weight: 2, arbitrary: listCharges },
  { weight: 1, arbitrary: checkClaims },
]
