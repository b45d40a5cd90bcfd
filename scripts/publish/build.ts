// Builds what is published, `packages/*/dist`: `pnpm build`.
import { existsSync, globSync, rmSync } from "node:fs"
import { join } from "node:path"
import { isBuiltIn } from "./builtIn.ts"
import { bundlePackages } from "./bundlePackages.ts"
import { bundleProgram } from "./bundleProgram.ts"
import { publicPackages, repository } from "./publicPackages.ts"
import { runInstalled } from "./runTool.ts"

/** Removes output of deleted sources, which the compiler leaves in place and which would be published. */
const removeStale = (directory: string): void => {
  const dist = join(repository, directory, "dist")
  for (const file of globSync("**/*.{js,d.ts}", { cwd: dist })) {
    const source = join(repository, directory, "src", file.replace(/(\.d\.ts|\.js)$/, ".ts"))
    if (!existsSync(source) && !isBuiltIn(directory, file)) rmSync(join(dist, file))
  }
}

/**
 * Builds every public package, the bundles of adapters, and that of the command line; packages that are up to date are skipped. Throws with the
 * compiler's message.
 */
export const build = async (): Promise<void> => {
  for (const { directory } of publicPackages()) removeStale(directory)
  const { output, status } = runInstalled("typescript/bin/tsc", ["-b", "tsconfig.build.json", "--pretty", "false"])
  if (status !== 0) throw new Error(`the build failed:\n${output}`)
  await bundlePackages()
  await bundleProgram()
}

if (import.meta.main) {
  await build()
  console.log(`built ${publicPackages().length} packages`)
}
