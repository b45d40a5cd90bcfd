import { createEngine, jobKind } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { JobStore } from "@kiln/core/ports"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const clip = jobKind({
  name: "clip",
  request: z.object({ n: z.number() }),
  output: z.object({ double: z.number() }),
  files: ["image"],
  run: async ({ failure, request, writeFile }) => {
    if (request.n < 0) throw failure("content_rejected")
    await writeFile("image", async () => ({ data: new Uint8Array(request.n), mediaType: "image/png" }))
    return { output: { double: request.n * 2 } }
  },
})

const runs = { before: 0, after: 0 }
const film = jobKind({
  name: "film",
  request: z.object({ clips: z.array(z.number()) }),
  output: z.object({ sum: z.number(), failed: z.array(z.string()), ids: z.array(z.string()) }),
  run: async ({ children, request, step }) => {
    await step("before", async () => {
      runs.before += 1
      return null
    })
    const clips = await children(
      "clips",
      clip,
      request.clips.map((n) => ({ n })),
    )
    runs.after += 1
    return {
      output: {
        sum: clips.reduce((sum, child) => sum + (child.status === "done" ? (child.output?.double ?? 0) : 0), 0),
        failed: clips.flatMap((child, index) => (child.status === "failed" ? [`${index} ${child.errorCode}`] : [])),
        ids: clips.map(({ id }) => id),
      },
    }
  },
})

/** A film of films. */
const series = jobKind({
  name: "series",
  request: z.object({ films: z.array(z.array(z.number())) }),
  run: async ({ children, request }) => {
    const films = await children(
      "films",
      film,
      request.films.map((clips) => ({ clips })),
    )
    return {
      output: { sums: films.map((child) => (child.status === "done" ? (child.output?.sum ?? null) : null)) },
    }
  },
})

describe("children", () => {
  it("are submitted once, awaited, and handed over in the order of their requests, failures too", async () => {
    await using kiln = await testEngine({ kinds: [film, clip] })
    Object.assign(runs, { before: 0, after: 0 })
    const job = await kiln.submit("film", { clips: [3, -1, 7, 4] }, { priority: "high" })
    expect(job).toMatchObject({ status: "done", output: { sum: 28, failed: ["1 content_rejected"] } })
    expect(runs).toEqual({ before: 1, after: 1 })
    const { jobs } = await kiln.operator.list({ kind: "clip" })
    expect(jobs).toHaveLength(4)
    expect(jobs.every(({ priority }) => priority === "high")).toBe(true)
    const ids = (job.status === "done" && job.output?.ids) || []
    expect(ids.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
    expect(await kiln.get(ids[2] ?? "")).toMatchObject({ output: { image: { bytes: 7 } } })
    expect(await kiln.get(job)).toMatchObject({ metadata: {}, tags: [] })
  })

  it("none at all are no wait", async () => {
    await using kiln = await testEngine({ kinds: [film, clip] })
    expect(await kiln.submit("film", { clips: [] })).toMatchObject({ status: "done", attempts: 1, output: { sum: 0 } })
  })

  it("of children, at concurrency 1, end without a deadlock", async () => {
    await using engine = await openWith([series, film, clip], { settings: { concurrency: 1 } })
    const job = await engine.submitAndWait("series", { films: [[1, 2], [], [-1, 5], [9]] }, { timeoutMs: 60_000 })
    expect(job).toMatchObject({ status: "done", output: { sums: [6, 0, 10, 18] } })
  })

  it("ignore the queue cap, and wait behind a limit of their kind", async () => {
    await using engine = await openWith([film, clip], {
      settings: { queueCap: 1, limits: { perKind: { clip: 1 } } } as never,
    })
    const job = await engine.submitAndWait("film", { clips: [1, 2, 3] }, { timeoutMs: 60_000 })
    expect(job).toMatchObject({ status: "done", output: { sum: 12 } })
  })

  it("are canceled with their parent, down to their own children", async () => {
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [series, film, clip],
      settings: { concurrency: 3, limits: { perKind: { clip: 1 } } },
      log: false,
    })
    await engine.operator.pause("clip")
    const job = await engine.submit("series", { films: [[1], [2, 3]] })
    await expect
      .poll(async () => (await engine.operator.list({ kind: "clip" })).jobs.length, { timeout: 30_000 })
      .toBe(3)
    const [ended] = (await engine.operator.list({ kind: "clip" })).jobs
    await engine.operator.cancel(ended ?? job)
    const failed: Array<string> = []
    engine.on("failed", ({ jobId }) => failed.push(jobId))
    await engine.operator.cancel(job)
    const all: Array<string> = []
    for await (const { id, kind, status } of engine.operator.listAll()) {
      expect([kind, status]).toEqual([kind, "failed"])
      all.push(id)
    }
    // Each that this call ended, once.
    expect(failed.toSorted()).toEqual(all.filter((id) => id !== ended?.id).toSorted())
    // A second call has nothing left to cancel.
    await expect(engine.operator.cancel(job)).rejects.toMatchObject({ code: "job_finished" })
  })

  it("that a cancellation did not find, because their parent was submitting them, are canceled before they run", async () => {
    let ran = 0
    const counted = jobKind({
      name: "counted",
      request: z.object({}),
      run: async () => {
        ran += 1
        return { output: {} }
      },
    })
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => ({ output: { n: (await children("a", counted, [{}, {}])).length } }),
    })
    await using engine = await openWith([parent, counted])
    await engine.operator.pause("counted")
    const job = await engine.submit("parent", {})
    const listed = async () => (await engine.operator.list({ kind: "counted" })).jobs
    await expect.poll(async () => (await listed()).length, { timeout: 30_000 }).toBe(2)
    // The store's part of a cancellation, without what follows in the process that cancels.
    const cancel = JobStore.use((store) => store.cancelJobs([job.id]))
    expect(await Effect.runPromiseWith(embeddedContext(engine))(cancel)).toEqual(["Canceled"])
    await engine.operator.resume("counted")
    const codes = async () => (await listed()).map((each) => each.errorCode)
    await expect.poll(codes, { timeout: 30_000 }).toEqual(["canceled_by_operator", "canceled_by_operator"])
    expect(ran).toBe(0)
  })

  it("are checked again once the last look at their parent is a second old, and run if its record is gone", async () => {
    let ran = 0
    const counted = jobKind({
      name: "counted",
      request: z.object({}),
      run: async () => {
        ran += 1
        return { output: {} }
      },
    })
    const parent = jobKind({
      name: "parent",
      request: z.object({ n: z.number() }),
      limits: { jobRetentionMs: 60_000 },
      run: async ({ children, request: { n } }) => ({
        output: {
          n: (
            await children(
              "a",
              counted,
              Array.from({ length: n }, () => ({})),
            )
          ).length,
        },
      }),
    })
    await using kiln = await testEngine({ kinds: [parent, counted], mode: "manual" })
    /** Begins a parent, and cancels it without what follows in the process that cancels. */
    const canceled = async (n: number, runFirst: number) => {
      const job = await kiln.submit("parent", { n })
      for (let runs = 0; runs <= runFirst; runs++) await kiln.runNext()
      await Effect.runPromiseWith(embeddedContext(kiln))(JobStore.use((store) => store.cancelJobs([job.id])))
      return job
    }
    await canceled(3, 1)
    await kiln.advance(999)
    await kiln.runNext()
    expect(ran).toBe(2)
    await kiln.advance(1)
    await kiln.drain()
    expect(ran).toBe(2)
    const job = await canceled(1, 0)
    await kiln.advance(60_000)
    await expect(kiln.get(job)).rejects.toMatchObject({ code: "job_not_found" })
    await kiln.drain()
    expect(ran).toBe(3)
  })

  it("that run in this process are interrupted when their parent is canceled", async () => {
    const aborted: Array<number> = []
    const hanging = jobKind({
      name: "hanging",
      request: z.object({ n: z.number() }),
      run: ({ request: { n }, signal }) =>
        new Promise<never>((_, reject) => {
          signal.addEventListener("abort", () => {
            aborted.push(n)
            reject(new Error("aborted"))
          })
        }),
    })
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => ({ output: { n: (await children("a", hanging, [{ n: 1 }, { n: 2 }])).length } }),
    })
    // No heartbeat checks whether the claims still hold.
    const settings = { claimCheckIntervalMs: 3_600_000, leaseDurationMs: 3_600_000 }
    await using engine = await openWith([parent, hanging], { settings })
    const job = await engine.submit("parent", {})
    const isRunning = async () => (await engine.operator.list({ kind: "hanging", status: "processing" })).jobs.length
    await expect.poll(isRunning, { timeout: 30_000 }).toBe(2)
    await engine.operator.cancel(job)
    await expect.poll(() => aborted.length, { timeout: 30_000 }).toBe(2)
  })

  it("that a cancellation has left are canceled by the next one, though the parent has ended", async () => {
    const child = jobKind({ name: "child", request: z.object({}), run: async () => ({ output: {} }) })
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => ({ output: { n: (await children("a", child, [{}, {}])).length } }),
    })
    await using engine = await openWith([parent, child])
    await engine.operator.pause("child")
    const job = await engine.submit("parent", {})
    const statuses = async () => (await engine.operator.list({ kind: "child" })).jobs.map(({ status }) => status)
    await expect.poll(statuses, { timeout: 30_000 }).toEqual(["queued", "queued"])
    // The first step of a cancellation whose process is killed then.
    await Effect.runPromiseWith(embeddedContext(engine))(JobStore.use((store) => store.cancelJobs([job.id])))
    expect(await statuses()).toEqual(["queued", "queued"])
    await expect(engine.operator.cancel(job)).rejects.toMatchObject({ code: "job_finished" })
    expect(await statuses()).toEqual(["failed", "failed"])
  })

  it("that an operator retries wake their parent, which has the result of the retry", async () => {
    let isBroken = true
    const fragile = jobKind({
      name: "fragile",
      request: z.object({ n: z.number() }),
      run: async ({ failure, request }) => {
        if (request.n === 1 && isBroken) throw failure("content_rejected")
        return { output: {} }
      },
    })
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => {
        const found = await children("a", fragile, [{ n: 1 }, { n: 2 }])
        return { output: { found: found.map(({ status }) => status) } }
      },
    })
    await using kiln = await testEngine({ kinds: [parent, fragile], mode: "manual" })
    const job = await kiln.submit("parent", {})
    await kiln.runNext()
    await kiln.runNext()
    const failed = (await kiln.operator.list({ kind: "fragile", status: "failed" })).jobs[0]
    isBroken = false
    const retried = await kiln.operator.retry(failed?.id ?? "")
    await kiln.drain()
    await kiln.advance(60_000)
    await kiln.drain()
    expect(await kiln.get(retried.id)).toMatchObject({ status: "done" })
    expect(await kiln.get(job)).toMatchObject({ status: "done", output: { found: ["done", "done"] } })
  })

  it.each(["failed", "done"] as const)(
    "of a retried parent have the upload that a child which is %s had",
    async (end) => {
      const ran: Array<string> = []
      let isBroken = true
      const listen = jobKind({
        name: "listen",
        request: z.object({ uploadId: z.string() }),
        output: z.object({ bytes: z.number() }),
        upload: "uploadId",
        limits: { maxFailures: 1 },
        run: async ({ audio, jobId }) => {
          ran.push(jobId)
          if (isBroken && end === "failed") throw new Error("not yet")
          return { output: { bytes: (await audio()).bytes } }
        },
      })
      const parent = jobKind({
        name: "parent",
        request: z.object({ uploadId: z.string() }),
        limits: { maxFailures: 1 },
        run: async ({ children, request: { uploadId } }) => {
          await children("clips", clip, [{ n: 1 }])
          const [heard] = await children("listen", listen, [{ uploadId }])
          if (isBroken) throw new Error("broken")
          return { output: { bytes: heard?.status === "done" ? (heard.output?.bytes ?? null) : null } }
        },
      })
      await using engine = await openWith([parent, listen, clip])
      const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 })
      await engine.receiveUpload(upload, "audio/wav", new TextEncoder().encode("RIFF0000WAVEfmt "))
      const first = await engine.submitAndWait("parent", { uploadId: upload.id }, { timeoutMs: 60_000 })
      expect(first).toMatchObject({ status: "failed", errorCode: "internal_error" })
      // A retry that fails too hands the upload on once more.
      const second = await engine.wait(await engine.operator.retry(first), { timeoutMs: 60_000 })
      expect(second).toMatchObject({ status: "failed" })
      isBroken = false
      const third = await engine.wait(await engine.operator.retry(second), { timeoutMs: 60_000 })
      expect(third).toMatchObject({ status: "done", output: { bytes: 16 } })
      // A child that is done does not run again.
      expect(new Set(ran).size).toBe(end === "done" ? 1 : 3)
    },
  )

  it("carry the context of the parent's submission", async () => {
    let user: string | undefined
    const child = jobKind({
      name: "child",
      request: z.object({}),
      run: async () => ({ output: { user: user ?? null } }),
    })
    const parent = jobKind({
      name: "parent",
      request: z.object({}),
      run: async ({ children }) => {
        const [only] = await children("only", child, [{}])
        return { output: { user: only?.status === "done" ? (only.output?.user ?? null) : null } }
      },
    })
    await using engine = await createEngine({
      store: memoryStore(),
      blobs: memoryBlobs(),
      kinds: [parent, child],
      log: false,
      context: {
        capture: () => "ada",
        restore: (value, run) => {
          user = value
          return run()
        },
      },
    })
    expect(await engine.submitAndWait("parent", {})).toMatchObject({ output: { user: "ada" } })
  })

  it.each<
    [string, (children: (step: string, kind: never, requests: never) => Promise<unknown>) => Promise<unknown>, string]
  >([
    [
      "a request that its kind refuses",
      (children) => children("a", "clip" as never, [{ n: "x" }] as never),
      'child 0 of children("a") was refused: InvalidRequest: n (type)',
    ],
    [
      "a kind that the engine does not have",
      (children) => children("a", "clp" as never, [{}] as never),
      'unknown job kind "clp"; did you mean "clip"?',
    ],
    [
      "a step whose name is used twice",
      async (children) => {
        await children("a", "clip" as never, [] as never)
        return children("a", "clip" as never, [] as never)
      },
      'step "a" was used twice in this attempt',
    ],
    [
      "requests outside of an array",
      (children) => children("a", "clip" as never, { n: 1 } as never),
      'children("a") expects an array of requests as its third argument',
    ],
    [
      "no kind at all",
      (children) => children("a", undefined as never, [] as never),
      'children("a") expects a kind or its name as its second argument',
    ],
  ])("fail their parent at once for %s", async (_, call, message) => {
    const told: Array<unknown> = []
    const bad = jobKind({
      name: "bad",
      request: z.object({}),
      run: async ({ children }) => {
        await call(children)
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [bad, clip] })
    kiln.on("failed", ({ error }) => void told.push(error))
    expect(await kiln.submit("bad", {})).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(String((told[0] as Error).message || (told[0] as { text?: string }).text)).toContain(message)
  })

  it("must have the same requests in each attempt, not only the same number", async () => {
    let first = 1
    const changing = jobKind({
      name: "changing",
      request: z.object({}),
      run: async ({ children }) =>
        ({ output: { found: await children("a", clip, [{ n: first++ }, { n: 1 }]) } }) as never,
    })
    const log: Array<string> = []
    await using kiln = await testEngine({ kinds: [changing, clip] })
    kiln.on("failed", ({ error }) => void log.push((error as Error).message))
    expect(await kiln.submit("changing", {})).toMatchObject({ status: "failed", errorCode: "internal_error" })
    expect(log).toEqual([
      'child 0 of children("a") was another request in an earlier attempt; give a step the same requests each time',
    ])
    expect((await kiln.operator.list({ kind: "clip" })).jobs).toHaveLength(2)
  })

  it("must be the same in each attempt", async () => {
    let count = 2
    const changing = jobKind({
      name: "changing",
      request: z.object({}),
      run: async ({ children }) => {
        await children(
          "a",
          clip,
          Array.from({ length: count-- }, (_, n) => ({ n })),
        )
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [changing, clip] })
    expect(await kiln.submit("changing", {})).toMatchObject({ status: "failed", errorCode: "internal_error" })
  })

  it("end the attempt even if the kind catches everything", async () => {
    const stubborn = jobKind({
      name: "stubborn",
      request: z.object({}),
      run: async ({ children }) => {
        const found = await children("a", clip, [{ n: 1 }]).catch(() => [])
        return { output: { found: found.length } }
      },
    })
    await using kiln = await testEngine({ kinds: [stubborn, clip] })
    expect(await kiln.submit("stubborn", {})).toMatchObject({ status: "done", output: { found: 1 } })
  })
})
