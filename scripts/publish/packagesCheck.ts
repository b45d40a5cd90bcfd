// Builds and packs what is published and looks at it as a registry and a compiler would: `pnpm packages:check`.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { build } from "./build.ts"
import { pack, type PackedPackage } from "./pack.ts"
import { type Manifest, publicPackages } from "./publicPackages.ts"
import { runInstalled } from "./runTool.ts"

/** The doors of a published package: those of the checkout, without the way to the sources, and its manifest. */
export const publishedDoors = ({ exports }: Pick<Manifest, "exports">): Record<string, unknown> => ({
  ...Object.fromEntries(
    Object.entries(exports).map(([door, { "@kiln/source": _, ...built }]): [string, unknown] => [door, built]),
  ),
  "./package.json": "./package.json",
})

/** Returns problems of a manifest that would show only after publishing. */
export const manifestProblems = (manifest: Manifest): Array<string> => {
  const { name, publishConfig } = manifest
  const expected = JSON.stringify(publishedDoors(manifest))
  const missing = ["description", "keywords", "license", "files", "engines", "sideEffects"].filter(
    (field) => !(field in manifest),
  )
  return [
    ...missing.map((field) => `${name} has no "${field}"`),
    ...(JSON.stringify(publishConfig?.exports) === expected
      ? []
      : [`${name}: publishConfig.exports are not the doors of exports, which would be ${expected}`]),
  ]
}

/** Only ECMAScript modules are published: that `require` gets one from Node itself is tried in tests/publish. */
const lint = ({ manifest, tarball }: PackedPackage): Array<string> => {
  const publint = runInstalled("publint/src/cli.js", ["run", "--strict", tarball])
  const options = ["--profile", "esm-only", "--format", "ascii", "--no-emoji", "--no-color"]
  const attw = runInstalled("@arethetypeswrong/cli/dist/index.js", [...options, tarball])
  return [publint, attw].filter(({ status }) => status !== 0).map(({ output }) => `${manifest.name}:\n${output.trim()}`)
}

if (import.meta.main) {
  await build()
  const directory = mkdtempSync(join(tmpdir(), "kiln-packed-"))
  try {
    const packed = pack(directory)
    const problems = [
      ...publicPackages().flatMap(({ manifest }) => manifestProblems(manifest)),
      ...packed.flatMap(lint),
    ]
    for (const problem of problems) console.log(problem)
    console.log(`${packed.length} packages looked at, ${problems.length} problems`)
    process.exitCode = problems.length === 0 && packed.length > 0 ? 0 : 1
  } finally {
    rmSync(directory, { recursive: true })
  }
}
