import { hidden, plant } from "./PlantedBug.ts"

const versions = "JobStore.claimJobs: kind versions"
const limits = "JobStore.claimJobs: limits"
const slots = "JobStore.claimJobs: a worker's slots"

/** In what keeps a worker from a job: its version, and limits of concurrency. */
export const limiting = [
  plant("jobs/claimJobs.ts", versions, "a worker gets jobs of versions it does not know", [
    " && kindVersion === lane.kindVersion",
    "",
  ]),
  plant("MemoryState.ts", versions, "the versions of a kind share a lane", ["${job.kindVersion} ", ""]),
  plant("domain/acceptance.ts", versions, "the version is not kept with the job", [
    "kindVersion: job.kindVersion",
    "kindVersion: 1",
  ]),
  plant("jobs/roomAt.ts", limits, "a limit admits one job too many", [
    "leaseEnds.length < limit",
    "leaseEnds.length <= limit",
  ]),
  plant(
    "jobs/claimJobs.ts",
    limits,
    "limits are checked only once, before a claim begins",
    ["const claims: Array<Claim> = []", "const open = lines.filter(hasRoom)\n  const claims: Array<Claim> = []"],
    ["nextLine(state, lines.filter(hasRoom))", "nextLine(state, open)"],
  ),
  plant("jobs/roomAt.ts", limits, "the jobs of lost workers count against limits forever", [
    "job.claimableAt > now ? [job.claimableAt]",
    "true ? [Math.max(job.claimableAt, now + 1)]",
  ]),
  plant("jobs/roomAt.ts", limits, "a job counts against limits a millisecond too long", [
    "job.claimableAt > now ? [job.claimableAt]",
    "job.claimableAt >= now ? [Math.max(job.claimableAt, now + 1)]",
  ]),
  plant("jobs/roomAt.ts", limits, "sandbox jobs count against the limits of live jobs", [
    "other.kind === lane.kind && other.mode === lane.mode",
    "other.kind === lane.kind",
  ]),
  plant("jobs/roomAt.ts", limits, "each version of a kind has its own limit", [
    "other.kind === lane.kind && ",
    "other.kind === lane.kind && other.kindVersion === lane.kindVersion && ",
  ]),
  // Histories have no such limits.
  hidden(
    plant("jobs/roomAt.ts", limits, "a project's own limit is not applied", [
      "projectLimit(limits, lane.projectId) || undefined",
      "projectLimit({ ...limits, projects: {} }, lane.projectId) || undefined",
    ]),
  ),
  // Histories have no such limits.
  hidden(
    plant("jobs/roomAt.ts", limits, "a project's own limit forgets the jobs that it holds", [
      "now, (other) => isOfProject(other, lane))",
      "now, (other) => limits.projects?.[lane.projectId] === undefined && isOfProject(other, lane))",
    ]),
  ),
  plant("jobs/roomAt.ts", limits, "each kind of a project has its own limit", [
    "other.projectId === lane.projectId && ",
    "other.projectId === lane.projectId && other.kind === lane.kind && ",
  ]),
  plant("jobs/claimJobs.ts", limits, "a worker that finds every lane at its limit is told to ask again immediately", [
    "line.claimable.length > 0 && hasRoom(line)",
    "line.claimable.length > 0",
  ]),
  plant("jobs/claimJobs.ts", limits, "a lane at its limit is given turns", [
    "const line = nextLine(",
    "for (const full of lines) if (!hasRoom(full)) full.lane.virtualTime = startOf(state, full.lane) + 1\n    const line = nextLine(",
  ]),
  plant("jobs/claimJobs.ts", slots, "sandbox jobs take a worker's slots from live ones", [
    "claims.filter(({ job }) => job.mode === mode)",
    "claims",
  ]),
  // Histories have no such limits.
  hidden(
    plant("jobs/claimJobs.ts", slots, "each project has the whole quota of a kind", [
      "claimed.filter(({ job }) => job.kind === kind).length >= quota",
      "claimed.filter(({ job }) => job.kind === kind && job.projectId === projectId).length >= quota",
    ]),
  ),
  plant("jobs/claimJobs.ts", slots, "a project gets a slot more than its share", [
    ".length < perProject",
    ".length <= perProject",
  ]),
  plant("jobs/claimJobs.ts", slots, "a project's share counts turns, not the slots it already holds", [
    "before.reduce((sum, { count }) => sum + count, 0)",
    "0 * before.length",
  ]),
  // What comes sooner than it must is still a lower bound.
  hidden(
    plant("jobs/claimJobs.ts", slots, "a worker without a slot is told when leases end", [
      "lanes.filter(hasSlot)",
      "lanes",
    ]),
  ),
]
