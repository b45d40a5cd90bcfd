import { createEngine, jobKind, providerBroken, providerPort } from "@kiln/core"
import type { ProviderSet } from "@kiln/core/providers"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { limitedInSandbox } from "../../src/providers/sandboxLimits.ts"

const bounds = { concurrency: 0, callLimitMs: 60_000 }
const rate = { limit: 1, perMs: 60_000, burst: 2 } as const
const embedding = providerPort({ name: "embedding", check: String, example: "0.5", rate })
const embed = jobKind({
  name: "embed",
  request: z.object({}),
  providers: [embedding],
  run: async ({ ask }) => {
    await ask.embedding({})
    return { output: {} }
  },
})
const kinds = [embed]
const requests = Array.from({ length: 5 }, () => ({ request: {} }))

describe("the limits of a provider in the sandbox", () => {
  const one = () => null as never
  const other = () => null as never
  it.each<[what: string, name: string, sandbox: ProviderSet, live: ProviderSet, own: object, isLimited: boolean]>([
    ["hold for a port of the program's own without another live provider", "mine", { mine: one }, {}, {}, true],
    ["hold for such a port whose provider serves both modes", "mine", { mine: one }, { mine: one }, {}, true],
    [
      "do not hold for a provider that stands in for a live one",
      "mine",
      { mine: one },
      { mine: other },
      { rate },
      false,
    ],
    ["do not hold for a built-in port that nobody has limited", "speech", { speech: one }, {}, {}, false],
    ["hold for a built-in port with a rate", "speech", { speech: one }, {}, { rate }, true],
    ["hold for a built-in port with a limit of calls", "speech", { speech: one }, {}, { concurrency: 1 }, true],
    ["hold for a built-in port with a time limit", "speech", { speech: one }, {}, { callLimitMs: 5_000 }, true],
    ["hold for a name that every object inherits", "constructor", { ["constructor"]: one }, {}, {}, true],
    ["do not hold for what is not there, although every object inherits the name", "constructor", {}, {}, {}, false],
    ["do not hold for what is not there", "mine", {}, { mine: one }, { rate }, false],
  ])("%s", (_, name, sandbox, live, own, isLimited) => {
    const limited = limitedInSandbox({ live, sandbox }, [{ name, bounds }], { [name]: { ...bounds, ...own } })
    expect([...limited]).toEqual(isLimited ? [name] : [])
  })

  it("are those that the program has set, in the default mode", async () => {
    let calls = 0
    const answer = async () => {
      calls += 1
      return "0.5"
    }
    for (const providers of [
      { sandbox: { embedding: answer } },
      { sandbox: { embedding: answer }, live: { embedding: answer } },
    ]) {
      calls = 0
      await using engine = await createEngine({
        store: memoryStore(),
        blobs: memoryBlobs(),
        kinds,
        providers,
        log: false,
      })
      const [first, second] = await Promise.all(requests.map(() => engine.submit("embed", {})))
      if (first === undefined || second === undefined) throw new Error("no jobs")
      await Promise.all([engine.wait(first), engine.wait(second)])
      await new Promise((resolve) => setTimeout(resolve, 200))
      expect(calls).toBe(2)
    }
  })

  it("are said to hold for live jobs only, at the start, if the sandbox has another provider", async () => {
    const said: Array<string> = []
    const open = async (live: () => Promise<string>) => {
      const sandbox = async () => "0.5"
      await using _engine = await createEngine({
        store: memoryStore(),
        kinds,
        providers: { sandbox: { embedding: sandbox }, live: { embedding: live === answer ? sandbox : live } },
        log: ({ message }) => said.push(message),
      })
    }
    const answer = async () => "0.5"
    await open(answer)
    expect(said).toEqual([])
    await open(async () => "0.7")
    expect(said).toEqual([
      "rate, concurrency and callLimitMs of embedding hold for live jobs only: sandbox jobs use another provider",
    ])
  })

  it("are said to be missing, at the start, if a built-in port has none in the sandbox", async () => {
    const said: Array<string> = []
    const talk = jobKind({ name: "talk", request: z.object({}), providers: ["speech"], run: async () => undefined })
    const speech = async () => Promise.reject(new Error("no connection"))
    for (const settings of [{}, { providers: { speech: { callLimitMs: 30_000 } } }]) {
      await using _engine = await createEngine({
        store: memoryStore(),
        blobs: memoryBlobs(),
        kinds: [talk],
        providers: { sandbox: { speech } },
        settings,
        log: ({ message }) => said.push(message),
      })
    }
    expect(said).toEqual([
      "calls of speech by sandbox jobs have no timeout and no circuit: set rate, concurrency or callLimitMs of these providers to have both",
    ])
  })

  it("of a kind hold in both modes, each by itself", async () => {
    const plain = jobKind({ name: "plain", request: z.object({}), limits: { rate }, run: async () => undefined })
    await using kiln = await testEngine({ kinds: [plain], mode: "manual" })
    for (const mode of ["sandbox", "live"] as const)
      await kiln.submitMany(
        "plain",
        requests.map((each) => ({ ...each, mode })),
      )
    expect(await kiln.drain()).toBe(4)
    await kiln.advance(60_000)
    expect(await kiln.drain()).toBe(2)
  })

  it("follow virtual time", async () => {
    await using kiln = await testEngine({ kinds, mode: "manual" })
    await kiln.submitMany("embed", requests)
    expect(await kiln.drain()).toBe(2)
    await kiln.advance(60_000)
    expect(await kiln.drain()).toBe(1)
    expect(kiln.providers.embedding.calls).toHaveLength(3)
  })

  it("pause it when it is broken", async () => {
    await using kiln = await testEngine({
      kinds,
      mode: "manual",
      providers: { embedding: async () => Promise.reject(providerBroken("quota", "none left")) },
    })
    await kiln.submitMany("embed", requests)
    expect(await kiln.drain()).toBe(1)
    expect(await kiln.runNext()).toBe(undefined)
  })
})
