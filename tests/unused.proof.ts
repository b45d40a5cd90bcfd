import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect, it } from "vitest"
import { plantTree, repository } from "./support/plantTree.ts"

interface Issue {
  readonly file: string
  readonly [kind: string]: unknown
}

/** Runs the check of `pnpm unused` on a planted tree. */
const run = (root: string, kinds: string) => {
  const knip = join(repository, "node_modules/knip/bin/knip.js")
  // The planted tree lacks the files of the root, which the configuration would report.
  const args = [knip, "--directory", root, "--reporter", "json", "--no-config-hints", "--include", kinds]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 })
  if (!stdout.startsWith("{")) throw new Error(`no report: ${stdout}${stderr}`)
  const { issues }: { readonly issues: ReadonlyArray<Issue> } = JSON.parse(stdout)
  const found = issues.flatMap(({ file, ...kindsOf }) =>
    Object.entries(kindsOf).flatMap(([kind, entries]) =>
      Array.isArray(entries) ? entries.map(({ name }: { readonly name: string }) => [kind, file, name]) : [],
    ),
  )
  return { status, found }
}

const configuration = ["knip.jsonc", "tsconfig.json"]

/** Used files only; one export is reached by another package through an entry point, one by a test. */
const used = {
  "packages/core/src/domain/index.ts": `export * from "./Job.ts"\n`,
  "packages/core/src/domain/Job.ts": `import { half } from "./half.ts"\nexport const job = half(2)\n`,
  "packages/core/src/domain/half.ts": `export const half = (n: number): number => n / 2\n`,
  "packages/core/src/ports/index.ts": `import { forTests } from "./forTests.ts"\nexport const port = String(forTests)\n`,
  "packages/core/src/ports/forTests.ts": `export const forTests = 1\nexport const seen = 2\n`,
  "packages/core/test/ports.test.ts": `import { seen } from "../src/ports/forTests.ts"\nconsole.log(seen)\n`,
  "packages/http/src/index.ts": `import { job } from "@kiln/core/domain"\nexport const api = job\n`,
}

describe("unused", () => {
  it("finds nothing if everything is used", () => {
    using tree = plantTree(used, configuration)
    expect(run(tree.root, "files,exports,types")).toEqual({ status: 0, found: [] })
  })

  describe("finds", () => {
    let result: ReturnType<typeof run>
    beforeAll(() => {
      const manifest = JSON.parse(readFileSync(join(repository, "packages/core/package.json"), "utf8"))
      using tree = plantTree(
        {
          ...used,
          "packages/core/package.json": JSON.stringify({ ...manifest, dependencies: { kysely: "catalog:" } }),
          "packages/core/src/domain/forgotten.ts": `export const forgotten = 1\n`,
          "packages/http/test/forgottenHelper.ts": `export const helper = 1\n`,
          "packages/core/src/domain/half.ts": `${used["packages/core/src/domain/half.ts"]}export const third = 3\nexport interface Third {}\n`,
        },
        configuration,
      )
      result = run(tree.root, "files,exports,types,dependencies")
    })

    it("and fails", () => expect(result.status).toBe(1))

    it.each([
      ["files", "packages/core/src/domain/forgotten.ts", "packages/core/src/domain/forgotten.ts"],
      ["files", "packages/http/test/forgottenHelper.ts", "packages/http/test/forgottenHelper.ts"],
      ["exports", "packages/core/src/domain/half.ts", "third"],
      ["types", "packages/core/src/domain/half.ts", "Third"],
      ["dependencies", "packages/core/package.json", "kysely"],
    ])("unused %s: %s", (kind, file, name) => expect(result.found).toContainEqual([kind, file, name]))

    it("and blames no other source file", () => {
      const blamed = new Set(result.found.map(([, file]) => file).filter((file) => file?.endsWith(".ts")))
      expect(blamed).toEqual(
        new Set([
          "packages/core/src/domain/forgotten.ts",
          "packages/http/test/forgottenHelper.ts",
          "packages/core/src/domain/half.ts",
        ]),
      )
    })
  })
})
