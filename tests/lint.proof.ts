import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { beforeAll, describe, expect, it } from "vitest"
import { plantTree, repository } from "./support/plantTree.ts"

/** Runs the check of `pnpm lint` on a planted tree. */
const run = (root: string) => {
  const oxlint = join(repository, "node_modules/oxlint/bin/oxlint")
  const { status, stdout, stderr } = spawnSync(process.execPath, [oxlint, "--format", "json"], {
    cwd: root,
    encoding: "utf8",
    timeout: 180_000,
  })
  if (!stdout.startsWith("{")) throw new Error(`no report: ${stdout}${stderr}`)
  const { diagnostics }: { readonly diagnostics: ReadonlyArray<{ readonly code: string; readonly filename: string }> } =
    JSON.parse(stdout)
  return { status, found: diagnostics.map(({ code, filename }) => [code, filename]) }
}

const configuration = [".oxlintrc.jsonc", "tsconfig.json"]

/** What looks forbidden and is not, in its place. */
const lawful = {
  "packages/core/src/domain/index.ts": `export const points = (text: string): number => [...text].length\n`,
  "packages/cli/src/main.ts": `console.log(process.env["PORT"])\n`,
  "packages/http/src/index.ts": `export const wait = async (job: Promise<void>): Promise<void> => {\n  await job\n}\n`,
  "packages/http/test/api.test.ts": `export const body: unknown = JSON.parse("{}").body\nconsole.log(body)\n`,
}

const planted: ReadonlyArray<readonly [rule: string, file: string, text: string]> = [
  ["typescript(no-explicit-any)", "packages/core/src/domain/any.ts", "export const value: any = 1"],
  ["typescript(no-explicit-any)", "packages/http/test/any.test.ts", "export const value = [] as Array<any>"],
  [
    "typescript(no-unsafe-member-access)",
    "packages/core/src/engine/json.ts",
    `export const id: string = JSON.parse("").id`,
  ],
  ["typescript(ban-ts-comment)", "packages/core/src/engine/hush.ts", `// @ts-ignore\nexport const n: number = ""`],
  [
    "typescript(no-non-null-assertion)",
    "packages/core/src/engine/bang.ts",
    "export const f = (n?: number): number => n!",
  ],
  [
    "typescript(no-floating-promises)",
    "packages/http/src/floating.ts",
    "export const f = (p: Promise<void>): void => {\n  p\n}",
  ],
  [
    "typescript(no-misused-promises)",
    "packages/http/src/misused.ts",
    "export const f = (p: Promise<boolean>): number => (p ? 1 : 2)",
  ],
  [
    "typescript(switch-exhaustiveness-check)",
    "packages/core/src/domain/switch.ts",
    `export const f = (s: "a" | "b"): void => {\n  switch (s) {\n    case "a":\n      throw new Error(s)\n  }\n}`,
  ],
  ["eslint(no-console)", "packages/core/src/worker/log.ts", "console.log(1)"],
  ["eslint(no-console)", "packages/http/src/log.ts", "console.error(1)"],
  [
    "eslint(no-unused-vars)",
    "packages/core/src/worker/unused.ts",
    "export const f = (): number => {\n  const n = 1\n  return 2\n}",
  ],
  [
    "eslint(max-lines-per-function)",
    "packages/core/src/worker/long.ts",
    `export const f = (): number => {\n${"  f()\n".repeat(70)}  return 1\n}`,
  ],
  ["node(no-process-env)", "packages/core/src/worker/env.ts", `export const home = process.env["HOME"]`],
  ["import(no-default-export)", "packages/core/src/worker/byDefault.ts", "export default 1"],
  [
    "vitest(no-focused-tests)",
    "packages/core/test/only.test.ts",
    `import { it } from "vitest"\nit.only("x", () => {})`,
  ],
]

describe("lint", () => {
  it("accepts what is allowed in its place", () => {
    using tree = plantTree(lawful, configuration)
    expect(run(tree.root)).toEqual({ status: 0, found: [] })
  })

  describe("refuses", () => {
    let result: ReturnType<typeof run>
    beforeAll(() => {
      const files = Object.fromEntries(planted.map(([, file, text]) => [file, `${text}\n`]))
      using tree = plantTree({ ...lawful, ...files }, configuration)
      result = run(tree.root)
    })

    it("and fails", () => expect(result.status).toBe(1))

    it.each(planted)("%s in %s", (rule, file) => expect(result.found).toContainEqual([rule, file]))
  })
})
