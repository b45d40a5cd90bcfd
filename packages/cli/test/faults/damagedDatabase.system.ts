import { closeSync, openSync, readFileSync, writeSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { expect, it } from "vitest"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { liveSpeech } from "../support/liveSpeech.ts"
import { databaseOf } from "./support/embedded.ts"
import { readRecords } from "./support/Records.ts"
import { startService } from "./support/Service.ts"

it("a queued job whose request does not decode: that job fails, and the queue continues", async () => {
  using data = temporaryDirectory()
  const { environment, key } = await liveSpeech(data.path)
  await using service = await startService(data.path, { ...environment, KILN_CONCURRENCY: "1" }, key)
  const { api } = service
  const ids: Array<string> = []
  for (const text of ["wait:1500", "One.", "canary of two", "Three."]) ids.push(await api.createSpeech(text))
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

  for (const id of [slow, one, three]) expect((await api.finished(id)).status).toBe("done")
  // It cannot be returned, and nothing is returned instead.
  const shown = await service.request("GET", `/v1/jobs/${damaged}`)
  expect(shown.status).toBe(500)
  expect(await shown.json()).toMatchObject({ error: { code: "internal_error", details: null } })
  // The log names the record, and does not repeat it.
  await service.kiln.says(new RegExp(`the request of ${damaged} is not JSON`), "stderr")
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

/** Overwrites the page on which this text is first. */
const destroyPage = (path: string, text: string): void => {
  const at = readFileSync(path).indexOf(text)
  expect(at).toBeGreaterThan(0)
  const file = openSync(path, "r+")
  writeSync(file, Buffer.alloc(4_096, 0xa5), 0, 4_096, Math.floor(at / 4_096) * 4_096)
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
  destroyPage(databaseOf(data.path), "canary 11 ")
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
