import { inspect } from "node:util"
import { BlobCorrupt } from "@kiln/core/domain"
import {
  APICallError,
  type FinishReason,
  InvalidArgumentError,
  LoadAPIKeyError,
  NoSuchModelError,
  TypeValidationError,
  UnsupportedFunctionalityError,
} from "ai"
import { MockImageModelV4, MockLanguageModelV4, MockSpeechModelV4, MockTranscriptionModelV4 } from "ai/test"
import { Effect, Fiber, Stream } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { aiSdkProviders, image, reply, speech, toProviderError, transcription } from "../src/index.ts"
import { askPort, audio, call, canaries, classOf, failureOf, ports, requests } from "./support/requests.ts"

const response = { timestamp: new Date(0), modelId: "m", headers: {} }
const warnings = [{ type: "other" as const, message: canaries.text }]

/** One model of each kind that runs `first`, warns, and answers. `asked` records the requests. */
const models = (first: () => unknown = () => undefined) => {
  const asked: Array<Record<string, unknown>> = []
  const begin = async (options: object) => {
    asked.push({ ...options })
    await first()
  }
  return {
    asked,
    transcription: new MockTranscriptionModelV4({
      doGenerate: async (options) => {
        await begin(options)
        return { text: "said", segments: [], language: "en", durationInSeconds: 12.5, warnings, response }
      },
    }),
    speech: new MockSpeechModelV4({
      doGenerate: async (options) => {
        await begin(options)
        return { audio: Uint8Array.of(0xff, 0xfb, 0x90), warnings, response }
      },
    }),
    reply: new MockLanguageModelV4({
      doGenerate: async (options) => {
        await begin(options)
        const finishReason = { unified: "stop" as const, raw: "stop" }
        return { content: [{ type: "text", text: "answered" }], finishReason, usage: usageOf(7), warnings }
      },
    }),
    image: new MockImageModelV4({
      doGenerate: async (options) => {
        await begin(options)
        return { images: [Uint8Array.of(0x89, 0x50, 0x4e, 0x47)], warnings, response }
      },
    }),
  }
}
const providersOf = ({ image, reply, speech, transcription }: ReturnType<typeof models>) =>
  aiSdkProviders({ transcription, speech, reply, image })
const usageOf = (outputTokens: number | undefined) => ({
  inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: outputTokens, text: outputTokens, reasoning: 0 },
})
const throwing = (error: unknown) =>
  providersOf(
    models(() => {
      throw error
    }),
  )

afterEach(() => void vi.restoreAllMocks())

describe("any model of the AI SDK", () => {
  it("is a kiln provider", async () => {
    const set = providersOf(models())
    expect(await Effect.runPromise(requests.transcription(set))).toEqual({ text: "said", seconds: 12.5 })
    expect(await Effect.runPromise(requests.speech(set))).toEqual({
      data: Uint8Array.of(0xff, 0xfb, 0x90),
      mediaType: "audio/mpeg",
    })
    expect(await Effect.runPromise(requests.reply(set))).toEqual({
      text: "answered",
      outputTokens: 7,
      truncated: false,
    })
    expect(await Effect.runPromise(requests.image(set))).toEqual({
      data: Uint8Array.of(0x89, 0x50, 0x4e, 0x47),
      mediaType: "image/png",
    })
  })

  it("serves only its port", () => {
    expect(Object.keys(aiSdkProviders({ speech: models().speech, image: undefined }))).toEqual(["speech"])
    expect(aiSdkProviders({})).toEqual({})
  })

  it("receives the options kiln needs", async () => {
    const made = models()
    for (const port of ports) await Effect.runPromise(askPort(port, providersOf(made)))
    const [heard, spoken, replied, drawn] = made.asked
    expect(ports).toEqual(["transcription", "speech", "reply", "image"])
    const headers = (step: string) => expect.objectContaining({ "idempotency-key": `${call.jobId}-${step}` })
    expect(heard).toMatchObject({
      audio: Uint8Array.of(1, 2),
      mediaType: "audio/wav",
      headers: headers("transcription"),
    })
    expect(spoken).toMatchObject({
      text: canaries.text,
      voice: "alloy",
      outputFormat: "mp3",
      headers: headers("speech"),
    })
    expect(replied).toMatchObject({
      maxOutputTokens: 50,
      prompt: [
        { role: "system", content: canaries.instructions },
        { role: "user", content: [{ type: "text", text: canaries.text }] },
      ],
      headers: headers("reply"),
    })
    expect(drawn).toMatchObject({
      prompt: canaries.text,
      n: 1,
      size: "1024x1024",
      providerOptions: {},
      headers: headers("image"),
    })
  })

  it("receives its vendor's options", async () => {
    const made = models()
    const providerOptions = { vendor: { style: "calm" } }
    const spoken = speech(made.speech, { outputFormat: "wav", providerOptions })
    await Effect.runPromise(spoken({ text: "t", voice: "v" }, call))
    await Effect.runPromise(image(made.image, { providerOptions })({ prompt: "p" }, call))
    expect(made.asked).toMatchObject([{ outputFormat: "wav", providerOptions }, { providerOptions }])
  })

  it("receives the same idempotency key for every attempt, and another one for every step", async () => {
    const seen: Array<unknown> = []
    for (const attempt of [1, 2]) {
      const made = models()
      const again = { ...call, attempt, failures: attempt - 1 }
      await Effect.runPromise(reply(made.reply)({ text: "t", instructions: undefined, maxOutputTokens: 1 }, again))
      seen.push(made.asked[0]?.["headers"])
    }
    const headers: unknown = expect.objectContaining({ "idempotency-key": `${call.jobId}-reply` })
    expect(seen).toEqual([headers, headers])
  })

  it("prints no warnings, and leaves the program's warning settings alone", async () => {
    const emitted = vi.spyOn(process, "emitWarning")
    const printed = [vi.spyOn(console, "warn"), vi.spyOn(console, "info"), vi.spyOn(console, "error")]
    const logger = vi.fn<() => void>()
    globalThis.AI_SDK_LOG_WARNINGS = logger
    const observer = { onStart: vi.fn<() => void>(), onEnd: vi.fn<() => void>() }
    globalThis.AI_SDK_TELEMETRY_INTEGRATIONS = [observer]
    try {
      for (const port of ports) await Effect.runPromise(askPort(port, providersOf(models())))
      expect(globalThis.AI_SDK_LOG_WARNINGS).toBe(logger)
    } finally {
      globalThis.AI_SDK_LOG_WARNINGS = undefined
      globalThis.AI_SDK_TELEMETRY_INTEGRATIONS = undefined
    }
    for (const told of [emitted, logger, observer.onStart, observer.onEnd, ...printed])
      expect(told).not.toHaveBeenCalled()
  })

  it("may be frozen", async () => {
    expect(await Effect.runPromise(requests.image({ image: image(Object.freeze(models().image)) }))).toMatchObject({
      mediaType: "image/png",
    })
  })

  it("is aborted by an interruption", async () => {
    for (const port of ports) {
      const begun = Promise.withResolvers<void>()
      const made = models(() => {
        begun.resolve()
        return new Promise(() => undefined)
      })
      const asked = askPort(port, providersOf(made))
      const fiber = Effect.runFork(asked)
      await begun.promise
      const abortSignal = made.asked[0]?.["abortSignal"] as AbortSignal
      expect(abortSignal.aborted, port).toBe(false)
      await Effect.runPromise(Fiber.interrupt(fiber))
      expect(abortSignal.aborted, port).toBe(true)
    }
  })
})

describe("a transcript", () => {
  it("has no duration unless the model reports one", async () => {
    for (const durationInSeconds of [undefined, Number.NaN, 0, -1, Number.POSITIVE_INFINITY]) {
      const model = new MockTranscriptionModelV4({
        doGenerate: async () => ({
          text: "",
          segments: [],
          language: undefined,
          durationInSeconds,
          warnings: [],
          response,
        }),
      })
      expect(await Effect.runPromise(requests.transcription({ transcription: transcription(model) }))).toEqual({
        text: "",
      })
    }
  })

  it("is not requested if the audio cannot be read", async () => {
    const { asked, transcription: model } = models()
    const content = Stream.fail(new BlobCorrupt({ key: "k" }))
    const broken = { ...audio("wav", Uint8Array.of(1)), content }
    expect(classOf(await failureOf(transcription(model)({ audio: broken }, call)))).toBe("BlobCorrupt")
    expect(asked).toEqual([])
  })
})

describe("a reply", () => {
  const ending = (unified: FinishReason, text: string, outputTokens: number | undefined = 7) =>
    requests.reply({
      reply: reply(
        new MockLanguageModelV4({
          doGenerate: async () => ({
            content: text === "" ? [] : [{ type: "text", text }],
            finishReason: { unified, raw: undefined },
            usage: usageOf(outputTokens),
            warnings: [],
          }),
        }),
      ),
    })

  it("ends with the model's finish reason", async () => {
    expect(await Effect.runPromise(ending("length", "cut"))).toMatchObject({ truncated: true })
    for (const whole of ["stop", "other", "tool-calls"] as const)
      expect(await Effect.runPromise(ending(whole, "whole")), whole).toMatchObject({ truncated: false })
    expect(classOf(await failureOf(ending("content-filter", "begun")))).toBe("refuse content_rejected")
    expect(classOf(await failureOf(ending("error", "begun")))).toBe("retry provider_unavailable")
    expect(classOf(await failureOf(ending("interrupted", "begun")))).toBe("retry provider_unavailable")
    for (const empty of ["stop", "length", "tool-calls"] as const)
      expect(classOf(await failureOf(ending(empty, ""))), empty).toBe("retry result_invalid")
  })

  it("charges only reported tokens", async () => {
    for (const [reported, charged] of [
      [7, 7],
      [Number.NaN, 0],
      [-1, 0],
      [2.9, 2],
      [Number.POSITIVE_INFINITY, 0],
    ] as const)
      expect(await Effect.runPromise(ending("stop", "whole", reported)), String(reported)).toMatchObject({
        outputTokens: charged,
      })
    const uncounted = new MockLanguageModelV4({
      doGenerate: async () => ({
        content: [{ type: "text", text: "whole" }],
        finishReason: { unified: "stop", raw: undefined },
        usage: {
          inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: undefined, text: undefined, reasoning: undefined },
        },
        warnings: [],
      }),
    })
    expect(await Effect.runPromise(requests.reply({ reply: reply(uncounted) }))).toMatchObject({ outputTokens: 0 })
  })
})

describe("speech", () => {
  const saying = (contentType: string, bytes: Uint8Array) =>
    requests.speech({
      speech: speech(
        new MockSpeechModelV4({
          doGenerate: async () => ({
            audio: bytes,
            warnings: [],
            response: { ...response, headers: { "Content-Type": contentType } },
          }),
        }),
      ),
    })

  it("has the media type of its content", async () => {
    const wav = Buffer.from("RIFF\0\0\0\0WAVE", "latin1")
    for (const [contentType, bytes, mediaType] of [
      ["audio/mpeg", wav, "audio/wav"],
      ["audio/ogg; codecs=opus", Uint8Array.of(1), "audio/ogg"],
      ["application/octet-stream", Uint8Array.of(1), "audio/mpeg"],
    ] as const)
      expect(await Effect.runPromise(saying(contentType, bytes)), contentType).toMatchObject({ mediaType })
  })

  it("is invalid if it is text", async () => {
    for (const contentType of ["text/html; charset=utf-8", "application/json", " Text/Plain"])
      expect(classOf(await failureOf(saying(contentType, Uint8Array.of(1)))), contentType).toBe("retry result_invalid")
  })

  it("is invalid if it is empty", async () => {
    expect(classOf(await failureOf(saying("audio/mpeg", new Uint8Array())))).toBe("retry result_invalid")
  })
})

describe("an image", () => {
  const drawing = (images: Array<string>) =>
    requests.image({
      image: image(new MockImageModelV4({ doGenerate: async () => ({ images, warnings: [], response }) })),
    })

  it("is invalid if it is missing or not base64", async () => {
    expect(classOf(await failureOf(drawing([])))).toBe("retry result_invalid")
    expect(classOf(await failureOf(drawing(["%%%% no base64"])))).toBe("retry result_invalid")
    expect(classOf(await failureOf(drawing([`${"A".repeat(64)}%%%%`])))).toBe("retry result_invalid")
  })
})

describe("an error thrown by a model", () => {
  const secret = `${canaries.key} "${canaries.text}"`
  const thrown: ReadonlyArray<readonly [unknown, string]> = [
    [new LoadAPIKeyError({ message: secret }), "broken configuration"],
    [new NoSuchModelError({ modelId: "m", modelType: "speechModel", message: secret }), "broken configuration"],
    [new UnsupportedFunctionalityError({ functionality: secret }), "refuse provider_rejected"],
    [new InvalidArgumentError({ parameter: "p", value: secret, message: secret }), "refuse provider_rejected"],
    [new TypeValidationError({ value: secret, cause: new Error(secret) }), "retry result_invalid"],
    [new APICallError({ message: secret, url: secret, requestBodyValues: secret }), "retry provider_unavailable"],
    [
      new APICallError({
        message: secret,
        url: secret,
        requestBodyValues: secret,
        statusCode: 400,
        responseBody: `{"error":{"code":"content_filter","message":"${canaries.key}"}}`,
      }),
      "refuse content_rejected",
    ],
    [
      Object.assign(new Error(secret), { name: "GatewayRateLimitError", statusCode: 429 }),
      "retry provider_unavailable",
    ],
    [Object.assign(new Error(secret), { name: "GatewayError", statusCode: 401 }), "broken configuration"],
    [new DOMException(secret, "TimeoutError"), "retry provider_unavailable"],
    [new DOMException(secret, "AbortError"), "retry provider_unavailable"],
    [Object.assign(new Error(secret), { name: secret, code: secret }), "retry provider_unavailable"],
    [new Error(secret, { cause: new Error(secret, { cause: secret }) }), "retry provider_unavailable"],
    [secret, "retry provider_unavailable"],
    [undefined, "retry provider_unavailable"],
    [{ statusCode: 401, message: secret }, "retry provider_unavailable"],
  ]
  for (const [error, meaning] of thrown)
    it(`${error instanceof Error ? error.constructor.name : typeof error}: ${meaning}`, async () => {
      for (const port of ports) {
        const failure = await failureOf(askPort(port, throwing(error)))
        expect(classOf(failure), port).toBe(meaning)
        const told = inspect(failure, { depth: 9, showHidden: true }) + JSON.stringify(failure)
        for (const canary of Object.values(canaries)) expect(told).not.toContain(canary)
      }
    })

  it("handles a cyclic chain of causes", () => {
    const error = new Error("a")
    error.cause = new Error("b", { cause: error })
    expect(classOf(toProviderError(error, 0))).toBe("retry provider_unavailable")
  })
})
