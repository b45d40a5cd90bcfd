import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { JobId, JobMode } from "@kiln/core/domain"
import {
  type AnyProvider,
  type AudioInput,
  builtInPorts,
  type GeneratedFile,
  type ProviderCall,
  type ProviderError,
  providerBroken,
  ProviderFailure,
  type ProviderName,
  type ProviderPort,
  type ProviderSet,
} from "@kiln/core/providers"
import { fakeMp3, fakePng } from "@kiln/testing"
import type { ClaimBooks } from "./ClaimBooks.ts"
import type { Kernel } from "./Kernel.ts"
import type { Network } from "./Network.ts"
import type { Profile } from "./Profile.ts"
import type { ProviderBooks } from "./ProviderBooks.ts"
import type { ProviderCallRecord } from "./ProviderCallRecord.ts"
import type { ResultBooks } from "./ResultBooks.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { Watch } from "./Watch.ts"

type Behavior = "answer" | "fail" | "refuse" | "hang" | "nonsense" | "break"

/** The providers, which all processes call. They answer late, badly, or not at all, as the dice say. */
export class SimulatedProviders {
  readonly #kernel: Kernel
  readonly #network: Network
  readonly #profile: Profile
  readonly #books: ClaimBooks
  readonly #watch: Watch
  readonly #results: ResultBooks
  readonly #guards: ProviderBooks
  #answers = 0

  constructor(
    kernel: Kernel,
    network: Network,
    profile: Profile,
    books: ClaimBooks,
    results: ResultBooks,
    guards: ProviderBooks,
    watch: Watch,
  ) {
    this.#kernel = kernel
    this.#network = network
    this.#profile = profile
    this.#books = books
    this.#results = results
    this.#guards = guards
    this.#watch = watch
  }

  /** As one process reaches those that serve a mode. */
  of(process: SimulatedProcess, mode: JobMode): ProviderSet {
    const call = <A, E = never>(
      provider: ProviderName,
      { attempt, jobId }: ProviderCall,
      answer: (good: boolean) => A,
      first: Effect.Effect<void, E> = Effect.void,
    ) =>
      Effect.suspend(() => {
        const beganAt = this.#kernel.now
        const record: ProviderCallRecord = {
          process,
          mode,
          provider,
          jobId,
          attempt,
          beganAt,
          outcome: "running",
          endedAt: undefined,
        }
        return this.#call(record, first, answer)
      })
    const text = (good: boolean) => (good ? `answer ${this.#answers}` : "\u0000")
    const providers: ProviderSet = {
      transcription: ({ audio }, about) =>
        call("transcription", about, (good) => ({ text: text(good) }), this.#listen(audio, about.jobId)),
      reply: (request, about) =>
        Effect.suspend(() => {
          this.#results.askedToReply(about.jobId, request.text)
          const { maxOutputTokens } = request
          return call("reply", about, (good) => ({
            text: text(good),
            outputTokens: maxOutputTokens,
            truncated: false,
          }))
        }),
      speech: (_request, about) => call("speech", about, (good) => speech(good ? this.#answers : undefined)),
      image: (_request, about) => call("image", about, (good) => png(good ? this.#answers : undefined)),
    }
    // Any other port answers with its example.
    const others = builtInPorts.flatMap((port: ProviderPort) => {
      if (providers[port.name] !== undefined || port.example === undefined) return []
      const name = port.name as ProviderName
      const provider: AnyProvider = (_request, about) => call(name, about, (good) => (good ? port.example : undefined))
      return [[name, provider] as const]
    })
    return { ...providers, ...Object.fromEntries(others) }
  }

  /** Reads the audio whole, as a real provider would, and checks that it is the file that was uploaded. */
  #listen(audio: AudioInput, jobId: JobId) {
    return Effect.map(Stream.runCollect(audio.content), (chunks) => {
      const hash = createHash("sha256")
      for (const chunk of chunks) hash.update(chunk)
      const uploadId = this.#watch.jobs.get(jobId)?.uploadId
      const file = uploadId === undefined || uploadId === null ? undefined : this.#watch.uploads.get(uploadId)?.file
      if (file !== undefined && file !== null && hash.digest("hex") !== file.sha256)
        this.#kernel.violate("a provider receives the bytes that were uploaded", `${jobId} heard other bytes`)
    })
  }

  #call<A, E>(
    call: ProviderCallRecord,
    first: Effect.Effect<void, E>,
    answer: (good: boolean) => A,
  ): Effect.Effect<A, ProviderError | E> {
    return Effect.suspend(() => {
      const behavior = this.#behavior()
      this.#answers += 1
      this.#kernel.trace(
        () => `${call.process.name} asks ${call.provider} for ${call.jobId}, attempt ${call.attempt}: ${behavior}`,
      )
      this.#books.callBegan(call)
      this.#guards.callBegan(call)
      let reached = false
      const performed = Effect.andThen(
        first,
        Effect.suspend(() => {
          reached = true
          return this.#perform(behavior, answer)
        }),
      )
      return Effect.onExit(performed, (exit) =>
        Effect.sync(() => {
          call.endedAt = this.#kernel.now
          const interrupted = Exit.isFailure(exit) && Exit.hasInterrupts(exit)
          call.outcome = interrupted ? this.#brokenOff(call) : reached ? outcomeOf[behavior] : "interrupted"
          if (Exit.isSuccess(exit)) this.#results.given(call, exit.value)
          this.#books.callEnded(call)
          this.#guards.callEnded(call)
        }),
      )
    })
  }

  /** A timeout counts as the provider's fault, even while it reads the audio; anything else counts as nobody's. */
  #brokenOff({ beganAt, mode, process, provider }: ProviderCallRecord): "failed" | "interrupted" {
    const { callLimitMs } = this.#profile.settings.providers[provider]
    const tookMs = (this.#kernel.now - beganAt) * process.rate
    return mode === "live" && tookMs >= callLimitMs - 1 ? "failed" : "interrupted"
  }

  #behavior(): Behavior {
    const { dice } = this.#kernel
    const { faults } = this.#network
    if (dice.chance(faults.providerFails)) return dice.pick(["fail", "refuse"])
    if (dice.chance(faults.providerTalksNonsense)) return "nonsense"
    if (dice.chance(faults.providerBreaks)) return "break"
    return dice.chance(faults.providerHangs) ? "hang" : "answer"
  }

  #perform<A>(behavior: Behavior, answer: (good: boolean) => A): Effect.Effect<A, ProviderError> {
    if (behavior === "hang") return Effect.never
    const { dice } = this.#kernel
    const said = Effect.suspend((): Effect.Effect<A, ProviderError> => {
      if (behavior === "break")
        return Effect.fail(providerBroken(dice.pick(["quota", "configuration"]), "chosen at random"))
      if (behavior === "answer" || behavior === "nonsense") return Effect.sync(() => answer(behavior === "answer"))
      return Effect.fail(
        new ProviderFailure({
          errorCode: behavior === "fail" ? "provider_unavailable" : "content_rejected",
          retry: behavior === "fail",
          detail: "chosen at random",
          ...(dice.chance(0.3) ? { retryAfterMs: dice.pick([0, 1_000, 5_000, Number.MAX_SAFE_INTEGER]) } : {}),
        }),
      )
    })
    return Effect.andThen(Effect.sleep(dice.between(0, this.#profile.providerMs)), said)
  }
}

const outcomeOf: Readonly<Record<Behavior, ProviderCallRecord["outcome"]>> = {
  answer: "answered",
  fail: "failed",
  refuse: "failed",
  nonsense: "failed",
  hang: "interrupted",
  break: "broken",
}

const speech = (n: number | undefined): GeneratedFile => ({
  data: n === undefined ? new Uint8Array() : fakeMp3(`speech ${n}`),
  mediaType: "audio/mpeg",
})

const png = (n: number | undefined): GeneratedFile => ({
  data: n === undefined ? fakePng().subarray(0, 60) : fakePng(`image ${n}`),
  mediaType: "image/png",
})
