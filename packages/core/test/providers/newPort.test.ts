import { createEngine, jobKind, type ProviderPort, providerPort, resultInvalid } from "@kiln/core"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { expect, it } from "vitest"
import { z } from "zod"

/** The whole port: name, limits, request type and check of the answer. */
const embedding = providerPort({
  name: "embedding",
  callLimitMs: 5_000,
  check: (answer, _request: { readonly text: string }) => {
    const vector = z.array(z.number()).nonempty().safeParse(answer)
    if (!vector.success) throw resultInvalid("expected a vector of numbers")
    return vector.data
  },
  example: [0.25, 0.5],
})

/** A kind that calls it. */
const search = jobKind({
  name: "search",
  request: z.object({ text: z.string() }),
  output: z.object({ vector: z.array(z.number()) }),
  providers: [embedding],
  run: async ({ ask, request }) => ({ output: { vector: await ask.embedding({ text: request.text }) } }),
})
const kinds = [search]

it("a new port is served by its fake, which returns the port's example", async () => {
  await using kiln = await testEngine({ kinds })
  const job = await kiln.submit("search", { text: "fox" })
  expect(job).toMatchObject({ status: "done", output: { vector: [0.25, 0.5] } })
  expect(kiln.providers.embedding.calls.map(({ request }) => request)).toEqual([{ text: "fox" }])
})

it("its answers are checked: an invalid one fails the attempt, and the next attempt succeeds", async () => {
  await using kiln = await testEngine({ kinds })
  kiln.providers.embedding.malformed([]).answer([1])
  const job = await kiln.submit("search", { text: "fox" })
  expect(job).toMatchObject({ status: "done", output: { vector: [1] } })
  kiln.providers.embedding.always.malformed("text")
  expect(await kiln.submit("search", { text: "fox" })).toMatchObject({ status: "failed", errorCode: "result_invalid" })
})

it("its calls have the port's timeout, or that of the settings", async () => {
  for (const [settings, limitMs] of [
    [{}, 5_000],
    [{ providers: { embedding: { callLimitMs: 2_000 } } }, 2_000],
  ] as const) {
    await using kiln = await testEngine({ kinds, jobMode: "live", settings })
    kiln.providers.embedding
      .answerLate(limitMs - 500)
      .answerLate(limitMs + 500)
      .answer([1])
    expect(await kiln.submit("search", { text: "in time" })).toMatchObject({ output: { vector: [0.25, 0.5] } })
    expect(await kiln.submit("search", { text: "late" })).toMatchObject({ output: { vector: [1] } })
    expect(kiln.providers.embedding.calls.map(({ outcome }) => outcome)).toEqual([
      "answered",
      "interrupted",
      "answered",
    ])
  }
})

it("its calls are limited to the concurrency of the settings", async () => {
  let running = 0
  let most = 0
  const slow = async (): Promise<Array<number>> => {
    most = Math.max(most, ++running)
    await new Promise((resolve) => setTimeout(resolve, 20))
    running--
    return [1]
  }
  await using engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds,
    providers: { live: { embedding: slow } },
    settings: { providers: { embedding: { concurrency: 2 } } },
  })
  await Promise.all(Array.from({ length: 8 }, (_, n) => engine.submitAndWait("search", { text: `${n}` })))
  expect(most).toBe(2)
})

it("the circuit pauses it while it is broken, and its job waits at no cost", async () => {
  await using kiln = await testEngine({ kinds, jobMode: "live" })
  kiln.providers.embedding.fail("quota")
  const job = await kiln.submit("search", { text: "fox" })
  expect(job).toMatchObject({ status: "done", output: { vector: [0.25, 0.5] } })
  expect(kiln.providers.embedding.calls.map(({ failures, outcome }) => [failures, outcome])).toEqual([
    [0, "failed"],
    [0, "answered"],
  ])
})

it("unknown port names are refused, and so are two ports with the same name", async () => {
  const parts = { store: memoryStore(), blobs: memoryBlobs(), kinds }
  await expect(createEngine({ ...parts, providers: { sandbox: {} } } as never)).rejects.toThrow(
    "providers of the kind search: embedding",
  )
  await expect(
    createEngine({ ...parts, providers: { sandbox: { embeding: async () => [1] } } } as never),
  ).rejects.toThrow('did you mean "embedding"?')
  await expect(
    createEngine({
      ...parts,
      providers: { sandbox: { embedding: async () => [1] } },
      settings: { providers: { embeding: { concurrency: 1, callLimitMs: 1 } } },
    }),
  ).rejects.toThrow('did you mean "embedding"?')
  const impostor: ProviderPort = { ...embedding, name: "speech" }
  const other = jobKind({
    name: "other",
    request: z.object({}),
    providers: [impostor],
    run: async () => ({ output: {} }),
  })
  await expect(createEngine({ ...parts, kinds: [other], providers: { sandbox: {} } } as never)).rejects.toThrow(
    'two provider ports are named "speech"',
  )
})
