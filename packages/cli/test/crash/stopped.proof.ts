import { expect, it } from "vitest"
import { until } from "@kiln/service-lab"
import { Lab, leaseMs, patience } from "./support/Lab.ts"

it("planted bug: if a suspended process releases its claim, a job that blocks it never ends", patience, async () => {
  await using lab = await Lab.open()
  const givesBack = {
    module: "packages/core/src/worker/claiming/Slots.ts",
    find: 'settled === "lapsed" && !lease.isLast',
    replace: '(settled === "lapsed" || settled === "stalled") && !lease.isLast',
  }
  const kiln = await lab.start({ edits: [givesBack] })
  const jobId = await kiln.client.speak(`block:${1.5 * leaseMs}`)
  // Without the bug its third attempt is its last one.
  await until(() => (lab.begun(jobId).length > 3 ? true : undefined))
  const job = await lab.job(jobId)
  expect(job.status).toBe("processing")
  expect(job.lostWorkers).toBeLessThan(3)
  kiln.kill("SIGKILL")
})
