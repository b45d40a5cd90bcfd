import type { Edit } from "../../../tests/planted/Edit.ts"

/** A bug in claiming with a creation, and the report of `support/jointClaimScenario.ts` that shows it. */
export interface JointClaimBug {
  readonly bug: string
  readonly edit: Edit
  /** The part of the report that changes, without the bug and with it. */
  readonly from: string
  readonly noticed: string
}

/** The report without a bug. */
export const unharmed =
  "paused: queued, 1 calls; woken: 0 claims before the answer; told: 1; damaged: queued; lost: 0 calls, then 1, 2 attempts, 1 lost worker; stopped: released"

const core = (path: string, from: string, to: string): Edit => ({ file: `packages/core/src/${path}`, from, to })

export const jointClaimBugs: ReadonlyArray<JointClaimBug> = [
  {
    bug: "a claim with a creation ignores a pause",
    edit: core(
      "worker/JointClaims.ts",
      "const request = this.#requestNow()",
      "const request = (this.remembered ??= this.#requestNow())",
    ),
    from: "paused: queued, 1 calls",
    noticed: "paused: done, 2 calls",
  },
  {
    bug: "a worker claims beside a creation that claims for it, so that both fill the same slots",
    edit: core("worker/Worker.ts", "yield* joint.settled\n", "yield* Effect.void\n"),
    from: "woken: 0 claims",
    noticed: "woken: 1 claims",
  },
  {
    bug: "a creation that claimed wakes nobody, though it left jobs",
    edit: core("engine/creation.ts", "created.every(({ id }) => taken.has(id))", "claimed !== undefined"),
    from: "told: 1",
    noticed: "told: 0",
  },
  {
    bug: "a creation fails because its claim meets a damaged job",
    edit: core(
      "engine/creation.ts",
      "Option.isNone(Cause.findErrorOption(cause)) ? createAlone(jobs) : Effect.failCause(cause)",
      "Effect.failCause(cause)",
    ),
    from: "damaged: queued",
    noticed: "damaged: refused",
  },
  {
    bug: "a claim with a creation is not protected by its lease: a repeat after a lost answer starts the job a second time",
    edit: {
      file: "packages/testing/src/memory/MemoryJobStore.ts",
      from: "claimJobs(state, claim, now)",
      to: "claimJobs(state, { ...claim, leaseDurationMs: 1 }, now)",
    },
    from: "lost: 0 calls",
    noticed: "lost: 1 calls",
  },
  {
    bug: "a worker that stops forgets the creation that claims for it",
    edit: core(
      "worker/JointClaims.ts",
      "Effect.andThen(Effect.sync(endOffer), joint.stopped)",
      "Effect.sync(endOffer)",
    ),
    from: "stopped: released",
    noticed: "stopped: held",
  },
  {
    bug: "an answer that is given twice starts its jobs twice",
    edit: core(
      "engine/creation.ts",
      "            end(claimed)\n",
      "            end(claimed)\n            end(claimed)\n",
    ),
    from: "paused: queued, 1 calls",
    noticed: "paused: queued, 2 calls",
  },
]
