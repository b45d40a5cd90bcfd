import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { EngineConfig } from "../engine/EngineConfig.ts"
import type { AttemptError } from "../kinds/AttemptContext.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { BlobStore, type Claim, type Completion, JobStore } from "../ports/index.ts"
import { attemptContext, newNotes } from "./AttemptContext.ts"
import { type AttemptEnd, attemptEnd, describe, kindBugIn } from "./AttemptEnd.ts"
import { checkResult } from "./checkResult.ts"
import type { HeldLease } from "./HeldLease.ts"
import type { Turn } from "./LastChance.ts"
import { writeEnd } from "./writeEnd.ts"

/**
 * Runs one attempt: run the kind, check its result, read how it ended, write that, clean up. The run ends early when the lease
 * is lost or the worker stops. Its end is always written, unless the lease is lost. Returns what was written; `stalled` if nothing
 * was, because this process stood still past the lease.
 */
export const runAttempt = Effect.fnUntraced(
  function* (kind: JobKind, claim: Claim, lease: HeldLease, turn: Turn) {
    const notes = newNotes()
    const run = attemptContext(kind, claim, lease, notes).pipe(
      Effect.flatMap((context) => turn.take(Effect.ensuring(kind.run(context), notes.names.check))),
      Effect.flatMap((result) => checkResult(kind, claim, result)),
    )
    return yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const end = yield* readEnd(kind, restore(Effect.raceFirst(Effect.exit(run), lease.lost)))
        const written = yield* Effect.catchCause(writeEnd(kind, claim, lease, end), (cause) =>
          Effect.as(Effect.logError("failed to write the end of an attempt", describe(cause)), "lapsed" as const),
        )
        const stalledMs = written === "lapsed" ? yield* lease.stoodStillMs : 0
        if (stalledMs > 0) yield* logStall(kind, claim, stalledMs, turn.isAlone())
        if (written !== "committed") yield* removeOrphans(claim, notes.written)
        return stalledMs > 0 ? "stalled" : written
      }),
    )
  },
  (effect, _kind, claim) => Effect.annotateLogs(effect, { jobId: claim.job.id, attempt: claim.job.attempts }),
)

type Run = Exit.Exit<Completion, AttemptError>

/**
 * Reads how a run ended, and logs why it has no result. The inner `Exit` is how it ended by itself, including interruptions of
 * its own making. The outer effect ends without one only for an outside reason: a lost lease, or a worker that stops.
 */
const readEnd = Effect.fnUntraced(function* <E, R>(kind: JobKind, ended: Effect.Effect<Run, E, R>) {
  const exit = yield* Effect.exit(ended)
  if (Exit.isFailure(exit))
    return (Cause.hasInterruptsOnly(exit.cause) ? { _tag: "Released" } : { _tag: "LeaseLost" }) satisfies AttemptEnd
  const run = exit.value
  if (Exit.isSuccess(run)) return { _tag: "Completed", completion: run.value } satisfies AttemptEnd
  const end = attemptEnd(run.cause)
  const bug = kindBugIn(run.cause)
  if (bug !== undefined)
    yield* Effect.logError(`the job fails because of a bug in its kind ${kind.name}`, `${bug.name}: ${bug.text}`)
  else if (end._tag === "Postponed") yield* Effect.logDebug("a provider postponed its call")
  else yield* Effect.logWarning("attempt ended without a result", describe(run.cause))
  return end
})

/** The attempt that blocked the process is this one, or another that ran beside it. */
const logStall = Effect.fnUntraced(function* (kind: JobKind, { job }: Claim, stalledMs: number, isAlone: boolean) {
  const { attempts } = yield* EngineConfig
  const about = `attempt ${job.attempts} of ${job.id} (${kind.name})`
  const blocked = `the event loop past its lease, for ${(stalledMs / 1_000).toFixed(1)} s`
  const counted = `counted as a lost worker, ${job.lostWorkers + 1} of ${attempts.maxLostWorkers}`
  yield* Effect.logError(
    isAlone
      ? `${about} blocked ${blocked}; ${counted}`
      : `${about} or one beside it blocked ${blocked}; ${counted}. Move synchronous work to a worker thread`,
  )
})

/**
 * Removes blobs of this attempt that no row will ever name. Asks the store which they are, because a completion whose answer
 * was lost may be committed. The sweep removes what this leaves.
 */
const removeOrphans = (claim: Claim, written: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    if (written.length === 0) return
    const store = yield* JobStore
    const blobs = yield* BlobStore
    const orphans = yield* store.findOrphans(
      written.map((blobKey) => ({ blobKey, jobId: claim.job.id, token: claim.token })),
    )
    // `ahead`: the record has not reached this token, so it belongs to an older copy of the store.
    const own = orphans.filter(({ reason }) => reason !== "ahead")
    yield* Effect.forEach(own, ({ blobKey }) => blobs.remove(blobKey), { discard: true })
  }).pipe(Effect.ignore)
