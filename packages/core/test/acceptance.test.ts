import { describe, expect, it } from "vitest"
import * as domain from "@kiln/core/domain"
import { acceptanceProperties } from "./acceptanceProperties.ts"

describe("judgeJob", () => {
  for (const [name, holds] of Object.entries(acceptanceProperties))
    it(name, () => expect(() => holds(domain)).not.toThrow())
})
