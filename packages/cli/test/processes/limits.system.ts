import { expect, it } from "vitest"
import { until } from "@kiln/service-lab"
import type { CallLine } from "../crash/fixtures/LabFiles.ts"
import { Fleet, patience } from "./support/Fleet.ts"

/** Limits of concurrency hold for all workers together. */

/** The most calls that were under way at one moment. */
const most = (calls: ReadonlyArray<CallLine>): number => {
  let now = 0
  return Math.max(...calls.map(({ event }) => (event === "begun" ? ++now : now--)))
}

it("two workers together run at most the limit of jobs of a kind and of a project", patience, async () => {
  await using fleet = await Fleet.open()
  const engine = { limits: { perKind: { speech_synthesis: 1 }, perProject: 3 } }
  const [api] = await Promise.all([fleet.api({ engine }), fleet.worker({ engine }), fleet.worker({ engine })])
  const speeches = Array.from({ length: 12 }, () => api.live.speak("wait:50"))
  const images = Array.from({ length: 12 }, () => api.live.create("/v1/images/generations", { prompt: "wait:200" }))
  const [spoken] = await Promise.all([Promise.all(speeches), Promise.all(images)])
  for (const id of spoken) expect((await api.live.finished(id)).status).toBe("done")
  const drawn = () => fleet.calls().filter(({ event, provider }) => event === "ended" && provider === "image")
  await until(() => (drawn().length === 12 ? true : undefined))
  const speech = fleet.calls().filter(({ provider }) => provider === "speech")
  expect(speech).toHaveLength(24)
  expect(most(speech)).toBe(1)
  // A kind at its limit does not delay another, and both fill the project's share.
  expect(most(fleet.calls())).toBe(3)
  expect(new Set(fleet.calls().map(({ pid }) => pid)).size).toBe(2)
})
