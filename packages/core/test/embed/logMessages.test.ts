import { builtIn, createEngine, jobKind, type LogEntry } from "@kiln/core"
import { BlobUnavailable, DiskProblem } from "@kiln/core/domain"
import { JobKind } from "@kiln/core/kinds"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { Effect } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const secret = "cannot post to ada@example.com"

/** Returns what the log says of a job that throws, and of an `onFinished` that throws. */
const logOf = async (messages: boolean | undefined, thrown: unknown = new RangeError(secret)): Promise<string> => {
  const entries: Array<LogEntry> = []
  const to = (entry: LogEntry) => void entries.push(entry)
  const kind = jobKind({
    name: "post",
    request: z.object({}),
    limits: { maxFailures: 1 },
    run: async () => {
      throw thrown
    },
    onFinished: () => {
      throw new TypeError(`${secret} either`)
    },
  })
  await using engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: [kind],
    log: messages === undefined ? to : { messages, to },
  })
  await engine.submitAndWait("post", {})
  await vi.waitUntil(() => entries.some(({ message }) => message.includes("onFinished failed")), { timeout: 30_000 })
  return entries.map(({ message }) => message).join("\n")
}

describe("the log", () => {
  afterEach(() => vi.unstubAllEnvs())

  it("has the class of what was thrown, and its message only if the program asks for it", async () => {
    const plain = await logOf(undefined)
    expect(plain).toContain("RangeError")
    expect(plain).not.toContain(secret)
    expect(await logOf(false)).not.toContain(secret)
    const telling = await logOf(true)
    expect(telling).toContain(`RangeError: ${secret}\n`)
    expect(telling).toContain(`TypeError: ${secret} either\n`)
  })

  it("has what is not an error only as text, and no more than 1,000 characters of a message", async () => {
    expect(await logOf(false, secret)).toContain("attempt ended without a result defect\n")
    expect(await logOf(true, secret)).toContain(`attempt ended without a result defect: ${secret}\n`)
    expect(await logOf(true, "")).toContain("attempt ended without a result defect\n")
    const long = await logOf(true, new RangeError("x".repeat(1_001)))
    expect(long).toContain(`RangeError: ${"x".repeat(1_000)}\n`)
  })

  it("has the place of what a provider threw, which the record of the attempt and onAttemptFailed have whole", async () => {
    const speak = async (): Promise<never> => {
      throw new RangeError(secret)
    }
    for (const messages of [false, true]) {
      const said: Array<string> = []
      const reported: Array<unknown> = []
      await using engine = await createEngine({
        store: memoryStore(),
        blobs: memoryBlobs(),
        kinds: [builtIn.speechSynthesis()],
        providers: { sandbox: { speech: speak } },
        log: { messages, to: ({ message }) => said.push(message) },
        onAttemptFailed: (error) => reported.push(error),
      })
      const job = await engine.submit("speech_synthesis", { input: "hello" })
      await vi.waitUntil(() => reported.length > 0, { timeout: 30_000 })
      await engine.operator.cancel(job).catch(() => undefined)
      const says = messages ? `the provider threw RangeError: ${secret}` : "the provider threw RangeError"
      expect(said.join("\n")).toContain(`ProviderFailure provider_unavailable: ${says}\n    at speak (`)
      expect(said.join("\n").includes(secret)).toBe(messages)
      expect(reported[0]).toMatchObject({ cause: new RangeError(secret) })
      expect(String(reported[0])).toBe("ProviderFailure: the provider threw RangeError")
      const [attempt] = await engine.operator.listAttempts(job)
      expect(attempt?.message).toBe("the provider threw RangeError")
      expect(attempt?.stack).toMatch(/caused by: RangeError: .*\n {4}at speak/)
    }
  })

  it("says what is wrong with the disk that an attempt writes to", async () => {
    const said: Array<string> = []
    const cause = new DiskProblem("the disk of /srv/files is full (0 B free)", { isFull: true })
    let runs = 0
    const writing = JobKind({
      name: "writing",
      request: z.object({}),
      run: () =>
        runs++ === 0
          ? Effect.fail(new BlobUnavailable({ operation: "put", cause }))
          : Effect.succeed({ output: {}, files: [], usage: {} }),
    })
    await using engine = await openWith([writing as never], { log: ({ message }) => said.push(message) })
    await engine.submitAndWait("writing" as never, {} as never)
    expect(said.join()).toContain("BlobUnavailable: the disk of /srv/files is full (0 B free)")
  })

  it("has messages in development, unless the program forbids it", async () => {
    vi.stubEnv("NODE_ENV", "development")
    expect(await logOf(undefined)).toContain(secret)
    expect(await logOf(false)).not.toContain(secret)
  })

  it("must be configured with options that exist", async () => {
    const opened = (log: unknown) =>
      createEngine({ store: memoryStore(), blobs: memoryBlobs(), kinds: [], worker: false, log } as never)
    for (const [log, message] of [
      [{ message: true }, /messages/],
      [{ messages: "yes" }, /log\.messages must be true or false/],
      [{ to: "stderr" }, /log\.to must be a function/],
      [["a"], /log must be a function/],
    ] as const)
      await expect(opened(log)).rejects.toThrow(message)
  })
})
