import { type Board, missingPrerequisites } from "@kiln/core/domain"
import { switchesWith } from "@kiln/core/rules"
import { isBuiltInSwitch, switchNameForm } from "../../src/domain/Gate.ts"
import { describe, expect, it } from "vitest"

const board: Board = {
  switches: switchesWith([]),
  prices: {},
  liveKinds: [],
  lastServedAt: {},
  pausedKinds: [],
  projectConcurrency: {},
}

describe("switches", () => {
  it("missing ones are reported in the order of the contract, those of other kinds last", () => {
    const gate = { price: null, meters: [], switches: ["beta", "images", "audio", "ai"], liveWorker: null }
    expect(missingPrerequisites(gate, board, 0)).toEqual(["switch:ai", "switch:audio", "switch:images", "switch:beta"])
    const on = { ...board, switches: switchesWith([["beta", true]]) }
    expect(missingPrerequisites({ ...gate, switches: ["beta"] }, on, 0)).toEqual([])
  })

  it("three are built in", () => {
    expect(["ai", "audio", "images", "beta", ""].filter((name) => isBuiltInSwitch(name))).toEqual([
      "ai",
      "audio",
      "images",
    ])
  })

  it.each([
    ["a", true],
    ["beta_2-x", true],
    ["a".repeat(64), true],
    ["a".repeat(65), false],
    ["", false],
    ["2beta", false],
    ["Beta", false],
    [" beta", false],
    ["beta!", false],
  ])("may be called %j: %s", (name, isValid) => expect(switchNameForm.test(name)).toBe(isValid))
})
