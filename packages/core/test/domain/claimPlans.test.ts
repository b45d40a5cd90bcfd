import type { ProjectId } from "@kiln/core/domain"
import { ClaimPlan, JobsInProgress, type LaneLine, type LaneTurn } from "@kiln/core/rules"
import fc from "fast-check"
import { expect, it } from "vitest"

type WaitingLane = LaneTurn & { readonly waiting: number }

interface Work {
  readonly lanes: ReadonlyArray<WaitingLane>
  readonly perKind: Readonly<Record<string, number>>
  readonly perProject: number
  readonly most: number
}

/** Lanes behind the clock start at the clock, which is the lowest turn. */
const lanesOf = <Lane extends { readonly turn: number; readonly behind: number }>(lanes: ReadonlyArray<Lane>) => {
  const clock = Math.min(...lanes.map(({ turn }) => turn))
  return lanes.map((lane, id) => ({ ...lane, id, since: lane.turn === clock ? clock - lane.behind : lane.turn }))
}

const byTurn = (a: LaneTurn, b: LaneTurn): number => a.turn - b.turn || a.since - b.since || a.id - b.id

const kinds = ["speech", "image"]
const work: fc.Arbitrary<Work> = fc
  .record({
    lanes: fc.array(
      fc.record({
        turn: fc.nat(6),
        behind: fc.nat(3),
        waiting: fc.nat(5),
        kind: fc.constantFrom(...kinds),
        mode: fc.constantFrom("sandbox" as const, "live" as const),
        projectId: fc.constantFrom("a", "b", "c").map((id) => id as ProjectId),
      }),
      { maxLength: 9 },
    ),
    perKind: fc.dictionary(fc.constantFrom(...kinds), fc.integer({ min: 1, max: 6 })),
    perProject: fc.nat(4),
    most: fc.nat(20),
  })
  .map((made) => ({ ...made, lanes: lanesOf(made.lanes) }))

const leaseEndsAt = 1_000

/** Serves the lowest turn of all lanes that have a job and room, one job at a time, and looks at everything anew for each. */
const naively = ({ lanes, most, perKind, perProject }: Work): ReadonlyArray<number> => {
  const running = new JobsInProgress({ perKind, perProject })
  const state = lanes.map((lane) => ({ ...lane }))
  const order: Array<number> = []
  while (order.length < most) {
    const open = state.filter((lane) => lane.waiting > 0 && !running.isFull(lane))
    const [next] = open.toSorted(byTurn)
    if (next === undefined) break
    order.push(next.id)
    running.add(next, leaseEndsAt, 0)
    next.turn += 1
    next.since = next.turn
    next.waiting -= 1
  }
  return order
}

/** Two lines for each kind and mode, as a store reads them from two indices. */
const linesOf = (lanes: ReadonlyArray<WaitingLane>, read: (lane: WaitingLane) => void) =>
  [...Map.groupBy(lanes, ({ id, kind, mode }) => `${kind} ${mode} ${id % 2}`).values()].map(
    (group): LaneLine<WaitingLane> => {
      const sorted = group.toSorted(byTurn)
      let next = 0
      return {
        kind: group[0]!,
        get head() {
          const lane = sorted[next]
          if (lane !== undefined) read(lane)
          return lane
        },
        advance: () => void (next += 1),
      }
    },
  )

const byPlan = ({ lanes, most, perKind, perProject }: Work, read: (lane: WaitingLane) => void = () => undefined) => {
  const running = new JobsInProgress({ perKind, perProject })
  const plan = new ClaimPlan(linesOf(lanes, read), running)
  const left = new Map(lanes.map(({ id, waiting }) => [id, waiting]))
  const order: Array<number> = []
  while (order.length < most) {
    const lane = plan.take()
    if (lane === undefined) break
    const waiting = left.get(lane.id) ?? 0
    // A lane without a job is found empty, and does not return.
    if (waiting === 0) continue
    left.set(lane.id, waiting - 1)
    order.push(lane.id)
    running.add(lane, leaseEndsAt, 0)
    plan.serve(lane)
  }
  return order
}

it("serves the lanes in the order of the naive claim, under limits of kinds and projects", () => {
  fc.assert(
    fc.property(work, (given) => {
      expect(byPlan(given)).toEqual(naively(given))
    }),
    { numRuns: 2_000 },
  )
})

it("lets no lane with jobs and room wait for more than one job of each other lane", () => {
  fc.assert(
    fc.property(work, (given) => {
      const free = {
        ...given,
        perKind: {},
        perProject: 0,
        lanes: given.lanes.map((lane) => ({ ...lane, turn: 0, since: 0 })),
      }
      const order = byPlan(free)
      for (const { id, waiting } of free.lanes) {
        const places = order.flatMap((served, at) => (served === id ? [at] : []))
        for (const [turn, at] of places.entries()) expect(at).toBeLessThan((turn + 1) * free.lanes.length)
        expect(order.length === free.most || places.length === waiting).toBe(true)
      }
    }),
  )
})

it("reads no lane behind the first of a line that it does not serve", () => {
  const lane = (id: number): WaitingLane => ({
    id,
    turn: id,
    since: id,
    waiting: 1,
    kind: "speech",
    mode: "live",
    projectId: `p${id}` as ProjectId,
  })
  const seen = new Set<number>()
  const lanes = Array.from({ length: 1_000 }, (_, id) => lane(id))
  byPlan({ lanes, perKind: {}, perProject: 0, most: 4 }, ({ id }) => seen.add(id))
  expect(Math.max(...seen)).toBeLessThanOrEqual(6)
})
