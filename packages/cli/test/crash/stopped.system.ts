import { describe, expect, it } from "vitest"
import type { Job } from "@kiln/core/domain"
import { until } from "@kiln/service-lab"
import { isWritable } from "./support/audit.ts"
import { expectSpokenOnce, speechKey } from "./support/expectations.ts"
import { makeStores } from "./support/LabStore.ts"
import { Lab, leaseMs, type Server, patience } from "./support/Lab.ts"
import { pauseBeforeCommit } from "./support/pauses.ts"

/** What nobody but the holder of the claim may change, and that one only by ending it. */
const withoutLease = ({ claimableAt: _, deadlineAt: __, ...row }: Job) => row

/** The worker claims jobs and finishes them, regardless of other workers. */
const expectWorking = (lab: Lab, server: Server) =>
  until(async () => {
    const jobId = await server.client.speak("Are you there?")
    expect(await server.client.finished(jobId)).toMatchObject({ status: "done" })
    return lab.begun(jobId).some(({ pid }) => pid === server.pid) ? true : undefined
  })

/**
 * Stops a process at a moment at which it does not hold SQLite's write lock: one that does keeps everybody else from
 * writing until it wakes up or is killed, which is SQLite's to decide and not a lease's.
 */
const stopBetweenCommits = (lab: Lab, server: Server) =>
  until(() => {
    server.kill("SIGSTOP")
    if (lab.store.name === "Postgres" || isWritable(lab.dataDirectory)) return true
    server.kill("SIGCONT")
    return undefined
  })

describe.each(makeStores)(
  "a process that is stopped past its lease and wakes up, on $name",
  patience,
  ({ makeStore }) => {
    it("cannot commit its former jobs while another process works on them", async () => {
      await using lab = await Lab.open(makeStore)
      lab.hold("before commit")
      lab.hold("gate")
      const one = await lab.start({ edits: [pauseBeforeCommit] })
      const two = await lab.start({ edits: [pauseBeforeCommit] })
      const jobId = await one.client.speak("gate@2")
      // Any worker may have claimed it, usually the one that accepted it.
      const { pid } = await lab.reached("before commit")
      const [stopped, other] = pid === one.pid ? [one, two] : [two, one]
      stopped.kill("SIGSTOP")
      lab.letGo("before commit")

      expect((await lab.attemptBegun(jobId, 2)).pid).toBe(other.pid)
      const before = await lab.job(jobId)
      expect(before).toMatchObject({ status: "processing", held: true, attempts: 2, lostWorkers: 1, failures: 0 })
      expect(lab.blobs()).toEqual([speechKey(jobId, 1)])
      stopped.kill("SIGCONT")
      await until(() => (lab.blobs().length === 0 ? true : undefined))
      await expectWorking(lab, stopped)
      expect(withoutLease(await lab.job(jobId))).toEqual(withoutLease(before))

      lab.letGo("gate")
      await other.client.finished(jobId)
      await expectSpokenOnce(lab, jobId, { clients: [stopped.client, other.client], lostWorkers: 1 })
      expect(lab.begun(jobId).map((call) => call.pid)).toEqual([stopped.pid, other.pid])
    })

    it("does not change a job that another process has finished", async () => {
      await using lab = await Lab.open(makeStore)
      lab.hold("gate")
      const stopped = await lab.start()
      const other = await lab.start()
      const jobId = await stopped.client.speak("gate@1")
      const { pid } = await lab.attemptBegun(jobId, 1)
      const [asleep, awake] = pid === stopped.pid ? [stopped, other] : [other, stopped]
      await stopBetweenCommits(lab, asleep)
      await awake.client.finished(jobId)
      const before = await lab.job(jobId)
      lab.letGo("gate")
      asleep.kill("SIGCONT")
      await asleep.says(/lease lost/, "stderr")
      await expectWorking(lab, asleep)
      expect(await lab.job(jobId)).toEqual(before)
      await until(() => (lab.temporaries().length === 0 ? true : undefined))
      expect(lab.blobs().filter((key) => key.split("/")[1] === speechKey(jobId, 1).split("/")[1])).toEqual([
        speechKey(jobId, 2),
      ])
      await expectSpokenOnce(lab, jobId, { clients: [asleep.client, awake.client], lostWorkers: 1 })
      expect(lab.begun(jobId).map((call) => call.pid)).toEqual([asleep.pid, awake.pid])
    })
  },
)

describe.each(makeStores)(
  "a process whose event loop is blocked for twice the lease, on $name",
  patience,
  ({ makeStore }) => {
    it("counts as a lost worker even if it is the only one, and a job that blocks it each time ends", async () => {
      await using lab = await Lab.open(makeStore)
      const kiln = await lab.start()
      const jobId = await kiln.client.speak(`block:${2 * leaseMs}`)
      expect(await kiln.client.finished(jobId)).toMatchObject({
        status: "failed",
        error_code: "attempts_exhausted",
        billing: { status: "not_charged" },
      })
      expect(await lab.job(jobId)).toMatchObject({ attempts: 3, lostWorkers: 3, failures: 0 })
      await kiln.says(new RegExp(`attempt 3 of ${jobId} .* blocked the event loop past its lease`), "stderr")
      expect(await kiln.client.finished(await kiln.client.speak("Good morning."))).toMatchObject({ status: "done" })
    })

    it("loses its job and its result, and continues; readiness is correct", async () => {
      await using lab = await Lab.open(makeStore)
      lab.hold("gate")
      const one = await lab.start()
      const two = await lab.start()
      const jobId = await one.client.speak(`block@1:${2 * leaseMs} gate@2`)
      const { pid } = await lab.attemptBegun(jobId, 1)
      const [blocked, other] = pid === one.pid ? [one, two] : [two, one]
      expect(await blocked.client.readiness(500), "blocked: no answer").toBeUndefined()
      expect(await other.client.readiness()).toBe(200)
      expect((await lab.attemptBegun(jobId, 2)).pid).toBe(other.pid)
      const before = await lab.job(jobId)
      expect(await blocked.client.readiness(20_000)).toBe(200)
      await blocked.says(/lease lost/, "stderr")
      expect(
        lab.calls(jobId).map(({ attempt, event }) => [event, attempt]),
        "its provider did answer",
      ).toContainEqual(["ended", 1])
      await expectWorking(lab, blocked)
      expect(withoutLease(await lab.job(jobId))).toEqual(withoutLease(before))

      lab.letGo("gate")
      await other.client.finished(jobId)
      await expectSpokenOnce(lab, jobId, { clients: [one.client, two.client], lostWorkers: 1 })
      expect(lab.begun(jobId)).toHaveLength(2)
      expect([await one.client.readiness(), await two.client.readiness()]).toEqual([200, 200])
    })
  },
)
