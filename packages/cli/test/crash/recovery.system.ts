import { expect, it } from "vitest"
import { makeStores } from "./support/LabStore.ts"
import { Lab, leaseMs, type Server, patience } from "./support/Lab.ts"

const runs = 5

it.each(makeStores)(
  "after a worker is killed, another runs its job within the lease and a second, on $name",
  patience,
  async ({ makeStore, name }) => {
    await using lab = await Lab.open(makeStore)
    let servers: readonly [Server, Server] = await Promise.all([lab.start(), lab.start()])
    const took: Array<number> = []
    for (let run = 1; run <= runs; run++) {
      const jobId = await servers[0].client.speak("hold@1")
      const { at, pid } = await lab.attemptBegun(jobId, 1)
      const [victim, survivor] = pid === servers[0].pid ? servers : [servers[1], servers[0]]
      // The worst moment is right after a claim or a heartbeat, which comes every third of a lease: each run has another.
      const phaseMs = ((run - 1) / runs) * (leaseMs / 3)
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, at + phaseMs - Date.now())))
      const killedAt = Date.now()
      await victim.crash()
      // The next run's process starts in the meantime.
      const next = run === runs ? victim : lab.start()
      const taken = await lab.attemptBegun(jobId, 2)
      expect(taken.pid).not.toBe(pid)
      took.push(taken.at - killedAt)
      servers = [survivor, await next]
      await survivor.client.finished(jobId)
      expect(await lab.job(jobId)).toMatchObject({ status: "done", attempts: 2, lostWorkers: 1, failures: 0 })
    }
    console.info(
      `recovery on ${name} with a lease of ${leaseMs} ms: ${took.join(", ")} ms, at most ${Math.max(...took)} ms`,
    )
    expect(Math.max(...took)).toBeLessThanOrEqual(leaseMs + 1_000)
  },
)
