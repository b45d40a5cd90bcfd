import { readFile } from "node:fs/promises"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type AudioFormat, type BuiltInErrorCode, errorCodes, requireFlag, requireOptions } from "@kiln/core/domain"
import {
  effectProvider,
  type EffectProvider,
  type ProviderCall,
  ProviderFailure,
  type ProviderName,
  ProviderPostponed,
} from "@kiln/core/providers"
import { drawTiles } from "./drawTiles.ts"
import { encodePng } from "./encodePng.ts"

/** Draws a PNG of 1024 × 1024 pixels that depends on the prompt alone. */
const makeImage = (steer: Steer) =>
  effectProvider("image", ({ prompt }, call) =>
    steer(prompt, call).pipe(
      Effect.andThen(drawTiles(prompt)),
      Effect.flatMap(encodePng),
      Effect.map((data) => ({ data, mediaType: "image/png" })),
    ),
  )

const words =
  `Thank you for trying the voice turn. This reply comes from the sandbox: it is always the same, no model has read your words, and
nothing was charged. With a live key a model answers here, in the voice you chose, within the number of tokens you allow.`.split(
    /\s+/,
  )

/** Returns a canned reply; each word counts as a token. Steered by the instructions, which the caller writes; the text is transcribed. */
const makeReply = (steer: Steer) =>
  effectProvider("reply", ({ instructions, maxOutputTokens }, call) =>
    steer(instructions, call).pipe(
      Effect.map(() => {
        const kept = words.slice(0, maxOutputTokens)
        return { text: kept.join(" "), outputTokens: kept.length, truncated: kept.length < words.length }
      }),
    ),
  )

/** Returns a fixed sentence that names the upload. Reads the audio to its end, so that a missing or damaged blob fails here as with a real provider. */
const transcription = effectProvider("transcription", ({ audio }) =>
  Stream.runDrain(audio.content).pipe(Effect.map(() => ({ text: transcriptOf(audio.format, audio.seconds) }))),
)

/** Seconds always have one decimal: `3.0`, `3.2`. */
const transcriptOf = (format: AudioFormat, seconds: number): string =>
  `Sandbox transcript of ${format.startsWith("m") ? "an" : "a"} ${format} file of ${seconds.toFixed(1)} seconds.`

/** Everything the four kinds need. A voice turn runs in its three steps. */
export type SandboxProviders = { readonly [Name in Exclude<ProviderName, "voiceTurn">]: EffectProvider<Name> }

/**
 * Providers that call no service and cost nothing. The same request always gets the same bytes, and all files are valid.
 *
 * With `steering`, the default, a text that is exactly `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (at most 60) or
 * `sandbox:flaky:<n>` decides what happens to the request. It is the text of speech, the prompt of an image, the instructions
 * of a reply. Steering is for test keys: pass `steering: false` for live jobs.
 */
export const sandboxProviders = (options: { readonly steering?: boolean } = {}): SandboxProviders => {
  requireOptions("sandboxProviders()", options, { steering: true })
  const { steering = true } = options
  requireFlag("steering", steering)
  const steer = steering ? followSteering : ignoreSteering
  return { transcription, speech: makeSpeech(steer), reply: makeReply(steer), image: makeImage(steer) }
}

const FALLBACK_VOICE = "alloy"
const voices: ReadonlySet<string> = new Set([FALLBACK_VOICE, "echo", "fable", "nova", "onyx", "shimmer"])

/** Samples by voice. Callers get copies, so that none can change another's bytes. */
const samples = new Map<string, Uint8Array>()

/** Returns a spoken MP3 from this package: one for each default voice. Any other voice gets the first. */
const makeSpeech = (steer: Steer) =>
  effectProvider(
    "speech",
    Effect.fnUntraced(function* ({ text, voice }, call) {
      yield* steer(text, call)
      const sample = yield* readSample(voices.has(voice) ? voice : FALLBACK_VOICE)
      return { data: sample.slice(), mediaType: "audio/mpeg" }
    }),
  )

const readSample = (voice: string): Effect.Effect<Uint8Array, ProviderFailure> =>
  Effect.suspend(() => {
    const known = samples.get(voice)
    if (known !== undefined) return Effect.succeed(known)
    return Effect.tryPromise({
      try: (signal) => readFile(new URL(`../assets/${voice}.mp3`, import.meta.url), { signal }),
      catch: () =>
        new ProviderFailure({
          errorCode: "internal_error",
          retry: false,
          detail: `assets/${voice}.mp3 is missing from the installed package`,
        }),
    }).pipe(
      // Not the Buffer itself: its `slice` shares memory.
      Effect.map((buffer) => new Uint8Array(buffer)),
      Effect.tap((sample) => Effect.sync(() => samples.set(voice, sample))),
    )
  })

const MAX_DELAY_SECONDS = 60

/** The behavior that a request can ask the sandbox for, so that a client can rehearse provider failures. */
export type Steering =
  | { readonly _tag: "Fail"; readonly errorCode: BuiltInErrorCode }
  | { readonly _tag: "Delay"; readonly seconds: number }
  | { readonly _tag: "Flaky"; readonly failures: number }

/** The codes of jobs that depend on other jobs, which are submitted in code: no job that a request creates has them. */
const ofDependentJobs: ReadonlySet<BuiltInErrorCode> = new Set(["prerequisite_failed", "not_accepted"])

const STEERING = /^sandbox:(fail|delay|flaky):(.+)$/
const DECIMAL = /^\d+(?:\.\d+)?$/
const INTEGER = /^\d+$/

/**
 * Reads `sandbox:fail:<error_code>`, `sandbox:delay:<seconds>` (decimal, at most 60) and `sandbox:flaky:<n>`
 * (integer). Returns `undefined` for any other text, however similar.
 */
export const parseSteering = (text: string): Steering | undefined => {
  const [, verb, argument = ""] = STEERING.exec(text) ?? []
  const errorCode = errorCodes.find((code) => code === argument)
  if (verb === "fail" && errorCode !== undefined && !ofDependentJobs.has(errorCode)) return { _tag: "Fail", errorCode }
  if (verb === "delay" && DECIMAL.test(argument) && Number(argument) <= MAX_DELAY_SECONDS)
    return { _tag: "Delay", seconds: Number(argument) }
  if (verb === "flaky" && INTEGER.test(argument)) return { _tag: "Flaky", failures: Number(argument) }
  return undefined
}

/**
 * Does what a steering text asks for: fails, defers the job, or succeeds so that the normal answer follows. A delay is
 * requested once and holds no worker slot, so that test keys cannot fill a worker with waiting jobs.
 */
type Steer = (text: string | undefined, call: ProviderCall) => Effect.Effect<void, ProviderFailure | ProviderPostponed>

const followSteering: Steer = (text, call) => {
  const steering = text === undefined ? undefined : parseSteering(text)
  switch (steering?._tag) {
    case "Fail":
      return Effect.fail(askedFor(steering.errorCode, false))
    case "Delay":
      return steering.seconds === 0 || call.deferrals > 0
        ? Effect.void
        : Effect.fail(new ProviderPostponed({ delayMs: Math.ceil(steering.seconds * 1_000) }))
    case "Flaky":
      return call.failures < steering.failures ? Effect.fail(askedFor("provider_unavailable", true)) : Effect.void
    case undefined:
      return Effect.void
  }
}

const ignoreSteering: Steer = () => Effect.void

const askedFor = (errorCode: BuiltInErrorCode, retry: boolean): ProviderFailure =>
  new ProviderFailure({ errorCode, retry, detail: "the request told the sandbox to fail" })
