import { expect, it } from "vitest"
import { fixtures } from "@kiln/conformance"
import { JobsInProgress } from "@kiln/core/domain"
import { type Lane, shareTurns } from "../src/jobs/laneOrder.ts"

const { projectId } = fixtures

const lane = (id: number, kind: string, project: number, turn: number): Lane => ({
  id,
  kind,
  mode: "sandbox",
  projectId: projectId(project),
  floor: 0,
  turn,
})

const first = lane(1, "speech_synthesis", 1, 0)
const heldBack = lane(2, "speech_synthesis", 2, 1)
const behind = lane(3, "transcription", 2, 1)

const idsOf = (lanes: ReadonlyArray<Lane>, limits: JobsInProgress, limitsCross: boolean) =>
  shareTurns(lanes, 5, limits, limitsCross).map(({ count, lane: { id } }) => ({ id, count }))

it("where limits cross, a lane that only another's turns hold back is not passed by the ones behind it", () => {
  const limits = new JobsInProgress({ perKind: { speech_synthesis: 1 }, perProject: 1 })
  const lanes = [first, heldBack, behind]
  expect(idsOf(lanes, limits, true)).toEqual([{ id: 1, count: 1 }])
  // The first lane proved to be empty.
  expect(idsOf([heldBack, behind], limits, true)).toEqual([{ id: 2, count: 1 }])
  // It had a job.
  limits.add(first, Infinity, 0)
  expect(idsOf(lanes, limits, true)).toEqual([{ id: 3, count: 1 }])
})

it("a lane at its own limit lets others pass", () => {
  const limits = new JobsInProgress({ perKind: { speech_synthesis: 2 }, perProject: 1 })
  expect(idsOf([first, lane(4, "transcription", 3, 7)], limits, true)).toEqual([
    { id: 1, count: 1 },
    { id: 4, count: 1 },
  ])
})

it("where limits do not cross, all turns are distributed at once", () => {
  const limits = new JobsInProgress({ perKind: { speech_synthesis: 1 }, perProject: 0 })
  expect(idsOf([first, heldBack, behind], limits, false)).toEqual([
    { id: 1, count: 1 },
    { id: 3, count: 4 },
  ])
})
