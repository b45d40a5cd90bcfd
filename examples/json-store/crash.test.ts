import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readdirSync, rmdirSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Scope } from "effect"
import { JobStore, Switchboard } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { JsonStores } from "./JsonStores.ts"
import { temporaryFile } from "./support/temporaryFile.ts"

const principal = fixtures.ownerOf(fixtures.newJob(1))

/** Returns which of these jobs exist. */
const present = Effect.fnUntraced(function* (...numbers: ReadonlyArray<number>) {
  const store = yield* JobStore
  const found = yield* store.findJobs(numbers.map((n) => ({ jobId: fixtures.jobId(n), principal })))
  return numbers.filter((_, index) => found[index] !== undefined)
})

const create = (...numbers: ReadonlyArray<number>) =>
  Effect.flatMap(JobStore, (store) => store.createJobs(numbers.map((n) => fixtures.newJob(n))))

/** Another process that creates jobs in the same place, until it is killed. */
const startCreator = (path: string) => {
  const script = join(import.meta.dirname, "support/createJobsForever.ts")
  return spawn(process.execPath, ["--conditions=@kiln/source", script, path], { stdio: ["ignore", "pipe", "inherit"] })
}

it.live("confirmed jobs survive a kill, and the last batch is stored completely or not at all", () =>
  Effect.gen(function* () {
    for (const least of [3, 90]) {
      const path = yield* temporaryFile
      let last = 0
      yield* Effect.promise(async () => {
        const creator = startCreator(path)
        // A killed process keeps its id until its parent has reaped it.
        const ended = once(creator, "close")
        for await (const line of createInterface({ input: creator.stdout })) {
          last = Number(line)
          if (last >= least) creator.kill("SIGKILL")
        }
        await ended
      })
      const numbers = Array.from({ length: last + 3 }, (_, n) => n + 1)
      const found = yield* Effect.provide(present(...numbers), JsonStores.layer({ path }))
      expect([last, last + 3]).toContain(found.length)
      expect(found).toEqual(numbers.slice(0, found.length))
      expect(last).toBeGreaterThanOrEqual(least)
    }
  }),
)

it.live("a second process is rejected while the first is alive", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    const creator = startCreator(path)
    yield* Effect.promise(() => once(creator.stdout, "data"))
    const refusal = yield* Effect.flip(Effect.provide(present(1), JsonStores.layer({ path })))
    expect(refusal).toMatchObject({ _tag: "StoreUnavailable", operation: "JsonStores.layer" })
    expect(String(refusal.cause)).toContain(`process ${creator.pid}`)
    yield* Effect.promise(() => {
      creator.kill("SIGKILL")
      return once(creator, "close")
    })
    expect(yield* Effect.provide(present(1), JsonStores.layer({ path }))).toEqual([1])
    expect(readdirSync(dirname(path)).filter((name) => name.endsWith(".lock"))).toEqual([])
  }),
)

it.live("a process that lost the lock writes nothing", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.gen(function* () {
      yield* create(1)
      unlinkSync(`${path}.lock`)
      symlinkSync(`${process.pid} another`, `${path}.lock`)
      const refusal = yield* Effect.flip(create(2))
      expect(String(refusal.cause)).toContain("another has taken the lock")
    }).pipe(Effect.provide(JsonStores.layer({ path })))
    expect(readdirSync(dirname(path)).toSorted()).toEqual(["kiln.json", "kiln.json.lock"])
  }),
)

it.live("a failed write is StoreUnavailable, leaves no trace, and can be repeated", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    const layer = JsonStores.layer({ path })
    yield* Effect.gen(function* () {
      yield* create(1)
      mkdirSync(`${path}.tmp`)
      const refusal = yield* Effect.flip(create(2, 3))
      expect(refusal).toMatchObject({ _tag: "StoreUnavailable", operation: "JobStore.createJobs" })
      const board = yield* Switchboard
      expect(yield* Effect.flip(board.setSwitch("ai", true))).toMatchObject({ operation: "Switchboard.setSwitch" })
      expect(yield* present(1, 2, 3)).toEqual([1])
      expect((yield* board.readBoard).switches.ai).toBe(false)
      // Reads need no disk.
      expect(yield* create(1)).toMatchObject([{ _tag: "Replayed" }])
      rmdirSync(`${path}.tmp`)
      expect(yield* create(2, 3)).toMatchObject([{ _tag: "Created" }, { _tag: "Created" }])
    }).pipe(Effect.provide(layer, { local: true }))
    expect(yield* Effect.provide(present(1, 2, 3), layer, { local: true })).toEqual([1, 2, 3])
  }),
)

it.live("a broken invariant is a defect, and nothing of its batch is written", () =>
  Effect.gen(function* () {
    const layer = JsonStores.layer({ path: yield* temporaryFile })
    const batch = [fixtures.newJob(2), fixtures.newJob(1, { idempotencyKey: "other" })]
    yield* Effect.gen(function* () {
      const store = yield* JobStore
      yield* create(1)
      const exit = yield* Effect.exit(store.createJobs(batch))
      expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
      expect(yield* present(1, 2)).toEqual([1])
    }).pipe(Effect.provide(layer, { local: true }))
    expect(yield* Effect.provide(present(1, 2), layer, { local: true })).toEqual([1])
  }),
)

it.live("a damaged file is rejected and left unchanged", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.provide(create(1), JsonStores.layer({ path }))
    writeFileSync(path, '{"jobs":[')
    const refusal = yield* Effect.flip(Effect.provide(present(1), JsonStores.layer({ path }), { local: true }))
    expect(refusal).toMatchObject({ _tag: "StoreUnavailable", operation: "MemoryStores.load" })
    expect(readdirSync(dirname(path))).toEqual(["kiln.json"])
  }),
)

it.live("after its scope is closed, every verb is StoreUnavailable", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const context = yield* Layer.build(JsonStores.layer({ path: yield* temporaryFile })).pipe(Scope.provide(scope))
    yield* Scope.close(scope, Exit.void)
    for (const verb of [Effect.asVoid(create(1)), Effect.asVoid(present(1))])
      expect(yield* Effect.flip(Effect.provideContext(verb, context))).toMatchObject({ cause: "the store is closed" })
  }),
)
