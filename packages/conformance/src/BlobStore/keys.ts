import { BlobStore } from "@kiln/core/ports"
import { expect } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { type BlobTest, NO_LIMIT, noise, putBytes, readBytes } from "./support.ts"

const invalid = [
  "",
  "/",
  "a/",
  "/a",
  "a//b",
  ".",
  "..",
  "a/..",
  "../a",
  "a/../b",
  "%2e%2e",
  "a\\b",
  "a:b",
  "a?b",
  "a#b",
  "a.b",
  "a-b",
  "a_b",
  "a$",
  "A",
  "Jobs/a",
  "é",
  "a b",
  " a",
  "a\n",
  "a\0",
  "😀",
  "a*",
]

/** Keys are made by the server: any other is a defect, and reaches neither a path nor a driver. */
export const keysAreChecked = (test: BlobTest): void => {
  test(
    "dies for an invalid key",
    Effect.gen(function* () {
      const store = yield* BlobStore
      let asked = false
      const source = Stream.fromEffect(
        Effect.sync(() => {
          asked = true
          return noise(1)
        }),
      )
      for (const key of invalid) {
        const verbs = [
          store.put(key, source, NO_LIMIT),
          store.open(key),
          store.remove(key),
          Stream.runDrain(store.list(key)),
        ]
        for (const [index, verb] of verbs.entries()) {
          const exit = yield* Effect.exit<unknown, unknown, never>(verb)
          expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause), `verb ${index} of ${JSON.stringify(key)}`).toBe(
            true,
          )
        }
      }
      expect(asked).toBe(false)
    }),
  )

  test(
    "distinguishes keys with a common prefix and nested keys",
    Effect.gen(function* () {
      const keys = ["a", "a/b", "a/b/c", "ab", "ab/c", "abc", "0", "00", "a/0", "a/00", "z/z/z/z/z/z/z/z"]
      for (const [index, key] of keys.entries()) yield* putBytes(key, noise(20, index + 1))
      for (const [index, key] of keys.entries()) expect(yield* readBytes(key), key).toEqual(noise(20, index + 1))
    }),
  )
}
