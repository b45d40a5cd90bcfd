import { expect, it } from "vitest"
import { compareWithDocument } from "./compare.ts"

it("2,000 generated requests are answered as the OpenAPI document says", async () => {
  const { accepted, differences } = await compareWithDocument(2_000, 1)
  expect(differences).toEqual([])
  expect(accepted).toBeGreaterThan(100)
})
