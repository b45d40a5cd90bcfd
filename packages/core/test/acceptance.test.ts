import { describe, expect, it } from "vitest"
import * as domain from "@kiln/core/domain"
import { acceptanceBugs } from "./acceptanceBugs.ts"
import { type Acceptance, acceptanceProperties } from "./acceptanceProperties.ts"
import { theyCatch } from "./support/theyCatch.ts"

describe("judgeJob", () => {
  for (const [name, holds] of Object.entries(acceptanceProperties))
    it(name, () => expect(() => holds(domain)).not.toThrow())
})

theyCatch<Acceptance>(acceptanceBugs, "acceptance.ts", acceptanceProperties)
