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

const partCount = 20

/** The services, which outlive the programs that are killed. */
const openServices = async () => {
  const calls = { scripts: 0, speech: [] as Array<string>, refused: "part 7" }
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = (await json(request)) as { readonly text: string }
    if (request.url === "/script") {
      calls.scripts += 1
      return response.end(JSON.stringify(Array.from({ length: partCount }, (_, n) => `part ${n}`)))
    }
    calls.speech.push(body.text)
    if (body.text === calls.refused) {
      response.statusCode = 422
      return response.end()
    }
    await setTimeout(50)
    return response.end(body.text)
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

it("an episode that is killed and whose part 7 fails is finished by later runs, which speak no finished part again", async () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-podcast-"))
  await using services = await openServices()
  const { calls } = services
  const start = () =>
    spawn(
      process.execPath,
      ["--conditions=@kiln/source", join(import.meta.dirname, "main.ts"), directory, "kiln", services.url],
      { stdio: ["ignore", "pipe", "ignore"] },
    )
  try {
    const first = start()
    while (calls.speech.length < 10) await setTimeout(5)
    first.kill("SIGKILL")
    await once(first, "exit")
    // A call that the kill cut off is repeated, and no other.
    expect(await text(start().stdout)).toBe("part_failed\n")
    expect(new Set(calls.speech).size).toBe(partCount)
    const concurrency = 4
    expect(calls.speech.length).toBeLessThanOrEqual(partCount + concurrency)

    calls.refused = ""
    const before = calls.speech.length
    expect(await text(start().stdout)).toBe(`${partCount} parts, 130 bytes\n`)
    expect(calls.speech.slice(before)).toEqual(["part 7"])
    expect(calls.scripts).toBe(1)
    // Started once more, it has nothing to do.
    expect(await text(start().stdout)).toBe(`${partCount} parts, 130 bytes\n`)
    expect(calls.speech).toHaveLength(before + 1)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
