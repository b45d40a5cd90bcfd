import { cpSync, existsSync, readdirSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { Api } from "./support/Api.ts"
import { changeDatabase } from "./support/changeDatabase.ts"
import { run, runJson, serve, temporaryDirectory } from "@kiln/service-lab"

const markersIn = (directory: string): ReadonlyArray<string> => {
  const place = join(directory, "blobs/installation")
  return existsSync(place) ? readdirSync(place) : []
}
const marker = expect.stringMatching(/^[0-9a-f]{32}\.blob$/)

/** Starts a server and stops it. */
const visit = async (env: Readonly<Record<string, string>>): Promise<void> => {
  await using server = await serve(env)
  server.kill("SIGTERM")
  expect((await server.ended()).exit).toBe(0)
}

describe("an installation", () => {
  it("marks its blob store once and starts on it repeatedly, whatever its role", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await visit({ ...env, KILN_ROLE: "api" })
    const marked = markersIn(data.path)
    expect(marked).toEqual([marker])
    await visit(env)
    expect(markersIn(data.path)).toEqual(marked)
  })

  it.each(["all", "api", "worker"])(
    "as %s refuses the blobs of another installation, and changes none of them",
    async (role) => {
      using mine = temporaryDirectory()
      using other = temporaryDirectory()
      let audioUrl = ""
      await using server = await serve({ KILN_DATA_DIR: other.path })
      const api = new Api(server.listening.url, server.listening.first_key?.key ?? "")
      audioUrl = (await api.finished(await api.createSpeech("kept"))).output?.audio_url ?? ""

      const env = { KILN_DATA_DIR: mine.path, KILN_BLOBS: `file:${other.path}`, KILN_ROLE: role }
      const { exit, stderr, stdout } = await run(["serve"], { ...env, PORT: "0" })
      expect({ exit, stdout }).toEqual({ exit: 1, stdout: "" })
      expect(stderr).toMatch(/^kiln: the blob store .* belongs to another installation than the database .*\n$/)
      for (const name of ["DATABASE_URL", "KILN_DATA_DIR", "KILN_BLOBS"]) expect(stderr).toContain(name)
      expect(stderr).toContain(other.path)
      expect(markersIn(other.path)).toEqual([marker])
      expect((await fetch(audioUrl)).status).toBe(200)
    },
  )

  it("from before markers existed gets one, and keeps its files", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    let id = ""
    let key = ""
    {
      await using server = await serve(env)
      key = server.listening.first_key?.key ?? ""
      const api = new Api(server.listening.url, key)
      id = await api.createSpeech("from before")
      await api.finished(id)
    }
    rmSync(join(data.path, "blobs/installation"), { recursive: true })
    changeDatabase(data.path, "DELETE FROM kiln_secrets WHERE name = 'installation'")
    await using server = await serve(env)
    expect(markersIn(data.path)).toEqual([marker])
    const job = await new Api(server.listening.url, key).job(id)
    expect((await fetch(job.output?.audio_url ?? "")).status).toBe(200)
  })

  it("that has lost its database does not take the blobs over", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await visit(env)
    for (const name of readdirSync(data.path)) if (name.startsWith("kiln.db")) rmSync(join(data.path, name))
    expect(await run(["serve"], { ...env, PORT: "0" })).toMatchObject({ exit: 1, stdout: "" })
  })

  it.each(["all", "api", "worker"])(
    "as %s does not start on a blob store that is not the one it used",
    async (role) => {
      using data = temporaryDirectory()
      const all = { KILN_DATA_DIR: data.path }
      const env = { ...all, KILN_ROLE: role, PORT: "0" }
      await visit(all)
      // As a share looks that is not mounted.
      renameSync(join(data.path, "blobs"), join(data.path, "hidden"))
      const { exit, stderr, stdout } = await run(["serve"], env)
      expect({ exit, stdout }).toEqual({ exit: 1, stdout: "" })
      expect(stderr).toMatch(/^kiln: the blob store .* has no marker installation\/[0-9a-f]{32}, although .*\n$/)
      expect(markersIn(data.path)).toEqual([])
      // The doctor says the same, and commands that remove files refuse it.
      expect((await run(["doctor"], env)).stdout).toContain("run kiln blobs claim")
      expect(await run(["blobs", "sweep"], env)).toMatchObject({
        exit: 1,
        stderr: expect.stringContaining("has no marker"),
      })
      rmSync(join(data.path, "blobs"), { recursive: true })
      renameSync(join(data.path, "hidden"), join(data.path, "blobs"))
      await visit(all)
    },
  )

  it("starts on a blob store without its marker once an operator claims it, and not while files are missing there", async () => {
    using data = temporaryDirectory()
    using elsewhere = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    {
      await using server = await serve(env)
      const api = new Api(server.listening.url, server.listening.first_key?.key ?? "")
      await api.finished(await api.createSpeech("kept"))
    }
    const moved = { ...env, KILN_BLOBS: `file:${elsewhere.path}` }
    expect(await run(["blobs", "claim"], moved)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("lacks 1 file of the 1 that the database names"),
    })
    expect(markersIn(elsewhere.path)).toEqual([])
    cpSync(join(data.path, "blobs/jobs"), join(elsewhere.path, "blobs/jobs"), { recursive: true })
    expect(await run(["serve"], { ...moved, PORT: "0" })).toMatchObject({ exit: 1, stdout: "" })
    expect(await runJson(["blobs", "claim"], moved)).toMatchObject({ files: 1, missing_files: [] })
    await visit(moved)
  })

  it("is started by several processes at once, and all of them start", async () => {
    for (let round = 0; round < 2; round++) {
      using data = temporaryDirectory()
      const env = { KILN_DATA_DIR: data.path }
      const servers = await Promise.all([serve(env), serve(env), serve(env)])
      expect(markersIn(data.path)).toEqual([marker])
      for (const server of servers) server.kill("SIGTERM")
      expect(await Promise.all(servers.map(async (server) => (await server.ended()).exit))).toEqual([0, 0, 0])
    }
  })
})
