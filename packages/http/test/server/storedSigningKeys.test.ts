import { describe, expect, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { SecretStore } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { signingKeyring } from "../../src/server/signingKeyring.ts"
import { addSigningKey, dropSigningKey, useSigningKey } from "../../src/server/storedSigningKeys.ts"
import { signUpload, type SigningKeyring, verifySignedUrl } from "../../src/wire/SignedUrls.ts"

const entry = (kid: string, byte: number) => `${kid}:${Buffer.alloc(32, byte).toString("base64url")}` as const

const sign = (keyring: SigningKeyring): string =>
  signUpload(keyring, { publicUrl: "http://127.0.0.1", uploadId: "upl_1", expiresAtSeconds: 100 })

const accepts = (keyring: SigningKeyring, url: string): boolean => {
  const { pathname, search } = new URL(url)
  const request = {
    method: "PUT",
    path: pathname,
    rawQuery: search.slice(1),
    purpose: "upload",
    nowSeconds: 1,
  } as const
  return verifySignedUrl(keyring, request).ok
}

/** Starts a process, which reads its keys once, and returns them with its warnings. */
const start = (configured?: string) =>
  Effect.suspend(() => {
    const warnings: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === "Warn") warnings.push(String(message))
    })
    return Effect.map(Effect.provide(signingKeyring(configured), Logger.layer([logger])), (keyring) => ({
      keyring,
      warnings,
    }))
  })

/** Whether every process accepts the URLs of every other. */
const agree = (...keyrings: ReadonlyArray<SigningKeyring>): boolean =>
  keyrings.every((signer) => keyrings.every((verifier) => accepts(verifier, sign(signer))))

describe("keys in the store", () => {
  it.effect("are rotated without a rejected URL: add, restart, use, restart, drop", () =>
    Effect.gen(function* () {
      const [a1, b1] = [yield* start(), yield* start()]
      const issued = sign(a1.keyring)
      expect(yield* addSigningKey(entry("next", 1))).toBe("Added")
      const a2 = yield* start()
      expect(agree(a2.keyring, b1.keyring)).toBe(true)
      expect(sign(a2.keyring)).toContain("&k=k1&")
      const b2 = yield* start()
      expect(yield* useSigningKey("next")).toBe(true)
      const a3 = yield* start()
      expect(sign(a3.keyring)).toContain("&k=next&")
      expect(agree(a3.keyring, b2.keyring)).toBe(true)
      const b3 = yield* start()
      expect(accepts(b3.keyring, issued)).toBe(true)
      expect(yield* dropSigningKey("k1", { mayDropSigning: false })).toBe("Dropped")
      const a4 = yield* start()
      expect(accepts(a4.keyring, issued)).toBe(false)
      expect(agree(a4.keyring, b3.keyring)).toBe(true)
      expect(yield* (yield* SecretStore).find("signing")).toBeUndefined()
      for (const { warnings } of [a1, b1, a2, b2, a3, b3, a4]) expect(warnings).toEqual([])
    }).pipe(Effect.provide(MemoryStores.layer)),
  )

  it.effect("let an installation adopt its own key without a rejected URL and without a warning", () =>
    Effect.gen(function* () {
      const own = entry("own", 2)
      const [a1, b1] = [yield* start(), yield* start()]
      const issued = sign(a1.keyring)
      yield* addSigningKey(own)
      const [a2, b2] = [yield* start(), yield* start()]
      expect(agree(a2.keyring, b1.keyring)).toBe(true)
      const a3 = yield* start(own)
      expect(sign(a3.keyring)).toContain("&k=own&")
      expect(agree(a3.keyring, b2.keyring)).toBe(true)
      const b3 = yield* start(own)
      expect(accepts(b3.keyring, issued)).toBe(true)
      for (const { warnings } of [a2, b2, a3, b3]) expect(warnings).toEqual([])
    }).pipe(Effect.provide(MemoryStores.layer)),
  )

  it.effect("refuse a second key of the same name, and to drop the key that signs", () =>
    Effect.gen(function* () {
      yield* start()
      expect(yield* addSigningKey(entry("next", 1))).toBe("Added")
      expect(yield* addSigningKey(entry("next", 1))).toBe("Present")
      expect(yield* addSigningKey(entry("next", 2))).toBe("Taken")
      expect(yield* addSigningKey(entry("k1", 2))).toBe("Taken")
      expect(yield* dropSigningKey("k1", { mayDropSigning: false })).toBe("Signs")
      expect(yield* dropSigningKey("none", { mayDropSigning: true })).toBe("NotFound")
      expect(yield* useSigningKey("none")).toBe(false)
      expect(agree((yield* start()).keyring, (yield* start()).keyring)).toBe(true)
    }).pipe(Effect.provide(MemoryStores.layer)),
  )
})

describe("processes with different keys", () => {
  it.effect("warn of URLs that running processes reject, and of those that they reject themselves", () =>
    Effect.gen(function* () {
      yield* start()
      const configured = yield* start(entry("own", 1))
      expect(configured.warnings).toMatchObject([
        expect.stringMatching(
          /^this process signs URLs with the key own \([0-9a-f]{12}\), but processes that started before reject them/,
        ),
      ])
      const forgotten = yield* start()
      expect(forgotten.warnings).toMatchObject([
        expect.stringMatching(
          /^the process that started last signs URLs with the key own \([0-9a-f]{12}\), but this process rejects them/,
        ),
      ])
      const mistyped = yield* start(entry("own", 3))
      expect(mistyped.warnings).toHaveLength(1)
      const both = yield* start(`${entry("own", 4)},${entry("own3", 3)}`)
      expect(both.warnings).toHaveLength(2)
      for (const { warnings } of [configured, forgotten, mistyped, both])
        expect(warnings.join()).not.toMatch(/[A-Za-z0-9_-]{20,}/)
    }).pipe(Effect.provide(MemoryStores.layer)),
  )

  it.effect("stay silent with the same keys, and during a rotation that appends the new key everywhere first", () =>
    Effect.gen(function* () {
      const [old, next] = [entry("old", 1), entry("next", 2)]
      for (const keys of [old, old, `${old},${next}`, `${old},${next}`, `${next},${old}`, `${next},${old}`, next, next])
        expect((yield* start(keys)).warnings).toEqual([])
    }).pipe(Effect.provide(MemoryStores.layer)),
  )

  it.effect("leave no note where all use the key in the store", () =>
    Effect.gen(function* () {
      yield* start()
      yield* start()
      expect(yield* (yield* SecretStore).find("signing-note")).toBeUndefined()
    }).pipe(Effect.provide(MemoryStores.layer)),
  )
})
