import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import fc from "fast-check"
import { switchNames, uploadBlobKey } from "@kiln/core/domain"
import { KeyDirectory, SecretStore, Switchboard, type TransferRef, UploadStore } from "@kiln/core/ports"
import { digest, keyId, newApiKey, newUpload, projectId, standings, uploadedFile, uploadId } from "../fixtures.ts"
import { mode, owner } from "./createJobs.ts"
import type { History } from "./History.ts"
import { type Operation, operation } from "./Operation.ts"
import { type Choice, latest, pick, pickFrom, record, unordered } from "./pick.ts"

const recent = fc.nat(6)

const transferArguments = record({ pick, wrong: fc.constantFrom(0, 0, 0, 0, 0, 0, 1, -1) })
const transferFrom = (args: { readonly pick: Choice; readonly wrong: number }, history: History): TransferRef => {
  const transfer = pickFrom(args.pick, { present: history.seen.transfers, ever: history.transfers }) ?? {
    uploadId: uploadId(9_999),
    token: 1,
  }
  return { ...transfer, token: transfer.token + args.wrong }
}

const uploadArguments = record({
  owner,
  mode,
  transferWindowMs: fc.constantFrom(500, 2_000),
  usableForMs: fc.constantFrom(2_000, 9_000),
})
const newUploadFrom = (
  { owner: who, ...rest }: typeof uploadArguments extends fc.Arbitrary<infer A> ? A : never,
  history: History,
) => {
  const upload = newUpload(history.nextNumber++, { ...who, ...rest })
  history.uploads.push({ uploadId: upload.id, ...who, mode: rest.mode })
  return upload
}

const uploadOperations: ReadonlyArray<fc.Arbitrary<Operation>> = [
  operation("createUploads", fc.array(uploadArguments, { minLength: 1, maxLength: 2 }), (items, history) => {
    const uploads = items.map((item) => newUploadFrom(item, history))
    return Effect.flatMap(UploadStore, (store) => store.createUploads(uploads))
  }),
  // All the way, since by chance it would be rare: most jobs with an upload need one that has its file.
  operation(
    "uploadFile",
    uploadArguments,
    (item, history) => {
      const upload = newUploadFrom(item, history)
      return Effect.gen(function* () {
        const store = yield* UploadStore
        yield* store.createUploads([upload])
        yield* store.claimUpload({ uploadId: upload.id, leaseDurationMs: 1_000, maxTransfers: 2 })
        return yield* store.completeUpload({ uploadId: upload.id, token: 1, file: uploadedFile(upload.id, 1) })
      })
    },
    { atomic: false },
  ),
  operation(
    "claimUpload",
    record({
      pick,
      leaseDurationMs: fc.constantFrom(300, 1_000),
      maxTransfers: fc.constantFrom(2, 3),
      bytes: fc.nat(9_000),
    }),
    ({ bytes, pick: at, ...rest }, history) => {
      const request = { ...rest, storage: { capBytes: 20_000, bytes } }
      const id = pickFrom(at, { present: history.seen.unused, ever: history.uploads })?.uploadId ?? uploadId(9_999)
      return Effect.flatMap(UploadStore, (store) => store.claimUpload({ uploadId: id, ...request }))
    },
    {
      record: (outcome, history) => {
        if (outcome._tag === "Claimed") history.transfers.push({ uploadId: outcome.upload.id, token: outcome.token })
      },
    },
  ),
  operation("extendUpload", transferArguments, (args, history) => {
    const transfer = transferFrom(args, history)
    return Effect.flatMap(UploadStore, (store) => store.extendUpload({ ...transfer, leaseDurationMs: 700 }))
  }),
  operation("completeUpload", transferArguments, (args, history) => {
    const transfer = transferFrom(args, history)
    return Effect.flatMap(UploadStore, (store) =>
      store.completeUpload({ ...transfer, file: uploadedFile(transfer.uploadId, transfer.token) }),
    )
  }),
  operation("releaseUpload", transferArguments, (args, history) => {
    const transfer = transferFrom(args, history)
    return Effect.flatMap(UploadStore, (store) => store.releaseUpload(transfer))
  }),
  operation("keptBytes", record({ project: fc.constantFrom(1, 2), mode: fc.constantFrom("sandbox", "live") }), (of) =>
    Effect.flatMap(UploadStore, (store) => store.keptBytes(projectId(of.project), of.mode)),
  ),
  operation("expireUploads", fc.constant(10_000), (limit) =>
    Effect.flatMap(UploadStore, (store) =>
      Effect.map(store.expireUploads(limit), ({ count, purges }) => ({
        count,
        purges: unordered(purges, (purge) => purge.blobPrefix),
      })),
    ),
  ),
  operation("deleteUploads", fc.constantFrom(1_000, 5_000), (olderThanMs) =>
    Effect.flatMap(UploadStore, (store) => store.deleteUploads(olderThanMs, 10_000)),
  ),
  operation(
    "findUploadOrphans",
    fc.array(record({ back: fc.nat(9), token: fc.integer({ min: 1, max: 3 }) }), { maxLength: 6 }),
    (picks, history) => {
      const blobs = picks.map(({ back, token }) => {
        const id = latest(history.uploads, back)?.uploadId ?? uploadId(9_999)
        return { blobKey: uploadBlobKey(id, token), uploadId: id, token }
      })
      return Effect.flatMap(UploadStore, (store) => store.findUploadOrphans(blobs))
    },
  ),
]

const keyOperations: ReadonlyArray<fc.Arbitrary<Operation>> = [
  operation("createProject", fc.nat(3), (name, history) => {
    const id = projectId(history.nextNumber++)
    return Effect.flatMap(KeyDirectory, (keys) => keys.createProject({ id, name: `project ${name}` }))
  }),
  operation(
    "createKey",
    fc.tuple(recent, fc.constantFrom("test" as const, "live" as const)),
    ([back, keyMode], history) => {
      const n = history.nextNumber++
      history.keys.push(n)
      const project = latest(history.seen.projects, back) ?? projectId(9_999)
      return Effect.flatMap(KeyDirectory, (keys) => keys.createKey(newApiKey(n, { mode: keyMode, projectId: project })))
    },
  ),
  operation("createFirstKey", fc.nat(3), (name, history) => {
    const n = history.nextNumber++
    history.keys.push(n)
    return Effect.flatMap(KeyDirectory, (keys) =>
      keys.createFirstKey({ id: projectId(n), name: `project ${name}` }, newApiKey(n, { projectId: projectId(n) })),
    )
  }),
  operation("revokeKey", recent, (at, history) => {
    const n = latest(history.keys, at) ?? 9_999
    return Effect.flatMap(KeyDirectory, (keys) => keys.revokeKey(keyId(n)))
  }),
  operation(
    "limitKey",
    fc.tuple(recent, fc.constantFrom({}, { create: { perMinute: 5, burst: 2 } }, { read: { perMinute: 0, burst: 0 } })),
    ([at, limits], history) => {
      const n = latest(history.keys, at) ?? 9_999
      return Effect.flatMap(KeyDirectory, (keys) => keys.limitKey(keyId(n), limits))
    },
  ),
  operation(
    "touchKeys",
    fc.array(record({ back: recent, usedAt: fc.nat(10_000) }), { maxLength: 3 }),
    (uses, history) => {
      const items = uses.map(({ back, usedAt }) => ({ keyId: keyId(latest(history.keys, back) ?? 9_999), usedAt }))
      return Effect.flatMap(KeyDirectory, (keys) => keys.touchKeys(items))
    },
  ),
  operation("findKey", recent, (at, history) => {
    const n = latest(history.keys, at) ?? 9_999
    return Effect.flatMap(KeyDirectory, (keys) => keys.findKey(digest(n)))
  }),
  operation(
    "getOrCreate",
    fc.tuple(fc.constantFrom("a", "b"), fc.uint8Array({ minLength: 1, maxLength: 8 })),
    ([name, candidate]) =>
      Effect.flatMap(SecretStore, (secrets) =>
        Effect.map(secrets.getOrCreate(name, candidate), (secret) => [...secret]),
      ),
    { atomic: false },
  ),
]

const boardOperations: ReadonlyArray<fc.Arbitrary<Operation>> = [
  operation(
    "setSwitch",
    fc.tuple(fc.constantFrom(...switchNames, "exports"), fc.constantFrom(true, true, false)),
    ([name, on]) => Effect.flatMap(Switchboard, (board) => board.setSwitch(name, on)),
  ),
  operation(
    "setPrice",
    fc.tuple(fc.constantFrom("svc-audio", "svc-image"), fc.constantFrom("0.1", "0.02")),
    ([name, amount]) =>
      Effect.flatMap(Switchboard, (board) =>
        board.setPrice({ name, currency: "usd", unitAmounts: { images: amount } }),
      ),
  ),
  operation(
    "activatePrice",
    fc.tuple(fc.constantFrom("svc-audio", "svc-image"), fc.constantFrom(true, true, false)),
    ([name, active]) => Effect.flatMap(Switchboard, (board) => board.activatePrice(name, active)),
  ),
  operation(
    "setSpendCap",
    fc.tuple(
      fc.constantFrom(keyId(1), keyId(2), projectId(1), projectId(1), projectId(2)),
      fc.option(
        record({
          currency: fc.constantFrom("usd", "usd", "usd", "eur"),
          day: fc.constantFrom("0.35", "1", null),
          month: fc.constantFrom("0.5", "2.00"),
        }),
        { freq: 5 },
      ),
    ),
    ([capped, cap]) => Effect.flatMap(Switchboard, (board) => board.setSpendCap(capped, cap)),
  ),
  operation(
    "publishWorker",
    record({
      workerId: fc.constantFrom("a", "b"),
      liveKinds: fc.subarray(["speech_synthesis", "transcription"]),
      providers: fc.subarray([...standings]),
      ttlMs: fc.constantFrom(0, 1_000, 60_000),
    }),
    (worker) => Effect.flatMap(Switchboard, (board) => board.publishWorker(worker)),
  ),
]

/** All prerequisites of a live job at once, which would be rare by chance. */
const openGate = operation(
  "openGate",
  fc.constant(null),
  () =>
    Effect.gen(function* () {
      const board = yield* Switchboard
      for (const name of switchNames) yield* board.setSwitch(name, true)
      yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.1" } })
      yield* board.activatePrice("svc-audio", true)
      yield* board.publishWorker({
        workerId: "c",
        liveKinds: ["speech_synthesis", "transcription"],
        providers: [],
        ttlMs: 60_000,
      })
    }),
  { atomic: false },
)

const HOUR = 3_600_000
const steps = [1, 1, 100, 300, 300, 999, 1_000, 5_000]
const jumps = [HOUR, 24 * HOUR, 30 * 24 * HOUR]

/** Time passes once for both stores: by itself, or up to the millisecond around an instant where something ends. */
const advance: fc.Arbitrary<Operation> = fc
  .oneof(
    { weight: 10, arbitrary: fc.constantFrom(...steps).map((ms) => ({ ms })) },
    { weight: 10, arbitrary: record({ instant: fc.nat(3), delta: fc.constantFrom(-1, 0, 0, 1) }) },
    // After an hour nothing is as it was: rare, or histories would be short.
    { weight: 1, arbitrary: fc.constantFrom(...jumps).map((ms) => ({ ms })) },
  )
  .map((step) => ({
    name: "advance",
    perform: Effect.fnUntraced(function* (history) {
      const now = yield* Effect.clockWith((clock) => Effect.succeed(clock.currentTimeMillisUnsafe()))
      const coming = history.seen.instants.filter((instant) => instant > now).toSorted((a, b) => a - b)
      const target =
        "ms" in step ? now + step.ms : (coming[step.instant % Math.max(1, coming.length)] ?? now) + step.delta
      yield* TestClock.adjust(Math.max(0, target - now))
    }),
    [fc.toStringMethod]: () => `advance ${fc.stringify(step)}`,
  }))

/** The store is closed and opened again, in the middle of everything. */
const reopening: fc.Arbitrary<Operation> = record({ which: fc.nat(1), abandon: fc.boolean() }).map((how) => ({
  name: "reopen",
  perform: (history, world) => {
    history.sighted(how.abandon ? "opened again beside itself" : "opened again")
    return world.reopen(how.which, how.abandon)
  },
  [fc.toStringMethod]: () => `reopen ${fc.stringify(how)}`,
}))
export const reopen: fc.WeightedArbitrary<Operation> = { weight: 2, arbitrary: reopening }

/** With their weights. */
export const otherOperations: ReadonlyArray<fc.WeightedArbitrary<Operation>> = [
  { weight: 12, arbitrary: advance },
  ...uploadOperations.map((arbitrary) => ({ weight: 2, arbitrary })),
  ...keyOperations.map((arbitrary) => ({ weight: 1, arbitrary })),
  ...boardOperations.map((arbitrary) => ({ weight: 1, arbitrary })),
  { weight: 3, arbitrary: openGate },
]
