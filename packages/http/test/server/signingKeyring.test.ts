import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { SecretStore } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { signingKeyring } from "../../src/server/signingKeyring.ts"
import { signDownload, type SigningKeyring, verifySignedUrl } from "../../src/wire/SignedUrls.ts"

const configured = (kid: string, byte: number): string => `${kid}:${Buffer.alloc(32, byte).toString("base64")}`

const sign = (keyring: SigningKeyring): string =>
  signDownload(keyring, { publicUrl: "http://127.0.0.1", fileId: "fil_1", expiresAtSeconds: 100 })

const accepts = (keyring: SigningKeyring, url: string): boolean => {
  const { pathname, search } = new URL(url)
  const request = {
    method: "GET",
    path: pathname,
    rawQuery: search.slice(1),
    purpose: "download",
    nowSeconds: 1,
  } as const
  return verifySignedUrl(keyring, request).ok
}

describe("the keyring of the service", () => {
  it.effect(
    "still verifies with the key in the store once keys are configured, and signs with the first configured",
    () =>
      Effect.gen(function* () {
        const before = yield* signingKeyring(undefined)
        const out = sign(before)
        const after = yield* signingKeyring(configured("own", 1))
        expect(accepts(after, out)).toBe(true)
        expect(sign(after)).toContain("&k=own&")
        expect(accepts(before, sign(after))).toBe(false)
      }).pipe(Effect.provide(MemoryStores.layer)),
  )

  it.effect("verifies with both if a configured key has the same name as the key in the store", () =>
    Effect.gen(function* () {
      const out = sign(yield* signingKeyring(undefined))
      const kid = /&k=(\w+)&/.exec(out)?.[1] ?? ""
      const after = yield* signingKeyring(configured(kid, 1))
      expect([accepts(after, out), accepts(after, sign(after))]).toEqual([true, true])
      expect(sign(after)).not.toBe(out)
    }).pipe(Effect.provide(MemoryStores.layer)),
  )

  it.effect("creates no key in the store if keys are configured from the start", () =>
    Effect.gen(function* () {
      yield* signingKeyring(configured("own", 1))
      expect(yield* (yield* SecretStore).find("signing")).toBeUndefined()
    }).pipe(Effect.provide(MemoryStores.layer)),
  )

  it.effect("no longer verifies with the key in the store once that is removed", () =>
    Effect.gen(function* () {
      const out = sign(yield* signingKeyring(undefined))
      expect(yield* (yield* SecretStore).remove("signing")).toBe(true)
      expect(accepts(yield* signingKeyring(configured("own", 1)), out)).toBe(false)
    }).pipe(Effect.provide(MemoryStores.layer)),
  )
})
