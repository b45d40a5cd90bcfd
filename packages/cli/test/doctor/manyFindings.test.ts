import { expect, it } from "vitest"
import { problem } from "../../src/doctor/Check.ts"
import { checkDocument, checkLine } from "../../src/doctor/checkReport.ts"

const lost = (count: number) =>
  problem("blobs", {
    summary: `${count} of ${count} files cannot be served`,
    remedy: "restore them from a backup",
    findings: Array.from({ length: count }, (_, n) => ({ message: `file ${n}: its blob is missing` })),
  })

it("the doctor shows people the first twenty findings of a check, their number, and the remedy", () => {
  const lines = checkLine(lost(1_000)).split("\n")
  expect(lines).toHaveLength(23)
  expect(lines[20]).toContain("file 19: its blob is missing")
  expect(lines[21]).toContain("the first 20 of the 1000 that kiln doctor --only blobs --json lists")
  expect(lines[22]).toContain("fix: restore them from a backup")
  expect(checkLine(lost(20)).split("\n")).toHaveLength(22)
  expect(checkDocument(lost(1_000)).findings).toHaveLength(1_000)
})
