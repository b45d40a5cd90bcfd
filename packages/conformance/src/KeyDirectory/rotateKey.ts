import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { digest, keyId, newApiKey, projectId } from "../fixtures.ts"

const withTwoKeys = Effect.gen(function* () {
  const keys = yield* KeyDirectory
  yield* keys.createProject({ id: projectId(1), name: "project 1" })
  const record = yield* keys.createKey(newApiKey(1))
  const other = yield* keys.createKey(newApiKey(2))
  return { keys, record, other }
})

export const rotation: Section<KeyDirectory> = {
  name: "KeyDirectory.rotateKey, identifyKey",
  checks: [
    check(
      "both secrets find the same record until the overlap ends, then only the new one",
      Effect.gen(function* () {
        const { keys, other, record } = yield* withTwoKeys
        yield* advance(100)
        const rotated = yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(11), overlapMs: 50 })
        expect(rotated).toEqual({ _tag: "Rotated", key: record, oldSecretsEndAt: 150 })
        const found = Effect.map(Effect.all([keys.findKey(digest(1)), keys.findKey(digest(11))]), (all) => all)
        expect(yield* found).toEqual([record, record])
        yield* advance(49)
        expect(yield* found).toEqual([record, record])
        yield* advance(1)
        expect(yield* found).toEqual([undefined, record])
        expect(yield* keys.findKey(digest(2))).toEqual(other)
        expect(yield* keys.listKeys).toEqual([record, other])
      }),
    ),

    check(
      "without overlap, the old secret ends immediately",
      Effect.gen(function* () {
        const { keys, record } = yield* withTwoKeys
        yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(11), overlapMs: 0 })
        expect(yield* keys.findKey(digest(1))).toBe(undefined)
        expect(yield* keys.findKey(digest(11))).toEqual(record)
      }),
    ),

    check(
      "a later rotation never extends a secret, and ends all others",
      Effect.gen(function* () {
        const { keys, record } = yield* withTwoKeys
        yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(11), overlapMs: 50 })
        yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(12), overlapMs: 1_000 })
        expect(yield* keys.identifyKey(digest(1))).toEqual({ key: record, validUntil: 50 })
        expect(yield* keys.identifyKey(digest(11))).toEqual({ key: record, validUntil: 1_000 })
        yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(13), overlapMs: 20 })
        expect(yield* keys.identifyKey(digest(11))).toEqual({ key: record, validUntil: 20 })
        expect(yield* keys.identifyKey(digest(12))).toEqual({ key: record, validUntil: 20 })
        expect(yield* keys.identifyKey(digest(13))).toEqual({ key: record, validUntil: null })
      }),
    ),

    check(
      "refuses a key that is unknown, revoked or expired, and adds no secret to it",
      Effect.gen(function* () {
        const { keys } = yield* withTwoKeys
        const revoked = yield* keys.revokeKey(keyId(1))
        const expired = yield* keys.createKey(newApiKey(3, { expiresAt: 10 }))
        yield* advance(10)
        const rotate = (n: number) => keys.rotateKey({ keyId: keyId(n), secretHash: digest(20 + n), overlapMs: 5 })
        expect(yield* rotate(1)).toEqual({ _tag: "Ended", key: revoked })
        expect(yield* rotate(3)).toEqual({ _tag: "Ended", key: expired })
        expect(yield* rotate(9)).toEqual({ _tag: "NotFound" })
        for (const n of [21, 23, 29]) expect(yield* keys.identifyKey(digest(n))).toBe(undefined)
        expect(yield* keys.identifyKey(digest(1))).toEqual({ key: revoked, validUntil: null })
      }),
    ),

    check(
      "identifies a secret whose overlap has ended, and no secret that never existed",
      Effect.gen(function* () {
        const { keys, record } = yield* withTwoKeys
        yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(11), overlapMs: 50 })
        yield* advance(1_000)
        expect(yield* keys.identifyKey(digest(1))).toEqual({ key: record, validUntil: 50 })
        expect(yield* keys.identifyKey(digest(9))).toBe(undefined)
      }),
    ),
  ],
}
