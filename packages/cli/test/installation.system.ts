import { existsSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { Api } from "./support/Api.ts"
import { changeDatabase } from "./support/changeDatabase.ts"
import { run, serve, temporaryDirectory } from "@kiln/service-lab"

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

  it("reports a blob store that is not the one it marked", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await visit(env)
    // As a share looks that is not mounted.
    rmSync(join(data.path, "blobs"), { recursive: true })
    await using server = await serve(env)
    server.kill("SIGTERM")
    expect((await server.ended()).stderr).toContain("check that it is mounted")
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
