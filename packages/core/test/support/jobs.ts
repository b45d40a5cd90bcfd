import { Engine } from "@kiln/core/effect"
import { isFinished, type Principal } from "@kiln/core/domain"
import { Switchboard } from "@kiln/core/ports"
import { Worker } from "@kiln/core/worker"
import { type Duration, Effect, Stream } from "effect"
import { grantOf, kind, principal } from "./harness.ts"
import { comesTrue, stopped } from "./virtualTime.ts"

/** The beginning of a WAV file, which is all that is looked at. */
const wavHeader = new TextEncoder().encode("RIFF0000WAVEfmt ")

/** Accepts a speech job. */
export const submitSpeech = (key: string, who: Principal = principal()) =>
  Effect.flatMap(Engine, (engine) =>
    Effect.map(engine.createJob(grantOf(who), kind("speech_synthesis"), { input: "hello" }, key), ({ job }) => job),
  )

/** Uploads a file and accepts a transcription of it. */
export const submitTranscription = (key: string, who: Principal = principal()) =>
  Effect.gen(function* () {
    const engine = yield* Engine
    const uploadId = yield* uploadWav(who)
    return (yield* engine.createJob(grantOf(who), kind("transcription"), { uploadId }, key)).job
  })

/** Uploads a file and accepts a voice turn about it. */
export const submitVoiceTurn = (
  key: string,
  who: Principal = principal(),
  more: { readonly instructions?: string; readonly voice?: string } = {},
) =>
  Effect.gen(function* () {
    const engine = yield* Engine
    const uploadId = yield* uploadWav(who)
    return (yield* engine.createJob(grantOf(who), kind("voice_turn"), { uploadId, maxOutputTokens: 5, ...more }, key))
      .job
  })

const uploadWav = (who: Principal) =>
  Effect.gen(function* () {
    const engine = yield* Engine
    const { id } = yield* engine.createUpload(who, { format: "wav", declaredSeconds: 3 })
    const content = Stream.succeed(wavHeader)
    yield* engine.receiveUpload({ uploadId: id, contentType: "audio/wav", contentLength: undefined, content })
    return id
  })

export const readJob = (jobId: string, who: Principal = principal()) =>
  Effect.flatMap(Engine, (engine) => engine.getJob(who, jobId))

/** The job once it is finished, or as it is after `atMost` of virtual time. */
export const finished = (jobId: string, atMost: Duration.Input, who: Principal = principal()) =>
  Effect.andThen(comesTrue(Effect.map(readJob(jobId, who), isFinished), atMost), readJob(jobId, who))

/**
 * Runs the worker's loop next to the test, so that virtual time can pass. The loop is also stopped while time passes, so a test
 * fails by its assertions and not during cleanup.
 */
export const running = Effect.flatMap(Worker, (worker) =>
  Effect.acquireRelease(Effect.forkDetach(worker.run), (fiber) => stopped(fiber, "10 minutes")),
)

const audioKinds = ["speech_synthesis", "transcription", "voice_turn"]

/** Opens the gate of live audio jobs: prices, switches and a worker that serves them. */
export const openBoard = (unitAmounts: Readonly<Record<string, string>>, liveKinds = audioKinds) =>
  Effect.gen(function* () {
    const board = yield* Switchboard
    yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts })
    yield* board.activatePrice("svc-audio", true)
    yield* board.setSwitch("ai", true)
    yield* board.setSwitch("audio", true)
    yield* board.publishWorker({ workerId: "w", liveKinds, providers: [], ttlMs: 24 * 3_600_000 })
  })
