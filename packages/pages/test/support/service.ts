import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as Effect from "effect/Effect"
import { z } from "zod"
import { jobRoute } from "@kiln/client"
import { builtInKinds, createEngine, jobKind } from "@kiln/core"
import type { KeyId } from "@kiln/core/domain"
import { embeddedContext } from "@kiln/core/effect"
import { KeyDirectory, Switchboard } from "@kiln/core/ports"
import { createApiKey, nodeHandler } from "@kiln/http/mount"
import { audioProbe } from "@kiln/media-probe"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs, memoryStore } from "@kiln/testing"

/** A kind of one's own: text, a number, a choice, a file. */
const summary = jobKind({
  name: "text_summary",
  description: "Keeps the first words of a text.",
  request: z.strictObject({
    text: z.string().min(1).max(200).describe("The text to shorten."),
    words: z.number().int().min(1).max(20).default(3),
    style: z.enum(["plain", "loud"]).optional(),
  }),
  output: z.object({ summary: z.string(), words: z.number() }),
  files: ["page"],
  errorCodes: ["text_unreadable"],
  run: async ({ failure, request, writeFile }) => {
    if (request.text === "unreadable")
      throw failure("text_unreadable", { message: "for the log", publicMessage: "Send text with spaces." })
    const words = request.text.split(" ").slice(0, request.words)
    await writeFile("page", async () => ({ data: new TextEncoder().encode(words.join(" ")), mediaType: "text/plain" }))
    return { output: { summary: `${words.join(" ")} and so on`, words: words.length } }
  },
})

const prices = {
  "svc-audio": { input_audio_seconds: "0.0001", input_characters: "0.000015", output_tokens: "0.00002" },
  "svc-image": { images: "0.011" },
}

/** A service with its pages on a free port of this machine, over stores in memory. */
export const openService = async (options: { readonly playground?: boolean } = {}) => {
  const engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    probe: audioProbe(),
    kinds: [...builtInKinds(), summary],
    providers: { sandbox: sandboxProviders({ steering: true }), live: sandboxProviders() as never },
    log: false,
    settings: { concurrency: 4 },
  })
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const handler = await nodeHandler(engine, {
    publicUrl: url,
    pages: true,
    playground: options.playground ?? true,
    routes: [jobRoute(summary, { path: "/v1/summaries" })],
    rateLimits: { pages: { perMinute: 0, burst: 0 } },
  })
  server.on("request", handler)
  const createKey = (expiresAt?: Date, mode: "test" | "live" = "test") =>
    createApiKey(engine, {
      mode,
      scopes: ["audio.create", "images.create", "text_summary.create"],
      ...(expiresAt && { expiresAt }),
    })
  /** Revokes a key as `kiln key revoke` does. */
  const revokeKey = (keyId: string): Promise<unknown> =>
    Effect.runPromise(
      Effect.provideContext(
        Effect.flatMap(KeyDirectory, (keys) => keys.revokeKey(keyId as KeyId)),
        embeddedContext(engine),
      ),
    )
  /** Turns the switches on and sets the prices, as an operator does. */
  const openLive = (): Promise<unknown> =>
    Effect.runPromise(
      Effect.provideContext(
        Effect.gen(function* () {
          const board = yield* Switchboard
          for (const name of ["ai", "audio", "images"]) yield* board.setSwitch(name, true)
          for (const [name, unitAmounts] of Object.entries(prices)) {
            yield* board.setPrice({ name, currency: "usd", unitAmounts })
            yield* board.activatePrice(name, true)
          }
        }),
        embeddedContext(engine),
      ),
    )
  return {
    engine,
    openLive,
    url,
    server,
    createKey,
    revokeKey,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
      await engine.stop()
    },
  }
}

export type Service = Awaited<ReturnType<typeof openService>>
