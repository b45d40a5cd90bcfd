import { expect } from "@effect/vitest"
import { Cause, type Context, Effect, Exit } from "effect"
import fc from "fast-check"
import type { FileId, JobId, Principal, ProjectId, Upload, UploadId } from "@kiln/core/domain"
import type { TransferRef } from "@kiln/core/ports"
import type { Stores } from "../Check.ts"

/** A claim that was handed out, and what it takes to complete it. */
export interface KnownClaim {
  readonly jobId: JobId
  readonly token: number
  readonly live: boolean
}

export interface KnownUpload extends Pick<Upload, "projectId" | "keyId" | "mode"> {
  readonly uploadId: UploadId
}

export interface KnownJob {
  readonly jobId: JobId
  readonly principal: Principal
}

export interface KnownFile {
  readonly fileId: FileId
  readonly blobKey: string
  readonly jobId: JobId
}

/** What the reference shows at present. Without it, most operations would meet nothing to act on. */
export interface Seen {
  readonly held: ReadonlyArray<KnownClaim>
  readonly finished: ReadonlyArray<KnownJob>
  readonly transfers: ReadonlyArray<TransferRef>
  readonly unused: ReadonlyArray<KnownUpload>
  readonly files: ReadonlyArray<KnownFile>
  readonly projects: ReadonlyArray<ProjectId>
  /** Instants at which something ends or begins. */
  readonly instants: ReadonlyArray<number>
}

/** What a history has brought about so far, as the reference answered. Later operations pick from it. */
export interface History {
  nextNumber: number
  readonly jobs: Array<KnownJob>
  readonly uploads: Array<KnownUpload>
  readonly claims: Array<KnownClaim>
  readonly transfers: Array<TransferRef>
  readonly keys: Array<number>
  seen: Seen
}

export const emptyHistory = (): History => ({
  nextNumber: 1,
  jobs: [],
  uploads: [],
  claims: [],
  transfers: [],
  keys: [],
  seen: { held: [], finished: [], transfers: [], unused: [], files: [], projects: [], instants: [] },
})

/** One step of a history: performed on both stores, whose answers must agree. */
export interface Operation {
  readonly perform: (
    history: History,
    reference: Context.Context<Stores>,
    other: Context.Context<Stores>,
  ) => Effect.Effect<void>
  readonly [fc.toStringMethod]: () => string
}

/**
 * Makes an operation from its arguments. `call` turns them into one effect for both stores;
 * `record` notes what the reference answered.
 */
export const operation = <A, B>(
  name: string,
  args: fc.Arbitrary<A>,
  call: (args: A, history: History) => Effect.Effect<B, unknown, Stores>,
  options: {
    readonly record?: (answer: B, history: History) => void
    readonly compare?: (expected: B, actual: B) => void
  } = {},
): fc.Arbitrary<Operation> =>
  args.map((value) => ({
    perform: Effect.fnUntraced(function* (history, reference, other) {
      const effect = call(value, history)
      const expected = yield* Effect.exit(Effect.provideContext(effect, reference))
      const actual = yield* Effect.exit(Effect.provideContext(effect, other))
      if (Exit.isFailure(expected))
        expect(Exit.isFailure(actual) && Cause.hasDies(actual.cause), `${name} is a defect`).toBe(true)
      else if (Exit.isFailure(actual)) throw new Error(`${name} failed: ${Cause.pretty(actual.cause)}`)
      else {
        if (options.compare === undefined) expect(actual.value, name).toEqual(expected.value)
        else options.compare(expected.value, actual.value)
        options.record?.(expected.value, history)
      }
    }),
    [fc.toStringMethod]: () => `${name} ${fc.stringify(value)}`,
  }))

/** How to pick: mostly what is present, now and then anything that ever was. */
export interface Choice {
  readonly back: number
  readonly present: boolean
}
export const pick: fc.Arbitrary<Choice> = fc.record({
  back: fc.nat(5),
  present: fc.constantFrom(true, true, true, false),
})

export const pickFrom = <A>({ back, present }: Choice, now: ReadonlyArray<A>, ever: ReadonlyArray<A>): A | undefined =>
  latest(present && now.length > 0 ? now : ever, back)

/** Picks from a list, 0 the latest; `undefined` from an empty one. */
export const latest = <A>(list: ReadonlyArray<A>, pick: number): A | undefined =>
  list[list.length - 1 - (pick % Math.max(1, list.length))]

/** A list whose order says nothing. */
export const unordered = <A>(list: ReadonlyArray<A>, key: (item: A) => string): ReadonlyArray<A> =>
  list.toSorted((a, b) => (key(a) < key(b) ? -1 : 1))
