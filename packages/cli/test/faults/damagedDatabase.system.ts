import { closeSync, openSync, readFileSync, writeSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { expect, it } from "vitest"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { liveSpeech } from "../support/liveSpeech.ts"
import { speechGate } from "../support/speechGate.ts"
import { databaseOf } from "./support/embedded.ts"
import { readRecords } from "./support/Records.ts"
import { startService } from "./support/Service.ts"

it("a queued job whose request does not decode: that job fails, and the queue continues", async () => {
  using data = temporaryDirectory()
  using gate = speechGate()
  const { environment, key } = await liveSpeech(data.path)
  await using service = await startService(data.path, { ...environment, KILN_CONCURRENCY: "1" }, key)
  const { api } = service
  const ids: Array<string> = []
  for (const text of [gate.text, "One.", "canary of two", "Three."]) ids.push(await api.createSpeech(text))
  const [slow = "", one = "", damaged = "", three = ""] = ids
  const database = new DatabaseSync(databaseOf(data.path), { timeout: 5_000 })
  const { sql } = database.prepare("SELECT sql FROM sqlite_schema WHERE name = 'kiln_jobs_request_is_final'").get() as {
    sql: string
  }
  // The database itself refuses such a change; what is damaged was not asked.
  database.exec("DROP TRIGGER kiln_jobs_request_is_final")
  const { changes } = database
    .prepare(`UPDATE kiln_jobs SET request = '{"input": "canary of two' WHERE id = ? AND status = 'queued'`)
    .run(damaged)
  database.exec(sql)
  database.close()
  expect(changes).toBe(1)

  gate.open()
  for (const id of [slow, one, three]) expect((await api.finished(id)).status).toBe("done")
  // A poll shows nothing of the request.
  const shown = await service.request("GET", `/v1/jobs/${damaged}`)
  expect(shown.status).toBe(200)
  expect(await shown.json()).toMatchObject({ id: damaged })
  // The log names the record, and does not repeat it.
  await service.kiln.says(new RegExp(`record is damaged.*${damaged}`), "stderr")
  expect(service.kiln.stderr).not.toContain("canary of two")
  expect((await service.ready()).status).toBe(200)
  service.kiln.kill("SIGTERM")
  expect((await service.kiln.ended()).exit).toBe(0)
  expect(readRecords(data.path)?.jobs.find((job) => job.id === damaged)).toMatchObject({
    status: "failed",
    error_code: "internal_error",
    attempts: 1,
  })
})

/** The fingerprint of one of the jobs: it stands in the row, and in no index. */
const fingerprintOf = (dataDirectory: string, index: number): string => {
  const database = new DatabaseSync(databaseOf(dataDirectory), { readOnly: true })
  const row = database.prepare("SELECT fingerprint FROM kiln_jobs ORDER BY id LIMIT 1 OFFSET ?").get(index)
  database.close()
  return String(row?.["fingerprint"])
}

/** Overwrites every page that contains this text: unused parts of pages may contain it as well. */
const destroyPages = (path: string, text: string): void => {
  const content = readFileSync(path)
  const pages = new Set<number>()
  for (let at = content.indexOf(text); at !== -1; at = content.indexOf(text, at + 1)) pages.add(Math.floor(at / 4_096))
  expect(pages.size).toBeGreaterThan(0)
  const file = openSync(path, "r+")
  for (const page of pages) writeSync(file, Buffer.alloc(4_096, 0xa5), 0, 4_096, page * 4_096)
  closeSync(file)
}

it("a corrupt page: its data is 503 and logged, nothing incorrect is returned, the rest is served", async () => {
  using data = temporaryDirectory()
  const shown = new Map<string, unknown>()
  let key = ""
  {
    await using service = await startService(data.path)
    key = service.key
    const ids = await Promise.all(
      Array.from({ length: 24 }, (_, n) => service.api.createSpeech(`canary ${n} ${"x".repeat(1_000)}`)),
    )
    for (const id of ids) shown.set(id, (await service.api.finished(id)).status)
    service.kiln.kill("SIGTERM")
    expect((await service.kiln.ended()).exit).toBe(0)
  }
  // Not its text, which is long and has a page of its own, which polls do not read.
  destroyPages(databaseOf(data.path), fingerprintOf(data.path, 11))
  await using service = await startService(data.path, {}, key)
  const answers = await Promise.all(
    [...shown].map(async ([id, status]) => {
      const response = await service.request("GET", `/v1/jobs/${id}`)
      return { id, was: status, status: response.status, body: await response.json() }
    }),
  )
  const { readable = [], unreadable = [] } = Object.groupBy(answers, ({ status }) =>
    status === 200 ? "readable" : "unreadable",
  )
  expect(readable.length).toBeGreaterThan(0)
  for (const { body, id, was } of readable) expect(body).toMatchObject({ id, status: was })
  expect(unreadable.length).toBeGreaterThan(0)
  for (const { body, status } of unreadable) {
    expect(status).toBe(503)
    expect(body).toMatchObject({ error: { code: "service_unavailable" } })
  }
  await until(() => /SQLITE_CORRUPT|malformed/.exec(service.kiln.stderr) ?? undefined)
  const id = await service.api.createSpeech("After.")
  expect((await service.api.finished(id)).status).toBe("done")
})
