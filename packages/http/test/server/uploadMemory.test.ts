import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, it } from "vitest"

const maxBytes = 26_214_400
const transfers = 50

/** A service with its blobs in files, in a process of its own. */
const start = async () => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-uploads-"))
  const child = spawn(
    process.execPath,
    ["--conditions=@kiln/source", fileURLToPath(new URL("./uploadServer.ts", import.meta.url)), directory],
    {
      stdio: ["ignore", "pipe", "inherit"],
      // Settings of the surrounding test run must not reach it.
      env: { PATH: process.env["PATH"] },
    },
  )
  const [line] = (await once(child.stdout, "data")) as [Buffer]
  const { secret, url } = JSON.parse(line.toString()) as { secret: string; url: string }
  return {
    url,
    secret,
    /** The most memory it has had so far, in MB. */
    peak: () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) / 1024,
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit")
      child.kill("SIGTERM")
      await ended
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

it("fifty files of 25 MiB at once are not held in memory", { timeout: 240_000 }, async ({ skip }) => {
  if (!existsSync("/proc/self/status")) return skip("the peak of a process is read from /proc, which only Linux has")
  await using service = await start()
  const before = service.peak()
  const file = new Uint8Array(maxBytes)
  file.set(new TextEncoder().encode("RIFF\0\0\0\0WAVE"))
  const statuses = await Promise.all(
    Array.from({ length: transfers }, async () => {
      const announced = await fetch(`${service.url}/v1/audio/uploads`, {
        method: "POST",
        headers: { authorization: `Bearer ${service.secret}`, "content-type": "application/json" },
        body: JSON.stringify({ format: "wav", declared_seconds: 900 }),
      })
      const { upload_url } = (await announced.json()) as { upload_url: string }
      const sent = await fetch(upload_url, { method: "PUT", headers: { "content-type": "audio/wav" }, body: file })
      return sent.status
    }),
  )
  expect(statuses).toEqual(Array.from({ length: transfers }, () => 204))
  // 1,250 MB went through. What remains is garbage of the last moment: a bare node:http server has 80 MB of it.
  expect(service.peak() - before).toBeLessThan(200)
})
