import { freshDatabase, readRows } from "@kiln/postgres-lab"
import { KilnProcess, run, serve, temporaryDirectory } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
import { Api } from "./support/Api.ts"
import { doctorProblems } from "./support/doctorProblems.ts"

describe("blobs in Postgres", () => {
  it("are written and served by processes that share nothing but the database", async () => {
    await using database = await freshDatabase()
    using first = temporaryDirectory()
    using second = temporaryDirectory()
    const env = { DATABASE_URL: database.url, KILN_BLOBS: "postgres" }
    await using api = await serve({ ...env, KILN_DATA_DIR: first.path, KILN_ROLE: "api" })
    const client = new Api(api.listening.url, api.listening.first_key?.key ?? "")
    await using worker = new KilnProcess(["serve"], { ...env, KILN_DATA_DIR: second.path, KILN_ROLE: "worker" })
    const id = await client.createSpeech("Stored in a table.")
    const job = await client.finished(id)
    expect(job.status).toBe("done")
    const url = job.output?.audio_url ?? ""
    const audio = await fetch(url)
    expect([audio.status, (await audio.arrayBuffer()).byteLength > 1_000]).toEqual([200, true])
    const part = await fetch(url, { headers: { range: "bytes=10-19" } })
    expect([part.status, (await part.arrayBuffer()).byteLength]).toEqual([206, 10])
    const { stdout } = await run(["doctor", "--json"], { ...env, KILN_DATA_DIR: first.path })
    expect(JSON.parse(stdout).checks).toContainEqual(
      expect.objectContaining({ name: "blobs", status: "ok", summary: "1 file verified" }),
    )
    expect(doctorProblems(stdout)).toEqual([])
    await fetch(`${api.listening.url}/v1/jobs/${id}/data`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${api.listening.first_key?.key}` },
    })
    expect((await fetch(url)).status).toBe(410)
    const [chunks] = await readRows<[ReadonlyArray<object>]>(database.url, [
      "SELECT key FROM kiln.blobs JOIN kiln.blob_chunks ON blob_id = id WHERE key LIKE 'jobs/%'",
    ])
    expect(chunks).toEqual([])
    worker.kill("SIGTERM")
    expect((await worker.ended()).exit).toBe(0)
  })

  it("need a Postgres database", async () => {
    using data = temporaryDirectory()
    const { exit, stderr } = await run(["serve"], { KILN_DATA_DIR: data.path, KILN_BLOBS: "postgres" })
    expect(stderr).toContain("KILN_BLOBS can be postgres only with DATABASE_URL=postgres://…")
    expect(exit).toBe(2)
  })

  it("files in the data directory beside a Postgres database: the start and the doctor say what other machines need", async () => {
    await using database = await freshDatabase()
    using data = temporaryDirectory()
    const env = { DATABASE_URL: database.url, KILN_DATA_DIR: data.path }
    const hint = `files are stored in ${data.path} on this machine; processes on other machines need the same files`
    {
      await using kiln = await serve(env)
      expect(kiln.stderr).toContain(hint)
    }
    const { stdout } = await run(["doctor", "--json"], env)
    expect(JSON.parse(stdout).checks).toContainEqual(
      expect.objectContaining({ name: "machines", status: "ok", summary: expect.stringContaining(hint) }),
    )
    expect(doctorProblems(stdout)).toEqual([])
  })
})
