import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { Api } from "./support/Api.ts"
import { wav } from "@kiln/service-lab"
import { openPlace } from "./support/Place.ts"
import { startService } from "./support/startService.ts"

/** After deletion, no text is left on disk: not in rows, free pages or files. */

/** A file that carries a text between its samples. */
const speakingWav = (text: string) => {
  const file = wav(2)
  file.write(text, 60)
  return file
}

const said: Readonly<Record<string, (api: Api, text: string) => Promise<{ readonly path: string }>>> = {
  input: (api, input) => api.job("/v1/audio/speech", { input }),
  "failing-input": (api, text) => api.job("/v1/audio/speech", { input: text, voice: "nova" }),
  prompt: (api, prompt) => api.job("/v1/images/generations", { prompt }),
  instructions: async (api, instructions) =>
    api.job("/v1/voice/turns", { upload_id: await api.uploaded(wav(1)), max_output_tokens: 1024, instructions }),
  file: async (api, text) => api.job("/v1/audio/transcriptions", { upload_id: await api.uploaded(speakingWav(text)) }),
  "unreadable-file": async (api, text) => {
    const file = Buffer.from(`RIFF\0\0\0\0WAVE${text}`, "latin1")
    return api.job("/v1/audio/transcriptions", { upload_id: await api.uploaded(file) })
  },
}

const filesBelow = (directory: string): ReadonlyArray<string> =>
  readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name)
    return entry.isDirectory() ? filesBelow(path) : [path]
  })

it("deleted data is nowhere on disk once the service has stopped, and refused data never was", async () => {
  await using place = await openPlace("sqlite")
  const { directory } = place
  const holding = (text: string) => filesBelow(directory).filter((path) => readFileSync(path).includes(text))
  const service = await startService("sqlite", {}, place)
  const api = new Api(service)
  const texts = Object.keys(said).map((name) => `canary-text-${name}-5b1e0c`)
  const jobs = await Promise.all(
    Object.entries(said).map(([name, create]) => create(api, `canary-text-${name}-5b1e0c`)),
  )
  const polls = await Promise.all(jobs.map(({ path }) => api.finished(path)))
  // Generated texts are deleted as well.
  const outputs: ReadonlyArray<string> = polls.flatMap(({ output }) =>
    [output?.transcript, output?.text].filter((text) => text !== undefined),
  )
  expect(outputs).toHaveLength(2)
  for (const text of [...texts, ...outputs]) expect(holding(text), `${text} is there before`).not.toEqual([])
  for (const { path } of jobs) expect((await api.delete(`${path}/data`)).status).toBe(204)
  // What the store and a sweep write for the installation itself belongs to no job.
  const blobs = filesBelow(join(directory, "blobs")).filter((path) => !/\/lineage\/|\/\.store$/.test(path))
  expect(blobs, "files are gone when deletion is answered").toEqual([])

  const refused = "canary-text-refused-77d2"
  await api.post("/v1/audio/speech", { input: refused, voice: refused })
  await api.post("/v1/audio/speech", { input: refused }, { headers: { "idempotency-key": null } })
  await api.put((await api.upload()).upload_url, Buffer.from(`${refused} is no audio`.repeat(10)))
  expect(holding(refused)).toEqual([])
  expect(service.logs.filter((line) => line.includes("canary-text"))).toEqual([])
  await service.stop()
  for (const text of [...texts, ...outputs]) expect(holding(text), `${text} is still there`).toEqual([])
})
