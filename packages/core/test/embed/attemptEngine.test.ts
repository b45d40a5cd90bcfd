import { jobKind } from "@kiln/core"
import { JobKind } from "@kiln/core/kinds"
import { testEngine } from "@kiln/testing"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const mail = jobKind({
  name: "mail",
  request: z.object({ to: z.string() }),
  output: z.object({ sent: z.string() }),
  metadata: ["to"],
  run: async ({ request }) => ({ output: { sent: request.to } }),
})

const sound = jobKind({
  name: "sound",
  request: z.object({ text: z.string() }),
  output: z.object({}),
  files: ["audio"],
  run: async ({ request, writeFile }) => {
    await writeFile("audio", async () => ({ data: new TextEncoder().encode(request.text), mediaType: "audio/mpeg" }))
    return { output: {} }
  },
})

describe("the engine of an attempt", () => {
  it("submits one job for each step, however often the attempt is repeated", async () => {
    let failures = 2
    const ids = new Set<string>()
    const order = jobKind({
      name: "order",
      request: z.object({ to: z.string() }),
      run: async ({ engine, request }) => {
        const sent = await engine.submit("mail", mail, { to: request.to }, { tags: ["order"], priority: "high" })
        ids.add(sent.id)
        if (failures-- > 0) throw new Error("not yet")
        await engine.submit("later", "mail", { to: "later" }, { delayMs: 60_000 })
        return { output: { mail: sent.id } }
      },
    })
    await using engine = await openWith([order, mail])
    const job = await engine.submitAndWait("order", { to: "ada" }, { project: "shop", timeoutMs: 60_000 })
    expect(job).toMatchObject({ status: "done", attempts: 3, output: { mail: [...ids][0] } })
    const { jobs } = await engine.operator.list({ kind: "mail", project: "shop" })
    expect(jobs).toHaveLength(2)
    expect(ids.size).toBe(1)
    expect(await engine.wait([...ids][0] ?? "")).toMatchObject({
      status: "done",
      tags: ["order"],
      priority: "high",
      output: { sent: "ada" },
    })
  })

  it("submits nothing again in the retry of a failed job, unless that runs from the start", async () => {
    let isBroken = true
    const order = jobKind({
      name: "order",
      request: z.object({}),
      run: async ({ engine, failure }) => {
        await engine.submit("mail", mail, { to: "ada" })
        if (isBroken) throw failure("internal_error")
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [order, mail] })
    const failed = await kiln.submit("order", {})
    isBroken = false
    const again = await kiln.operator.retry(failed)
    expect(again.status).toBe("done")
    expect((await kiln.operator.list({ kind: "mail" })).jobs).toHaveLength(1)
    isBroken = true
    const second = await kiln.submit("order", {})
    isBroken = false
    await kiln.operator.retry(second, { from: "start" })
    expect((await kiln.operator.list({ kind: "mail" })).jobs).toHaveLength(3)
  })

  it("reads a child's file and its job, typed by its kind, without the engine at hand", async () => {
    const film = jobKind({
      name: "film",
      request: z.object({}),
      output: z.object({ text: z.string(), streamed: z.string(), bytes: z.number() }),
      run: async ({ children, engine }) => {
        const [child] = await children("sound", sound, [{ text: "clay" }])
        if (child?.status !== "done" || child.output === null) throw new Error("no child")
        const job = await engine.get(child.id, sound)
        // The type of the output is that of the kind.
        const bytes = job.status === "done" ? (job.output?.audio.bytes ?? 0) : 0
        const text = new TextDecoder().decode(await engine.readFile(child.output.audio))
        let streamed = ""
        for await (const piece of engine.streamFile(child.output.audio)) streamed += new TextDecoder().decode(piece)
        return { output: { text, streamed, bytes } }
      },
    })
    await using engine = await openWith([film, sound])
    expect(await engine.submitAndWait("film", {}, { timeoutMs: 60_000 })).toMatchObject({
      status: "done",
      output: { text: "clay", streamed: "clay", bytes: 4 },
    })
  })

  it("signals and cancels jobs of the same project, and sees no others", async () => {
    const waiting = jobKind({
      name: "waiting",
      request: z.object({}),
      output: z.object({ by: z.string() }),
      run: async ({ waitFor }) => {
        const go = await waitFor("go", { timeout: "1 day", schema: z.string() })
        return { output: { by: go.timedOut ? "nobody" : go.value } }
      },
    })
    const caught: Array<unknown> = []
    const boss = jobKind({
      name: "boss",
      request: z.object({ start: z.string(), stop: z.string(), other: z.string() }),
      run: async ({ engine, request }) => {
        await engine.signal(request.start, "go", "boss")
        await engine.cancel(request.stop)
        for (const verb of [engine.get, engine.cancel]) await verb(request.other).catch((e: unknown) => caught.push(e))
        await engine.get(request.start, mail).catch((e: unknown) => caught.push(e))
        await engine.readFile({ id: "fil_x" }).catch((e: unknown) => caught.push(e))
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [boss, waiting, mail], mode: "manual" })
    const start = await kiln.submit("waiting", {})
    const stop = await kiln.submit("waiting", {})
    const other = await kiln.submit("waiting", {}, { project: "other" })
    await kiln.drain()
    const job = await kiln.submit("boss", { start: start.id, stop: stop.id, other: other.id })
    await kiln.drain()
    expect((await kiln.get(job)).status).toBe("done")
    expect(await kiln.get(start)).toMatchObject({ status: "done", output: { by: "boss" } })
    expect(await kiln.get(stop)).toMatchObject({ status: "failed", errorCode: "canceled_by_operator" })
    expect((await kiln.get(other)).status).toBe("processing")
    expect(caught.map((error) => (error as { code?: string }).code)).toEqual([
      "job_not_found",
      "job_not_found",
      "job_not_found",
      "file_gone",
    ])
  })

  it("cancels a job as often as the attempt is repeated, and rejects for jobs that have ended otherwise", async () => {
    const caught: Array<unknown> = []
    const boss = jobKind({
      name: "boss",
      request: z.object({ sent: z.string() }),
      run: async ({ engine, request, sleep }) => {
        const reminder = await engine.submit("reminder", mail, { to: "ada" }, { delayMs: 60_000 })
        await engine.cancel(reminder)
        await sleep("after", "1 second")
        await engine.cancel(request.sent).catch((e: unknown) => caught.push(e))
        return { output: { reminder: reminder.id } }
      },
    })
    await using kiln = await testEngine({ kinds: [boss, mail], mode: "manual" })
    const sent = await kiln.submit("mail", { to: "ada" })
    await kiln.drain()
    const job = await kiln.submit("boss", { sent: sent.id })
    await kiln.drain()
    await kiln.advance("2 seconds")
    await kiln.drain()
    expect(await kiln.get(job)).toMatchObject({ status: "done" })
    expect(caught).toMatchObject([{ code: "job_finished" }])
  })

  it("is the same for kinds with Effect", async () => {
    const order = JobKind({
      name: "order",
      request: z.object({}),
      run: ({ children, engine }) =>
        Effect.gen(function* () {
          const mailId = yield* engine.submit("mail", "mail", { to: "ada" })
          const [child] = yield* children("sound", "sound", [{ text: "fire" }])
          const job = yield* engine.get(child?.id ?? "")
          const text = yield* Stream.mkString(Stream.decodeText(engine.readFile(job.files[0]?.id ?? "")))
          return { output: { mailId, text }, files: [], usage: {} }
        }).pipe(Effect.catchTag(["JobNotFound", "FileGone"], (error) => Effect.die(error))),
    })
    await using engine = await openWith([order as never, sound, mail])
    const job = await engine.submitAndWait("order" as never, {} as never, { timeoutMs: 60_000 })
    expect(job).toMatchObject({ status: "done", output: { text: "fire" } })
    expect((await engine.operator.list({ kind: "mail" })).jobs).toHaveLength(1)
  })

  it.each<[string, (engine: never) => Promise<unknown>, string]>([
    [
      "a request that the kind refuses",
      (engine: { submit: (...given: ReadonlyArray<unknown>) => Promise<unknown> }) =>
        engine.submit("a", "mail", { to: 1 }),
      'the job of engine.submit("a") was refused: InvalidRequest: to (type)',
    ],
    [
      "an unknown kind",
      (engine: { submit: (...given: ReadonlyArray<unknown>) => Promise<unknown> }) => engine.submit("a", "mial", {}),
      'unknown job kind "mial"; did you mean "mail"?',
    ],
    [
      "an unknown option",
      (engine: { submit: (...given: ReadonlyArray<unknown>) => Promise<unknown> }) =>
        engine.submit("a", "mail", { to: "x" }, { delay: 1 }),
      'unknown option "delay" in engine.submit(); did you mean "delayMs"?',
    ],
    [
      "a step whose name is used twice",
      async (engine: { submit: (...given: ReadonlyArray<unknown>) => Promise<unknown> }) => {
        await engine.submit("a", "mail", { to: "x" })
        return engine.submit("a", "mail", { to: "y" })
      },
      'step "a" was used twice in this attempt',
    ],
    [
      "metadata that the kind keeps",
      (engine: { submit: (...given: ReadonlyArray<unknown>) => Promise<unknown> }) =>
        engine.submit("a", "mail", { to: "x" }, { metadata: { to: "y" } }),
      "metadata.to: the kind mail keeps the request field of this name",
    ],
  ] as never)("fails its job at once for %s", async (_, call, message) => {
    const told: Array<string> = []
    const bad = jobKind({
      name: "bad",
      request: z.object({}),
      run: async ({ engine }) => {
        await call(engine as never)
        return { output: {} }
      },
    })
    await using kiln = await testEngine({ kinds: [bad, mail] })
    kiln.on("failed", ({ error }) => void told.push((error as Error).message))
    expect(await kiln.submit("bad", {})).toMatchObject({ status: "failed", errorCode: "internal_error", attempts: 1 })
    expect(told[0]).toContain(message)
  })
})
