import { KilnProcess, run, serve, temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { Api } from "../support/Api.ts"
import { checkOf, type Diagnosis } from "./diagnose.ts"

/** Each look starts a process, which takes long on a busy machine. */
const patience = { timeout: 120_000, interval: 1_000 }

it("the doctor and /readyz notice within 30 seconds that all workers were killed", async () => {
  using data = temporaryDirectory()
  const env = { KILN_DATA_DIR: data.path, KILN_PROVIDER: "sandbox" }
  const workers = async () => {
    const { stdout } = await run(["doctor", "--only", "workers", "--json"], env)
    return checkOf(JSON.parse(stdout) as Diagnosis, "workers")
  }
  await using api = await serve({ ...env, KILN_ROLE: "api", KILN_FIRST_KEY: "print" })
  const providers = async (): Promise<ReadonlyArray<string>> => {
    const { details } = await (await fetch(`${api.listening.url}/readyz`)).json()
    return Object.keys(details.providers)
  }
  expect((await workers()).status).toBe("skipped")
  await using worker = new KilnProcess(["serve"], { ...env, KILN_ROLE: "worker", PORT: "0" })
  await expect.poll(async () => (await workers()).seen, patience).toMatch(/^1 worker running, with \d+ slots$/)
  await expect.poll(providers, patience).toContain("speech")
  await worker.crash()
  const killedAt = Date.now()
  await new Api(api.listening.url, api.listening.first_key?.key ?? "").createSpeech("Nobody speaks this.")
  await expect.poll(workers, patience).toEqual({
    status: "problem",
    seen: "none is running, and 1 job waits for one",
    remedy: expect.stringContaining("kiln serve, with KILN_ROLE=all or KILN_ROLE=worker"),
  })
  await expect.poll(providers, patience).toEqual([])
  // The margin is for a busy machine.
  expect(Date.now() - killedAt).toBeLessThan(60_000)
})
