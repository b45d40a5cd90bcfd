import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import fc from "fast-check"
import type { JobId, JobMode } from "@kiln/core/domain"
import { type ClaimResult, JobStore } from "@kiln/core/ports"
import { noLimits, projectId } from "../fixtures.ts"
import type { History } from "./History.ts"
import { expectFreshToken, expectWithinLimits, expectWithinSlots } from "./invariants.ts"
import { operation } from "./Operation.ts"
import { record } from "./pick.ts"

// Few of everything, so that claims meet jobs, and jobs each other.
export const kinds = ["speech_synthesis", "transcription"]
export const versions = [1, 2]
export const modes: ReadonlyArray<JobMode> = ["sandbox", "live"]

/** The port promises a lower bound; and 0 exactly where more can be had at once, or workers would spin. */
const expectNextInMs = (expected: number | undefined, actual: number | undefined): void => {
  if (expected === 0 || actual === 0) expect(actual, "nextInMs").toBe(expected)
  else if (expected !== undefined) expect(actual, "nextInMs is a lower bound").toBeLessThanOrEqual(expected)
}

export const compareClaims = (expected: ClaimResult, actual: ClaimResult): void => {
  expect(actual.claims, "claims").toEqual(expected.claims)
  expect(actual.abandoned.toSorted(), "abandoned").toEqual(expected.abandoned.toSorted())
  expectNextInMs(expected.nextInMs, actual.nextInMs)
}

const allLanes = kinds.flatMap((kind) =>
  versions.flatMap((kindVersion) => modes.map((one) => ({ kind, kindVersion, mode: one }))),
)

const someLimits = record({
  perKind: fc.constantFrom({}, { speech_synthesis: 1 }, { speech_synthesis: 3, transcription: 2 }),
  perProject: fc.constantFrom(0, 1, 2, 4),
})

const someSlots = record({
  free: record({ live: fc.constantFrom(0, 1, 9), sandbox: fc.constantFrom(0, 1, 9) }),
  perProject: fc.constantFrom(0, 1, 2),
  held: fc.subarray(modes.flatMap((mode) => [1, 2].map((n) => ({ mode, projectId: projectId(n), count: 1 })))),
})

export const claimArguments = record({
  runnable: fc.oneof({ weight: 2, arbitrary: fc.constant(allLanes) }, { weight: 1, arbitrary: fc.subarray(allLanes) }),
  limits: fc.oneof({ weight: 2, arbitrary: fc.constant(noLimits) }, { weight: 1, arbitrary: someLimits }),
  limit: fc.constantFrom(0, 1, 2, 3, 5, 9),
  worker: fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: someSlots }),
  leaseDurationMs: fc.constantFrom(300, 1_000),
  maxLostWorkers: fc.constantFrom(1, 2, 3),
})

type ClaimArguments = typeof claimArguments extends fc.Arbitrary<infer A> ? A : never

/** Checks and records what a store claimed. */
/** `ended`: jobs that ended in the same step, before the claim. */
export const recordClaims = (
  { claims }: ClaimResult,
  history: History,
  { limits, worker }: ClaimArguments,
  ended: ReadonlyArray<JobId> = [],
): void => {
  expectWithinLimits(history, claims, limits, ended)
  expectWithinSlots(claims, worker)
  for (const { job, token } of claims) expectFreshToken(history, job, token)
  for (const { job, token } of claims) history.claims.push({ jobId: job.id, token, live: job.mode === "live" })
}

export const claimJobs = operation(
  "claimJobs",
  claimArguments,
  (request) => Effect.flatMap(JobStore, (store) => store.claimJobs(request)),
  { compare: compareClaims, record: (answer, history, request) => recordClaims(answer, history, request) },
)
