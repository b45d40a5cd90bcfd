import { createEngine, jobKind } from "@kiln/core"
import { defaultEngineSettings } from "@kiln/core/effect"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { expect, it } from "vitest"
import { z } from "zod"
import { settingsOf } from "../../src/embed/settingsOf.ts"

const echo = jobKind({ name: "echo", request: z.object({}), run: async () => ({ output: {} }) })
const speaking = jobKind({
  name: "speaking",
  request: z.object({}),
  providers: ["speech"],
  run: async () => ({ output: {} }),
})
const parts = () => ({ store: memoryStore(), blobs: memoryBlobs(), autoStart: false, log: false }) as const
const speech = async () => ({ data: new Uint8Array(1), contentType: "audio/mpeg", characters: 1 }) as never

class Providers {
  readonly name = "acme"
  readonly #calls = { count: 0 }
  readonly client = { calls: this.#calls }
  readonly images = "a field like a provider"
  readonly speech = speech
  close() {}
}
class InheritedProviders {
  readonly client = {}
  get speech() {
    return speech
  }
}

it.each([
  ["a class instance", new Providers()],
  ["a class instance whose providers are accessors", new InheritedProviders()],
  ["a spread with helpers", { speech, client: {}, name: "acme", close() {} }],
  ["a helper whose name resembles a provider's", { speech, speach: {} }],
])("providers may be %s", async (_, live) => {
  await using engine = await createEngine({ ...parts(), kinds: [speaking], providers: { live } })
  expect(await engine.submit("speaking", {})).toMatchObject({ mode: "live", status: "queued" })
  await using test = await testEngine({ kinds: [speaking], providers: live })
  expect(await test.submit("speaking", {})).toMatchObject({ status: "done" })
})

it("a set without providers, and modes of a class, are accepted", async () => {
  class Modes {
    readonly note = "ours"
    readonly sandbox = {}
    readonly live = undefined
  }
  await using engine = await createEngine({ ...parts(), kinds: [echo], providers: new Modes() } as never)
  expect(engine.operator).toBeDefined()
})

class Attempts {
  readonly source = "environment"
  readonly maxFailures = 2
}
class Settings {
  readonly note = "ours"
  readonly #idle = 4_000
  readonly concurrency = 3
  readonly attempts = new Attempts()
  readonly queueCap = undefined
  get idlePollIntervalMs() {
    return this.#idle
  }
}

it("settings may be a class instance: its settings are read, its other fields are not", async () => {
  expect(settingsOf(new Settings() as never)).toEqual({
    ...defaultEngineSettings,
    concurrency: 3,
    idlePollIntervalMs: 4_000,
    attempts: { ...defaultEngineSettings.attempts, maxFailures: 2 },
  })
  expect(() => settingsOf({ attempts: Object.assign(new Attempts(), { maxFailures: 0 }) })).toThrow(
    "settings.attempts.maxFailures must be a positive integer",
  )
  await using kiln = await testEngine({ kinds: [echo], settings: new Settings() })
  expect(await kiln.submit("echo", {})).toMatchObject({ status: "done" })
})

it("an undefined setting counts as not given", () => {
  const perKind = { echo: undefined, other: 2 } as never
  expect(settingsOf({ limits: { perKind }, queueCap: undefined }).limits.perKind).toStrictEqual({ other: 2 })
})

it("options of a call may be a class instance", async () => {
  await using kiln = await testEngine({ kinds: [echo] })
  const options = new (class {
    readonly traceId = "t"
    readonly priority = "high"
  })()
  expect(await kiln.submit("echo", {}, options as never)).toMatchObject({ status: "done" })
})

it("methods of one argument may be given to map", async () => {
  await using kiln = await createEngine({ ...parts(), autoStart: true, kinds: [echo] })
  const jobs = [await kiln.submit("echo", {}), await kiln.submit("echo", {})]
  const ids = jobs.map(({ id }) => id)
  const map = <A>(method: (id: string) => A): ReadonlyArray<A> => ids.map(method)
  expect(await Promise.all(map(kiln.wait))).toMatchObject(ids.map((id) => ({ id })))
  expect(await Promise.all(map(kiln.get))).toMatchObject(ids.map((id) => ({ id })))
  await Promise.all(map(kiln.eraseData))
})
