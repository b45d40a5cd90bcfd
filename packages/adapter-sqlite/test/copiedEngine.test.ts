import { copyFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { builtInKinds, createEngine, StoreCopied } from "@kiln/core"
import { memoryBlobs } from "@kiln/testing"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { sqliteStore } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const engineOn = (path: string, more: { readonly autoStart?: boolean; readonly allowCopies?: boolean } = {}) =>
  createEngine({
    store: sqliteStore({ path, allowCopies: more.allowCopies }),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders(), live: sandboxProviders() },
    autoStart: more.autoStart ?? true,
    log: false,
  })

const voice = { name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.001" } }

/** A database in which an engine has run, closed with a live and a sandbox job in its queue, and a copy of it. */
const copied = Effect.gen(function* () {
  const path = yield* temporaryFile
  const jobs = yield* Effect.promise(async () => {
    await (await engineOn(path)).stop()
    await using engine = await engineOn(path, { autoStart: false })
    for (const name of ["ai", "audio"] as const) await engine.operator.setSwitch(name, true)
    await engine.operator.setPrice(voice)
    const live = await engine.submit("speech_synthesis", { input: "live" }, { mode: "live" })
    const sandbox = await engine.submit("speech_synthesis", { input: "sandbox" }, { mode: "sandbox" })
    return { live: live.id, sandbox: sandbox.id }
  })
  const copy = yield* temporaryFile
  copyFileSync(path, copy)
  return { path, copy, ...jobs }
})

it.live("an engine does not start on a copy, and continues with it once it is adopted; live jobs are canceled", () =>
  Effect.gen(function* () {
    const { copy, live, path, sandbox } = yield* copied
    yield* Effect.promise(async () => {
      await expect(engineOn(copy)).rejects.toThrow(StoreCopied)
      await using engine = await engineOn(copy, { autoStart: false })
      const refusal = await engine.start().catch((error: unknown) => error)
      expect(refusal).toMatchObject({ _tag: "StoreCopied", recorded: path, found: copy })
      expect(String(refusal)).toContain("adoptCopy()")
      expect(await engine.get(live)).toMatchObject({ status: "queued" })
      await expect(engine.operator.adoptCopy({ unfinished: "run" as "keep" })).rejects.toThrow(
        'unknown unfinished "run"; known: cancel, keep',
      )
      expect(await engine.operator.adoptCopy({ unfinished: "cancel" })).toEqual({ adopted: true, canceled: 1 })
      expect(await engine.operator.adoptCopy({ unfinished: "cancel" })).toEqual({ adopted: false, canceled: 0 })
      await engine.start()
      expect(await engine.wait(live)).toMatchObject({ status: "failed", errorCode: "canceled_by_operator" })
      expect(await engine.wait(sandbox, { timeoutMs: 20_000 })).toMatchObject({ status: "done" })
      for await (const charge of engine.operator.listCharges({ from: new Date(0), to: new Date() }))
        expect.fail(`the canceled job was charged: ${charge.amount}`)
    })
  }),
)

it.live(
  "a copy fires no schedule and calls no onFinished; once adopted, it does, without the ticks that were due",
  () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const copy = yield* temporaryFile
      const calls: Array<string> = []
      const open = (at: string, autoStart: boolean) =>
        createEngine({
          store: sqliteStore({ path: at }),
          blobs: memoryBlobs(),
          kinds: builtInKinds(),
          providers: { sandbox: sandboxProviders() },
          onFinished: ({ job }) => void calls.push(`${at} ${job.id}`),
          autoStart,
          log: false,
        })
      yield* Effect.promise(async () => {
        await (await open(path, true)).stop()
        const finished = await (async () => {
          await using engine = await open(path, false)
          await engine.schedules.set("hourly", {
            kind: "speech_synthesis",
            request: { input: "scheduled" },
            everyMs: 3_600_000,
          })
          const { id } = await engine.submit("speech_synthesis", { input: "canceled" })
          await engine.operator.cancel(id)
          return id
        })()
        const database = new DatabaseSync(path)
        database.exec("UPDATE kiln_schedules SET next_at = 1")
        database.close()
        copyFileSync(path, copy)

        await expect(open(copy, true)).rejects.toThrow(StoreCopied)
        await using engine = await open(copy, false)
        await expect(engine.start()).rejects.toThrow(StoreCopied)
        expect(calls).toEqual([])
        const jobs = async () => (await engine.operator.list()).jobs.map(({ id }) => id)
        expect(await jobs()).toEqual([finished])
        await engine.operator.adoptCopy({ unfinished: "cancel" })
        await engine.start()
        await expect.poll(() => calls, { timeout: 60_000 }).toEqual([`${copy} ${finished}`])
        expect(await jobs()).toEqual([finished])
        const [schedule] = await engine.schedules.list()
        expect(schedule?.nextAt?.getTime()).toBeGreaterThan(Date.now())
      })
    }),
)

it.live("a database that was moved is adopted with its jobs", () =>
  Effect.gen(function* () {
    const { copy, live } = yield* copied
    yield* Effect.promise(async () => {
      await using engine = await engineOn(copy, { autoStart: false })
      expect(await engine.operator.adoptCopy({ unfinished: "keep" })).toEqual({ adopted: true, canceled: 0 })
      await engine.start()
      expect(await engine.wait(live, { timeoutMs: 20_000 })).toMatchObject({ status: "done" })
    })
  }),
)

it.live("a store that allows copies runs their jobs", () =>
  Effect.gen(function* () {
    const { copy, sandbox } = yield* copied
    yield* Effect.promise(async () => {
      await using engine = await engineOn(copy, { allowCopies: true })
      expect(await engine.wait(sandbox, { timeoutMs: 20_000 })).toMatchObject({ status: "done" })
    })
  }),
)
