import { describe, expect, it } from "vitest"
import { LanePositions } from "../src/jobs/LanePositions.ts"

/** What a claim did, as far as positions are concerned: the turns of each lane, and which of them turned out empty. */
const claim = (
  turns: Record<number, { readonly start: number; readonly count: number }>,
  empty: ReadonlyArray<number>,
) => ({
  served: Object.entries(turns).map(([id, turn]) => ({ id: Number(id), group: "kind", ...turn })),
  visited: [...new Set([...Object.keys(turns).map(Number), ...empty])],
  exhausted: new Set(empty),
  hidOthers: false,
  clock: Math.max(0, ...Object.values(turns).map(({ count, start }) => start + count - 1)),
})

describe("LanePositions", () => {
  it("saves everything with every claim at an interval of 0", () => {
    const positions = new LanePositions(0)
    expect(positions.claimed(claim({ 1: { start: 5, count: 2 } }, [2]), 10)).toEqual({
      served: [[1, { start: 5, count: 2 }]],
      clock: 6,
      settle: [1, 2],
      unsettled: [],
      againInMs: undefined,
    })
    expect(positions.claimed(claim({ 1: { start: 7, count: 1 } }, []), 10).served).toEqual([
      [1, { start: 7, count: 1 }],
    ])
  })

  it("saves turns at most once per interval, all together, and loses none", () => {
    const positions = new LanePositions(1_000)
    expect(positions.claimed(claim({ 1: { start: 0, count: 1 } }, []), 0).served).toEqual([[1, { start: 0, count: 1 }]])
    expect(positions.claimed(claim({ 1: { start: 1, count: 2 }, 2: { start: 1, count: 1 } }, []), 400).served).toEqual(
      [],
    )
    expect(positions.claimed(claim({ 1: { start: 3, count: 1 } }, []), 999).served).toEqual([])
    expect([positions.turn(1, 1), positions.turn(3, 9), positions.clock(2)]).toEqual([4, 9, 3])
    expect(positions.claimed(claim({ 3: { start: 3, count: 1 } }, []), 1_000)).toMatchObject({
      served: [
        [1, { start: 1, count: 3 }],
        [2, { start: 1, count: 1 }],
        [3, { start: 3, count: 1 }],
      ],
      clock: 3,
    })
    expect(positions.unsaved().served).toEqual([])
  })

  it("saves turns up to the last one for a lane that others served meanwhile", () => {
    const positions = new LanePositions(1_000)
    positions.claimed(claim({ 9: { start: 0, count: 1 } }, []), 0)
    positions.claimed(claim({ 1: { start: 1, count: 1 } }, []), 1)
    positions.claimed(claim({ 1: { start: 10, count: 1 } }, []), 2)
    expect(positions.turn(1, 0)).toBe(11)
    expect(positions.unsaved().served).toEqual([[1, { start: 1, count: 10 }]])
  })

  it("saves turns that the clock has passed, too: they decide between lanes that waited for room", () => {
    const positions = new LanePositions(1_000)
    positions.claimed(claim({ 9: { start: 0, count: 1 } }, []), 0)
    positions.claimed(claim({ 1: { start: 0, count: 1 } }, []), 1)
    positions.claimed(claim({ 2: { start: 5, count: 1 } }, []), 2)
    expect(positions.turns()).toEqual([
      { id: 1, turn: 1 },
      { id: 2, turn: 6 },
    ])
    expect(positions.inFront).toBe(0)
    expect(positions.unsaved().served).toHaveLength(2)
  })

  it("saves turns immediately once 256 lanes have them, because each claim sends them all", () => {
    const positions = new LanePositions(1_000)
    positions.claimed(claim({ 999: { start: 0, count: 1 } }, []), 0)
    const first = (lanes: number) =>
      claim(Object.fromEntries(Array.from({ length: lanes }, (_, id) => [id, { start: 0, count: 1 }])), [])
    expect(positions.claimed(first(255), 1).served).toEqual([])
    expect(positions.claimed(first(256), 2).served).toHaveLength(256)
  })

  it("goes on after the lane of each kind that was served last, and remembers it while nothing is found", () => {
    const positions = new LanePositions(1_000)
    expect(positions.after("kind")).toBe(0)
    // The last turn is the one of the lane that was served twice, although another one was created later.
    positions.claimed(claim({ 3: { start: 0, count: 1 }, 2: { start: 0, count: 2 } }, []), 0)
    expect([positions.after("kind"), positions.after("other")]).toEqual([2, 0])
    positions.claimed(claim({ 5: { start: 4, count: 1 }, 4: { start: 4, count: 1 } }, []), 1)
    const other = claim({ 9: { start: 5, count: 1 } }, [6])
    positions.claimed({ ...other, served: other.served.map((lane) => ({ ...lane, group: "other" })) }, 2)
    expect([positions.after("kind"), positions.after("other")]).toEqual([5, 9])
  })

  it("sets an empty lane aside if it is still empty an interval later, and searches it until then", () => {
    const positions = new LanePositions(1_000)
    expect(positions.claimed(claim({}, [1]), 0)).toMatchObject({ settle: [], unsettled: [1], againInMs: 1_000 })
    expect(positions.claimed(claim({}, [1]), 400)).toMatchObject({ settle: [], unsettled: [1], againInMs: 600 })
    expect(positions.claimed(claim({}, [1]), 1_000)).toMatchObject({ settle: [1], unsettled: [], againInMs: undefined })
  })

  it("restarts the interval when a lane had a job in between", () => {
    const positions = new LanePositions(1_000)
    positions.claimed(claim({}, [1]), 0)
    expect(positions.claimed(claim({ 1: { start: 0, count: 1 } }, [1]), 900)).toMatchObject({
      unsettled: [1],
      againInMs: 1_000,
    })
    expect(positions.claimed(claim({}, [1]), 1_500)).toMatchObject({ settle: [], unsettled: [1] })
  })

  it("raises the bound of a lane once per interval while many jobs pass it, and every 16 intervals in any case", () => {
    const positions = new LanePositions(1_000)
    const settledAt = (now: number, count: number) =>
      positions.claimed(claim({ 1: { start: now, count } }, []), now).settle
    expect(settledAt(0, 1)).toEqual([1])
    expect([settledAt(500, 40), settledAt(1_000, 1)]).toEqual([[], [1]])
    expect([settledAt(2_000, 31), settledAt(16_999, 0), settledAt(17_000, 0)]).toEqual([[], [], [1]])
  })

  it("counts the lanes that a claim meets before others: empty ones, and those after the last one that had their turn", () => {
    const positions = new LanePositions(1_000)
    positions.claimed(claim({ 9: { start: 0, count: 1 } }, []), 0)
    expect(positions.inFront).toBe(0)
    positions.claimed(claim({ 1: { start: 5, count: 1 }, 2: { start: 5, count: 1 } }, [3, 4]), 10)
    expect(positions.inFront).toBe(2)
    positions.claimed(claim({ 0: { start: 5, count: 2 } }, []), 11)
    expect([positions.after("kind"), positions.inFront]).toEqual([0, 4 - 2])
    positions.claimed(claim({}, [3]), 1_010)
    expect(positions.inFront).toBe(1)
    positions.claimed(claim({}, []), 16_011)
    expect(positions.inFront).toBe(0)
  })
})
