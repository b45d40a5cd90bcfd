import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  answer,
  answerLate,
  endless,
  hang,
  hangAfterHeaders,
  huge,
  readJournal,
  spawnOpenAiStandIn,
  startOpenAiStandIn,
  trickle,
} from "@kiln/testing/openai"
import { describe, expect, it } from "vitest"
import { ask, bytesOf, post, requests, smallWav, speak, transcribe, withStandIn } from "./support.ts"

const withDirectory = async (use: (directory: string) => Promise<void>): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), "stand-in-"))
  try {
    await use(directory)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** A client that requests speech and does not read the response. */
const deafClient = async (url: string, apiKey: string) => {
  const { hostname, port } = new URL(url)
  const body = JSON.stringify({ model: "tts-1", voice: "v", input: "x" })
  const socket = connect(Number(port), hostname)
  socket.pause()
  socket.write(
    `POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${apiKey}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
}

/** For a promise that is going to reject while something else is waited for. */
const howItFails = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "it did not",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )

describe("huge answers", () => {
  it.each(["chunked", "length"] as const)("of a given size, %s", (framing) =>
    withStandIn(async (standIn) => {
      for (const [endpoint, request] of [
        ["chat", requests.chat],
        ["image", requests.image],
        ["speech", requests.speech],
      ] as const) {
        standIn.script(endpoint, huge(300_000, framing))
        const response = await request(standIn)
        expect(response.headers.get("content-length")).toBe(framing === "length" ? "300000" : null)
        const body = await bytesOf(response)
        expect(body.length).toBe(300_000)
        const isStillRead = endpoint === "speech" ? body[0] === 0xff : "usage" in JSON.parse(body.toString())
        expect(isStillRead, endpoint).toBe(true)
      }
    }),
  )

  it("endless, until the client disconnects", () =>
    withStandIn(async (standIn) => {
      standIn.usually("chat", endless)
      const client = new AbortController()
      const response = await ask(standIn, "x", {}, client.signal)
      let bytes = 0
      const reader = response.body!.getReader()
      while (bytes < 5_000_000) bytes += (await reader.read()).value?.length ?? Number.NaN
      client.abort()
      await standIn.untilEnded("chat")
      expect(standIn.calls()).toMatchObject([{ behavior: "Huge", outcome: "client_gone", status: 200 }])
    }))
})

describe("answered calls", () => {
  it("are those that were sent: a client that does not read is not answered, and one that disconnects never is", () =>
    withStandIn(async (standIn) => {
      // More than the buffers of both ends take.
      standIn.script("speech", answer({ data: new Uint8Array(50_000_000) }))
      const socket = await deafClient(standIn.url, standIn.apiKey)
      await standIn.untilCalled("speech")
      // A whole call from end to end is time enough for a mistaken "answered".
      await bytesOf(await speak(standIn, "another"))
      expect(standIn.calls().map(({ outcome }) => outcome)).toEqual(["running", "answered"])
      socket.destroy()
      await standIn.untilEnded("speech", 2)
      expect(standIn.calls()[0]).toMatchObject({ outcome: "client_gone", status: 200 })
    }))

  it("include when the client disconnected before a late response", () =>
    withStandIn(async (standIn) => {
      standIn.script("speech", answerLate(60_000))
      const client = new AbortController()
      const response = speak(standIn, "x", {}, client.signal)
      await standIn.untilCalled("speech")
      client.abort()
      await expect(response).rejects.toThrow("aborted")
      await standIn.untilEnded("speech")
      const [call] = standIn.calls()
      expect(call?.outcome).toBe("client_gone")
      expect(call!.endedAtMs! - call!.beganAtMs).toBeLessThan(30_000)
      expect(call).not.toHaveProperty("status")
    }))
})

describe("many concurrent calls", () => {
  it("fifty calls each get their own response", () =>
    withStandIn(async (standIn) => {
      const names = Array.from({ length: 50 }, (_, index) => `number-${index}`)
      const said = await Promise.all(
        names.map(async (name) => (await (await ask(standIn, name)).json()).choices[0].message.content),
      )
      expect(said).toEqual(names.map((name) => `You said: ${name}`))
      const heard = await Promise.all(
        names.map(async (_, index) => (await (await transcribe(standIn, smallWav(1, index))).json()).text),
      )
      expect(new Set(heard).size).toBe(50)
      expect(standIn.calls()).toHaveLength(100)
      expect(standIn.calls().map(({ number }) => number)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1))
      await standIn.untilEnded("transcription", 50)
      expect(standIn.calls().every(({ outcome }) => outcome === "answered")).toBe(true)
    }))

  it("waits for exactly the given number of calls", () =>
    withStandIn(async (standIn) => {
      standIn.usually("speech", hang)
      const client = new AbortController()
      const received = () => standIn.callsOf("speech").filter(({ request }) => request !== undefined).length
      const atTheThird = standIn.untilCalled("speech", 3).then(received)
      const running: Array<Promise<unknown>> = []
      for (const times of [1, 2, 3]) {
        running.push(speak(standIn, "x", {}, client.signal))
        await standIn.untilCalled("speech", times)
        expect(received()).toBe(times)
      }
      expect(await atTheThird).toBe(3)
      client.abort()
      await Promise.allSettled(running)
      await standIn.untilEnded("speech", 3)
    }))
})

describe("closing", () => {
  it("ends calls that hang or trickle, and records it", async () => {
    const standIn = await startOpenAiStandIn()
    standIn.script("speech", hang, hangAfterHeaders, trickle(10_000), endless, answerLate(100_000))
    const running = Array.from({ length: 5 }, async () => bytesOf(await speak(standIn, "x")))
    const fates = Promise.allSettled(running)
    await standIn.untilCalled("speech", 5)
    const waiting = howItFails(standIn.untilCalled("speech", 6))
    await standIn.close()
    expect(await waiting).toContain("closed while a test waited")
    expect((await fates).map(({ status }) => status)).toEqual(Array.from({ length: 5 }, () => "rejected"))
    expect(standIn.calls().map(({ outcome }) => outcome)).toEqual(Array.from({ length: 5 }, () => "failed"))
    await expect(speak(standIn, "x")).rejects.toThrow("fetch failed")
    await standIn.close()
  })

  it("does not wait for idle connections", async () => {
    const standIn = await startOpenAiStandIn()
    await bytesOf(await speak(standIn, "x"))
    await standIn.close()
    expect(standIn.calls()).toMatchObject([{ outcome: "answered" }])
  })

  it("rejects a port that is in use", () =>
    withStandIn(async (standIn) => {
      await expect(startOpenAiStandIn({ port: Number(new URL(standIn.url).port) })).rejects.toThrow("EADDRINUSE")
    }))
})

describe("the journal", () => {
  it("contains the calls, and is continued", () =>
    withDirectory(async (directory) => {
      const journal = join(directory, "calls.jsonl")
      expect(readJournal(journal)).toEqual([])
      await withStandIn(
        async (standIn) => {
          await bytesOf(await speak(standIn, "one"))
          expect((await post(standIn, "/audio/speech", "{")).status).toBe(400)
          await standIn.untilEnded("speech", 2)
          expect(readJournal(journal)).toEqual(standIn.calls())
        },
        { journal },
      )
      // As a process leaves it that is killed while it writes.
      writeFileSync(journal, '{"number":9,"endp', { flag: "a" })
      expect(readJournal(journal)).toHaveLength(2)
      await withStandIn(
        async (standIn) => {
          await bytesOf(await speak(standIn, "three"))
          await standIn.untilEnded("speech")
          expect(standIn.calls().map(({ number }) => number)).toEqual([3])
          expect(readJournal(journal).map(({ number, outcome }) => [number, outcome])).toEqual([
            [1, "answered"],
            [2, "failed"],
            [3, "answered"],
          ])
        },
        { journal },
      )
      const lines = readFileSync(journal, "utf8").split("\n")
      expect(lines.filter((line) => !line.endsWith("}"))).toEqual(['{"number":9,"endp', ""])
      expect(lines.join()).not.toContain("sk-stand-in")
    }))
})

describe("a separate process", () => {
  it("ends with the process that started it, however that ends", () =>
    withDirectory(async (directory) => {
      const options = { journal: join(directory, "calls.jsonl"), usually: { models: hang }, apiKeys: [] }
      const door = import.meta.resolve("../../src/openai/spawnOpenAiStandIn.ts")
      const program = `
        const { spawnOpenAiStandIn } = await import(${JSON.stringify(door)})
        const { url, pid } = await spawnOpenAiStandIn(${JSON.stringify(options)})
        console.log(JSON.stringify({ url, pid }))`
      const parent = spawn(process.execPath, ["--input-type=module", "-e", program])
      const [line] = await once(parent.stdout, "data")
      const { url, pid } = JSON.parse(String(line))
      try {
        const cut = howItFails(fetch(`${url}/models`, { signal: AbortSignal.timeout(15_000) }))
        parent.kill("SIGKILL")
        expect(await cut).toBe("fetch failed")
      } catch (error) {
        process.kill(pid)
        throw error
      }
    }))

  it("keeps its journal when it is killed, and another stand-in continues it", () =>
    withDirectory(async (directory) => {
      const journal = join(directory, "calls.jsonl")
      const spoken = (url: string) =>
        fetch(`${url}/audio/speech`, {
          method: "POST",
          headers: { authorization: "Bearer k", "content-type": "application/json", "idempotency-key": "job_1" },
          body: JSON.stringify({ model: "tts-1", voice: "v", input: "x" }),
        })
      const options = { journal, apiKeys: ["k"], script: { speech: [answer(), hang] } } as const
      await using first = await spawnOpenAiStandIn(options)
      await first.untilCalled("speech", 0)
      expect((await bytesOf(await spoken(first.url))).length).toBeGreaterThan(1000)
      const hanging = howItFails(spoken(first.url))
      await first.untilCalled("speech", 2)
      await first.kill()
      expect(await hanging).toBe("fetch failed")
      expect(() => process.kill(first.pid, 0)).toThrow("ESRCH")
      await expect(first.untilCalled("speech", 3)).rejects.toThrow("the stand-in ended")
      expect(first.calls().map(({ outcome, behavior }) => [outcome, behavior])).toEqual([
        ["answered", "Answer"],
        ["running", "Hang"],
      ])
      await using second = await spawnOpenAiStandIn({ journal, apiKeys: ["k"], usually: { speech: hang } })
      const cut = howItFails(spoken(second.url))
      await second.untilCalled("speech", 3)
      await second.close()
      expect(await cut).toBe("fetch failed")
      expect(second.calls().map(({ number, outcome }) => [number, outcome])).toEqual([
        [1, "answered"],
        [2, "running"],
        [3, "failed"],
      ])
      expect(second.calls()[2]?.headers.idempotencyKey).toBe("job_1")
    }))
})
