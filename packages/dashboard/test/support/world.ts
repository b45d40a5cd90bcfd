import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { z } from "zod"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, type GivenSettings, jobKind, type Kind, type StoreAdapter } from "@kiln/core"
import { embeddedContext } from "@kiln/core/effect"
import { MinuteHistory, type OperatorRole, OperatorTokens } from "@kiln/core/ports"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { dashboard } from "../../src/index.ts"
import { newOperatorToken } from "../../src/token.ts"

/** A text that only its caller may see, wherever it ends up. */
export const canary = "CANARY-3f9a1c"

/** Says its request back, or fails with a message that quotes it. */
const echo = jobKind({
  name: "echo",
  request: z.strictObject({ text: z.string() }),
  output: z.object({ said: z.string() }),
  files: ["page"],
  run: async ({ failure, request, writeFile }) => {
    if (request.text.startsWith("fail")) throw failure("content_rejected", { message: `cannot say ${request.text}` })
    await writeFile("page", async () => ({ data: new TextEncoder().encode(request.text), mediaType: "text/plain" }))
    return { output: { said: request.text } }
  },
})

export type StoreName = "memory" | "sqlite"

// eslint-disable-next-line typescript/no-explicit-any
type Body = any

/** An engine with its dashboard, and tokens. */
export const openWorld = async (
  storeName: StoreName | StoreAdapter,
  settings: GivenSettings = {},
  work: { readonly kinds: ReadonlyArray<Kind>; readonly providers: object } = { kinds: [echo], providers: {} },
) => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-dashboard-"))
  const path = join(directory, "kiln.db")
  const engine = await createEngine({
    store: typeof storeName === "object" ? storeName : storeName === "memory" ? memoryStore() : sqliteStore({ path }),
    blobs: memoryBlobs(),
    // Most tests submit jobs of the one kind.
    kinds: work.kinds as readonly [typeof echo],
    providers: work.providers as never,
    log: false,
    settings: { concurrency: 4, ...settings },
  })
  const { fetch } = await dashboard({ engine })
  const context = embeddedContext(engine)
  const createToken = (name: string, roles: ReadonlyArray<OperatorRole>, expiresAt: number | null = null) =>
    Effect.gen(function* () {
      const { record, secret } = yield* newOperatorToken({ name, roles, expiresAt })
      yield* (yield* OperatorTokens).createToken(record)
      return { secret, id: record.id }
    }).pipe(
      Effect.provide(SecureRandom.layerWebCrypto),
      Effect.provideContext(context as never),
      Effect.runPromise as <A>(effect: Effect.Effect<A, unknown, unknown>) => Promise<A>,
    )
  const tokens = {
    view: (await createToken("wall", ["view"])).secret,
    operate: (await createToken("alice", ["operate"])).secret,
    content: (await createToken("carol", ["content"])).secret,
  }
  /** Sends a request to the API. */
  const ask = async (token: string | undefined, method: string, target: string, body?: unknown, headers = {}) => {
    const response = await fetch(
      new Request(`http://ops.example${target.startsWith("/admin") ? target : `/admin/v1${target}`}`, {
        method,
        headers: {
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(method !== "GET" && method !== "HEAD" && { "content-type": "application/json" }),
          ...headers,
        },
        ...(method !== "GET" && method !== "HEAD" && { body: JSON.stringify(body ?? {}) }),
      }),
    )
    const text = await response.text()
    const parsed: unknown = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : undefined
    return { status: response.status, headers: response.headers, text, body: parsed as Body }
  }
  return {
    engine,
    path,
    context,
    tokens,
    store: {
      /** The recorded minutes. */
      minutes: () =>
        Effect.runPromise(
          Effect.provideContext(
            Effect.flatMap(MinuteHistory, (history) => history.listMinutes(3_600_000)),
            context as never,
          ),
        ),
    },
    createToken,
    fetch,
    ask,
    [Symbol.asyncDispose]: async () => {
      await engine.stop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

export type World = Awaited<ReturnType<typeof openWorld>>
