import { fixtures } from "@kiln/conformance"
import { DeliveryStore, JobStore } from "@kiln/core/ports"
import { withDelivery } from "@kiln/core/rules"
import * as Effect from "effect/Effect"
import { expect } from "vitest"
import { changeDatabase } from "../../support/changeDatabase.ts"
import { writeSchedule } from "../../support/scheduledRecords.ts"
import { runInProcess } from "../../support/runInProcess.ts"
import { command, inTurn, set, start, startWorker } from "./acts.ts"
import type { Act, Planted } from "./Planted.ts"
import { allOn, claimJob, createJob, dayMs, inStores, liveKey, longAgo, onBoard } from "./support.ts"

/** What a schedule submits. */
const request = { input: "good night" }

const published = { workerId: "w", liveKinds: [], ttlMs: 60_000 }

/** A worker whose provider is paused. */
const pausedBecause = (reason: "quota" | "configuration" | "failing") => ({
  ...published,
  providers: [{ provider: "speech" as const, status: "paused" as const, reason, since: 1_000 }],
})

/** What the worker publishes once it runs with a key that the provider accepts. packages/cli/test/live tests real ones. */
const restartCorrected: Act = async ({ installation, printed }) => {
  expect(printed).toContain("correct KILN_OPENAI_API_KEY")
  const providers = [{ provider: "speech" as const, status: "ready" as const, reason: null, since: Date.now() }]
  await inStores(onBoard((board) => board.publishWorker({ ...published, providers })))(installation)
}

/** A finished job of a kind that test/fixtures/onFinished.config.ts has. */
const finished = Effect.flatMap(JobStore, (jobs) =>
  Effect.andThen(
    jobs.createJobs([fixtures.newJob(83, { kind: "digest", metadata: withDelivery({}) })]),
    jobs.cancelJobs([fixtures.jobId(83)]),
  ),
)

/** Starts a worker whose `onFinished` works. The next calls are due in an hour, or soon. */
const deliver: Act = async (scene) => {
  const { exit, stdout } = await runInProcess(["delivery", "list"], scene.env)
  expect({ exit, stdout }).toEqual({ exit: 0, stdout: expect.stringContaining("digest") })
  const config = new URL("../../fixtures/onFinished.config.ts", import.meta.url).pathname
  await startWorker({ KILN_CONFIG: config })({ ...scene, printed: `${scene.printed} start a worker` })
  changeDatabase(scene.installation.directory, "UPDATE kiln_deliveries SET due_at = 1, token = token + 1")
}

export const queueProblems: ReadonlyArray<Planted> = [
  {
    what: "a job that no worker takes",
    plant: longAgo(createJob()),
    check: "queue",
    status: "problem",
    seen: /1 job of type speech_synthesis \(sandbox\) ready, the oldest for \d+ d, and not one running/,
    remedy: /start a worker: kiln serve/,
    carryOut: start(),
  },
  {
    what: "a lease that has ended without a successor",
    plant: longAgo(Effect.andThen(createJob(), claimJob)),
    check: "queue",
    status: "problem",
    seen: /1 job of type speech_synthesis \(sandbox\) lost by a worker, the first \d+ d ago/,
    remedy: /start a worker/,
    carryOut: start(),
  },
  {
    what: "jobs of a paused type",
    plant: inStores(
      Effect.andThen(
        createJob(),
        onBoard((board) => board.pauseKind("speech_synthesis", true)),
      ),
    ),
    check: "queue",
    status: "warning",
    seen: /1 job of type speech_synthesis \(sandbox\) held back: the type is paused/,
    remedy: /^kiln queue resume speech_synthesis$/m,
    carryOut: command(/kiln queue resume .*/),
  },
  {
    what: "live jobs behind a switch that is off",
    plant: inStores(createJob("live")),
    check: "queue",
    status: "warning",
    seen: /held back until their time in the queue is over: the switch ai is off/,
    remedy: /^kiln switch on ai$/m,
    carryOut: inTurn(command(/kiln switch on ai/), command(/kiln switch on audio/)),
  },
  {
    what: "live jobs behind a switch that the environment forces off",
    plant: async (installation) => {
      await installation.use(Effect.asVoid(Effect.andThen(createJob("live"), allOn)))
      return { KILN_SWITCH_AUDIO: "off" }
    },
    check: "queue",
    status: "warning",
    seen: /: the switch audio is off/,
    remedy: /kiln switch on audio/,
    carryOut: inTurn(set({ KILN_SWITCH_AUDIO: undefined }), command(/kiln switch on audio/)),
  },
  {
    what: "live jobs without a worker that serves them",
    plant: longAgo(Effect.andThen(createJob("live"), allOn)),
    check: "queue",
    status: "problem",
    seen: /held back: no running worker serves the type/,
    remedy: /KILN_ROLE=worker kiln serve, with KILN_PROVIDER/,
    notCarriedOut: "the planted job has no price, so none runs it: packages/cli/test/live runs priced ones",
  },
  {
    what: "a live key without a price",
    plant: inStores(liveKey),
    check: "live",
    status: "warning",
    seen: /image_generation are rejected: the price svc-image is not active/,
    remedy: /kiln price activate svc-image/,
    carryOut: inTurn(
      command(/kiln price set [^,]+/, { AMOUNT: "0.01" }),
      command(/kiln price activate [^;]+/),
      command(/kiln switch on ai/),
      command(/kiln switch on images/),
    ),
  },
  {
    what: "a provider that rejects its key",
    plant: inStores(onBoard((board) => board.publishWorker(pausedBecause("configuration")))),
    check: "providers",
    status: "problem",
    seen: /speech is paused in 1 of 1 worker: it rejects its configuration/,
    remedy: /correct KILN_OPENAI_API_KEY/,
    carryOut: restartCorrected,
  },
  {
    what: "a provider that fails for now",
    plant: inStores(onBoard((board) => board.publishWorker(pausedBecause("failing")))),
    check: "providers",
    status: "warning",
    seen: /speech is paused/,
    remedy: /status page/,
    notCarriedOut: "the provider mends itself",
  },
  {
    what: "a schedule that no worker looks at",
    plant: inStores(writeSchedule("nightly", 5_000, { request })),
    check: "schedules",
    status: "problem",
    seen: /the schedule "nightly" has been due for \d+ d, and no worker has submitted its job/,
    remedy: /start a worker that has the type speech_synthesis; .*kiln schedule pause nightly/,
    carryOut: [startWorker(), command(/kiln schedule pause .*/)],
  },
  {
    what: "a schedule that was refused before its worker went away",
    plant: inStores(writeSchedule("nightly", 5_000, { request, refusal: "queue_full" })),
    check: "schedules",
    status: "problem",
    seen: /has been due for \d+ d/,
    remedy: /start a worker/,
    carryOut: [startWorker(), command(/kiln schedule pause .*/)],
  },
  {
    what: "a schedule whose job is refused",
    plant: inStores(
      Effect.suspend(() => {
        const timing = { everyMs: dayMs, from: 0 }
        const today = Math.floor(Date.now() / dayMs) * dayMs
        return writeSchedule("daily", today, { timing, refusal: "queue_full" })
      }),
    ),
    check: "schedules",
    status: "warning",
    seen: /the job of the schedule "daily" is refused \(queue_full\)/,
    remedy: /log of the workers; .*kiln schedule pause daily/,
    carryOut: command(/kiln schedule pause .*/),
  },
  {
    what: "finished jobs that no process delivers",
    plant: async (installation) => {
      await installation.use(Effect.asVoid(finished))
      changeDatabase(installation.directory, "UPDATE kiln_deliveries SET due_at = 1, token = token + 1")
    },
    check: "deliveries",
    status: "problem",
    seen: /1 finished job of type digest not delivered to onFinished, the first due for \d+ d/,
    remedy: /start a worker whose engine has onFinished for digest; kiln delivery list/,
    carryOut: deliver,
  },
  {
    what: "deliveries that fail",
    plant: inStores(
      Effect.gen(function* () {
        yield* finished
        const deliveries = yield* DeliveryStore
        for (const token of [1, 3]) {
          yield* deliveries.claimDeliveries({ kinds: ["digest"], limit: 1, leaseDurationMs: 60_000 })
          yield* deliveries.settleDeliveries([
            { jobId: fixtures.jobId(83), token, retryInMs: token === 1 ? 0 : 3_600_000, counts: true },
          ])
        }
      }),
    ),
    check: "deliveries",
    status: "warning",
    seen: /onFinished has failed for 1 job of type digest, and is called again/,
    remedy: /onFinished failed/,
    carryOut: deliver,
  },
  {
    what: "a provider whose quota is used up",
    plant: inStores(onBoard((board) => board.publishWorker(pausedBecause("quota")))),
    check: "providers",
    status: "problem",
    seen: /speech is paused in 1 of 1 worker: its quota is used up/,
    remedy: /pay the bill/,
    notCarriedOut: "the bill is paid at the provider",
  },
  {
    what: "a job without any worker",
    plant: inStores(createJob()),
    check: "workers",
    status: "problem",
    seen: /none is running, and 1 job waits for one/,
    remedy: /start a worker/,
    carryOut: startWorker(),
  },
  {
    what: "a backlog",
    plant: longAgo(
      Effect.gen(function* () {
        yield* createJob()
        yield* claimJob
        yield* Effect.flatMap(JobStore, (jobs) => jobs.createJobs([fixtures.newJob(2)]))
      }),
      "id = (SELECT max(id) FROM kiln_jobs)",
    ),
    check: "queue",
    status: "warning",
    seen: /1 job of type speech_synthesis \(sandbox\) ready, the oldest for \d+ d, and only 1 running/,
    remedy: /raise KILN_CONCURRENCY, start more workers/,
    carryOut: startWorker(),
  },
]
