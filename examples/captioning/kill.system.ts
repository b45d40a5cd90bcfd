import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { json, text } from "node:stream/consumers"
import { setTimeout } from "node:timers/promises"
import { expect, it } from "vitest"

const sceneCount = 12
/** `settings.concurrency` of the program. */
const concurrency = 2

/** A transcription service, which outlives the programs that are killed. */
const openTranscription = async () => {
  const calls: Array<number> = []
  let answered = 0
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = (await json(request)) as { readonly from: number }
    if (request.url === "/scenes") {
      const scenes = Array.from({ length: sceneCount }, (_, from) => ({ from, to: from + 1 }))
      return response.end(JSON.stringify(scenes))
    }
    calls.push(body.from)
    await setTimeout(100)
    response.end(JSON.stringify({ text: `scene ${body.from}` }))
    return (answered += 1)
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    answered: () => answered,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const start = (directory: string, url: string) => {
  const main = join(import.meta.dirname, "main.ts")
  return spawn(process.execPath, ["--conditions=@kiln/source", main, directory, "kiln.mp4", url], {
    stdio: ["ignore", "pipe", "ignore"],
  })
}

it("a program that is killed in the middle continues, and pays for no finished scene again", async () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-captioning-"))
  await using service = await openTranscription()
  try {
    const first = start(directory, service.url)
    while (service.answered() < 5) await setTimeout(5)
    first.kill("SIGKILL")
    await once(first, "exit")
    const callsBefore = service.calls.length
    expect(callsBefore).toBeLessThan(sceneCount)

    const second = start(directory, service.url)
    const [captions, [code]] = await Promise.all([text(second.stdout), once(second, "exit")])
    expect(code).toBe(0)
    const cues = Array.from({ length: sceneCount }, (_, n) => `scene ${n}`)
    expect(captions.match(/scene \d+/g)).toEqual(cues)
    expect(new Set(service.calls).size).toBe(sceneCount)
    // Only scenes whose results were not stored yet are asked for again.
    expect(service.calls.length).toBeLessThanOrEqual(sceneCount + concurrency)

    // Started once more, it has nothing to do.
    const third = start(directory, service.url)
    expect(await text(third.stdout)).toBe(captions)
    expect(service.calls.length).toBeLessThanOrEqual(sceneCount + concurrency)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
