import { Effect, Layer, Redacted, Schema } from "effect"
import { FetchHttpClient } from "effect/http"
import { describe, expect, expectTypeOf, it } from "vitest"
import { createClient, jobRoute } from "@kiln/client"
import { makeKilnClient, waitForJob } from "@kiln/client/effect"
import { createEngine } from "@kiln/core"
import { JobKind } from "@kiln/core/kinds"
import { openApiDocument } from "@kiln/http"
import { createApiKey, fetchHandler } from "@kiln/http/mount"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { simulate } from "@kiln/simulation"
import { MemoryStores, memoryBlobs, memoryStore } from "@kiln/testing"

// One declaration and one route: everything below finds the kind through these.
const dictation = JobKind({
  name: "voice_memo",
  description: "A text in, a memo spoken in a mood out.",
  request: Schema.Struct({
    memoText: Schema.String.check(Schema.isMinLength(1)).annotate({ description: "What the memo says." }),
    mood: Schema.optionalKey(Schema.Literals(["calm", "urgent"])),
    repeatCount: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 }))),
  }),
  example: { memoText: "Buy clay.", mood: "calm" },
  output: Schema.Struct({ memoTitle: Schema.String.annotate({ description: "The first word." }) }),
  files: { memo: "The spoken memo." },
  providers: ["speech"],
  run: Effect.fnUntraced(function* ({ ask, writeFile, request }) {
    const memo = yield* writeFile("memo", ask.speech({ text: request.memoText, voice: "alloy" }))
    return { output: { memoTitle: request.memoText.split(" ")[0] ?? "" }, files: [memo], usage: {} }
  }),
})
const route = jobRoute(dictation, { path: "/v1/voice/memos" })
const publicUrl = "https://kiln.example"

const open = async () => {
  const engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: [dictation],
    providers: { sandbox: sandboxProviders() },
    settings: { pollIntervalMs: 20 },
    log: false,
  })
  const handle = await fetchHandler(engine, { publicUrl, routes: [route], pages: true })
  const { key } = await createApiKey(engine, { scopes: ["voice_memo.create"] })
  const fetch: typeof globalThis.fetch = (input, init) => handle(new Request(input, init))
  return { engine, fetch, key, [Symbol.asyncDispose]: () => engine.stop() }
}

describe("a kind declared in one place", () => {
  it("is in the OpenAPI document", () => {
    const { components, paths } = openApiDocument({ serverUrl: publicUrl, kinds: [dictation], routes: [route] })
    expect(Object.keys(paths)).toEqual(
      expect.arrayContaining(["/v1/voice/memos", "/v1/voice/memos/{id}", "/v1/voice/memos/{id}/data"]),
    )
    expect(components.schemas["CreateVoiceMemo"]).toMatchObject({
      properties: {
        memo_text: { type: "string", description: "What the memo says." },
        mood: { enum: ["calm", "urgent"] },
        repeat_count: { type: "integer", minimum: 1, maximum: 3 },
      },
      required: ["memo_text"],
      additionalProperties: false,
      examples: [{ memo_text: "Buy clay.", mood: "calm" }],
    })
    expect(components.schemas["VoiceMemoOutput"]).toMatchObject({ required: ["memo_title", "memo_url"] })
  })

  it("has typed methods in the client for promises", async () => {
    await using service = await open()
    const client = createClient({ baseUrl: publicUrl, apiKey: service.key, fetch: service.fetch, routes: [route] })
    const job = await client.voiceMemo.create({ memo_text: "Fire the kiln.", mood: "urgent" })
    expectTypeOf(job.type).toEqualTypeOf<"voice_memo">()
    expectTypeOf<Parameters<typeof client.voiceMemo.create>[0]["mood"]>().toEqualTypeOf<"calm" | "urgent" | undefined>()
    const done = await client.jobs.wait(job)
    expectTypeOf(done.output?.memo_title).toEqualTypeOf<string | undefined>()
    expect(done.output).toEqual({ memo_title: "Fire", memo_url: expect.stringContaining("/v1/files/fil_") })
    await client.jobs.eraseData(job)
    expect((await client.jobs.get(job)).output).toBeUndefined()
    const { output, status } = await client.voiceMemo.run({ memo_text: "Buy clay." }, { idempotencyKey: "memo" })
    expectTypeOf(output).branded.toEqualTypeOf<{ readonly memo_title: string; readonly memo_url: string }>()
    expect([status, output.memo_title]).toEqual(["done", "Buy"])
  })

  it("has the same types from a route that is written in the call of createClient", () => {
    const client = createClient({ baseUrl: publicUrl, routes: [jobRoute(dictation, { path: "/v1/voice/memos" })] })
    expectTypeOf<Parameters<typeof client.voiceMemo.create>[0]["mood"]>().toEqualTypeOf<"calm" | "urgent" | undefined>()
    expectTypeOf(client).not.toHaveProperty("anotherKind")
    expect(Object.keys(client)).toContain("voiceMemo")
  })

  it("has typed methods in the client for Effect", async () => {
    await using service = await open()
    const program = Effect.gen(function* () {
      const client = yield* makeKilnClient({
        baseUrl: publicUrl,
        apiKey: Redacted.make(service.key),
        routes: [route],
      })
      const { body } = yield* client.voiceMemo.createVoiceMemo({
        headers: { "idempotency-key": "memo-1" },
        payload: { memo_text: "Open the door." },
      })
      const state = yield* waitForJob(client.voiceMemo.pollVoiceMemoJob({ params: { id: body.id } }))
      expectTypeOf(state.output?.memo_title).toEqualTypeOf<string | undefined>()
      return state
    })
    const http = FetchHttpClient.layer.pipe(Layer.provide(Layer.succeed(FetchHttpClient.Fetch, service.fetch)))
    const state = await Effect.runPromise(Effect.provide(program, http))
    expect(state).toMatchObject({ status: "done", output: { memo_title: "Open" } })
  })

  // The page makes the form from the schema in the document.
  it("is named on the page", async () => {
    await using service = await open()
    const html = await (await service.fetch(publicUrl)).text()
    const config = JSON.parse(
      (/data-config="([^"]*)"/.exec(html)?.[1] ?? "").replaceAll("&quot;", '"').replaceAll("&amp;", "&"),
    )
    expect(config.kinds).toEqual([
      expect.objectContaining({ name: "voice_memo", path: "/v1/voice/memos", schema: "CreateVoiceMemo" }),
    ])
  })

  it("is run by the simulation", () => {
    const kinds = [dictation]
    const stores = Effect.runSync(Effect.scoped(Layer.build(Layer.fresh(MemoryStores.layer))))
    const { finished, jobs, violation } = simulate(stores, {
      seed: 3,
      mode: "liveness",
      jobs: 6,
      kinds,
    })
    expect(violation).toBeUndefined()
    expect([jobs > 0, finished]).toEqual([true, jobs])
  })
})
