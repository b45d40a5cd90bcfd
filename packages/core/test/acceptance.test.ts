import { describe, expect, it } from "vitest"
import * as rules from "@kiln/core/rules"
import { acceptanceProperties } from "./acceptanceProperties.ts"

describe("judgeJob", () => {
  for (const [name, holds] of Object.entries(acceptanceProperties))
    it(name, () => expect(() => holds(rules)).not.toThrow())
})
