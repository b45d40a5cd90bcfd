import { build } from "esbuild"
import type { InstalledProject } from "./InstalledProject.ts"

export interface Bundle {
  /** Minified, bytes. */
  readonly bytes: number
  /** Those of kiln, minified, bytes. */
  readonly ownBytes: number
}

/** Bundles a program and drops unused code. */
export const bundle = async (project: InstalledProject, code: string): Promise<Bundle> => {
  const { metafile, outputFiles } = await build({
    stdin: { contents: code, resolveDir: project.root },
    absWorkingDir: project.root,
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    platform: "node",
    format: "esm",
    target: "node22",
    logLevel: "silent",
  })
  const left = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs))
  return {
    bytes: outputFiles.reduce((sum, { contents }) => sum + contents.length, 0),
    ownBytes: left
      .filter(([path]) => path.includes("node_modules/@kiln/"))
      .reduce((sum, [, { bytesInOutput }]) => sum + bytesInOutput, 0),
  }
}
