import { expect, it } from "vitest"
import { audit } from "./support/audit.ts"
import { expectSpokenOnce } from "./support/expectations.ts"
import { Lab, patience } from "./support/Lab.ts"

it("a job that kills its worker each time fails after three, and the others are done", patience, async () => {
  await using lab = await Lab.open()
  // Runs no jobs, so it stays alive to answer.
  const { client } = await lab.start({ env: { KILN_ROLE: "api" } })
  let kiln = await lab.start()
  const poison = await client.speak("wait:200 die")
  const others: Array<string> = []
  for (let attempt = 1; attempt <= 3; attempt++) {
    expect((await lab.attemptBegun(poison, attempt)).pid).toBe(kiln.pid)
    await expect(kiln.ended(), "its provider kills it").rejects.toThrow("SIGKILL")
    kiln = await lab.start()
    for (let index = 0; index < 3; index++) others.push(await client.speak("Good morning."))
  }
  expect(await client.finished(poison)).toMatchObject({
    status: "failed",
    error_code: "attempts_exhausted",
    billing: { status: "not_charged" },
  })
  expect(await lab.job(poison)).toMatchObject({ attempts: 3, lostWorkers: 3, failures: 0, files: [], charge: null })
  expect(lab.calls(poison).map(({ attempt, event }) => [event, attempt])).toEqual([
    ["begun", 1],
    ["begun", 2],
    ["begun", 3],
  ])
  for (const id of others) {
    await client.finished(id)
    const { lostWorkers } = await lab.job(id)
    await expectSpokenOnce(lab, id, { clients: [client], lostWorkers })
  }
  expect(await kiln.client.readiness()).toBe(200)
  expect((await audit(lab)).chargedJobs.toSorted()).toEqual(others.toSorted())
})
