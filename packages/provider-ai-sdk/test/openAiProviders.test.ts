import { createServer, type Socket } from "node:net"
import { once } from "node:events"
import { performance } from "node:perf_hooks"
import { inspect } from "node:util"
import type { AudioFormat } from "@kiln/core/domain"
import { Effect, Fiber } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { type OpenAiOptions, openAiModels, openAiProviders } from "../src/index.ts"
import { askPort, audio, call, canaries, classOf, failureOf, ports, requests } from "./support/requests.ts"
import { json, serve } from "./support/server.ts"

const providers = (origin: string, options: Partial<OpenAiOptions> = {}) =>
  openAiProviders({ baseUrl: `${origin}/v1`, apiKey: canaries.key, models: openAiModels, ...options })

const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex")
const mp3 = Buffer.from("fffb9064000000000000", "hex")
const chat = (
  message: object,
  finish_reason: string | null = "stop",
  usage: unknown = { prompt_tokens: 3, completion_tokens: 7 },
) =>
  json({
    id: "c",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
    usage,
  })

describe("the request", () => {
  it("for a transcript", async () => {
    await using server = await serve(json({ text: "said", duration: 12.5, language: "english", segments: [] }))
    const got = await Effect.runPromise(requests.transcription(providers(server.origin)))
    expect(got).toEqual({ text: "said", seconds: 12.5 })
    const [asked] = server.received
    expect(asked?.path).toBe("/v1/audio/transcriptions")
    expect(asked?.headers).toMatchObject({
      authorization: `Bearer ${canaries.key}`,
      "idempotency-key": `${call.jobId}-transcription`,
      "content-type": expect.stringMatching(/^multipart\/form-data; boundary=/),
    })
    const form = await asked!.form()
    expect([...form.keys()]).toEqual(["model", "file", "response_format", "timestamp_granularities[]"])
    expect([form.get("model"), form.get("response_format")]).toEqual(["whisper-1", "verbose_json"])
  })

  // First bytes that the AI SDK does not recognize or mistakes: it would treat the file as WAV.
  const files: ReadonlyArray<readonly [AudioFormat, Uint8Array, name: string, type: string]> = [
    ["mp3", Uint8Array.of(0xff, 0xfb, 0x90, 0x64), "audio.mp3", "audio/mpeg"],
    [
      "mp3",
      Buffer.concat([Buffer.from("ID3\x04\x00\x00\x00\x7f\x7f\x7f", "latin1"), Buffer.alloc(200_000)]),
      "audio.mp3",
      "audio/mpeg",
    ],
    ["mp4", Buffer.from("\0\0\0\x20ftypisom", "latin1"), "audio.m4a", "audio/mp4"],
    ["mp4", Buffer.from("\0\0\x01\x20ftypisom", "latin1"), "audio.m4a", "audio/mp4"],
    ["mp4", Buffer.from("\0\0\0\x08wide\0\0\0\x10moov", "latin1"), "audio.m4a", "audio/mp4"],
    ["m4a", Buffer.from("\0\0\0\x20ftypM4A ", "latin1"), "audio.m4a", "audio/mp4"],
    ["wav", Buffer.from("RIFF\0\0\0\0WAVE", "latin1"), "audio.wav", "audio/wav"],
    ["wav", Buffer.from("RF64\0\0\0\0WAVE", "latin1"), "audio.wav", "audio/wav"],
    ["webm", Buffer.from("\x1aE\xdf\xa3", "latin1"), "audio.webm", "audio/webm"],
  ]
  for (const [format, bytes, name, type] of files)
    it(`for ${format} that begins with ${inspect(Buffer.from(bytes.subarray(0, 12)).toString("latin1"))}: ${name}`, async () => {
      await using server = await serve(json({ text: "said" }))
      const { transcription } = providers(server.origin)
      await Effect.runPromise(transcription!({ audio: audio(format, bytes, 3) }, call))
      const file = (await server.received[0]!.form()).get("file")
      if (!(file instanceof File)) throw new Error("not a file")
      expect([file.name, file.type]).toEqual([name, type])
      expect(Buffer.from(await file.arrayBuffer()).equals(bytes)).toBe(true)
    })

  it("for speech", async () => {
    await using server = await serve((response) => response.writeHead(200, { "content-type": "audio/mpeg" }).end(mp3))
    const got = await Effect.runPromise(requests.speech(providers(server.origin)))
    expect(got).toEqual({ data: new Uint8Array(mp3), mediaType: "audio/mpeg" })
    const [asked] = server.received
    expect([asked?.path, asked?.headers["idempotency-key"]]).toEqual(["/v1/audio/speech", `${call.jobId}-speech`])
    expect(asked?.json()).toEqual({ model: "tts-1", input: canaries.text, voice: "alloy", response_format: "mp3" })
    expect(asked?.headers["user-agent"]).toMatch(/^ai/)
  })

  it("for a reply", async () => {
    await using server = await serve(chat({ content: "answered" }))
    expect(await Effect.runPromise(requests.reply(providers(server.origin)))).toEqual({
      text: "answered",
      outputTokens: 7,
      truncated: false,
    })
    const [asked] = server.received
    expect([asked?.path, asked?.headers["idempotency-key"]]).toEqual(["/v1/chat/completions", `${call.jobId}-reply`])
    expect(asked?.json()).toEqual({
      model: "gpt-4.1-mini",
      max_tokens: 50,
      messages: [
        { role: "system", content: canaries.instructions },
        { role: "user", content: canaries.text },
      ],
    })
  })

  it("for a reply to silence: states that it is silence", async () => {
    await using server = await serve(chat({ content: "answered" }))
    const { reply } = providers(server.origin)
    for (const text of ["", " \n"])
      await Effect.runPromise(reply!({ text, instructions: undefined, maxOutputTokens: 50 }, call))
    for (const asked of server.received)
      expect(asked.json()).toMatchObject({
        messages: [{ role: "user", content: "[The recording contains no speech.]" }],
      })
  })

  it("for an image", async () => {
    await using server = await serve(json({ created: 1, data: [{ b64_json: png.toString("base64") }], usage: "odd" }))
    const got = await Effect.runPromise(requests.image(providers(server.origin)))
    expect(got).toEqual({ data: new Uint8Array(png), mediaType: "image/png" })
    const [asked] = server.received
    expect([asked?.path, asked?.headers["idempotency-key"]]).toEqual(["/v1/images/generations", `${call.jobId}-image`])
    expect(asked?.json()).toEqual({
      model: "gpt-image-1-mini",
      prompt: canaries.text,
      n: 1,
      size: "1024x1024",
      quality: "low",
      output_format: "png",
    })
  })

  it("for an image from a compatible server: no option that only OpenAI supports", async () => {
    await using server = await serve(json({ data: [{ b64_json: png.toString("base64") }] }))
    await Effect.runPromise(requests.image(providers(server.origin, { models: { image: "sdxl" } })))
    expect(server.received[0]?.json()).toEqual({
      model: "sdxl",
      prompt: canaries.text,
      n: 1,
      size: "1024x1024",
      response_format: "b64_json",
    })
  })

  it("has no key if none is configured, whatever the environment holds", async () => {
    vi.stubEnv("OPENAI_API_KEY", canaries.key)
    vi.stubEnv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    await using server = await serve(chat({ content: "answered" }))
    await Effect.runPromise(requests.reply(providers(server.origin, { apiKey: undefined })))
    expect(server.received[0]?.headers).not.toHaveProperty("authorization")
    vi.unstubAllEnvs()
  })

  it("uses the given fetch within the guard", async () => {
    await using server = await serve(json({ text: "hi" }))
    const sent: Array<string | undefined> = []
    const fetch: typeof globalThis.fetch = (input, init) => {
      sent.push(init?.redirect)
      return globalThis.fetch(input, init)
    }
    await Effect.runPromise(requests.transcription(providers(server.origin, { fetch })))
    expect(sent).toEqual(["manual"])
  })

  it("is not sent for a port without a model", () => {
    const set = providers("http://127.0.0.1:9", { models: { reply: "m" } })
    expect(Object.keys(set)).toEqual(["reply"])
  })
})

describe("responses of compatible servers", () => {
  it("a transcript with other segments and a duration as a string", async () => {
    for (const [duration, seconds] of [
      ["12.5", 12.5],
      ["", undefined],
      [0, undefined],
      [-1, undefined],
      [null, undefined],
    ] as const) {
      await using server = await serve(json({ text: "said", duration, segments: [{ id: 0, text: "said" }], usage: 3 }))
      const got = await Effect.runPromise(requests.transcription(providers(server.origin)))
      expect(got).toEqual(seconds === undefined ? { text: "said" } : { text: "said", seconds })
    }
  })

  it("a duration in the usage", async () => {
    await using server = await serve(json({ text: "", usage: { type: "duration", seconds: 13 } }))
    expect(await Effect.runPromise(requests.transcription(providers(server.origin)))).toEqual({ text: "", seconds: 13 })
  })

  it("an image URL on the same server, which requires the key", async () => {
    await using server = await serve((response, { path, headers }) => {
      if (path === "/v1/images/generations")
        return json({ data: [{ url: `http://${headers.host}/images/a.png` }] })(response)
      response.writeHead(200, { "content-type": "image/png" }).end(png)
    })
    const got = await Effect.runPromise(requests.image(providers(server.origin)))
    expect(got).toEqual({ data: new Uint8Array(png), mediaType: "image/png" })
    expect(server.received[1]).toMatchObject({
      path: "/images/a.png",
      headers: { authorization: `Bearer ${canaries.key}` },
    })
  })

  it("an image URL whose transfer ends when the call is interrupted", async () => {
    await using server = await serve((response, { path, headers }) => {
      if (path === "/v1/images/generations")
        return json({ data: [{ url: `http://${headers.host}/images/a.png` }] })(response)
      response.writeHead(200, { "content-type": "image/png" }).write(png)
    })
    const fiber = Effect.runFork(requests.image(providers(server.origin)))
    await server.arrived(2)
    const from = performance.now()
    await Effect.runPromise(Fiber.interrupt(fiber))
    await server.received[1]?.closed
    expect(performance.now() - from).toBeLessThan(10_000)
  })

  it("an image with additional fields that the AI SDK does not know", async () => {
    const more = { revised_prompt: { text: "p" }, url: null, usage: "none" }
    await using server = await serve(json({ data: [{ b64_json: png.toString("base64"), ...more }], ...more }))
    expect((await Effect.runPromise(requests.image(providers(server.origin)))).data).toEqual(new Uint8Array(png))
  })

  it("an image URL of an allowed origin, which does not get the key", async () => {
    await using images = await serve((response) => response.writeHead(200, { "content-type": "image/png" }).end(png))
    await using server = await serve(json({ data: [{ b64_json: null, url: `${images.origin}/a.png` }] }))
    const set = providers(server.origin, { trustedOrigins: [images.origin] })
    expect((await Effect.runPromise(requests.image(set))).data).toEqual(new Uint8Array(png))
    expect(images.received[0]?.headers).not.toHaveProperty("authorization")
  })

  it("an image URL that must not be fetched", async () => {
    await using inside = await serve((response) => response.end("secret"))
    for (const url of [
      `${inside.origin}/`,
      "http://169.254.169.254/latest/meta-data",
      "http://[::ffff:169.254.169.254]/",
      "http://localhost:8080/",
      "file:///etc/passwd",
      "data:image/png;base64,AA==",
      "nothing",
    ]) {
      await using server = await serve(json({ data: [{ url }] }))
      expect(classOf(await failureOf(requests.image(providers(server.origin)))), url).toBe("retry result_invalid")
    }
    expect(inside.received).toEqual([])
  })

  it("an image URL that no longer exists does not affect the provider", async () => {
    await using server = await serve((response, { path }) =>
      path === "/v1/images/generations"
        ? json({ data: [{ url: `${server.origin}/gone` }] })(response)
        : json({}, 404)(response),
    )
    expect(classOf(await failureOf(requests.image(providers(server.origin))))).toBe("retry result_invalid")
  })

  it("missing or absurd usage: guesses are not charged", async () => {
    for (const [usage, outputTokens] of [
      [null, 0],
      [{}, 0],
      [{ prompt_tokens: 1, completion_tokens: null }, 0],
      [{ prompt_tokens: 1, completion_tokens: -4 }, 0],
      [{ prompt_tokens: 1, completion_tokens: 4.9 }, 4],
      [{ prompt_tokens: 1, completion_tokens: 1e300 }, 0],
    ] as const) {
      await using server = await serve(chat({ content: "answered" }, "stop", usage))
      expect((await Effect.runPromise(requests.reply(providers(server.origin)))).outputTokens, inspect(usage)).toBe(
        outputTokens,
      )
    }
  })
})

describe("the end of a reply", () => {
  const ends: ReadonlyArray<readonly [object, string | null, string]> = [
    [{ content: "cut" }, "length", "truncated"],
    [{ content: "whole" }, "stop", "whole"],
    [{ content: "whole" }, null, "whole"],
    [{ content: "begun" }, "content_filter", "refuse content_rejected"],
    [{ content: null, refusal: "I will not." }, "stop", "refuse content_rejected"],
    [{ content: "" }, "stop", "retry result_invalid"],
    [{ content: null }, "length", "retry result_invalid"],
    [{ content: " \n" }, "stop", "retry result_invalid"],
  ]
  for (const [message, reason, end] of ends)
    it(`${JSON.stringify(message)} ${String(reason)}: ${end}`, async () => {
      await using server = await serve(chat(message, reason))
      const ended = await Effect.runPromise(
        requests.reply(providers(server.origin)).pipe(
          Effect.map(({ truncated }) => (truncated ? "truncated" : "whole")),
          Effect.catch((error) => Effect.succeed(classOf(error))),
        ),
      )
      expect(ended).toBe(end)
    })
})

/** Starts a server that writes raw bytes, which may be wrong in any way. */
const raw = async (respond: (socket: Socket) => void) => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on("error", () => undefined)
    socket.once("data", () => respond(socket))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  return {
    origin: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, "close")
    },
  }
}
const bytes = (head: string, body = "") => `HTTP/1.1 ${head}\r\n\r\n${body}`

/** An error whose message repeats the request, as real ones do. */
const failing = (status: number, code: unknown, type: unknown, headers: Readonly<Record<string, string>> = {}) =>
  json(
    {
      error: {
        message: `${canaries.key} asked "${canaries.text}" with ${canaries.instructions}`,
        type,
        param: canaries.text,
        code,
      },
    },
    status,
    headers,
  )

const errors: ReadonlyArray<readonly [number, code: unknown, type: unknown, meaning: string]> = [
  [400, "content_policy_violation", "image_generation_user_error", "refuse content_rejected"],
  [400, "moderation_blocked", "image_generation_user_error", "refuse content_rejected"],
  [400, null, "invalid_request_error", "refuse provider_rejected"],
  [400, canaries.text, canaries.key, "refuse provider_rejected"],
  [400, "billing_hard_limit_reached", null, "broken quota"],
  [401, "invalid_api_key", "invalid_request_error", "broken configuration"],
  [402, null, null, "broken quota"],
  [403, "unsupported_country_region_territory", "request_forbidden", "broken configuration"],
  [404, "model_not_found", "invalid_request_error", "broken configuration"],
  [405, null, null, "broken configuration"],
  [408, null, null, "retry provider_unavailable"],
  [409, null, null, "retry provider_unavailable"],
  [413, null, null, "refuse provider_rejected"],
  [415, null, null, "refuse provider_rejected"],
  [422, null, null, "refuse provider_rejected"],
  [429, "rate_limit_exceeded", "requests", "retry provider_unavailable"],
  [429, "insufficient_quota", "insufficient_quota", "broken quota"],
  [500, null, "server_error", "retry provider_unavailable"],
  [503, null, null, "retry provider_unavailable"],
]

describe.each(ports)("an error response to %s", (port) => {
  const ask = (origin: string) => askPort(port, providers(origin))
  afterEach(() => void vi.restoreAllMocks())

  it("is classified by status and code, without a retry and without secrets", async () => {
    const warned = vi.spyOn(process, "emitWarning")
    const printed = [vi.spyOn(console, "warn"), vi.spyOn(console, "error"), vi.spyOn(console, "log")]
    for (const [status, code, type, meaning] of errors) {
      await using server = await serve(failing(status, code, type))
      const error = await failureOf(ask(server.origin))
      expect(classOf(error), `${status} ${String(code)}`).toBe(meaning)
      expect(server.received).toHaveLength(1)
      const told =
        inspect(error, { depth: 9, showHidden: true }) + JSON.stringify(error) + String(error) + String(error.stack)
      for (const canary of Object.values(canaries)) expect(told).not.toContain(canary)
    }
    expect(warned).not.toHaveBeenCalled()
    for (const print of printed) expect(print).not.toHaveBeenCalled()
  })

  it("keeps the requested wait", async () => {
    for (const [headers, wait] of [
      [{ "retry-after": "7" }, 7000],
      [{ "retry-after-ms": "70" }, 70],
      [{ "retry-after": "Fri, 20 Nov 2026 12:00:30 GMT", date: "Fri, 20 Nov 2026 12:00:00 GMT" }, 30_000],
      [{ "retry-after": "never" }, undefined],
    ] as const) {
      await using server = await serve(failing(429, null, null, headers))
      expect(await failureOf(ask(server.origin))).toMatchObject(
        wait === undefined ? { retry: true } : { retryAfterMs: wait },
      )
    }
  })

  it("is classified if the response is invalid", async () => {
    const answers: ReadonlyArray<readonly [string, (socket: Socket) => void, string]> = [
      ["reset", (socket) => socket.resetAndDestroy(), "retry provider_unavailable"],
      ["closed", (socket) => socket.end(), "retry provider_unavailable"],
      [
        "truncated",
        (socket) => socket.end(bytes("200 OK\r\ncontent-type: application/json\r\ncontent-length: 90", `{"text":"`)),
        "retry provider_unavailable",
      ],
      ["not HTTP", (socket) => socket.end("what?\r\n\r\n"), "retry provider_unavailable"],
      [
        "HTML",
        (socket) => socket.end(bytes("200 OK\r\ncontent-type: text/html\r\ncontent-length: 13", "<html></html>")),
        "retry result_invalid",
      ],
      ["empty", (socket) => socket.end(bytes("200 OK\r\ncontent-length: 0")), "retry result_invalid"],
      ["no content", (socket) => socket.end(bytes("204 No Content")), "retry result_invalid"],
      [
        "broken JSON",
        (socket) => socket.end(bytes("200 OK\r\ncontent-type: application/json\r\ncontent-length: 9", `{"text":"`)),
        "retry result_invalid",
      ],
      [
        "other JSON",
        (socket) =>
          socket.end(
            bytes("200 OK\r\ncontent-type: application/json\r\ncontent-length: 12", `{"data":[{}]`.slice(0, 11) + "}"),
          ),
        "retry result_invalid",
      ],
      [
        "too long",
        (socket) => socket.write(bytes("200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999")),
        "retry result_invalid",
      ],
      [
        "a redirect",
        (socket) => socket.end(bytes("302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0")),
        "broken configuration",
      ],
      [
        "a bare 403",
        (socket) => socket.end(bytes("403 Forbidden\r\ncontent-type: text/html\r\ncontent-length: 6", "<html>")),
        "retry provider_unavailable",
      ],
      ["a bare 404", (socket) => socket.end(bytes("404 Not Found\r\ncontent-length: 0")), "broken configuration"],
    ]
    for (const [name, respond, meaning] of answers) {
      await using server = await raw(respond)
      expect(classOf(await failureOf(ask(server.origin))), name).toBe(meaning)
    }
    const server = await raw(() => undefined)
    await server[Symbol.asyncDispose]()
    const error = await failureOf(ask(server.origin))
    expect(classOf(error)).toBe("retry provider_unavailable")
    expect(error).toMatchObject({ detail: "no response: ECONNREFUSED" })
  })

  it("is not produced by an interruption: the request ends at once", async () => {
    await using server = await serve(() => undefined)
    const fiber = Effect.runFork(ask(server.origin))
    await server.arrived(1)
    const from = performance.now()
    await Effect.runPromise(Fiber.interrupt(fiber))
    await server.received[0]?.closed
    expect(performance.now() - from).toBeLessThan(10_000)
  })
})

describe("an invalid configuration", () => {
  it("throws on creation, without the key in the message", () => {
    for (const apiKey of ["", `${canaries.key}\n`, "sk ñ"])
      expect(() => openAiProviders({ apiKey, models: openAiModels })).toThrow(
        /^the API key contains invalid characters$/,
      )
    expect(() => openAiProviders({ apiKey: "k", baseUrl: "127.0.0.1:8080", models: openAiModels })).toThrow(TypeError)
  })
})
