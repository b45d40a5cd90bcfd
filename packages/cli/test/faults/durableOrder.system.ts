import { expect, it } from "vitest"
import { durableOrder } from "./support/durableOrder.ts"
import { describeWith } from "./support/needs.ts"

describeWith("attach", "everything that a service confirms is durable by then", () => {
  it("202 after the log was synced; 204 of a file after file, name and row; rows after their blobs", async () => {
    expect(await durableOrder()).toEqual({ accepted: 4, received: 2, erased: 2, named: 4, violations: [] })
  })
})
