import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { beforeAll, describe, expect, it } from "vitest"
import rules from "../.dependency-cruiser.mjs"
import type { BoundariesReport } from "../scripts/boundaries.ts"
import { plantTree, repository } from "./support/plantTree.ts"

const run = (root: string): { readonly status: number | null; readonly report: BoundariesReport } => {
  const script = join(repository, "scripts/boundaries.ts")
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, "--json", root], {
    encoding: "utf8",
    timeout: 180_000,
  })
  if (stdout === "") throw new Error(`no report: ${stderr}`)
  return { status, report: JSON.parse(stdout) }
}

/** Everything the rules allow: were one of them too strict, this tree would be red. */
const lawful = {
  "packages/core/src/domain/Job.ts": `import { Schema } from "effect"\nexport const Job = Schema.String\n`,
  "packages/core/src/domain/index.ts": `export * from "./Job.ts"\n`,
  "packages/core/src/ports/JobStore.ts": `import type { Job } from "../domain/Job.ts"\nexport type Store = typeof Job\n`,
  "packages/core/src/ports/index.ts": `export * from "./JobStore.ts"\n`,
  "packages/core/src/kinds/Image.ts": `import "../domain/Job.ts"\nimport "../ports/JobStore.ts"\n`,
  "packages/core/src/engine/Engine.ts": `import "../domain/Job.ts"\nimport "../kinds/Image.ts"\nimport "../ports/JobStore.ts"\n`,
  "packages/core/src/worker/index.ts": `import "../domain/Job.ts"\nimport "../kinds/Image.ts"\nimport "../ports/JobStore.ts"\nimport "../engine/Engine.ts"\n`,
  "packages/core/src/index.ts": `import "./engine/Engine.ts"\n`,
  "packages/core/test/core.test.ts": `import "../src/engine/Engine.ts"\nimport "@kiln/testing"\nimport "vitest"\n`,
  "packages/adapter-sqlite/src/index.ts": `import "@kiln/core/domain"\nimport "@kiln/core/ports"\nimport "kysely"\nimport "node:fs"\n`,
  "packages/testing/src/TestEngine.ts": `import "@kiln/core"\nimport "@kiln/core/worker"\n`,
  "packages/testing/src/index.ts": `import "@kiln/core/ports"\nimport "./TestEngine.ts"\n`,
  "packages/conformance/src/model/index.ts": `import "@kiln/core/domain"\n`,
  "packages/conformance/src/index.ts": `import "@kiln/core/ports"\nimport "@kiln/testing"\nimport "./model/index.ts"\n`,
  "packages/simulation/src/simulationConformance.ts": `import "@effect/vitest"\n`,
  "packages/simulation/src/index.ts": `import "@kiln/core/worker"\nimport "@kiln/testing"\nimport "@kiln/conformance/model"\n`,
  "packages/service-lab/src/index.ts": `import "@kiln/core/ports"\nimport type {} from "@kiln/cli"\n`,
  "packages/postgres-lab/src/index.ts": `import "pg"\nimport "node:net"\n`,
  "packages/adapter-sqlite/test/sqlite.test.ts": `import "@kiln/postgres-lab"\n`,
  "packages/client/src/api/ErrorCatalogue.ts": "export {}\n",
  "packages/client/src/api/index.ts": `import "effect"\nimport "@kiln/core/domain"\nimport "./ErrorCatalogue.ts"\n`,
  "packages/client/src/effect/index.ts": `import "effect"\nimport "../api/index.ts"\n`,
  "packages/client/src/index.ts": `import type {} from "./api/ErrorCatalogue.ts"\n`,
  "packages/http/src/index.ts": `import "@kiln/core"\nimport "@kiln/core/worker"\nimport "@kiln/client/api"\n`,
  "packages/cli/src/index.ts": `import "@kiln/core"\nimport "@kiln/adapter-sqlite"\nimport "@kiln/http"\n`,
  "packages/http/test/http.test.ts": `import "@kiln/service-lab"\nimport "@kiln/adapter-sqlite"\n`,
  "examples/demo/main.ts": `import "@kiln/http"\nimport "@kiln/testing"\n`,
}

/** One file per way to break a rule: [rule, file, text]. */
const planted: ReadonlyArray<readonly [rule: string, file: string, text: string]> = [
  ["core-domain", "packages/core/src/domain/PortInDomain.ts", `import "../ports/JobStore.ts"`],
  ["core-domain", "packages/core/src/domain/NewLayerInDomain.ts", `import "../helpers/Helper.ts"`],
  ["core-providers", "packages/core/src/providers/PortInProvider.ts", `import "../ports/JobStore.ts"`],
  ["core-ports", "packages/core/src/ports/KindInPort.ts", `import "../kinds/Image.ts"`],
  ["core-kinds", "packages/core/src/kinds/EngineInKind.ts", `import type {} from "../engine/Engine.ts"`],
  ["core-engine", "packages/core/src/engine/WorkerInEngine.ts", `import "../worker/index.ts"`],
  ["core-worker", "packages/core/src/worker/RootInWorker.ts", `import "../index.ts"`],
  ["core-is-pure", "packages/core/src/domain/NodeInCore.ts", `import "node:fs"`],
  ["core-is-pure", "packages/core/src/engine/BareNodeInCore.ts", `import "crypto"`],
  ["core-is-pure", "packages/core/src/engine/PackageInCore.ts", `import "vitest"`],
  ["core-is-pure", "packages/core/src/engine/LazyInCore.ts", `export const load = () => import("fast-check")`],
  ["core-is-pure", "packages/core/src/engine/AdapterInCore.ts", `import "@kiln/adapter-sqlite"`],
  ["adapters-see-domain-and-ports", "packages/adapter-sqlite/src/EngineInAdapter.ts", `import "@kiln/core"`],
  ["adapters-see-domain-and-ports", "packages/media-probe/src/WorkerInProbe.ts", `import "@kiln/core/worker"`],
  ["adapters-see-domain-and-ports", "packages/provider-sandbox/src/Neighbor.ts", `import "@kiln/adapter-blobs"`],
  ["ai-sdk-sees-ports-and-http", "packages/provider-ai-sdk/src/Neighbor.ts", `import "@kiln/provider-sandbox"`],
  ["ai-sdk-sees-ports-and-http", "packages/provider-ai-sdk/src/Worker.ts", `import "@kiln/core/worker"`],
  ["testing-sees-domain-and-ports", "packages/testing/src/EngineInSuite.ts", `import "@kiln/core"`],
  ["test-engine-sees-core", "packages/testing/src/TestEngine/Sqlite.ts", `import "@kiln/adapter-sqlite"`],
  ["conformance-sees-ports-and-testing", "packages/conformance/src/EngineInSuite.ts", `import "@kiln/core"`],
  ["conformance-sees-ports-and-testing", "packages/conformance/src/Sqlite.ts", `import "@kiln/adapter-sqlite"`],
  ["conformance-model-is-pure", "packages/conformance/src/model/Runner.ts", `import "vitest"`],
  ["simulation-sees-core-and-testing", "packages/simulation/src/Sqlite.ts", `import "@kiln/adapter-sqlite"`],
  ["http-sees-core-and-client", "packages/http/src/Adapter.ts", `import "@kiln/adapter-sqlite"`],
  [
    "http-sees-core-and-client",
    "packages/http/src/Provider.ts",
    `export const load = () => import("@kiln/provider-ai-sdk")`,
  ],
  ["nothing-sees-cli", "packages/http/src/Program.ts", `import type {} from "@kiln/cli"`],
  ["client-sees-domain", "packages/client/src/api/EngineInApi.ts", `import "@kiln/core"`],
  ["client-sees-domain", "packages/client/src/effect/ServerInClient.ts", `import "@kiln/http"`],
  ["client-sees-domain", "packages/client/src/api/NodeInApi.ts", `import "node:http"`],
  ["client-api-is-apart", "packages/client/src/api/ClientInApi.ts", `import "../index.ts"`],
  ["client-without-effect", "packages/client/src/EffectInClient.ts", `import "effect"`],
  ["client-without-effect", "packages/client/src/ApiInClient.ts", `import type {} from "./api/index.ts"`],
  ["shipped-without-testing", "packages/http/src/TestingShipped.ts", `import "@kiln/testing"`],
  ["shipped-without-testing", "packages/cli/src/SuiteShipped.ts", `import "@kiln/conformance"`],
  ["shipped-without-labs", "packages/http/src/LabShipped.ts", `import "@kiln/postgres-lab"`],
  ["shipped-without-labs", "packages/cli/src/LabShipped.ts", `import "@kiln/service-lab"`],
  ["shipped-without-labs", "packages/testing/src/LabInSuite.ts", `import type {} from "@kiln/postgres-lab"`],
  ["postgres-lab-is-apart", "packages/postgres-lab/src/PortInLab.ts", `import "@kiln/core/ports"`],
  ["shipped-imports-shipped", "packages/http/src/TestShipped.ts", `import "../test/server.ts"`],
  ["packages-by-name", "packages/http/src/Relative.ts", `import "../../core/src/index.ts"`],
  ["packages-by-name", "examples/demo/relative.ts", `import "../../packages/core/src/index.ts"`],
  ["packages-through-doors", "packages/http/test/inside.ts", `import "../../core/src/engine/Engine.ts"`],
  ["no-deep-imports", "packages/http/src/Deep.ts", `import "@kiln/core/src/engine/Engine.ts"`],
  ["no-unresolvable", "packages/http/src/Nowhere.ts", `import "./DoesNotExist.ts"`],
  ["no-circular", "packages/http/src/Ring.ts", `import "./RingBack.ts"`],
  [
    "no-circular",
    "packages/media-probe/src/TypeRing.ts",
    `import type { B } from "./TypeRingBack.ts"\nexport type A = B`,
  ],
  ["declared-dependencies", "packages/media-probe/src/Undeclared.ts", `import "kysely"`],
  ["declared-dependencies", "packages/http/src/OnlyForDevelopment.ts", `import type {} from "vitest"`],
]

const supporting = {
  "packages/core/src/helpers/Helper.ts": "export {}\n",
  "packages/http/src/RingBack.ts": `import "./Ring.ts"\n`,
  "packages/http/test/server.ts": "export {}\n",
  "packages/media-probe/src/TypeRingBack.ts": `import type { A } from "./TypeRing.ts"\nexport type B = A\n`,
}

describe("boundaries", () => {
  it("finds nothing in a tree that follows every rule", () => {
    using tree = plantTree(lawful)
    const { status, report } = run(tree.root)
    expect(report).toMatchObject({ violations: [], blind: [] })
    expect(report.modules).toBeGreaterThan(Object.keys(lawful).length)
    expect(status).toBe(0)
  })

  describe("finds violations of rules", () => {
    let found: ReturnType<typeof run>
    beforeAll(() => {
      const files = Object.fromEntries(planted.map(([, file, text]) => [file, `${text}\n`]))
      using tree = plantTree({ ...lawful, ...supporting, ...files })
      found = run(tree.root)
    })

    it("and fails", () => expect(found.status).toBe(1))

    it.each(planted)("%s in %s", (rule, file) => {
      expect(found.report.violations).toContainEqual(expect.objectContaining({ rule, from: file }))
    })

    it("for every existing rule", () => {
      const planned = new Set(planted.map(([rule]) => rule))
      expect(planned).toEqual(new Set([...rules.forbidden.map(({ name }) => name), "declared-dependencies"]))
    })

    it("and blames no other file", () => {
      const guilty = new Set([...planted.map(([, file]) => file), ...Object.keys(supporting)])
      expect(found.report.violations.filter(({ from }) => !guilty.has(from))).toEqual([])
    })
  })

  describe("fails if nothing was read", () => {
    it("when the tree is empty", () => {
      using tree = plantTree({})
      const { status, report } = run(join(tree.root, "node_modules"))
      expect(report.blind).toContain("0 modules were read")
      expect(status).toBe(1)
    })
  })

  it("finds nothing in this repository", () => {
    const { status, report } = run(repository)
    expect(report).toMatchObject({ violations: [], blind: [] })
    expect(status).toBe(0)
  })
})
