import { readFileSync } from "node:fs"
import { join } from "node:path"
import { plantedBugs as s3Bugs } from "../../packages/adapter-s3/test/support/plantedBugs.ts"
import { plantedBugs as blobBugs } from "../../packages/adapter-blobs/test/support/plantedBugs.ts"
import { plantedBugs as commitBugs } from "../../packages/adapter-postgres/test/faults/support/plantedBugs.ts"
import { groupCommitBugs } from "../../packages/core/test/groupCommitBugs.ts"
import { jointClaimBugs } from "../../packages/core/test/jointClaimBugs.ts"
import { acceptanceBugs } from "../../packages/core/test/acceptanceBugs.ts"
import { rateLimitBugs } from "../../packages/core/test/rateLimitBugs.ts"
import { spendCapBugs } from "../../packages/core/test/spendCapBugs.ts"
import { plantedBugs as domainBugs } from "../../packages/core/test/jobTransitionBugs.ts"
import { plantedBugs as racingBugs } from "../../packages/core/test/interleavings/plantedBugs/index.ts"
import { races } from "../../packages/core/test/interleavings/races/index.ts"
import { plantedBugs as guardBugs } from "../../packages/core/test/providers/support/plantedBugs.ts"
import { plantedBugs as connectionBugs } from "../../packages/cli/test/connections/support/plantedBugs.ts"
import { portBugs, wordingBugs } from "../../packages/http/test/contract/support/bugs.ts"
import { operatorBugs } from "../../packages/cli/test/faults/support/operatorBugs.ts"
import { answersBeforeCommit, rowBeforeBlob, unsynced } from "../../packages/cli/test/faults/support/plantedBugs.ts"
import { plantedBugs as storeBugs } from "../../packages/conformance/test/plantedBugs/index.ts"
import { caughtBy, wrongNatures } from "../../packages/testing/test/plantedBugs/wrongNatures.ts"
import { plantedBugs as shippedBugs } from "../../tests/planted/bugs.ts"

/** A bug as one suite plants it. */
export interface Planted {
  readonly bug: string
  /** What catches it, a cell for each column of the suite's table. */
  readonly cells: ReadonlyArray<string>
  /** The same in a few words. */
  readonly caughtBy: string
}

/** Tests that plant bugs, and see them caught. */
export interface Suite {
  readonly title: string
  /** That asserts every row. */
  readonly test: string
  readonly about: string
  readonly columns: ReadonlyArray<string>
  readonly bugs: ReadonlyArray<Planted>
}

const quoted = (text: string): string => `“${text}”`
const code = (text: string): string => `\`${text}\``

const simulation: Suite = {
  title: "Simulation",
  test: "tests/plantedBugs.proof.ts",
  about:
    "Planted into shipped modules as they are loaded. `pnpm simulate` must report the broken promise within 300 runs from this seed on.",
  columns: ["first seed", "promise it breaks"],
  bugs: shippedBugs.map(({ breaks, bug, seed }) => ({
    bug,
    cells: [String(seed), quoted(breaks)],
    caughtBy: `${quoted(breaks)}, from seed ${seed} on`,
  })),
}

const conformance: Suite = {
  title: "Conformance and histories",
  test: "packages/conformance/test/plantedBugs.proof.ts",
  about:
    "Planted into the memory stores. Checks in one section of the conformance suite must fail; up to three are named. Random histories are compared with the correct store, and once more with the buggy store itself, where only the promises checked after each step can fail.",
  columns: ["section", "checks", "histories", "promises alone"],
  bugs: storeBugs.map(({ bug, caughtBy: { checks, promises }, section, unseenInHistories }) => ({
    bug,
    cells: [
      code(section),
      checks.map(quoted).join("<br>"),
      unseenInHistories === true ? "not asked" : "yes",
      promises ? "yes" : "not asked",
    ],
    caughtBy: [
      `${code(section)}: ${checks.map(quoted).join(", ")}`,
      ...(unseenInHistories === true ? [] : ["random histories"]),
      ...(promises ? ["the promises alone"] : []),
    ].join("; "),
  })),
}

const durability: Suite = {
  title: "Durability",
  test: "packages/testing/test/persisted.proof.ts",
  about:
    "Planted into the declaration of the verbs, with persisted memory stores. The check must fail and name the verb.",
  columns: ["check"],
  bugs: wrongNatures.map((bug) => ({ bug: bug.bug, cells: [quoted(caughtBy(bug))], caughtBy: quoted(caughtBy(bug)) })),
}

/** The name of the one race that begins so. */
const raceOf = (beginning: string): string => {
  const [race, ...others] = races.filter(({ name }) => name.startsWith(beginning))
  if (race === undefined || others.length > 0) throw new Error(`not one race begins with ${beginning}`)
  return race.name
}

const interleavings: Suite = {
  title: "Interleavings",
  test: "packages/core/test/interleavings/plantedBugs.proof.ts",
  about: "Planted into a port under the real engine and workers. One of 600 orders of turns must expose it.",
  columns: ["race"],
  bugs: racingBugs.map(({ bug, race }) => ({ bug, cells: [quoted(raceOf(race))], caughtBy: quoted(raceOf(race)) })),
}

const guard: Suite = {
  title: "Guard of a provider",
  test: "packages/core/test/providers/plantedBugs.proof.ts",
  about:
    "Planted into a process that runs one scenario of the real engine and worker in virtual time. Its report must differ, as named, from the report without the bug.",
  columns: ["reported"],
  bugs: guardBugs.map(({ bug, noticed }) => ({ bug, cells: [quoted(noticed)], caughtBy: quoted(noticed) })),
}

const groupCommit: Suite = {
  title: "Group commit",
  test: "packages/core/test/groupCommit.proof.ts",
  about:
    "Planted into a process in which callers share calls of one verb. The list of settled items must differ, as asserted, from the list without the bug.",
  columns: ["noticed in"],
  bugs: groupCommitBugs.map(({ bug }) => ({ bug, cells: ["the settled items"], caughtBy: "the settled items" })),
}

const jointClaims: Suite = {
  title: "Claims with a creation",
  test: "packages/core/test/jointClaims.proof.ts",
  about:
    "Planted into a process that runs the real engine and an idle worker in virtual time. Its report of the created jobs must change as named.",
  columns: ["reported"],
  bugs: jointClaimBugs.map(({ bug, noticed }) => ({ bug, cells: [quoted(noticed)], caughtBy: quoted(noticed) })),
}

const properties: Suite = {
  title: "Properties of the table of moves",
  test: "packages/core/test/jobTransition.test.ts",
  about: "Planted into a copy of the domain. The property must fail.",
  columns: ["property"],
  bugs: domainBugs.map(({ bug, property }) => ({ bug, cells: [quoted(property)], caughtBy: quoted(property) })),
}

const acceptance: Suite = {
  title: "Properties of the order in which a request is judged",
  test: "packages/core/test/acceptance.test.ts",
  about: "Planted into a copy of the domain. The property must fail.",
  columns: ["property"],
  bugs: acceptanceBugs.map(({ bug, property }) => ({ bug, cells: [quoted(property)], caughtBy: quoted(property) })),
}

const rateLimits: Suite = {
  title: "Properties of rate limits that processes share",
  test: "packages/core/test/rateLimit.test.ts",
  about: "Planted into a copy of the domain. The property must fail.",
  columns: ["property"],
  bugs: rateLimitBugs.map(({ bug, property }) => ({ bug, cells: [quoted(property)], caughtBy: quoted(property) })),
}

const spendCaps: Suite = {
  title: "Properties of spend caps",
  test: "packages/core/test/spendCap.test.ts",
  about: "Planted into a copy of the domain. The property must fail.",
  columns: ["property"],
  bugs: spendCapBugs.map(({ bug, property }) => ({ bug, cells: [quoted(property)], caughtBy: quoted(property) })),
}

const disk: Suite = {
  title: "Disk and kills",
  test: "packages/cli/test/faults/plantedBugs.proof.ts",
  about:
    "Planted into a real process. Either a replay of its system calls shows that something was acknowledged before it was durable, or the state after a kill breaks a promise. Requires strace; without it, the tests are skipped with that reason.",
  columns: ["order of durability", "killed at a write call"],
  bugs: [
    ...[answersBeforeCommit, rowBeforeBlob].map(({ bug, inWreck, noticed }) => ({
      bug,
      cells: [code(noticed.source), code(inWreck.source)],
      caughtBy: `order of durability: ${code(noticed.source)}; kills: ${code(inWreck.source)}`,
    })),
    ...unsynced.map(({ bug, noticed }) => ({
      bug,
      cells: [code(noticed.source), "not seen: the system keeps what it was given"],
      caughtBy: `order of durability: ${code(noticed.source)}`,
    })),
  ],
}

const contractTest = "packages/http/test/contract/plantedBugs.proof.ts"

/** The rows a test plans for a bug: they stand in the test itself, a line each. */
const rowsPlanned = (text: string, bug: string): string => {
  const planned = text.split("\n").find((line) => line.startsWith(`  ${JSON.stringify(bug)}: [`))
  const [, table, rows] = /^ {2}".*": \[(\w+), (\/.*\/i?)\],$/.exec(planned ?? "") ?? []
  if (table === undefined || rows === undefined) throw new Error(`${contractTest} plans no rows for: ${bug}`)
  return rows === "/./" ? `every row of ${table}` : `${table}: ${code(rows)}`
}

const contract: Suite = {
  title: "HTTP contract",
  test: contractTest,
  about: "Planted into a port of the service, or into its responses. Each of these rows must fail.",
  columns: ["rows"],
  bugs: Object.keys({ ...portBugs, ...wordingBugs }).map((bug) => {
    const rows = rowsPlanned(readFileSync(join(import.meta.dirname, "../..", contractTest), "utf8"), bug)
    return { bug, cells: [rows], caughtBy: rows }
  }),
}

const connections: Suite = {
  title: "Hostile connections",
  test: "packages/cli/test/connections/connections.system.ts",
  about:
    "Planted into `kiln serve` and into a service mounted in Express. Connections of one kind must end the process or cause an uncaught exception.",
  columns: ["connections"],
  bugs: connectionBugs.map(({ bug, only }) => ({ bug, cells: [quoted(only)], caughtBy: quoted(only) })),
}

const blobs: Suite = {
  title: "Blob stores",
  test: "packages/adapter-blobs/test/plantedBugs.proof.ts",
  about: "Planted into a copy of the adapter. A check that the adapter passes must fail.",
  columns: ["module"],
  bugs: blobBugs.map(({ bug, file }) => ({ bug, cells: [code(file)], caughtBy: code(file) })),
}

const s3: Suite = {
  title: "S3 blob store",
  test: "packages/adapter-s3/test/plantedBugs.proof.ts",
  about: "Planted into a copy of the adapter. A check that the adapter passes must fail.",
  columns: ["module"],
  bugs: s3Bugs.map(({ bug, file }) => ({ bug, cells: [code(file)], caughtBy: code(file) })),
}

const commits: Suite = {
  title: "Lost answers of Postgres",
  test: "packages/adapter-postgres/test/faults/plantedBugs.proof.ts",
  about:
    "Planted into a process whose COMMITs get no response. What it did must differ from what it returned, and the test must report this.",
  columns: ["tried with"],
  bugs: commitBugs.map(({ arguments: given, bug, scenario }) => {
    const tried = code([scenario, ...given].join(" "))
    return { bug, cells: [tried], caughtBy: tried }
  }),
}

const operators: Suite = {
  title: "Commands of operators",
  test: "packages/cli/test/faults/operatorBugs.proof.ts",
  about:
    "Planted into a process that runs commands on an installation: the doctor, erasure, adoption, backup, limits of keys, the audit log. The report of what they did must change.",
  columns: ["module"],
  bugs: operatorBugs.map(({ bug, file }) => ({ bug, cells: [code(file)], caughtBy: code(file) })),
}

export const suites = {
  simulation,
  conformance,
  durability,
  interleavings,
  guard,
  groupCommit,
  jointClaims,
  properties,
  acceptance,
  spendCaps,
  rateLimits,
  disk,
  contract,
  connections,
  operators,
  blobs,
  s3,
  commits,
} satisfies Readonly<Record<string, Suite>>
export type Suites = Readonly<Record<keyof typeof suites, Suite>>
