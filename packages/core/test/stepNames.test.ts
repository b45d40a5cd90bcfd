import { createEngine, jobKind, type LogEntry } from "@kiln/core"
import type { JsonObject } from "@kiln/core/domain"
import { JobKind } from "@kiln/core/kinds"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Effect, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./embed/support.ts"

/** A value that a step keeps belongs to that step alone. */

const twice = (what: string) =>
  `${what} was used twice in this attempt; give each ${what.split(" ")[0]} a unique name, e.g. `

/** Runs one live job of a kind, and returns its end and its log lines. */
const outcomeOf = async (kind: Looping) => {
  const log: Array<LogEntry> = []
  await using engine = await openWith([kind], { log: (entry) => log.push(entry) })
  const job = await engine.submitAndWait("looping", {}, { mode: "live" })
  const errors = log.filter(({ level }) => level === "error").map(({ message }) => message)
  return { job, errors: errors.join("\n") }
}

const request = z.object({})
type Run = Parameters<typeof jobKind<"looping", typeof request, JsonObject, "page">>[0]["run"]
const looping = (run: Run, files: ReadonlyArray<"page"> = []) => jobKind({ name: "looping", request, files, run })
type Looping = ReturnType<typeof looping>

describe("a name that is used twice in one attempt", () => {
  it("ends the job immediately, and the log names it and says what to do", async () => {
    const bought: Array<number> = []
    const kind = looping(async ({ step }) => {
      const values: Array<number> = []
      for (const n of [1, 2, 3])
        values.push(
          await step("item", async () => {
            bought.push(n)
            return n
          }),
        )
      return { output: { values } }
    })
    const { errors, job } = await outcomeOf(kind)
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(bought).toEqual([1])
    expect(errors).toContain(`${twice('step "item"')}"item-1"`)
  })

  it("ends it even if the first use returned a kept value: a kept value belongs to one step", async () => {
    const seen: Array<unknown> = []
    const kind = looping(async ({ attempt, step }) => {
      seen.push(await step("item", async () => 1))
      if (attempt === 1) throw new Error("once")
      seen.push(await step("item", async () => 2))
      return { output: {} }
    })
    const { errors, job } = await outcomeOf(kind)
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 2 })
    expect(seen).toEqual([1, 1])
    expect(errors).toContain(twice('step "item"'))
  })

  it.each<[string, Run]>([
    [
      "it catches the error and goes on",
      async ({ step }) => {
        await step("item", async () => 1)
        await step("item", async () => 2).catch(() => undefined)
        return { output: {} }
      },
    ],
    [
      "it does not wait for the step",
      async ({ step }) => {
        await step("item", async () => 1)
        void step("item", async () => 2)
        return { output: {} }
      },
    ],
    [
      "it throws another error for it",
      async ({ step }) => {
        await step("item", async () => 1)
        await step("item", async () => 2).catch(() => {
          throw new Error("mine")
        })
        return { output: {} }
      },
    ],
    [
      "both are under way at once",
      async ({ step }) => {
        await Promise.allSettled([step("item", async () => 1), step("item", async () => 2)])
        return { output: {} }
      },
    ],
  ])("also ends it if %s", async (_, run) => {
    const { errors, job } = await outcomeOf(looping(run))
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(errors).toContain(twice('step "item"'))
  })

  it("prevents any further purchase", async () => {
    const bought: Array<string> = []
    const kind = looping(async ({ step }) => {
      await step("item", async () => 1)
      await step("item", async () => 2).catch(() => undefined)
      await step("other", async () => bought.push("other"))
      return { output: {} }
    })
    expect((await outcomeOf(kind)).job).toMatchObject({ status: "failed", attempts: 1 })
    expect(bought).toEqual([])
  })

  it("is also refused for files, before the second file is created", async () => {
    const made: Array<number> = []
    const kind = looping(
      async ({ writeFile }) => {
        for (const n of [1, 2])
          await writeFile("page", async () => {
            made.push(n)
            return { data: Uint8Array.of(n), mediaType: "text/plain" }
          })
        return { output: {} }
      },
      ["page"],
    )
    const { errors, job } = await outcomeOf(kind)
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(made).toEqual([1])
    expect(errors).toContain('file "page" was written twice in this attempt')
  })
})

describe("a name can be reused", () => {
  it("after its step failed: the step can be retried within the attempt", async () => {
    let tries = 0
    const flaky = async () => {
      tries += 1
      if (tries < 3) throw new Error("busy")
      return tries
    }
    const kind = looping(async ({ step }) => {
      for (;;) {
        try {
          return { output: { tries: await step("item", flaky) } }
        } catch {
          continue
        }
      }
    })
    expect((await outcomeOf(kind)).job).toMatchObject({ status: "done", attempts: 1, output: { tries: 3 } })
  })

  it("in the next attempt; a step and a file may share a name", async () => {
    const kind = looping(
      async ({ attempt, writeFile, step }) => {
        const value = await step("page", async () => attempt)
        await writeFile("page", async () => ({ data: Uint8Array.of(1), mediaType: "text/plain" }))
        if (attempt === 1) throw new Error("once")
        return { output: { value } }
      },
      ["page"],
    )
    expect((await outcomeOf(kind)).job).toMatchObject({ status: "done", attempts: 2, output: { value: 1 } })
  })
})

describe("a file is written outside of steps", () => {
  it("beside a step that runs, and after one", async () => {
    const kind = looping(
      async ({ step, writeFile }) => {
        let end = () => {}
        const ended = new Promise<void>((resolve) => (end = resolve))
        const page = async () => ({ data: Uint8Array.of(1), mediaType: "text/plain" })
        const first = step("first", async () => 1)
        const written = first.then(() => writeFile("page", page)).finally(() => end())
        await Promise.all([step("second", () => ended.then(() => 2)), written])
        return { output: {} }
      },
      ["page"],
    )
    expect((await outcomeOf(kind)).job).toMatchObject({ status: "done", attempts: 1 })
  })

  it("also if the program's own queue begins the write in the context of a step", async () => {
    const waiting: Array<() => void> = []
    const queued = <T>(work: () => Promise<T>, isFirst = false) =>
      new Promise<T>((resolve, reject) => {
        const begin = () =>
          void work()
            .then(resolve, reject)
            .then(() => waiting.shift()?.())
        if (isFirst) begin()
        else waiting.push(begin)
      })
    const later = async () => new Promise<void>((resolve) => void setTimeout(resolve, 5))
    const page = async () => {
      await later()
      return { data: Uint8Array.of(1), mediaType: "text/plain" }
    }
    const kind = looping(
      async ({ step, writeFile }) => {
        await Promise.all([step("item", () => queued(later, true)), queued(() => writeFile("page", page))])
        return { output: {} }
      },
      ["page"],
    )
    expect((await outcomeOf(kind)).job).toMatchObject({ status: "done", attempts: 1 })
  })

  it("in kinds written with Effect too, except in the last step, which no later attempt skips", async () => {
    const page = Effect.succeed({ data: Uint8Array.of(1), mediaType: "text/plain" })
    const kindOf = (name: "step" | "lastStep" | "beside") =>
      JobKind({
        name,
        request: Schema.Struct({}),
        files: ["page"],
        run: ({ keepFile, lastStep, step, writeFile }) =>
          Effect.gen(function* () {
            const written =
              name === "step"
                ? yield* step("paint", Effect.asVoid(Effect.flatMap(page, (file) => keepFile("page", file))))
                : name === "lastStep"
                  ? yield* lastStep("paint", writeFile("page", page))
                  : (yield* Effect.all([writeFile("page", page), step("paint", Effect.sleep("20 millis"))], {
                      concurrency: 2,
                    }))[0]
            return { output: {}, files: written === undefined ? [] : [written], usage: {} }
          }),
      })
    const log: Array<LogEntry> = []
    const kinds = [kindOf("step"), kindOf("lastStep"), kindOf("beside")]
    await using engine = await openWith(kinds as never, { log: (entry) => log.push(entry) })
    const statusOf = async (name: string) =>
      ((await engine.submitAndWait(name as never, {} as never)) as { status: string }).status
    expect([await statusOf("step"), await statusOf("lastStep"), await statusOf("beside")]).toEqual([
      "failed",
      "done",
      "done",
    ])
    expect(log.map(({ message }) => message).join("\n")).toContain(
      'keepFile("page") must not be called in step("paint")',
    )
  })
})

it.each([
  ["longer than a key of every store", "é".repeat(201), "up to 200 characters"],
  ["that Postgres refuses", "a\u0000", "without U+0000"],
  ["without text", undefined as never, "must be text"],
  ["of the engine", "kiln:progress", 'must not be named "kiln:progress"'],
])("a name %s ends the job before the step runs", async (_, name, message) => {
  for (const call of ["step", "children"] as const) {
    let ran = 0
    const kind = looping(async ({ children, step }) => {
      if (call === "children") await children(name, "looping" as never, [{}] as never)
      else await step(name, async () => (ran += 1))
      return { output: {} }
    })
    const { errors, job } = await outcomeOf(kind)
    expect(job).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(errors).toContain(message)
    expect(ran).toBe(0)
  }
})

it("in kinds written with Effect, whose steps can be retried as effects", async () => {
  const kindOf = (name: string, again: boolean) => {
    let tries = 0
    return JobKind({
      name,
      request: Schema.Struct({}),
      run: ({ lastStep, step }) =>
        Effect.gen(function* () {
          const once = step(
            "item",
            Effect.suspend(() => (++tries < 3 ? Effect.fail(new Error("busy") as never) : Effect.succeed(tries))),
          )
          const value = yield* Effect.retry(once, { times: 5 })
          if (again) yield* lastStep("item", Effect.void)
          return { output: { value }, files: [], usage: {} }
        }),
    })
  }
  const log: Array<LogEntry> = []
  await using engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: [kindOf("once", false), kindOf("twice", true)],
    log: (entry) => log.push(entry),
  })
  expect(await engine.submitAndWait("once", {} as never)).toMatchObject({ status: "done", output: { value: 3 } })
  expect(await engine.submitAndWait("twice", {} as never)).toMatchObject({
    status: "failed",
    errorCode: "internal_error",
    attempts: 1,
  })
  expect(log.map(({ message }) => message).join("\n")).toContain(twice('step "item"'))
})
