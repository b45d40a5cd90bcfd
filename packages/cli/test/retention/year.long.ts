import { describe, it } from "vitest"
import { expectBoundedYear } from "./expectBoundedYear.ts"
import { onPostgres } from "./places.ts"

describe("a simulated year on Postgres with files in the database", { timeout: 600_000 }, () => {
  it("keeps rows, files and size bounded, and no data past its retention", () => expectBoundedYear(onPostgres))
})
