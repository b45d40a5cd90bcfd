import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, Switchboard } from "@kiln/core/ports"
import {
  advance,
  beginTransfer,
  claim,
  claimedNumbers,
  create,
  createTags,
  createUpload,
  createUploaded,
  first,
  openAudioGate,
  read,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { audioGate, digest, jobId, newJob, newLiveJob, newUpload, newUploadJob, ownerOf } from "../fixtures.ts"

const missingOf = Effect.fnUntraced(function* (job: ReturnType<typeof newLiveJob>) {
  const store = yield* JobStore
  const outcome = first(yield* store.createJobs([job]))
  return outcome._tag === "GateClosed" ? outcome.missing : outcome._tag
})

/** A live job whose gate requires a worker of a kind. */
const liveJobOf = (kind: string, n: number, withinMs = 60_000) =>
  newLiveJob(n, { gate: { ...audioGate, liveWorker: { kind, withinMs } } })

/** The prerequisites of live jobs. */
export const createJobsGate: Section = {
  name: "JobStore.createJobs: gate",
  checks: [
    check(
      "a new installation lists everything as missing, in the contract's order",
      Effect.gen(function* () {
        expect(yield* missingOf(newLiveJob(1))).toEqual([
          "price:svc-audio",
          "switch:ai",
          "switch:audio",
          "provider:speech_synthesis",
        ])
        const images = {
          price: "svc-image",
          meters: ["images"],
          switches: ["images", "ai"] as const,
          liveWorker: { kind: "image_generation", withinMs: 60_000 },
        }
        expect(yield* missingOf(newLiveJob(2, { gate: images }))).toEqual([
          "price:svc-image",
          "switch:ai",
          "switch:images",
          "provider:image_generation",
        ])
        expect((yield* claim()).nextInMs).toBe(undefined)
      }),
    ),

    check(
      "names each missing prerequisite",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        yield* board.setSwitch("audio", false)
        expect(yield* missingOf(newLiveJob(1))).toEqual(["switch:audio"])
        yield* board.setSwitch("audio", true)
        yield* board.activatePrice("svc-audio", false)
        expect(yield* missingOf(newLiveJob(1))).toEqual(["price:svc-audio"])
        yield* board.activatePrice("svc-audio", true)
        expect(yield* missingOf(liveJobOf("image_generation", 1))).toEqual(["provider:image_generation"])
        yield* board.publishWorker({ workerId: "worker", liveKinds: ["image_generation"], providers: [], ttlMs: 1_000 })
        expect(yield* missingOf(liveJobOf("image_generation", 1))).toBe("Created")
      }),
    ),

    check(
      "a switch forced off wins over the store's",
      Effect.gen(function* () {
        yield* openAudioGate
        expect(yield* missingOf(newLiveJob(1, { forcedOff: ["audio", "images"] }))).toEqual(["switch:audio"])
        expect(yield* missingOf(newLiveJob(1, { forcedOff: ["images"] }))).toBe("Created")
      }),
    ),

    check(
      "a worker that stopped or crashed still counts for exactly the time that the job's gate allows",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        const published = { providers: [], ttlMs: 5_000 }
        yield* board.publishWorker({ workerId: "crashed", liveKinds: ["voice_turn"], ...published })
        yield* board.publishWorker({ workerId: "stopped", liveKinds: ["image_generation"], ...published })
        yield* advance(4_999)
        yield* board.publishWorker({ workerId: "stopped", liveKinds: ["image_generation"], providers: [], ttlMs: 0 })
        // A worker that serves the kind now is enough, however short the allowed time is.
        expect(yield* missingOf(liveJobOf("voice_turn", 1, 1))).toBe("Created")
        yield* advance(1)
        expect(yield* missingOf(liveJobOf("voice_turn", 2, 1))).toEqual(["provider:voice_turn"])
        expect(yield* missingOf(liveJobOf("image_generation", 2, 1))).toBe("Created")
        yield* advance(1)
        expect(yield* missingOf(liveJobOf("image_generation", 3, 1))).toEqual(["provider:image_generation"])
        expect(yield* missingOf(liveJobOf("image_generation", 3, 2))).toBe("Created")
        expect(yield* missingOf(liveJobOf("voice_turn", 4, 5_001))).toBe("Created")
        yield* advance(1)
        expect(yield* missingOf(liveJobOf("voice_turn", 5, 5_001))).toEqual(["provider:voice_turn"])
      }),
    ),

    check(
      "a job that requires no worker is accepted even if there never was one",
      Effect.gen(function* () {
        yield* openAudioGate
        expect(yield* missingOf(liveJobOf("image_generation", 1))).toEqual(["provider:image_generation"])
        expect(yield* missingOf(newLiveJob(1, { gate: { ...audioGate, liveWorker: null } }))).toBe("Created")
      }),
    ),

    check(
      "a price that lacks a meter of the job's kind counts as missing",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        const turn = newLiveJob(1, { gate: { ...audioGate, meters: ["input_characters", "output_tokens"] } })
        expect(yield* missingOf(turn)).toEqual(["price:svc-audio"])
        expect(yield* missingOf(newLiveJob(2))).toBe("Created")
        const unitAmounts = { input_characters: "0.000015", output_tokens: "0" }
        yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts })
        expect(yield* missingOf(turn)).toBe("Created")
      }),
    ),

    check(
      "sandbox jobs have no prerequisites and no price",
      Effect.gen(function* () {
        expect(first(yield* create(newJob(1)))).toMatchObject({ mode: "sandbox", price: null })
      }),
    ),

    check(
      "jobs of a paused kind are accepted",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        yield* board.pauseKind("speech_synthesis", true)
        expect(yield* createTags(newLiveJob(1), newJob(2))).toEqual(["Created", "Created"])
      }),
    ),

    check(
      "free jobs need no price and have none",
      Effect.gen(function* () {
        yield* openAudioGate
        const free = newLiveJob(1, { gate: { ...audioGate, price: null } })
        expect(first(yield* create(free))).toMatchObject({ mode: "live", price: null })
        const board = yield* Switchboard
        yield* board.setSwitch("ai", false)
        yield* board.activatePrice("svc-audio", false)
        expect(yield* missingOf({ ...free, id: jobId(2), idempotencyKey: "2" })).toEqual(["switch:ai"])
      }),
    ),

    check(
      "the price is the one at acceptance, regardless of later changes",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        const price = { name: "svc-audio", version: 1, currency: "usd", unitAmounts: { input_characters: "0.000015" } }
        expect(first(yield* create(newLiveJob(1))).price).toEqual(price)
        yield* board.setPrice({ name: "svc-audio", currency: "eur", unitAmounts: { input_characters: "2" } })
        expect((yield* read(newLiveJob(1))).price).toEqual(price)
        expect(first(yield* create(newLiveJob(2))).price).toEqual({
          name: "svc-audio",
          version: 2,
          currency: "eur",
          unitAmounts: { input_characters: "2" },
        })
      }),
    ),

    check(
      "a job accepted before a switch was turned off stays queued and claimable",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        yield* create(newLiveJob(1))
        yield* board.setSwitch("ai", false)
        expect((yield* read(newLiveJob(1))).status).toBe("queued")
        expect(claimedNumbers(yield* claim())).toEqual([1])
      }),
    ),
  ],
}

/** Which refusal comes first, and that a refusal leaves nothing behind. */
export const createJobsPrecedence: Section = {
  name: "JobStore.createJobs: precedence",
  checks: [
    check(
      "a replay or reuse comes before a closed gate, a used upload and a full queue",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* openAudioGate
        yield* createUploaded(1, { mode: "live" })
        const item = newUploadJob(1, { mode: "live", gate: audioGate, queueCap: 1 })
        const job = first(yield* create(item))
        yield* board.setSwitch("ai", false)
        const store = yield* JobStore
        expect(yield* store.createJobs([item])).toEqual([{ _tag: "Replayed", job }])
        expect(yield* createTags({ ...item, fingerprint: digest(99) })).toEqual(["KeyReused"])
      }),
    ),

    check(
      "gate before upload, upload before spend cap, spend cap before queue cap",
      Effect.gen(function* () {
        yield* create(newJob(1))
        const item = newUploadJob(2, {
          mode: "live",
          gate: audioGate,
          maxUsage: { input_characters: 10 },
          queueCap: 1,
        })
        expect(yield* createTags(item)).toEqual(["GateClosed"])
        yield* openAudioGate
        expect(yield* createTags(item)).toEqual(["UploadRefused"])
        yield* createUploaded(2, { mode: "live" })
        const board = yield* Switchboard
        yield* board.setSpendCap(item.projectId, { currency: "usd", day: "0", month: null })
        expect(yield* createTags(item)).toEqual(["SpendCapReached"])
        yield* board.setSpendCap(item.projectId, null)
        expect(yield* createTags(item)).toEqual(["QueueFull"])
        expect(yield* createTags({ ...item, queueCap: 2 })).toEqual(["Created"])
      }),
    ),

    check(
      "no refusal uses up the idempotency key or the upload",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(9))
        yield* createUpload(newUpload(1))
        const item = newUploadJob(1, { queueCap: 1 })
        yield* beginTransfer(1)
        expect(yield* createTags(item)).toEqual(["UploadRefused"])
        yield* createUploaded(2)
        const other = newUploadJob(2, { queueCap: 1 })
        expect(yield* createTags(other)).toEqual(["QueueFull"])
        expect(yield* store.findByIdempotencyKey(item.keyId, item.idempotencyKey)).toBe(undefined)
        expect(yield* store.findByIdempotencyKey(other.keyId, other.idempotencyKey)).toBe(undefined)
        expect(yield* createTags({ ...other, queueCap: 0, fingerprint: digest(77) })).toEqual(["Created"])
      }),
    ),

    check(
      "a refused item does not affect the others",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createUploaded(3)
        const jobs = [newJob(1), newLiveJob(2), newUploadJob(3), newUploadJob(4), newJob(5, { queueCap: 2 }), newJob(6)]
        expect(yield* createTags(...jobs)).toEqual([
          "Created",
          "GateClosed",
          "Created",
          "UploadRefused",
          "QueueFull",
          "Created",
        ])
        const found = yield* store.findJobs(jobs.map((job) => ({ jobId: job.id, principal: ownerOf(job) })))
        expect(found.map((job) => job?.id)).toEqual([jobId(1), undefined, jobId(3), undefined, undefined, jobId(6)])
      }),
    ),
  ],
}
