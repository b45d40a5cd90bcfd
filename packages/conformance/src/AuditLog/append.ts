import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type AuditChange, AuditLog } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"

const change = (n: number, overrides: Partial<AuditChange> = {}): AuditChange => ({
  actor: `user ${n}`,
  origin: `host ${n}`,
  action: `action.${n}`,
  subject: `subject ${n}`,
  details: { n },
  ...overrides,
})

type Page = Parameters<AuditLog["Service"]["list"]>[0]

const all: Page = { from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 100 }

const append = (...changes: ReadonlyArray<AuditChange>) =>
  Effect.gen(function* () {
    const log = yield* AuditLog
    for (const each of changes) yield* log.append(each)
  })

const list = (page: Partial<Page> = {}) => Effect.flatMap(AuditLog, (log) => log.list({ ...all, ...page }))

const actions = (page: Partial<Page> = {}) => Effect.map(list(page), (entries) => entries.map(({ action }) => action))

export const appendedChanges: Section<AuditLog> = {
  name: "AuditLog.append, list",
  checks: [
    check(
      "an entry reads as it was written, with its time and a growing number",
      Effect.gen(function* () {
        expect(yield* list()).toEqual([])
        const odd = change(2, { subject: null, details: { 'quo"ted': ["é 🎧", 1.5, null, { deep: true }] } })
        yield* append(change(1))
        yield* advance(1_000)
        yield* append(odd, change(3, { details: {} }))
        const entries = yield* list()
        expect(entries).toEqual([
          { ...change(3, { details: {} }), at: 1_000, number: expect.any(Number) },
          { ...odd, at: 1_000, number: expect.any(Number) },
          { ...change(1), at: 0, number: expect.any(Number) },
        ])
        const numbers = entries.map(({ number }) => number)
        expect(numbers).toEqual(numbers.toSorted((a, b) => b - a))
        expect(new Set(numbers).size).toBe(3)
      }),
    ),

    check(
      "pages continue after the last entry, also while others are added",
      Effect.gen(function* () {
        yield* append(...[1, 2, 3, 4, 5].map((n) => change(n)))
        const first = yield* list({ limit: 2 })
        expect(first.map(({ action }) => action)).toEqual(["action.5", "action.4"])
        yield* append(change(6))
        const after = first[1]?.number ?? null
        expect(yield* actions({ after, limit: 2 })).toEqual(["action.3", "action.2"])
        expect(yield* actions({ after })).toEqual(["action.3", "action.2", "action.1"])
      }),
    ),

    check(
      "a period includes its beginning and excludes its end",
      Effect.gen(function* () {
        for (const n of [1, 2, 3]) {
          yield* append(change(n))
          yield* advance(10)
        }
        expect(yield* actions({ from: 10, to: 20 })).toEqual(["action.2"])
        expect(yield* actions({ from: 10 })).toEqual(["action.3", "action.2"])
        expect(yield* actions({ to: 10 })).toEqual(["action.1"])
        expect(yield* actions({ from: 11, to: 20 })).toEqual([])
      }),
    ),

    check(
      "concurrent entries are all there, each once",
      Effect.gen(function* () {
        const numbers = Array.from({ length: 20 }, (_, n) => n)
        yield* Effect.forEach(numbers, (n) => append(change(n)), { concurrency: "unbounded", discard: true })
        expect((yield* actions()).toSorted()).toEqual(numbers.map((n) => `action.${n}`).toSorted())
      }),
    ),
  ],
}

export const prunedChanges: Section<AuditLog> = {
  name: "AuditLog.prune",
  checks: [
    check(
      "removes entries of at least this age, and returns how many",
      Effect.gen(function* () {
        const log = yield* AuditLog
        yield* append(change(1), change(2))
        yield* advance(10)
        yield* append(change(3))
        yield* advance(10)
        expect(yield* log.prune(21)).toBe(0)
        expect(yield* log.prune(20)).toBe(2)
        expect(yield* actions()).toEqual(["action.3"])
        expect(yield* log.prune(20)).toBe(0)
        yield* append(change(4))
        const [newest, older] = yield* list()
        expect((newest?.number ?? 0) > (older?.number ?? 0)).toBe(true)
      }),
    ),
  ],
}
