import { describe, expect, it } from "vitest"
import { maxParkMs, type WaitingFor } from "@kiln/core/domain"
import { heldBack, waitingFor, type WaitingFacts, type WorkerFacts } from "../../src/domain/WaitingFor.ts"

const now = 1_000
const kind = "speech"

const served = {
  kind,
  fromVersion: 1,
  toVersion: 2,
  modes: ["live", "sandbox"] as ReadonlyArray<"live" | "sandbox">,
  providers: ["voices"],
  switches: ["audio"],
  limit: null as number | null,
  rates: [] as ReadonlyArray<{ provider: string | null; limit: number; perMs: number }>,
}
const workerOf = (
  kinds: Partial<typeof served> | null = {},
  scope: Partial<NonNullable<WorkerFacts["scope"]>> = {},
  providers: WorkerFacts["providers"] = [],
): WorkerFacts => ({
  liveKinds: [kind],
  providers,
  scope: {
    slots: 9,
    share: 9,
    perProject: 0,
    forcedOff: [],
    kinds:
      kinds === null
        ? []
        : [
            { ...served, kind: "other" },
            { ...served, ...kinds },
          ],
    ...scope,
  },
})

const factsOf = (other: Partial<WaitingFacts> = {}, job: Partial<WaitingFacts["job"]> = {}): WaitingFacts => ({
  job: {
    kind,
    kindVersion: 1,
    mode: "live",
    projectId: "prj_1",
    status: "queued",
    held: false,
    claimableAt: now,
    attempts: 0,
    ...job,
  },
  board: { pausedKinds: [], switches: { ai: true, audio: true, images: true }, projectConcurrency: {} },
  switches: [],
  workers: [workerOf()],
  place: { now, ahead: 4, running: { kind: 3, project: 2, all: 5 } },
  unfinishedJobs: 0,
  ...other,
})

const entry = (reason: WaitingFor["reason"], about: Partial<WaitingFor> = {}): WaitingFor => ({
  reason,
  subject: null,
  cause: null,
  until: null,
  count: null,
  limit: null,
  ...about,
})
const paused = (reason: "quota" | "failing", nextTryAt?: number): WorkerFacts["providers"] => [
  { provider: "images", status: "paused", reason: "quota" },
  { provider: "voices", status: "paused", reason, ...(nextTryAt !== undefined && { nextTryAt }) },
]
const ready: WorkerFacts["providers"] = [{ provider: "voices", status: "ready", reason: null }]
const board = factsOf().board

describe("a job that nothing holds back", () => {
  it.each([
    ["finished", { claimableAt: null }, []],
    ["running", { held: true, claimableAt: now + 1, attempts: 1 }, []],
    ["queued", {}, [entry("line", { count: 4 })]],
    ["held by a lost worker", { held: true, attempts: 1 }, [entry("worker_lost")]],
  ] as const)("%s", (_, job, found) => expect(waitingFor(factsOf({}, job))).toEqual(found))

  it("waits in a line with the rate that moves it", () => {
    const rate = (provider: string | null) => ({ provider, limit: 10, perMs: 1_000 })
    const at = (rates: ReadonlyArray<ReturnType<typeof rate>>, mode: "live" | "sandbox") =>
      waitingFor(factsOf({ workers: [workerOf({ rates })] }, { mode }))
    const limited = { cause: "10/1000ms", count: 4 }
    expect(at([rate("voices"), rate(null)], "live")).toEqual([entry("rate", { subject: "voices", ...limited })])
    expect(at([rate("voices"), rate(null)], "sandbox")).toEqual([entry("rate", { subject: kind, ...limited })])
    expect(at([rate("voices")], "sandbox")).toEqual([entry("line", { count: 4 })])
  })
})

describe("what holds back a kind", () => {
  const asked = { kind, mode: "live", kindVersion: 1 } as const
  const noWorker = (cause: string) => [entry("no_worker", { subject: kind, cause })]
  const off = (subject: string, cause: string | null = null) => entry("switch_off", { subject, cause })
  const voicesPaused = (cause: string, until: number | null) =>
    entry("provider_paused", { subject: "voices", cause, until })

  const cases: ReadonlyArray<
    readonly [string, Partial<WaitingFacts>, ReadonlyArray<WaitingFor>, { readonly mode: "sandbox" }?]
  > = [
    ["nothing", {}, []],
    ["a pause", { board: { ...board, pausedKinds: ["other", kind] } }, [entry("kind_paused", { subject: kind })]],
    ["a pause of another kind", { board: { ...board, pausedKinds: ["other"] } }, []],
    ["no worker at all", { workers: [], switches: ["ai"] }, noWorker("none")],
    ["no worker of the kind", { workers: [workerOf(null)] }, noWorker("kind")],
    ["a later version", { workers: [workerOf({ fromVersion: 2 })] }, noWorker("version")],
    ["an earlier version", { workers: [workerOf({ fromVersion: 0, toVersion: 0 })] }, noWorker("version")],
    ["the mode", { workers: [workerOf({ modes: ["sandbox"] })] }, noWorker("mode")],
    [
      "the mode of one, the version of another",
      { workers: [workerOf({ fromVersion: 2 }), workerOf({ modes: [] })] },
      noWorker("mode"),
    ],
    ["an old worker that may run it", { workers: [{ liveKinds: [kind], providers: [] }] }, []],
    ["an old worker of other kinds", { workers: [{ liveKinds: ["other"], providers: [] }] }, noWorker("kind")],
    ["an old worker, in sandbox mode", { workers: [{ liveKinds: [], providers: [] }] }, [], { mode: "sandbox" }],
    [
      "a switch of its own and one of a worker",
      { switches: ["ai"], board: { ...board, switches: { ai: false, audio: false, images: true } } },
      [off("ai"), off("audio")],
    ],
    ["a switch that was never set", { switches: ["beta", "constructor"] }, [off("beta"), off("constructor")]],
    ["switches, in sandbox mode", { switches: ["beta"] }, [], { mode: "sandbox" }],
    ["the settings of all workers", { workers: [workerOf({}, { forcedOff: ["audio"] })] }, [off("audio", "settings")]],
    ["the settings of one worker", { workers: [workerOf({}, { forcedOff: ["audio"] }), workerOf()] }, []],
    ["a paused provider", { workers: [workerOf({}, {}, paused("failing"))] }, [voicesPaused("failing", null)]],
    ["a paused provider, in sandbox mode", { workers: [workerOf({}, {}, paused("failing"))] }, [], { mode: "sandbox" }],
    [
      "a provider that one worker may call",
      { workers: [workerOf({}, {}, paused("quota")), workerOf({}, {}, ready)] },
      [],
    ],
    [
      "a provider that is paused everywhere",
      {
        workers: [
          workerOf({}, {}, paused("failing", 9)),
          workerOf({}, {}, paused("quota", 7)),
          workerOf({}, {}, paused("failing")),
        ],
      },
      [voicesPaused("quota", 7)],
    ],
    ["a provider of another kind", { workers: [workerOf({ providers: [] }, {}, paused("quota"))] }, []],
    [
      "several things, in their order",
      {
        board: { ...board, pausedKinds: [kind], switches: { ai: true, audio: false, images: true } },
        workers: [workerOf({}, {}, paused("quota"))],
      },
      [entry("kind_paused", { subject: kind }), off("audio"), voicesPaused("quota", null)],
    ],
  ]
  for (const [name, facts, found, other] of cases)
    it(name, () => expect(heldBack({ ...asked, ...other }, factsOf(facts))).toEqual(found))

  it("any version will do if none is asked for", () => {
    const facts = factsOf({ workers: [workerOf({ fromVersion: 8, toVersion: 9 })] })
    expect(heldBack({ kind, mode: "live" }, facts)).toEqual([])
    expect(heldBack({ kind, mode: "live", kindVersion: 9 }, facts)).toEqual([])
    expect(heldBack({ kind, mode: "live", kindVersion: 10 }, facts)).toEqual(noWorker("version"))
  })
})

describe("limits", () => {
  const kindLimit = (limit: number) => entry("kind_limit", { subject: kind, count: 3, limit })
  const projectLimit = (limit: number) => entry("project_limit", { subject: "prj_1", count: 2, limit })
  const slots = (limit: number) => entry("slots", { count: 5, limit })
  const share = (limit: number) => entry("project_share", { subject: "prj_1", count: 2, limit })
  const old = { liveKinds: [kind], providers: [] }
  const line = entry("line", { count: 4 })

  it.each<readonly [string, Partial<WaitingFacts>, ReadonlyArray<WaitingFor>]>([
    ["of the kind", { workers: [workerOf({ limit: 3 })] }, [kindLimit(3)]],
    ["of the kind, not reached", { workers: [workerOf({ limit: 4 })] }, [line]],
    ["of the kind: the highest counts", { workers: [workerOf({ limit: 1 }), workerOf({ limit: 2 })] }, [kindLimit(2)]],
    ["of the kind: none in one worker", { workers: [workerOf({ limit: 1 }), workerOf()] }, [line]],
    ["of projects", { workers: [workerOf({}, { perProject: 2 })] }, [projectLimit(2)]],
    ["of the project itself", { board: { ...board, projectConcurrency: { prj_1: 1 } } }, [projectLimit(1)]],
    [
      "of the project itself, none",
      { board: { ...board, projectConcurrency: { prj_1: 0 } }, workers: [workerOf({}, { perProject: 1 })] },
      [line],
    ],
    ["of another project", { board: { ...board, projectConcurrency: { prj_2: 1 } } }, [line]],
    ["slots", { workers: [workerOf({}, { slots: 2 }), workerOf({}, { slots: 3 })] }, [slots(5)]],
    ["slots, with a worker that says nothing of them", { workers: [workerOf({}, { slots: 2 }), old] }, [line]],
    ["the share of a project", { workers: [workerOf({}, { share: 1 }), workerOf({}, { share: 1 })] }, [share(2)]],
    [
      "the share of a project, none in one worker",
      { workers: [workerOf({}, { share: 1 }), workerOf({}, { share: 0 })] },
      [line],
    ],
    [
      "all of them",
      { workers: [workerOf({ limit: 1 }, { perProject: 1, slots: 1, share: 1 })] },
      [kindLimit(1), projectLimit(1), slots(1), share(1)],
    ],
    [
      "not beside a pause",
      { board: { ...board, pausedKinds: [kind] }, workers: [workerOf({ limit: 1 })] },
      [entry("kind_paused", { subject: kind })],
    ],
  ])("%s", (_, facts, found) => expect(waitingFor(factsOf(facts))).toEqual(found))
})

describe("a job that may not be claimed yet", () => {
  const until = now + 500
  const pausedBoard = { ...board, pausedKinds: [kind] }
  const kindPaused = entry("kind_paused", { subject: kind })
  const run = (
    reason: NonNullable<WaitingFacts["waited"]>["reason"],
    subject: string | null = null,
    cause: string | null = null,
  ) => ({ reason, subject, cause, firstAttempt: 2, lastAttempt: 2, count: 1, firstAt: 0, lastAt: 0 }) as const
  const at = (facts: Partial<WaitingFacts>, attempts = 2) =>
    waitingFor(factsOf({ unfinishedJobs: 6, ...facts }, { claimableAt: until, attempts, status: "processing" }))

  it("is delayed before its first attempt, and then held back", () =>
    expect(at({ board: pausedBoard }, 0)).toEqual([entry("start_delayed", { until }), kindPaused]))

  it("is held back, and waits for its next attempt", () => {
    const failed = { number: 2, errorCode: "provider_unavailable" } as const
    expect(at({ board: pausedBoard, failed })).toEqual([
      kindPaused,
      entry("retry", { cause: "provider_unavailable", until }),
    ])
    expect(at({ failed: { ...failed, number: 1 } })).toEqual([entry("retry", { until })])
    expect(at({ waited: { ...run("store"), lastAttempt: 1 } })).toEqual([entry("retry", { until })])
  })

  it.each([
    [run("children"), [entry("children", { count: 6, until })]],
    [run("provider", "voices", "quota"), [entry("provider_paused", { subject: "voices", cause: "quota", until })]],
    [run("store"), [entry("store_unavailable", { until })]],
    [run("blobs"), [entry("blobs_unavailable", { until })]],
    [run("isolation"), [entry("isolation", { until })]],
    [
      run("gate", "switch:ai, price:svc-audio, spend_cap:key, provider:speech"),
      [
        entry("switch_off", { subject: "ai", cause: "children", until }),
        entry("price_missing", { subject: "svc-audio", cause: "children", until }),
        entry("spend_cap", { subject: "key", cause: "children", until }),
        entry("no_worker", { subject: "speech", cause: "children", until }),
      ],
    ],
  ])("%j", (waited, found) => expect(at({ waited })).toEqual(found))

  it("names what holds back its kind once", () => {
    const workers = [workerOf({}, {}, paused("quota"))]
    expect(at({ waited: run("provider", "voices", "quota"), workers })).toEqual([
      entry("provider_paused", { subject: "voices", cause: "quota" }),
    ])
    expect(at({ waited: run("provider", "texts", "quota"), workers })).toHaveLength(2)
  })

  it("waits for its children also once it could be claimed, as long as there are any", () => {
    const parked = (facts: Partial<WaitingFacts>) => waitingFor(factsOf(facts, { attempts: 2, status: "processing" }))
    const waited = run("children")
    expect(parked({ waited, unfinishedJobs: 6 })).toEqual([entry("children", { count: 6 })])
    expect(parked({ waited })).toEqual([entry("line", { count: 4 })])
    expect(parked({ waited: run("store"), unfinishedJobs: 6 })).toEqual([entry("line", { count: 4 })])
    expect(parked({ waited: { ...waited, lastAttempt: 1 }, unfinishedJobs: 6 })).toEqual([entry("line", { count: 4 })])
  })

  it("waits for its prerequisites, and says how many of them", () => {
    const waited = { ...run("after"), subject: "3" }
    const facts = { waited, unfinishedJobs: 2 }
    const expected = { subject: null, count: 2, limit: 3 }
    expect(waitingFor(factsOf(facts, { attempts: 2, status: "processing" }))).toEqual([entry("after", expected)])
    expect(waitingFor(factsOf(facts, { attempts: 2, status: "processing", claimableAt: now + maxParkMs }))).toEqual([
      entry("after", expected),
    ])
  })
})
