import { describe, it } from "vitest"
import { expectBoundedYear } from "./expectBoundedYear.ts"
import { onSqlite } from "./places.ts"

describe("a simulated year on SQLite and files in a directory", { timeout: 600_000 }, () => {
  it("keeps rows, files and size bounded, and no data past its retention", () => expectBoundedYear(onSqlite))
})
