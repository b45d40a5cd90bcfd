import type * as Promises from "node:fs/promises"
import { it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { describe, expect, vi } from "vitest"
import { drain, LIMIT, onFiles } from "./support/files.ts"

/** The calls that go through the thread pool, in the order in which they began. */
const calls = vi.hoisted((): Array<string> => [])

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof Promises>()
  type Call = (...args: ReadonlyArray<unknown>) => unknown
  const counted =
    (name: string, call: Call): Call =>
    (...args) => {
      calls.push(name)
      return call(...args)
    }
  const open: typeof real.open = async (...args) => {
    calls.push("open")
    const handle = await real.open(...args)
    for (const name of ["close", "read", "stat", "sync", "writev"] as const)
      Object.assign(handle, { [name]: counted(name, handle[name].bind(handle) as Call) })
    return handle
  }
  const names = ["access", "mkdir", "readdir", "rename", "rm", "rmdir", "stat", "unlink"] as const
  return {
    ...real,
    open,
    ...Object.fromEntries(names.map((name) => [name, counted(name, real[name] as Call)])),
  }
})

const speech = Stream.succeed(new Uint8Array(12_800).fill(7))
const id = (n: number) => `01k4xq7czkf0a8r2m3n4p5q6${String(n).padStart(2, "0")}`
/** Returns how often a call was made. */
const count = (wanted: string): number => calls.filter((name) => name === wanted).length

describe("calls of a file of 12.8 KB", () => {
  it.effect("a put syncs its file and its shard, and makes nothing that is there", () =>
    onFiles((store) =>
      Effect.gen(function* () {
        yield* store.put(`jobs/${id(0)}/1/audio`, speech, LIMIT)
        calls.length = 0
        yield* store.put(`jobs/${id(1)}/1/audio`, speech, LIMIT)
        expect(calls).toEqual(["stat", "open", "writev", "sync", "close", "rename", "open", "sync", "close"])
      }),
    ),
  )

  it.effect("a read opens it once", () =>
    onFiles((store) =>
      Effect.gen(function* () {
        yield* store.put(`jobs/${id(0)}/1/audio`, speech, LIMIT)
        calls.length = 0
        yield* drain(store, `jobs/${id(0)}/1/audio`)
        expect(calls).toEqual(["open", "read", "close"])
      }),
    ),
  )

  it.live("puts at the same time share syncs of their shard, and removals its scans", () =>
    onFiles((store) =>
      Effect.gen(function* () {
        const each = Array.from({ length: 64 }, (_, n) => n)
        yield* store.put(`jobs/${id(99)}/1/audio`, speech, LIMIT)
        calls.length = 0
        const all = { concurrency: 16, discard: true } as const
        yield* Effect.forEach(each, (n) => store.put(`jobs/${id(n)}/1/audio`, speech, LIMIT), all)
        expect([count("writev"), count("rename")]).toEqual([64, 64])
        // One for each file. Sixteen at a time share the others: at least two of them.
        expect(count("sync")).toBeLessThan(64 + 64 / 2)
        calls.length = 0
        yield* Effect.forEach(each, (n) => store.remove(`jobs/${id(n)}`), all)
        // Two passes, each of which reads the shard and the temporary files.
        expect(count("readdir")).toBeLessThan((64 * 4) / 2)
        expect(count("sync")).toBeLessThan((64 * 3) / 2)
      }),
    ),
  )
})
