import { createClient, sendUpload } from "@kiln/client"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"

const aDay = 86_400_000
const queued = { id: "job_1", status: "queued" }
const reference = { id: "job_1", type: "speech_synthesis" } as const

/** A service that never finishes the job and recommends a polling interval. */
const unfinished = (retryAfter: string, status = 200) => {
  const polls: Array<number> = []
  const fetch = vi.fn<typeof globalThis.fetch>((_url, { signal } = {}) => {
    signal?.throwIfAborted()
    polls.push(Date.now())
    return Promise.resolve(new Response(JSON.stringify(queued), { status, headers: { "retry-after": retryAfter } }))
  })
  return {
    polls,
    client: createClient({ baseUrl: "http://kiln.example", apiKey: "kiln_test_1", fetch, maxRetries: 0 }),
  }
}

describe("the interval between two polls", () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it.each([
    ["a month", "2678400", 200, 60_000],
    ["thirty years", "999999999", 503, 60_000],
    ["nothing", "0", 200, 100],
    ["seven seconds", "7", 200, 7_000],
  ])("is bounded if the service asks for %s", async (_, retryAfter, status, pauseMs) => {
    const { client, polls } = unfinished(retryAfter, status)
    const waited = client.jobs.wait(reference, { timeoutMs: 10 * pauseMs + 50 }).catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(10 * pauseMs + 60)
    expect(await waited).toMatchObject({ code: "wait_timeout" })
    expect(polls).toHaveLength(11)
    expect(vi.getTimerCount()).toBe(0)
  })

  it("a wait of more than 24 days, or an unlimited one, does not end immediately", async () => {
    for (const timeoutMs of [30 * aDay, Number.POSITIVE_INFINITY]) {
      const { client, polls } = unfinished("60")
      const stop = new AbortController()
      let ended: unknown
      const waited = client.jobs
        .wait(reference, { timeoutMs, signal: stop.signal })
        .catch((error: unknown) => (ended = error))
      await vi.advanceTimersByTimeAsync(600_000)
      expect([ended, polls.length]).toEqual([undefined, 11])
      stop.abort(new Error("enough"))
      await waited
      expect(ended).toMatchObject({ message: "enough" })
    }
  })

  it("a request's timeout may be as long", async () => {
    const fetch = vi.fn<typeof globalThis.fetch>(
      (_url, { signal } = {}) =>
        new Promise((resolve, reject) => {
          signal?.addEventListener("abort", () => reject(signal.reason as Error))
          setTimeout(() => resolve(Response.json(queued)), 5_000)
        }),
    )
    for (const timeoutMs of [2 ** 31, 2 ** 40, Number.POSITIVE_INFINITY]) {
      const client = createClient({ baseUrl: "http://kiln.example", apiKey: "k", fetch, timeoutMs })
      const got = client.jobs.get(reference)
      await vi.advanceTimersByTimeAsync(5_000)
      expect(await got).toEqual(queued)
    }
  })
})

describe("invalid options are refused", () => {
  const about = { baseUrl: "http://kiln.example", apiKey: "k" }
  it.each([Number.NaN, -1, "1000", null])("a timeout of %s", async (timeoutMs) => {
    const { client, polls } = unfinished("1")
    expect(() => createClient({ ...about, timeoutMs: timeoutMs as number })).toThrow(
      "timeoutMs must be a non-negative number of milliseconds",
    )
    await expect(client.jobs.wait(reference, { timeoutMs: timeoutMs as number })).rejects.toThrow(TypeError)
    expect(polls).toEqual([])
  })

  it("options that do not exist", async () => {
    const { client, polls } = unfinished("1")
    const given = (options: object): never => options as never
    expect(() => createClient(given({ ...about, timeout: 1 }))).toThrow(
      'unknown option "timeout" in createClient(); known: fetch, maxRetries, maxRetryDelayMs, baseUrl, apiKey, timeoutMs',
    )
    expect(() => createClient(given({ ...about, maxRetries: Number.NaN }))).toThrow("maxRetries")
    expect(() => createClient(given({ apiKey: "k" }))).toThrow("baseUrl and apiKey")
    for (const [call, message] of [
      [
        client.jobs.wait(reference, given({ timeoutMillis: 1 })),
        'unknown option "timeoutMillis" in jobs.wait(); known: signal, timeoutMs',
      ],
      [client.jobs.get(reference, given({ timeoutMs: 1 })), 'unknown option "timeoutMs" in pollAudioJob()'],
      [
        client.speech.create({ input: "x" }, given({ idempotency: "1" })),
        'unknown option "idempotency" in createSpeech()',
      ],
      [
        client.transcriptions.createFromFile(
          new Uint8Array(1),
          { format: "wav", declared_seconds: 1 },
          given({ idempotencyKey: "1" }),
        ),
        'unknown option "idempotencyKey" in createFromFile()',
      ],
      [
        sendUpload({ upload_url: "http://kiln.example/f" }, new Uint8Array(1), given({ format: "wav", retries: 1 })),
        'unknown option "retries" in sendUpload()',
      ],
    ] as const)
      await expect(call).rejects.toThrow(message)
    expect(polls).toEqual([])
  })
})
