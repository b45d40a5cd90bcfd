import { hidden, plant } from "./PlantedBug.ts"

/** In handing out jobs. */
export const claiming = [
  plant("MemoryJobStore.ts", "JobStore.claimJobs", "a lease is taken over a millisecond early", [
    "claimJobs(state, request, now)",
    "claimJobs(state, request, now + 1)",
  ]),
  plant("MemoryJobStore.ts", "JobStore.claimJobs", "a lease is taken over a millisecond late", [
    "claimJobs(state, request, now)",
    "claimJobs(state, request, now - 1)",
  ]),
  hidden(
    plant(
      "MemoryJobStore.ts",
      "JobStore.claimJobs",
      "two concurrent workers get the same job",
      [
        "claimJobs: (request) => step((now) => claimJobs(state, request, now)),",
        `claimJobs: (request) => Effect.gen(function* () {
        const jobs = new Map(state.jobs)
        yield* Effect.yieldNow
        return yield* step((now) => {
          const result = claimJobs({ ...state, jobs }, request, now)
          for (const { job } of result.claims) state.jobs.set(job.id, job)
          return result
        })
      }),`,
      ],
      ["import { cancelJobs }", 'import { Effect } from "effect"\nimport { cancelJobs }'],
    ),
  ),
  plant("jobs/claimJobs.ts", "JobStore.claimJobs", "a worker gets jobs of a mode it does not serve", [
    " && mode === lane.mode",
    "",
  ]),
  plant("jobs/claimJobs.ts", "JobStore.claimJobs", "a claim asks the worker to wait although more jobs are claimable", [
    "more ? 0 :",
    "false ? 0 :",
  ]),
  plant("jobs/claimJobs.ts", "JobStore.claimJobs: lost workers", "a job may lose one worker too many", [
    "lostTooMany(job, request.maxLostWorkers)",
    "lostTooMany(job, request.maxLostWorkers + 1)",
  ]),
  plant("jobs/claimJobs.ts", "JobStore.claimJobs: lost workers", "a job that kills its workers is claimed forever", [
    "if (lostTooMany(job, request.maxLostWorkers))",
    "if (false)",
  ]),
  plant("jobs/claimJobs.ts", "JobStore.claimJobs: fairness", "the first project's flood is served first", [
    "if (next === undefined || startOf(state, line.lane) < startOf(state, next.lane)) next = line",
    "next ??= line",
  ]),
  plant("jobs/claimJobs.ts", "JobStore.claimJobs: fairness", "a lane saves up the turns it missed", [
    "=> Math.max(lane.virtualTime, state.virtualTime)",
    "=> lane.virtualTime",
  ]),
  plant("jobs/claimJobs.ts", "JobStore.claimJobs: fairness", "the newest job is served first", [
    "(b.claimableAt ?? 0) - (a.claimableAt ?? 0)",
    "(a.claimableAt ?? 0) - (b.claimableAt ?? 0)",
  ]),
]
