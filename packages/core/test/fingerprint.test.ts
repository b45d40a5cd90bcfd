import { createHmac } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { Fingerprint, layerCrypto } from "@kiln/core/effect"
import type { Json, JsonObject } from "@kiln/core/domain"
import { MemoryStores } from "@kiln/testing"
import { Effect, Layer, ManagedRuntime } from "effect"
import * as fc from "fast-check"
import { afterAll, vi } from "vitest"
import { hmacSha256 } from "../src/engine/prepareJob.ts"

const install = () => ManagedRuntime.make(Fingerprint.layer.pipe(Layer.provide([MemoryStores.layer, layerCrypto])))
const runtime = install()
afterAll(() => runtime.dispose())

const of = (kind: string, request: JsonObject, at = runtime) =>
  at.runPromise(Effect.map(Fingerprint, (fingerprint) => fingerprint.of(kind, request)))

const request = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>)

/** The same value with every object's keys in another order. */
const reordered = (value: Json): Json => {
  if (Array.isArray(value)) return value.map((item: Json) => reordered(item))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, reordered(inner)]),
  )
}

describe("fingerprints", () => {
  it("do not depend on the order of keys or the spelling of numbers", () =>
    fc.assert(
      fc.asyncProperty(request, async (value) => {
        expect(await of("k", reordered(JSON.parse(JSON.stringify(value))) as JsonObject)).toBe(await of("k", value))
      }),
    ))

  it("tell different requests and different kinds apart", () =>
    fc.assert(
      fc.asyncProperty(request, request, async (one, other) => {
        const same = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other))
        expect((await of("k", one)) === (await of("k", other))).toBe(same)
        expect(await of("k", one)).not.toBe(await of("l", one))
      }),
    ))

  it("an omitted field and its default are different requests", async () => {
    expect(await of("speech_synthesis", { input: "a" })).not.toBe(
      await of("speech_synthesis", { input: "a", voice: "alloy" }),
    )
  })

  it("are keyed, so they differ between installations", async () => {
    const other = install()
    expect(await of("k", { input: "a" }, other)).not.toBe(await of("k", { input: "a" }))
    await other.dispose()
  })

  it("are 64 lower-case hex characters and never hold the request", async () => {
    expect(await of("k", { input: "a secret" })).toMatch(/^[0-9a-f]{64}$/)
  })
})

describe("hmacSha256", () => {
  const key = new TextEncoder().encode("Jefe")

  it("is HMAC-SHA-256: RFC 4231, test case 2", () => {
    expect(hmacSha256(key)("what do ya want for nothing?")).toBe(
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    )
  })

  // Keys of up to a block and longer ones.
  const keys = fc.uint8Array({ maxLength: 130 })
  const texts = fc.array(
    fc.oneof(
      fc.string({ unit: "binary" }),
      fc.nat(6_000).map((n) => "窯".repeat(n)),
    ),
    { maxLength: 4 },
  )
  const isNodes = (used: Uint8Array, all: ReadonlyArray<string>) => {
    const digest = hmacSha256(used)
    for (const text of all) expect(digest(text)).toBe(createHmac("sha256", used).update(text, "utf8").digest("hex"))
  }

  it("is the one of Node for any key and texts as UTF-8", () => {
    isNodes(key, ["Größe 窯 \u{1f525}"])
    fc.assert(fc.property(keys, texts, isNodes))
  })

  it("says so where the runtime has no node:crypto", () => {
    const asked = vi.spyOn(process, "getBuiltinModule").mockReturnValue(undefined)
    expect(() => hmacSha256(key)).toThrow("the engine needs node:crypto, which this runtime does not have")
    asked.mockRestore()
  })
})

/** Keys in one order, `-0` as `0`: what JSON calls the same value. */
const sorted = (value: Json): Json => {
  if (Array.isArray(value)) return value.map((item: Json) => sorted(item))
  if (typeof value === "number") return value === 0 ? 0 : value
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  )
}
