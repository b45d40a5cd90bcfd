import { existsSync, readFileSync } from "node:fs"
import { expect, it } from "vitest"
import { serve, temporaryDirectory } from "@kiln/service-lab"

const maxBytes = 26_214_400
const transfers = 50

/** The most memory a process has had so far, in MB. */
const peakOf = (pid: number): number =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1_024

it("stays under 300 MB with fifty uploads of 25 MiB at once", async ({ skip }) => {
  if (!existsSync("/proc/self/status")) return skip("the peak of a process is read from /proc, which only Linux has")
  using data = temporaryDirectory()
  await using kiln = await serve({ KILN_DATA_DIR: data.path, KILN_RATE_LIMITS: "off" })
  const { first_key, url } = kiln.listening
  const file = new Uint8Array(maxBytes)
  file.set(new TextEncoder().encode("RIFF\0\0\0\0WAVE"))
  const statuses = await Promise.all(
    Array.from({ length: transfers }, async () => {
      const announced = await fetch(`${url}/v1/audio/uploads`, {
        method: "POST",
        headers: { authorization: `Bearer ${first_key?.key}`, "content-type": "application/json" },
        body: JSON.stringify({ format: "wav", declared_seconds: 900 }),
      })
      const { upload_url } = (await announced.json()) as { upload_url: string }
      const sent = await fetch(upload_url, { method: "PUT", headers: { "content-type": "audio/wav" }, body: file })
      return sent.status
    }),
  )
  expect(statuses).toEqual(Array.from({ length: transfers }, () => 204))
  const peak = peakOf(kiln.pid)
  expect(peak).toBeLessThan(300)
})
