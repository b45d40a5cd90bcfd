import { beforeAll, expect, it } from "vitest"
import { seenCodes } from "./support/Api.ts"
import { catalogue } from "./support/catalogue.ts"
import { runTables } from "./support/tables.ts"
import { brokenPorts, brokenPortSettings } from "./tables/brokenPorts.ts"
import { everyCode, everyCodeSettings, provoked } from "./tables/everyCode.ts"

// Test files share modules: what others provoked does not count here.
beforeAll(() => seenCodes.clear())

runTables("catalogue", everyCodeSettings, everyCode)
runTables("broken ports", brokenPortSettings, brokenPorts)

// Only jobs of custom kinds receive signals: `mount/signals.test.ts` provokes it.
const codes = Object.keys(catalogue).filter((code) => code !== "job_finished")

// Runs last, after all tables: a code that no request can provoke is unnecessary.
it("every code of the catalogue was returned, and no other", () => {
  expect([...seenCodes].toSorted()).toEqual(codes.toSorted())
  expect([...provoked, "internal_error", "service_unavailable"].toSorted()).toEqual(codes.toSorted())
})
