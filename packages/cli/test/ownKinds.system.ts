import { postgresStore } from "@kiln/adapter-postgres"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine } from "@kiln/core"
import { run, serve, until } from "@kiln/service-lab"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { digest, translation } from "./fixtures/ownKinds.ts"
import { installations } from "./support/installations.ts"

const configPath = join(import.meta.dirname, "fixtures/ownKinds.config.ts")

const read = (path: string): string => readFileSync(join(import.meta.dirname, path), "utf8")

it("the guide shows the files of this test", () => {
  const guide = read("../../../docs/guides/self-hosting.md")
  for (const name of ["ownKinds.ts", "ownKinds.config.ts"]) expect(guide).toContain(read(`fixtures/${name}`))
})

describe.each(installations)("kinds in KILN_CONFIG on %s", (_name, open) => {
  it(
    "are run by kiln serve, submitted by a program and by a schedule; /v1 does not offer them",
    { timeout: 120_000 },
    async () => {
      await using installation = await open()
      const { directory } = installation
      const env = { ...installation.env, KILN_CONFIG: configPath }
      const url = installation.env["DATABASE_URL"]
      const store = url === undefined ? sqliteStore({ path: join(directory, "kiln.db") }) : postgresStore({ url })
      await using program = await createEngine({
        store,
        blobs: fileBlobs({ directory: join(directory, "blobs") }),
        kinds: [translation, digest],
        mode: "live",
        worker: false,
        log: false,
      })
      await program.schedules.set("words", {
        everyMs: 1_000,
        kind: "digest",
        request: { words: ["a", "b"] },
        mode: "sandbox",
      })
      // Workers look at the schedules when they start.
      await using server = await serve(env)
      const translated = await program.submit("translation", { text: "guten tag" })
      expect(await program.wait(translated)).toMatchObject({ status: "done", output: { text: "GUTEN TAG" } })
      const counted = await until(async () => (await program.operator.list({ kind: "digest", status: "done" })).jobs[0])
      expect(counted.mode).toBe("sandbox")
      expect(await program.get(counted.id)).toMatchObject({ output: { text: "2 words" } })
      for (const kind of ["translation", "digest"])
        expect((await fetch(`${server.listening.url}/v1/${kind}`, { method: "POST" })).status).toBe(404)
      const openApi = JSON.stringify(await (await fetch(`${server.listening.url}/openapi.json`)).json())
      expect(openApi).not.toMatch(/translation"|digest"/)
      const paused = await run(["queue", "pause", "translation", "--json"], env)
      expect(JSON.parse(paused.stdout)).toEqual({ type: "translation", paused: true })
      // Other processes notice within a second.
      const reasons = await until(async () => {
        const waiting = await program.submit("translation", { text: "moin" })
        const shown = await run(["job", "show", waiting.id, "--json"], installation.env)
        const found: ReadonlyArray<object> = JSON.parse(shown.stdout).waiting_for
        return found.length > 0 ? found : undefined
      })
      expect(reasons).toMatchObject([{ reason: "kind_paused", subject: "translation" }])
    },
  )
})
