import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { isLimiting, type Job, jobBlobKey, type JobMode, projectShare, type WorkerRoom } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobEvents, refOf } from "../engine/JobEvents.ts"
import { inSpan } from "../engine/spans.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import { type Claim, type ClaimRef, WakeUp } from "../ports/index.ts"
import { Providers } from "../providers/index.ts"
import { ProviderGuard } from "../providers/ProviderGuard.ts"
import { type HeldLease, holdLease } from "./HeldLease.ts"
import { isLastChance, makeCompany } from "./LastChance.ts"
import { limitsWith } from "./limitsWith.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"
import { runAttempt } from "./RunAttempt.ts"
import { servedBy } from "./runnableKinds.ts"

const attemptInSpan = (...[kind, claim, lease, turn]: Parameters<typeof runAttempt>) =>
  inSpan("Worker.attempt", runAttempt(kind, claim, lease, turn), {
    jobId: claim.job.id,
    kind: kind.name,
    attempt: claim.job.attempts,
  })

const loseIfCanceled =
  (lease: HeldLease) =>
  ({ type }: { readonly type: string }): void => {
    if (type === "canceled") lease.lose()
  }

/** The jobs that a worker holds. */
export const makeSlots = Effect.gen(function* () {
  const { attempts, concurrency, leaseDurationMs, limits } = yield* EngineConfig
  const wakeUp = yield* WakeUp
  const guard = yield* ProviderGuard
  const events = yield* JobEvents
  const { live } = yield* Providers
  const known = yield* JobKinds
  const limited = isLimiting(limitsWith(limits, known))
  const kinds = new Map(known.map((kind) => [kind.name, kind]))
  const perProject = limits.perProject === "share" ? projectShare(concurrency) : 0
  const leases = new Set<HeldLease>()
  const held = new Set<Job>()
  const company = makeCompany(leaseDurationMs)
  const hasLastChance = (job: Job) => isLastChance(job, attempts.maxLostWorkers)
  const lapsed = new Set<ClaimRef>()
  const withheld = new Map<string, string>()
  let nextFreed = Deferred.makeUnsafe<void>()

  const room = (): WorkerRoom => {
    const free = (mode: JobMode) => concurrency - [...held].filter((job) => job.mode === mode).length
    const byProject = Map.groupBy(held, ({ mode, projectId }) => `${mode} ${projectId}`)
    return {
      free: { live: free("live"), sandbox: free("sandbox") },
      perProject,
      held: [...byProject.values()].flatMap(([first, ...others]) =>
        first === undefined ? [] : [{ mode: first.mode, projectId: first.projectId, count: 1 + others.length }],
      ),
    }
  }

  return {
    /** The leases of the claimed jobs. */
    leases,
    /** Coordinates how the claimed jobs run beside each other. */
    company,
    /** Live and sandbox jobs have `concurrency` slots each. */
    room,
    /**
     * Claims whose end could not be written, most likely because the store was away for longer than their leases. They are
     * to be given back before anything is claimed, or the store would count this worker, which is alive, as lost.
     */
    lapsed,
    /**
     * Kinds whose last attempt found the blob store away, each with a key to try it with. They are not claimed until it is
     * back: every claim would buy a result that cannot be kept. Kinds that write no file go on.
     */
    withheld,
    /** What completes when the next job leaves its slot, counted from this call. */
    nextFreed: (): Effect.Effect<void> => Deferred.await(nextFreed),
    /** Runs one claim in a slot. `askedAtNanos` is when the claim was asked for, monotonic. */
    attempt: (claim: Claim, askedAtNanos: bigint) =>
      Effect.gen(function* () {
        const nowNanos = yield* Clock.monotonicTimeNanos
        const nowMs = yield* monotonicMs
        const kind = kinds.get(claim.job.kind)
        if (kind === undefined)
          return yield* Effect.die(new Error(`claimed a job of the unknown kind ${claim.job.kind}`))
        const ref = { jobId: claim.job.id, token: claim.token }
        const lease = holdLease(ref, askedAtNanos, claim.leaseRemainingMs, leaseDurationMs, nowNanos)
        leases.add(lease)
        held.add(claim.job)
        const stopListening = events.listenTo(claim.job.id, loseIfCanceled(lease))
        events.emit({ type: "started", ...refOf(claim.job), attempt: claim.job.attempts })
        const names = claim.job.mode === "live" ? (servedBy(live, kind) ?? []) : []
        const alone = hasLastChance(claim.job) ? company.alone(nowMs) : undefined
        return yield* Effect.ensuring(
          Effect.map(guard.withJob(names)(attemptInSpan(kind, claim, lease, alone ?? company.beside)), (settled) => {
            // What stood still past its lease stays held: the next claim, here or elsewhere, counts it as a lost worker.
            if (settled === "lapsed" && !lease.isLast()) lapsed.add(ref)
            // The token of this claim is spent, so nothing else is or will be under its keys.
            if (settled === "blobs_away") withheld.set(kind.name, jobBlobKey(ref.jobId, ref.token, "probe"))
          }),
          Effect.flatMap(monotonicMs, (endedAtMs) => {
            if (alone !== undefined) company.leaves(alone, endedAtMs)
            leases.delete(lease)
            held.delete(claim.job)
            stopListening()
            const freed = nextFreed
            nextFreed = Deferred.makeUnsafe<void>()
            Deferred.doneUnsafe(freed, Effect.void)
            // Where jobs are limited, one that ended is room for another, in whichever process.
            return limited ? wakeUp.notify : Effect.void
          }),
        )
      }),
  }
})

/** Whether a job that leaves its slot may make room for one that is held back now. */
export const isTight = ({ free, held, perProject }: WorkerRoom): boolean =>
  free.live <= 0 || free.sandbox <= 0 || (perProject > 0 && held.some(({ count }) => count >= perProject))

export type Slots = Effect.Success<typeof makeSlots>
