import { describe, expect, it } from "vitest"
import { LaneNotes } from "../src/jobs/LanePositions.ts"

/** What a claim did, as far as notes are concerned: the turns of each lane, and which of them turned out empty. */
const claim = (
  turns: Record<number, { readonly start: number; readonly count: number }>,
  empty: ReadonlyArray<number>,
) => ({
  served: Object.entries(turns).map(([id, turn]) => ({ id: Number(id), ...turn })),
  visited: [...new Set([...Object.keys(turns).map(Number), ...empty])],
  exhausted: new Set(empty),
  clock: Math.max(0, ...Object.values(turns).map(({ count, start }) => start + count - 1)),
})

describe("what is noted about lanes", () => {
  it("at 0, everything with every claim", () => {
    const notes = new LaneNotes(0)
    expect(notes.claimed(claim({ 1: { start: 5, count: 2 } }, [2]), 10)).toEqual({
      served: [[1, { start: 5, count: 2 }]],
      clock: 6,
      settle: [1, 2],
      unsettled: [],
      againInMs: undefined,
    })
    expect(notes.claimed(claim({ 1: { start: 7, count: 1 } }, []), 10).served).toEqual([[1, { start: 7, count: 1 }]])
  })

  it("turns at most once an interval, all of them together, and none is lost", () => {
    const notes = new LaneNotes(1_000)
    expect(notes.claimed(claim({ 1: { start: 0, count: 1 } }, []), 0).served).toEqual([[1, { start: 0, count: 1 }]])
    expect(notes.claimed(claim({ 1: { start: 1, count: 2 }, 2: { start: 1, count: 1 } }, []), 400).served).toEqual([])
    expect(notes.claimed(claim({ 1: { start: 3, count: 1 } }, []), 999).served).toEqual([])
    expect([notes.turn(1, 1), notes.turn(2, 0), notes.turn(3, 9), notes.clock(2)]).toEqual([4, 2, 9, 3])
    expect(notes.claimed(claim({}, []), 1_000)).toMatchObject({
      served: [
        [1, { start: 1, count: 3 }],
        [2, { start: 1, count: 1 }],
      ],
      clock: 3,
    })
    expect(notes.rest().served).toEqual([])
  })

  it("turns of a lane that others served meanwhile reach as far as its last", () => {
    const notes = new LaneNotes(1_000)
    notes.claimed(claim({ 9: { start: 0, count: 1 } }, []), 0)
    notes.claimed(claim({ 1: { start: 1, count: 1 } }, []), 1)
    notes.claimed(claim({ 1: { start: 10, count: 1 } }, []), 2)
    expect(notes.turn(1, 0)).toBe(11)
    expect(notes.rest().served).toEqual([[1, { start: 1, count: 10 }]])
  })

  it("turns of many lanes at once, however soon: beyond them others would not be found", () => {
    const notes = new LaneNotes(1_000)
    notes.claimed(claim({ 99: { start: 0, count: 1 } }, []), 0)
    const many = Object.fromEntries(Array.from({ length: 16 }, (_, id) => [id, { start: 0, count: 1 }]))
    expect(notes.claimed(claim(many, []), 1).served).toHaveLength(16)
  })

  it("an empty lane is set aside when it is still empty an interval later, and looked into until then", () => {
    const notes = new LaneNotes(1_000)
    expect(notes.claimed(claim({}, [1]), 0)).toMatchObject({ settle: [], unsettled: [1], againInMs: 1_000 })
    expect(notes.claimed(claim({}, [1]), 400)).toMatchObject({ settle: [], unsettled: [1], againInMs: 600 })
    expect(notes.claimed(claim({}, [1]), 1_000)).toMatchObject({ settle: [1], unsettled: [], againInMs: undefined })
  })

  it("a lane that gives something between begins anew to be empty", () => {
    const notes = new LaneNotes(1_000)
    notes.claimed(claim({}, [1]), 0)
    expect(notes.claimed(claim({ 1: { start: 0, count: 1 } }, [1]), 900)).toMatchObject({
      unsettled: [1],
      againInMs: 1_000,
    })
    expect(notes.claimed(claim({}, [1]), 1_500)).toMatchObject({ settle: [], unsettled: [1] })
  })

  it("the bound of a lane with more to give is raised once an interval", () => {
    const notes = new LaneNotes(1_000)
    expect(notes.claimed(claim({ 1: { start: 0, count: 1 } }, []), 0).settle).toEqual([1])
    expect(notes.claimed(claim({ 1: { start: 1, count: 1 } }, []), 500).settle).toEqual([])
    expect(notes.claimed(claim({ 1: { start: 2, count: 1 } }, []), 1_000).settle).toEqual([1])
  })
})
