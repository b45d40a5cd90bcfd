import { createHash } from "node:crypto"
import { IncomingMessage, ServerResponse } from "node:http"
import { Socket } from "node:net"
import { join } from "node:path"
import { formatApiKey } from "@kiln/core/domain"
import { type ApiKeyRecord, KeyDirectory } from "@kiln/core/ports"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { expect, it } from "vitest"
import type * as Authenticator from "../../src/server/Authenticator.ts"
import { Exchange } from "../../src/server/Exchange.ts"
import { NodeSource } from "../../src/server/NodeSource.ts"
import { asStep } from "../../src/server/Ready.ts"
import { parseTrustedProxies } from "../../src/wire/ClientAddress.ts"
import { withBug } from "../../../../tests/planted/withBug.ts"

const secret = formatApiKey("test", new Uint8Array(32).fill(7))
const secretHash = createHash("sha256").update(secret).digest("hex")
const revocationMs = 5_000

const withBugInCache = (from: string, to: string): Promise<typeof Authenticator> =>
  withBug(
    join(import.meta.dirname, "../.."),
    { file: "server/Authenticator.ts", from, to },
    async (directory) => (await import(`${directory}/server/Authenticator.ts`)) as typeof Authenticator,
  )

/** Returns whether a key that is in use stops working within 5 s of its revocation. */
const refusesRevoked = ({ makeAuthenticate }: typeof Authenticator): Promise<boolean> => {
  let record: ApiKeyRecord = {
    id: "key_1",
    projectId: "prj_1",
    mode: "test",
    scopes: ["audio.create"],
    name: null,
    createdAt: 0,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    limits: {},
  }
  const directory = {
    findKey: (hash: string) => Effect.sync(() => (hash === secretHash ? record : undefined)),
    touchKeys: () => Effect.void,
  } as Partial<KeyDirectory["Service"]> as KeyDirectory["Service"]
  const proxies = parseTrustedProxies("")
  if (!proxies.ok) throw new Error("no proxies")
  const message = new IncomingMessage(new Socket())
  message.rawHeaders = ["Authorization", `Bearer ${secret}`]
  const exchange = new Exchange("req_x", new NodeSource(message, new ServerResponse(message)))
  const check = Effect.gen(function* () {
    const authenticate = yield* makeAuthenticate({
      trustedProxies: proxies.proxies,
      failures: { perMinute: 0, burst: 0 },
    })
    const once = Clock.clockWith((clock) => asStep(authenticate(exchange, clock)))
    yield* once
    record = { ...record, revokedAt: 1 }
    // Frequent use must not extend the time in the cache.
    for (let waited = 0; waited < revocationMs; waited += 500) {
      yield* TestClock.adjust(500)
      yield* Effect.exit(once)
    }
    return (yield* Effect.exit(once))._tag === "Failure"
  })
  return Effect.runPromise(
    check.pipe(Effect.scoped, Effect.provideService(KeyDirectory, directory), Effect.provide(TestClock.layer())),
  )
}

it("a revoked key stops working within 5 s", async () => {
  expect(await refusesRevoked(await import("../../src/server/Authenticator.ts"))).toBe(true)
})

it.each([
  ["a cached key is never looked up again", "now - entry.lookedUpAt < believedForMs", "believedForMs > 0"],
  ["a key is cached for longer than a revocation may take", "believedForMs = 3_000", "believedForMs = 6_000"],
  [
    "each use extends the time in the cache",
    "return accept(exchange, known, now)",
    "return (remember(keyHash, { ...known, lookedUpAt: now }), accept(exchange, known, now))",
  ],
])("is detected where %s", async (_, from, to) => {
  expect(await refusesRevoked(await withBugInCache(from, to))).toBe(false)
})
