import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { AuditLog, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { beginTransfer, createUpload, createUploaded, openAudioGate } from "../arrange.ts"
import type { PlaceCheck } from "../capabilities.ts"
import { digest, newApiKey, newUpload, projectId, uploadId } from "../fixtures.ts"

/** That what was written reads the same after closing and reopening, and through another opening. */
const keeps = <A, R>(
  what: string,
  write: Effect.Effect<unknown, unknown, R>,
  read: Effect.Effect<A, unknown, R>,
): ReadonlyArray<PlaceCheck<R>> => [
  {
    name: `after closing and reopening, ${what} read as before`,
    needs: "durable",
    run: Effect.fnUntraced(function* (session) {
      const before = yield* session(Effect.andThen(write, read))
      expect(yield* session(read)).toEqual(before)
    }),
  },
  {
    name: `a second instance sees ${what} immediately`,
    needs: "multiProcess",
    run: (session) =>
      session(
        Effect.gen(function* () {
          yield* write
          expect(yield* session(read)).toEqual(yield* read)
        }),
      ),
  },
]

export const uploadPlaceChecks: ReadonlyArray<PlaceCheck<UploadStore>> = keeps(
  "uploads and their transfers",
  Effect.gen(function* () {
    yield* createUploaded(1)
    yield* createUpload(newUpload(2))
    yield* beginTransfer(2)
  }),
  Effect.flatMap(UploadStore, (uploads) => Effect.forEach([1, 2, 3], (n) => uploads.findUpload(uploadId(n)))),
)

export const keyPlaceChecks: ReadonlyArray<PlaceCheck<KeyDirectory>> = keeps(
  "projects and keys",
  Effect.gen(function* () {
    const keys = yield* KeyDirectory
    yield* keys.createFirstKey({ id: projectId(1), name: "default" }, newApiKey(1))
    yield* keys.createKey(newApiKey(2))
    yield* keys.revokeKey(newApiKey(2).id)
  }),
  Effect.gen(function* () {
    const keys = yield* KeyDirectory
    return { projects: yield* keys.listProjects, keys: yield* keys.listKeys, found: yield* keys.findKey(digest(1)) }
  }),
)

export const boardPlaceChecks: ReadonlyArray<PlaceCheck<Switchboard>> = keeps(
  "switches, prices and workers",
  openAudioGate,
  Effect.gen(function* () {
    const board = yield* Switchboard
    return { board: yield* board.readBoard, prices: yield* board.listPrices, workers: yield* board.listWorkers }
  }),
)

export const secretPlaceChecks: ReadonlyArray<PlaceCheck<SecretStore>> = keeps(
  "secrets",
  Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("signing", Uint8Array.of(1, 2, 255))),
  // A secret that is not there becomes this other one.
  Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("signing", Uint8Array.of(3))),
)

export const auditPlaceChecks: ReadonlyArray<PlaceCheck<AuditLog>> = keeps(
  "administrative changes",
  Effect.flatMap(AuditLog, (log) =>
    log.append({ actor: "user", origin: "host", action: "switch.on", subject: "ai", details: { n: 1 } }),
  ),
  Effect.flatMap(AuditLog, (log) => log.list({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 })),
)
